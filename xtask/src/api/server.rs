//! A real server with a few runs in its store.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::local_server::{self, Process};

/// The longest that a start or a task may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval of polling.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The scripted model: a child that reads a file, a tool call that needs approval, and an end.
const SCRIPT: &str = r#"
version: 1
rules:
  - when: { depth: 1, turn: 1 }
    calls: [{ tool: read_file, args: { path: note.txt } }]
  - when: { depth: 1 }
    say: found it
  - when: { task: "ask*", turn: 1 }
    calls: [{ tool: write_file, args: { path: new.txt, content: words } }]
  - when: { task: "send*", turn: 1 }
    calls: [{ tool: task, args: { description: look, prompt: look, subagent_type: explore } }]
  - say: done
"#;

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    folder: PathBuf,
    address: String,
    token: String,
}

/// Objects in its store.
#[derive(Debug)]
pub(super) struct Seeded {
    task: String,
    /// A task that requests may delete.
    spare: String,
    session: &'static str,
    approval: String,
    /// A key other than the one that authenticates the requests.
    key: String,
}

impl Seeded {
    /// Returns a configuration that passes ids of existing objects to Schemathesis. The first entry
    /// that matches counts.
    pub(super) fn config(&self) -> String {
        let operations = [
            ("DELETE", "^/api/tasks/[^/]*$", "id", self.spare.as_str()),
            ("", "^/api/tasks/", "id", &self.task),
            ("", "^/api/sessions/", "id", self.session),
            ("", "^/api/agents/", "name", "explore"),
            ("", "^/api/(approvals|questions)/", "id", &self.approval),
            ("", "^/api/keys/", "id", &self.key),
        ];
        operations
            .map(|(method, path, name, value)| {
                let method = match method {
                    "" => String::new(),
                    method => format!("include-method = {method:?}\n"),
                };
                format!(
                    "[[operations]]\n{method}include-path-regex = {path:?}\n\
                     parameters = {{ \"path.{name}\" = {value:?} }}\n"
                )
            })
            .concat()
    }
}

impl Server {
    /// Starts the server and waits until it responds.
    pub(super) fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let workspace = folder.join("workspace");
        fs::create_dir(&workspace).context("cannot create the workspace")?;
        fs::write(workspace.join("note.txt"), "a note\n")?;
        fs::write(folder.join("script.yaml"), SCRIPT)?;
        let child = Command::new(binary)
            .arg("--home")
            .arg(folder.join("home"))
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .current_dir(&workspace)
            .env("HOME", folder)
            // No request may reach a real provider.
            .env(
                "SORTIE__MODEL",
                format!("script:{}", folder.join("script.yaml").display()),
            )
            .env("SORTIE__SERVER__RATE__PER_SECOND", "100000")
            .env("SORTIE__SERVER__RATE__BURST", "100000")
            .env_remove("SORTIE_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("log")).context("cannot create the log")?)
            .spawn()
            .context("cannot start sortie serve")?;
        let mut server = Self {
            process: Process(child),
            folder: folder.to_owned(),
            address: String::new(),
            token: String::new(),
        };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let home = self.folder.join("home");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = fs::read(home.join("server.json")).unwrap_or_default();
            let state: Value = serde_json::from_slice(&state).unwrap_or_default();
            let token = fs::read_to_string(home.join("token"));
            if let (Some(address), Ok(token)) = (state["address"].as_str(), token) {
                address
                    .trim_start_matches("http://")
                    .clone_into(&mut self.address);
                token.trim().clone_into(&mut self.token);
                if self.send("GET /readyz", None).is_ok() {
                    return Ok(());
                }
            }
            ensure!(self.is_alive()?, "the server ended: {}", self.log());
            ensure!(
                Instant::now() < deadline,
                "the server is not ready: {}",
                self.log()
            );
            std::thread::park_timeout(LOOK_EVERY);
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Returns the URL of a path.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the token of the local administrator.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Returns whether the process is still running.
    pub(super) fn is_alive(&mut self) -> Result<bool> {
        Ok(self
            .process
            .0
            .try_wait()
            .context("cannot poll the server")?
            .is_none())
    }

    /// Creates a few runs (one with a child, one that waits for approval, one that has ended) and a key.
    pub(super) fn seed(&self) -> Result<Seeded> {
        let session = "api:seeded";
        let task = self.run("send one out", session, |task| {
            task["status"] == "completed"
        })?;
        self.run("ask a person", "api:asking", |task| {
            task["waiting_on"] == "approval"
        })?;
        let spare = self.run("say a word", session, |task| task["status"] == "completed")?;
        let approvals = self.send("GET /api/approvals", None)?;
        let approval = approvals[0]["id"]
            .as_str()
            .context("there is no approval request")?;
        let request = json!({"name": "spare", "role": "viewer"});
        let made = self.send("POST /api/keys", Some(&request))?;
        let key = made["key"]["id"]
            .as_str()
            .context("the server created no key")?;
        Ok(Seeded {
            task,
            spare,
            session,
            approval: approval.to_owned(),
            key: key.to_owned(),
        })
    }

    fn run(
        &self,
        message: &str,
        session: &str,
        is_there: impl Fn(&Value) -> bool,
    ) -> Result<String> {
        let model = format!("script:{}", self.folder.join("script.yaml").display());
        let body = json!({
            "message": message,
            "session_id": session,
            "agent": "main",
            "main": true,
            "model": model,
            "workspace": self.folder.join("workspace"),
        });
        let task = self.send("POST /api/tasks", Some(&body))?;
        let id = task["task_id"]
            .as_str()
            .context("a task without an id")?
            .to_owned();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let task = self.send(&format!("GET /api/tasks/{id}"), None)?;
            if is_there(&task) {
                return Ok(id);
            }
            ensure!(
                Instant::now() < deadline,
                "{message:?} does not reach the expected state: {task}"
            );
            std::thread::park_timeout(LOOK_EVERY);
        }
    }

    fn send(&self, line: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let text = local_server::send(&self.address, &self.token, line, &body)?;
        serde_json::from_str(&text).with_context(|| format!("invalid response to {line}"))
    }
}
