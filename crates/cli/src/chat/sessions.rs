//! Finds and creates the sessions of conversations at the terminal.

use std::path::Path;

use sortie_core::id::SessionKey;
use sortie_core::session::{SessionFilter, SessionSummary};
use sortie_core::words::Lang;
use sortie_text::t;

use crate::engine::Engine;
use crate::problem::Problem;

/// The channel of sessions at the terminal.
const CHANNEL: &str = "cli:";
/// Digits of a new session's chat id.
const DIGITS: usize = 6;
/// Sessions that are searched for the last one of a folder.
const SEARCHED: u32 = 500;

/// Returns an unused session key such as `cli:3f9a1c`.
pub(crate) async fn new_session(engine: &Engine) -> Result<SessionKey, Problem> {
    loop {
        // The last digits of an id are random.
        let id = engine.new_run_id().to_string();
        let digits = id.get(id.len() - DIGITS..).unwrap_or(&id);
        let key = parse(&format!("{CHANNEL}{digits}"))?;
        if turns_of(engine, &key).await? == 0 {
            return Ok(key);
        }
    }
}

/// Returns the session at the terminal with the latest turn in a folder.
pub(crate) async fn latest_session(
    engine: &Engine,
    folder: &Path,
) -> Result<Option<SessionKey>, Problem> {
    let found = engine.sessions(latest_sessions()).await?;
    Ok(latest_in(found, folder))
}

/// Returns the filter of the sessions among which [`latest_in`] finds the last one.
pub(crate) fn latest_sessions() -> SessionFilter {
    SessionFilter {
        limit: SEARCHED,
        ..SessionFilter::default()
    }
}

/// Returns the first session of these that is at the terminal and in a folder.
pub(crate) fn latest_in(found: Vec<SessionSummary>, folder: &Path) -> Option<SessionKey> {
    let is_here = |summary: &SessionSummary| {
        summary.workspace == folder
            && summary.tenant.is_none()
            && summary.session.as_str().starts_with(CHANNEL)
    };
    let found = found.into_iter().find(is_here);
    found.map(|summary| summary.session)
}

/// Returns the session that a user names: by its key, by its chat id, or by a task in it.
pub(crate) async fn find_session(
    engine: &Engine,
    lang: Lang,
    id: &str,
) -> Result<SessionKey, Problem> {
    let named = match id.contains(':') {
        true => parse(id)?,
        false => parse(&format!("{CHANNEL}{id}"))?,
    };
    if turns_of(engine, &named).await? > 0 {
        return Ok(named);
    }
    match engine.resolve(id).await {
        Ok(run) => Ok(engine.get(run).await?.session),
        Err(_) => Err(Problem::Nothing(t!(lang, "error-no-session", id = id))),
    }
}

fn parse(text: &str) -> Result<SessionKey, Problem> {
    text.parse()
        .map_err(|error: sortie_core::id::BadSessionKey| Problem::Typed(error.to_string()))
}

async fn turns_of(engine: &Engine, key: &SessionKey) -> Result<u64, Problem> {
    let filter = SessionFilter {
        session: Some(key.clone()),
        ..SessionFilter::default()
    };
    let found = engine.sessions(filter).await?;
    Ok(found.iter().map(|summary| summary.turns).sum())
}
