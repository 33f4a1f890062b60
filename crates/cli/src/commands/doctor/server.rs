//! Checks whether a server runs or could start, and whether its secrets are private.

use std::net::TcpListener;

use sortie_base::private_files::{Finding, Verdict};
use sortie_text::t;

use super::Check;
use crate::open_files::OpenFiles;
use crate::private;
use crate::serving::{self, Left, ServerPresence};
use crate::settings::Settings;

/// Checks the server, its files and its port.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let found = match serving::look(&settings.options.home) {
        Ok(found) => found,
        Err(error) => {
            let todo = t!(settings.lang, "doctor-home-todo");
            return vec![Check::fail("server", error.to_string(), todo)];
        }
    };
    vec![
        server(settings, &found),
        port(settings, &found),
        open_files(settings, OpenFiles::of_process()),
    ]
}

fn open_files(settings: &Settings, files: OpenFiles) -> Check {
    let lang = settings.lang;
    let found = t!(lang, "doctor-open-files-found", most = files.most);
    if files.are_few() {
        Check::warn("open_files", found, t!(lang, "doctor-open-files-todo"))
    } else {
        Check::ok("open_files", found)
    }
}

fn server(settings: &Settings, found: &ServerPresence) -> Check {
    let lang = settings.lang;
    match (found, serving::left_in(&settings.options.home)) {
        (ServerPresence::Listening { file, address }, _) => Check::ok(
            "server",
            t!(
                lang,
                "doctor-server-running",
                address = address.to_string(),
                pid = file.pid.to_string()
            ),
        ),
        (ServerPresence::Starting(file), _) => {
            let pid = file.pid.to_string();
            Check::ok("server", t!(lang, "doctor-server-starting", pid = pid))
        }
        (ServerPresence::Absent, Ok(Left::Readable(stale))) => Check::warn(
            "server",
            t!(
                lang,
                "doctor-server-stale",
                path = serving::path(&settings.options.home).display().to_string(),
                pid = stale.pid.to_string()
            ),
            t!(lang, "doctor-server-stale-todo"),
        ),
        (ServerPresence::Absent, Ok(Left::Damaged)) => Check::warn(
            "server",
            t!(
                lang,
                "server-file-damaged",
                path = serving::path(&settings.options.home).display().to_string()
            ),
            t!(lang, "doctor-server-stale-todo"),
        ),
        (ServerPresence::Absent, Ok(Left::Nothing) | Err(_)) => {
            Check::ok("server", t!(lang, "doctor-server-none"))
        }
    }
}

/// Reports which files of the home and the configuration other users could have read or changed.
/// Commands refuse and repair by the same verdicts.
pub(super) fn files(settings: &Settings) -> Check {
    let lang = settings.lang;
    let findings = match private::findings(settings) {
        Ok(findings) => findings,
        Err(refusal) => {
            let found = sortie_core::error::with_causes(&refusal);
            return Check::fail("files", found, t!(lang, "doctor-home-todo"));
        }
    };
    let Some(worst) = findings.iter().max_by_key(|finding| gravity(finding)) else {
        return Check::ok("files", t!(lang, "doctor-files-ok"));
    };
    let all: Vec<String> = findings
        .iter()
        .map(|finding| private::words(settings, finding))
        .collect();
    Check::fail("files", all.join(" "), private::todo(settings, worst))
}

fn gravity(finding: &Finding) -> u8 {
    match finding.verdict {
        Verdict::Safe => 0,
        Verdict::Repair => 1,
        Verdict::Leaked => 2,
        Verdict::Unsafe(_) => 3,
    }
}

fn port(settings: &Settings, found: &ServerPresence) -> Check {
    let lang = settings.lang;
    let listen = &settings.configuration.config().server.listen;
    let taken = |problem: String| {
        Check::warn(
            "port",
            t!(
                lang,
                "doctor-port-taken",
                address = listen,
                problem = problem
            ),
            t!(lang, "doctor-port-todo"),
        )
    };
    let Some(address) = serving::listen_address(listen) else {
        let text = format!("{listen:?}");
        let found = t!(lang, "serve-bad-listen", text = text);
        return Check::fail("port", found, t!(lang, "doctor-port-todo"));
    };
    match (found, TcpListener::bind(address)) {
        (ServerPresence::Listening { file, .. }, _) if file.address == Some(address) => {
            Check::ok("port", t!(lang, "doctor-port-own", address = listen))
        }
        (_, Ok(_)) => Check::ok("port", t!(lang, "doctor-port-free", address = listen)),
        (_, Err(error)) => taken(error.to_string()),
    }
}
