//! Checks of the audit, of open approval requests, and of the configured MCP servers.

use sortie_core::request::RequestFilter;
use sortie_store::ReadStore;
use sortie_text::t;

use super::{Check, shown};
use crate::settings::Settings;

/// Verifies the hash chain of the audit.
pub(super) async fn audit(settings: &Settings, store: &ReadStore) -> Check {
    let lang = settings.lang;
    match store.verify_audit().await {
        Ok(report) if report.problems.is_empty() => Check::ok(
            "audit",
            t!(lang, "doctor-audit-ok", entries = report.entries),
        ),
        Ok(report) => Check::fail(
            "audit",
            t!(
                lang,
                "doctor-audit-damaged",
                count = report.problems.len(),
                first = shown(&report.problems)
            ),
            t!(lang, "hint-audit"),
        ),
        Err(error) => Check::fail(
            "audit",
            sortie_core::error::with_causes(&error),
            t!(lang, "doctor-store-todo"),
        ),
    }
}

/// Counts the requests that wait for an approver.
pub(super) async fn approvals(settings: &Settings, store: &ReadStore) -> Check {
    let lang = settings.lang;
    match store.requests(RequestFilter::default()).await {
        Ok(requests) if requests.is_empty() => {
            Check::ok("approvals", t!(lang, "doctor-approvals-none"))
        }
        Ok(requests) => Check::warn(
            "approvals",
            t!(lang, "doctor-approvals-open", count = requests.len()),
            t!(lang, "doctor-approvals-todo"),
        ),
        Err(error) => Check::fail(
            "approvals",
            sortie_core::error::with_causes(&error),
            t!(lang, "doctor-store-todo"),
        ),
    }
}

/// Lists the MCP servers by name. The doctor does not start them.
pub(super) fn servers(settings: &Settings) -> Check {
    let lang = settings.lang;
    let servers = &settings.configuration.config().mcp_servers;
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    if names.is_empty() {
        Check::ok("mcp", t!(lang, "doctor-mcp-none"))
    } else {
        Check::ok("mcp", t!(lang, "doctor-mcp-set", names = names.join(", ")))
    }
}
