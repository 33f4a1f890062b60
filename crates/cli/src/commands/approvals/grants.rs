//! `sortie approvals grants` and `revoke`: the grants of a session.

use std::path::Path;

use clap::Args;
use serde_json::json;
use sortie_base::hidden::write_out_line;
use sortie_core::id::SessionKey;
use sortie_core::request::SessionGrant;
use sortie_core::session::SessionSummary;
use sortie_text::t;

use crate::chat::{latest_in, latest_sessions};
use crate::commands::tasks::output_columns;
use crate::engine::Engine;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Lists the grants of a session
#[derive(Debug, Args)]
pub(super) struct Grants {
    /// Session, written channel:chat_id; only its grants in this folder count [default: the last
    /// session of this folder]
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
    /// Session, written channel:chat_id; only its grants in this folder count [default: the last
    /// session of this folder]
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Grants {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let folder = settings.workspace(None)?;
        let store = settings.options.read_store()?;
        let session = match self.session {
            Some(session) => session,
            None => last_session(store.sessions(latest_sessions()).await?, &folder),
        };
        let session = session.in_folder(&folder);
        let grants = store.grants(None, &session).await?;
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
    table::rows(head, rows, output_columns(settings))
}

/// Returns the last of these sessions in a folder.
fn last_session(found: Vec<SessionSummary>, folder: &Path) -> SessionKey {
    latest_in(found, folder).unwrap_or_else(SessionKey::cli)
}

impl Revoke {
    /// Revokes the grants. Returns the session with the folder, and the number of grants.
    async fn revoke(&self, engine: &Engine, folder: &Path) -> Result<(SessionKey, u64), Problem> {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => last_session(engine.sessions(latest_sessions()).await?, folder),
        };
        let count = engine
            .revoke(&session, folder, self.rule.as_deref())
            .await?;
        Ok((session.in_folder(folder), count))
    }

    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let folder = settings.workspace(None)?;
        let engine = Engine::idle(settings).await?;
        let revoked = self.revoke(&engine, &folder).await;
        engine.shut_down().await;
        let (session, count) = revoked?;
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
