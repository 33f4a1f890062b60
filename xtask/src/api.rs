//! `cargo xtask api`: the real server against its own OpenAPI document, by Schemathesis.
//!
//! Whatever the document allows is asked, and what it does not. No request may be a server error,
//! and every answer has to be one that the document promises.

mod server;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::scratch::Scratch;
use crate::{binary, place, shell, tools};

use server::Server;

/// Requests that are made up for each operation, besides examples and the edges of each field.
const MAX_EXAMPLES: &str = "30";
/// The same requests every day: a failure in CI is one that you can see at home.
const SEED: &str = "20260101";
/// What every answer has to be. That nothing is answered without a token is tested in `crates/server`:
/// after a few tries with bad ones this server would not listen to us any more.
const CHECKS: [&str; 6] = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
];
/// Streams that never end, a socket, and the way out.
const LEFT_OUT: &str = r"^/api/(events|ws|logout)$";

/// Starts a server with something in its store, and asks it everything.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if let Some(other) = arguments.first() {
        bail!("api takes no arguments, and got {other:?}");
    }
    let lock = place::root().join("tests/api/requirements.txt");
    let Some(tools) = tools::python("schemathesis", &lock)? else {
        bail!(
            "no Python {} or later with venv here: install python3 and python3-venv",
            tools::PYTHON_VERSION
        );
    };
    let binary = binary::sortie()?;
    let name = format!("sortie-api-{}", std::process::id());
    let mut scratch = Scratch::new(&std::env::temp_dir(), &name)?;
    let done = ask(&binary, &tools, scratch.path());
    if done.is_err() {
        scratch.keep();
        println!("what was left behind: {}", scratch.path().display());
    }
    done
}

fn ask(binary: &Path, tools: &Path, folder: &Path) -> Result<()> {
    let mut server = Server::start(binary, folder)?;
    let seeded = server.seed()?;
    let config = folder.join("schemathesis.toml");
    std::fs::write(&config, seeded.config())?;
    let checked = shell::run(
        // By its interpreter: the script names the folder that it was installed in, before that was
        // complete and got its name.
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
    ensure!(server.is_alive()?, "the server did not survive it");
    checked
}
