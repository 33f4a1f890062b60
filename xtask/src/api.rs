//! `cargo xtask api`: the real server against its own OpenAPI document, by Schemathesis.
//!
//! Schemathesis sends requests that the document allows and requests that it does not. No response
//! may be a server error, and every response has to match the document.

mod server;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::scratch::Scratch;
use crate::{binary, place, shell, tools};

use server::Server;

/// Generated requests for each operation, besides examples and the edges of each field.
const MAX_EXAMPLES: &str = "30";
/// A fixed seed, so that a failure in CI can be reproduced.
const SEED: &str = "20260101";
/// Checks of every response. Credentials are tested in `crates/server`: after a few wrong tokens this
/// server would only return 429.
const CHECKS: [&str; 6] = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
];
/// Endless streams, the WebSocket, and the logout, which would end our own access.
const LEFT_OUT: &str = r"^/api/(events|ws|logout)$";

/// Starts a server with a few runs in its store and calls every operation.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if let Some(other) = arguments.first() {
        bail!("unknown argument {other:?}; `cargo xtask api` takes none");
    }
    let lock = place::root().join("tests/api/requirements.txt");
    let Some(tools) = tools::python("schemathesis", &lock)? else {
        bail!(
            "Python {} or later with venv is missing: install python3 and python3-venv",
            tools::PYTHON_VERSION
        );
    };
    let binary = binary::sortie()?;
    let name = format!("sortie-api-{}", std::process::id());
    let mut scratch = Scratch::new(&std::env::temp_dir(), &name)?;
    let done = run_requests(&binary, &tools, scratch.path());
    if done.is_err() {
        scratch.keep();
        println!("files kept in {}", scratch.path().display());
    }
    done
}

fn run_requests(binary: &Path, tools: &Path, folder: &Path) -> Result<()> {
    let mut server = Server::start(binary, folder)?;
    let seeded = server.seed()?;
    let config = folder.join("schemathesis.toml");
    std::fs::write(&config, seeded.config())?;
    let checked = shell::run(
        // Started by the interpreter: the script's first line names the folder of the installation
        // before it was renamed.
        Command::new(tools.join("bin/python"))
            .arg(tools.join("bin/schemathesis"))
            .arg("--config-file")
            .arg(&config)
            .args(["run", &server.url("/api/openapi.json")])
            .arg("--url")
            .arg(server.url(""))
            .arg("--header")
            .arg(format!("Authorization: Bearer {}", server.token()))
            .args(["--checks", &CHECKS.join(",")])
            .args(["--phases", "examples,coverage,fuzzing"])
            .args(["--max-examples", MAX_EXAMPLES, "--seed", SEED])
            .args(["--workers", "2", "--request-timeout", "20"])
            .args(["--exclude-path-regex", LEFT_OUT])
            .args(["--continue-on-failure", "--no-color", "--warnings", "off"])
            .current_dir(folder)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    );
    ensure!(server.is_alive()?, "the server ended during the requests");
    checked
}
