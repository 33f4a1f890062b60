//! A world whose models are all at one provider on loopback.

use serde_json::Value;
use sortie_test_support::provider::{Provider, Recorded, Wire};

use crate::world::{CommandOutput, World};

/// A key that must turn up in the headers and nowhere else.
pub(super) const KEY: &str = "sk-loopback-0123456789abcdef";

/// A world, and the provider that it asks.
pub(super) struct Site {
    pub(super) world: World,
    pub(super) provider: Provider,
}

impl Site {
    /// A world with this configuration, and with short timeouts where it says nothing about
    /// providers.
    pub(super) fn new(provider: Provider, config: &str) -> Self {
        let world = World::new();
        let folder = world.workspace().with_file_name("config");
        std::fs::create_dir_all(folder.join("sortie")).unwrap();
        let timeouts: String = Wire::ALL
            .iter()
            .copied()
            .map(|wire| {
                format!(
                    "[providers.{}]\nfirst_byte_timeout_seconds = 2\nidle_timeout_seconds = 2\n",
                    vendor(wire)
                )
            })
            .collect();
        let whole = if config.contains("[providers.") {
            config.to_owned()
        } else {
            format!("{config}\n{timeouts}")
        };
        std::fs::write(folder.join("sortie/config.toml"), whole).unwrap();
        let url = provider.base_url();
        let world = world
            .with("XDG_CONFIG_HOME", folder.to_str().unwrap())
            .with("ANTHROPIC_BASE_URL", &url)
            .with("ANTHROPIC_API_KEY", KEY)
            .with("OPENAI_BASE_URL", &url)
            .with("OPENAI_API_KEY", KEY)
            .with("GEMINI_BASE_URL", &url)
            .with("LLAMACPP_BASE_URL", &url)
            .with("GEMINI_API_KEY", KEY);
        Self { world, provider }
    }

    /// Runs the main agent on `Do it.` and gives the task as JSON, however it ended.
    pub(super) fn run(&self, model: &str, more: &[&str]) -> (CommandOutput, Value) {
        let run = ["run", "Do it.", "--yes", "--json", "--model", model];
        let output = self.world.sortie(&[&run, more].concat());
        let task = serde_json::from_str(&output.out)
            .unwrap_or_else(|error| panic!("{error}: {output:#?} {:#?}", self.summary()));
        (output, task)
    }

    /// The journal of a task.
    pub(super) fn events(&self, task: &Value) -> Vec<Value> {
        let id = task["task_id"].as_str().unwrap();
        let output = self.world.ok(&["tasks", "events", id, "--json"]);
        let events = output.out.lines();
        events
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// What the provider saw, for those who read a failure.
    pub(super) fn summary(&self) -> Vec<String> {
        let line = |request: &Recorded| {
            let prompt = &request.prompt;
            let last: String = prompt.last.chars().take(120).collect();
            format!(
                "{:?} {} turn {} -> {:?}: {last:?}",
                request.at, request.path, prompt.turn, request.status
            )
        };
        self.provider.requests().iter().map(line).collect()
    }
}

/// The vendor whose models are asked on this wire.
pub(super) fn vendor(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "anthropic",
        Wire::Chat => "openai-chat",
        Wire::Responses => "openai",
        Wire::Gemini => "gemini",
    }
}

/// A model that is asked on this wire.
pub(super) fn model(wire: Wire) -> String {
    let name = match wire {
        Wire::Anthropic => "claude-sonnet-4-5",
        Wire::Chat | Wire::Responses => "gpt-5.1",
        Wire::Gemini => "gemini-2.5-pro",
    };
    format!("{}/{name}", vendor(wire))
}
