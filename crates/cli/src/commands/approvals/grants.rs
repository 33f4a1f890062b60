//! `sortie approvals grants` and `revoke`: the grants of a session.

use clap::Args;
use serde_json::json;
use sortie_base::hidden::write_out_line;
use sortie_core::id::SessionKey;
use sortie_core::request::SessionGrant;
use sortie_text::t;

use crate::engine::Engine;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Lists the grants of a session
#[derive(Debug, Args)]
pub(super) struct Grants {
    /// Session, written channel:chat_id; only its grants in this folder count [default: cli:direct]
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Revokes grants of a session
#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Rule to revoke, as `sortie approvals grants` prints it [default: all grants of the session]
    rule: Option<String>,
    /// Session, written channel:chat_id; only its grants in this folder count [default: cli:direct]
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Grants {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let session = self.session.unwrap_or_else(SessionKey::cli);
        let session = session.in_folder(&settings.workspace(None)?);
        let grants = settings
            .options
            .read_store()?
            .grants(None, &session)
            .await?;
        if self.json {
            output::json(&grants)?;
        } else if grants.is_empty() {
            let session = write_out_line(session.as_str());
            output::note(&t!(settings.lang, "grants-none", session = session));
        } else {
            output::text(&listed(settings, &grants))?;
        }
        Ok(Exit::Ok)
    }
}

fn listed(settings: &Settings, grants: &[SessionGrant]) -> String {
    let lang = settings.lang;
    let head = vec![
        t!(lang, "column-rule"),
        t!(lang, "column-by"),
        t!(lang, "column-at"),
    ];
    let rows = grants
        .iter()
        .map(|grant| {
            vec![
                write_out_line(&grant.rule),
                write_out_line(&grant.by),
                grant.at.to_rfc3339(),
            ]
        })
        .collect();
    table::rows(head, rows)
}

impl Revoke {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let session = self.session.unwrap_or_else(SessionKey::cli);
        let folder = settings.workspace(None)?;
        let engine = Engine::idle(settings).await?;
        let rule = self.rule.as_deref();
        let revoked = engine.revoke(&session, &folder, rule).await;
        engine.shut_down().await;
        let (session, count) = (session.in_folder(&folder), revoked?);
        if self.json {
            output::json(&json!({"session": session, "revoked": count}))?;
        } else {
            let session = write_out_line(session.as_str());
            let words = t!(
                settings.lang,
                "grants-revoked",
                count = count,
                session = session
            );
            output::text(&words)?;
        }
        Ok(Exit::Ok)
    }
}
