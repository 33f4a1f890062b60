//! Whether a server is there or could be, and whether its secrets are kept.

use std::net::TcpListener;
use std::path::PathBuf;

use sortie_text::t;

use super::Check;
use crate::open_files::OpenFiles;
use crate::serving::{self, Found};
use crate::settings::Settings;

/// Files of the home that only their owner may read.
const PRIVATE: [&str; 3] = ["keys.json", "token", "server.json"];

/// The server, its files and its port.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let found = match serving::look(&settings.home) {
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

fn server(settings: &Settings, found: &Found) -> Check {
    let lang = settings.lang;
    let open = open_to_others(settings);
    if !open.is_empty() {
        return Check::fail(
            "server",
            t!(lang, "doctor-server-modes", files = open.join(", ")),
            t!(lang, "doctor-server-modes-todo"),
        );
    }
    match (found, serving::left_in(&settings.home)) {
        (Found::Serves { file, address }, _) => Check::ok(
            "server",
            t!(
                lang,
                "doctor-server-running",
                address = address.to_string(),
                pid = file.pid.to_string()
            ),
        ),
        (Found::Starting(file), _) => {
            let pid = file.pid.to_string();
            Check::ok("server", t!(lang, "doctor-server-starting", pid = pid))
        }
        (Found::Nobody, Ok(Some(stale))) => Check::warn(
            "server",
            t!(
                lang,
                "doctor-server-stale",
                path = serving::path(&settings.home).display().to_string(),
                pid = stale.pid.to_string()
            ),
            t!(lang, "doctor-server-stale-todo"),
        ),
        (Found::Nobody, Ok(None) | Err(_)) => Check::ok("server", t!(lang, "doctor-server-none")),
    }
}

/// Files with secrets that others may read or write.
#[cfg(unix)]
fn open_to_others(settings: &Settings) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let files = PRIVATE.iter().map(|name| settings.home.join(name));
    let open = |path: &PathBuf| {
        let about = std::fs::metadata(path);
        about.is_ok_and(|about| about.permissions().mode() & 0o077 != 0)
    };
    files
        .filter(open)
        .map(|path| path.display().to_string())
        .collect()
}

#[cfg(not(unix))]
fn open_to_others(_settings: &Settings) -> Vec<String> {
    Vec::new()
}

fn port(settings: &Settings, found: &Found) -> Check {
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
        (Found::Serves { file, .. }, _) if file.address == Some(address) => {
            Check::ok("port", t!(lang, "doctor-port-own", address = listen))
        }
        (_, Ok(_)) => Check::ok("port", t!(lang, "doctor-port-free", address = listen)),
        (_, Err(error)) => taken(error.to_string()),
    }
}
