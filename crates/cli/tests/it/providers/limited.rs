//! Thirty-two children on one model that takes a few requests a second: all of them finish, about
//! as fast as the limit allows, and those who wait can be seen waiting.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sortie_test_support::provider::{Call, Limit, Provider, ReceivedPrompt, Reply, Settings, Wire};

use super::site::{Site, model};

const CHILDREN: usize = 32;
/// Chosen so that all requests together take about six seconds.
const PER_SECOND: f64 = 11.0;
/// Each child asks twice, and so does the main run.
const REQUESTS: usize = 2 * CHILDREN + 2;
/// How much longer than the limit alone it may take.
const SLACK: f64 = 1.3;

fn script(prompt: &ReceivedPrompt) -> Reply {
    let is_child = prompt.task.starts_with("Child");
    match (is_child, prompt.turn) {
        (false, 1) => Reply::Calls((0..CHILDREN).map(child).collect()),
        (true, 1) => Reply::call("list_dir", json!({"path": "."})),
        (true, _) => Reply::text("I am back."),
        (false, _) => Reply::text("All is done."),
    }
}

fn child(number: usize) -> Call {
    let arguments = json!({
        "description": format!("child {number}"),
        "prompt": format!("Child {number}: look around."),
        "subagent_type": "explore"
    });
    Call::new("task", arguments)
}

fn waits_for_the_provider(task: &Value) -> bool {
    task["waiting_on"] == "rate_limit" && task["queue_position"].as_u64() >= Some(1)
}

fn check(retry_after: bool) {
    let settings = Settings {
        limit: Some(Limit {
            per_second: PER_SECOND,
            burst: PER_SECOND,
            retry_after,
        }),
        first_byte_after: Duration::from_millis(300),
        ..Settings::default()
    };
    let site = Site::new(Provider::start(settings, script), "");
    let model = model(Wire::Chat);
    let mut run = site.world.start(&[
        "run",
        "Do it.",
        "--json",
        "--model",
        &model,
        "--max-concurrent",
        "32",
    ]);
    run.wait_for_line("[explore]");
    site.world
        .until("somebody waits for the provider", |world| {
            world.tasks().iter().any(waits_for_the_provider)
        });
    let output = run.end();
    assert_eq!(output.code, Some(0), "{output:#?}");
    let tasks = site.world.tasks();
    assert_eq!(tasks.len(), CHILDREN + 1);
    for task in &tasks {
        assert_eq!(task["status"], "completed", "{task:#}");
        assert_eq!(task["waiting_on"], Value::Null, "{task:#}");
    }
    let requests = site.provider.requests();
    let refused = requests
        .iter()
        .filter(|one| one.status == Some(429))
        .count();
    assert!(refused > 0, "the limit was never met");
    assert_eq!(requests.len() - refused, REQUESTS);
    let took = requests[requests.len() - 1].at - requests[0].at;
    let ideal = REQUESTS as f64 / PER_SECOND;
    assert!(
        took.as_secs_f64() <= SLACK * ideal,
        "{took:?} instead of {ideal:.1} s, {refused} refused, {} at once",
        site.provider.most_at_once()
    );
}

#[test]
fn many_children_share_a_limit_with_retry_after() {
    check(true);
}

#[test]
fn many_children_share_a_limit_that_does_not() {
    check(false);
}

/// How long nothing is answered, in the middle of the work of many children.
const OUTAGE: Duration = Duration::from_secs(2);

#[test]
fn many_children_sit_an_outage_out() {
    let begun = OnceLock::new();
    let provider = Provider::start(Settings::default(), move |prompt| {
        let is_child = prompt.task.starts_with("Child");
        match is_child && begun.get_or_init(Instant::now).elapsed() < OUTAGE {
            true => Reply::Status(503, None),
            false => script(prompt),
        }
    });
    let site = Site::new(provider, "");
    let (output, task) = site.run(&model(Wire::Chat), &["--max-concurrent", "32"]);
    let summary = site.summary();
    assert_eq!(task["result"], "All is done.", "{output:#?} {summary:#?}");
    for task in site.world.tasks() {
        assert_eq!(task["status"], "completed", "{task:#} {summary:#?}");
    }
    let failed = summary.len() - REQUESTS;
    assert!((1..3 * CHILDREN).contains(&failed), "{failed} {summary:#?}");
}
