//! Hooks of the operator: commands that run outside any sandbox, and signed webhooks.
//!
//! [`HookHost`] implements the port of the runtime. It knows what the runtime does not: the commands,
//! the addresses and the secrets.

mod command;
mod signature;
mod webhook;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde_json::Value;
use sortie_core::hook::{HookOutput, Letter};
use sortie_core::ports::hooks::Hooks;
use sortie_core::time::Timestamp;

pub use command::MAX_OUTPUT_BYTES;
pub use signature::{BadSecret, BadSignature, Signed, Signer};
pub use webhook::{BadWebhook, Webhook};

/// What a hook does.
#[derive(Debug)]
pub enum Action {
    /// A command for `sh`.
    Command(String),
    Webhook(Box<Webhook>),
}

/// Runs the commands and sends the webhooks of all hooks.
#[derive(Debug, Default)]
pub struct HookHost {
    actions: BTreeMap<String, Action>,
    /// The environment of commands.
    environment: Vec<(OsString, OsString)>,
    /// The arguments before a command by which it ends with this process.
    supervisor: Vec<OsString>,
}

impl HookHost {
    /// Creates a host without hooks. `supervisor` precedes every command.
    pub fn new(environment: Vec<(OsString, OsString)>, supervisor: Vec<OsString>) -> Self {
        Self {
            actions: BTreeMap::new(),
            environment,
            supervisor,
        }
    }

    /// Adds a hook.
    pub fn add(&mut self, name: impl Into<String>, action: Action) {
        self.actions.insert(name.into(), action);
    }

    fn action(&self, hook: &str) -> Result<&Action, String> {
        let action = self.actions.get(hook);
        action.ok_or_else(|| format!("there is no hook {hook}"))
    }
}

/// Returns the folder of the run that a letter is about; it may have been removed.
fn folder_of(letter: &Letter) -> PathBuf {
    let input: Value = serde_json::from_str(&letter.body).unwrap_or_default();
    let folder = input["cwd"].as_str().map(PathBuf::from);
    folder
        .filter(|folder| folder.is_dir())
        .unwrap_or_else(|| PathBuf::from("/"))
}

#[async_trait]
impl Hooks for HookHost {
    async fn run(&self, hook: &str, input: &str, folder: &Path) -> Result<HookOutput, String> {
        match self.action(hook)? {
            Action::Command(command) => command::run(self, command, input, folder).await,
            Action::Webhook(_) => Err("it is a webhook, which decides nothing".to_owned()),
        }
    }

    async fn deliver(&self, hook: &str, letter: &Letter, now: Timestamp) -> Result<(), String> {
        match self.action(hook)? {
            Action::Command(command) => {
                let output = command::run(self, command, &letter.body, &folder_of(letter)).await?;
                match output.exit_code {
                    Some(0) => Ok(()),
                    Some(code) => Err(format!("exit code {code}: {}", output.stderr.trim())),
                    None => Err("it was ended by a signal".to_owned()),
                }
            }
            Action::Webhook(webhook) => webhook.send(letter, now).await,
        }
    }
}
