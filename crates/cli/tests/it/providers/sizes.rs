//! The size of first requests, as they are sent: a provider counts every byte of each.

use serde_json::{Value, json};
use sortie_test_support::provider::{Call, Provider, ReceivedPrompt, Reply, Settings, Wire};

use super::site::{Site, model};

/// The body of a child's first request.
const MAX_CHILD_BYTES: usize = 6_000;
/// The same of the main agent, which also reads about delegating.
const MAX_MAIN_BYTES: usize = 10_000;

const CHILDREN: [&str; 4] = ["explore", "plan", "code", "general"];

/// The main agent sends one of each agent out.
fn everybody(prompt: &ReceivedPrompt) -> Reply {
    let is_child = CHILDREN.iter().any(|agent| prompt.task.contains(agent));
    match (is_child, prompt.turn) {
        (false, 1) => Reply::Calls(CHILDREN.iter().copied().map(child).collect()),
        (false, _) => Reply::text("All are back."),
        (true, _) => Reply::text("Nothing there."),
    }
}

fn child(agent: &str) -> Call {
    let arguments = json!({
        "description": agent,
        "prompt": format!("Work as {agent}."),
        "subagent_type": agent
    });
    Call::new("task", arguments)
}

#[test]
fn first_requests_are_small_on_every_wire() {
    for &wire in Wire::ALL {
        for lang in ["en", "zh"] {
            let site = Site::new(Provider::start(Settings::default(), everybody), "");
            let (output, task) = site.run(&model(wire), &["--lang", lang]);
            assert_eq!(task["result"], "All are back.", "{output:#?}");
            let mut seen = 0;
            for request in site.provider.requests() {
                if request.prompt.turn > 1 {
                    continue;
                }
                seen += 1;
                let task = &request.prompt.task;
                let allowed = if task == "Do it." {
                    MAX_MAIN_BYTES
                } else {
                    MAX_CHILD_BYTES
                };
                let size = request.raw.len();
                println!("{wire:?} {lang} {task:?}: {size} bytes");
                let body: Value = serde_json::from_slice(&request.raw).unwrap();
                assert!(
                    size <= allowed,
                    "{wire:?} {lang} {task:?}: {size} of {allowed} bytes: {body:#}"
                );
            }
            assert_eq!(seen, 5, "the main agent and one of each other");
        }
    }
}
