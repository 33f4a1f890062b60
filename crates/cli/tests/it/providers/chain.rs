//! A chain of models: when the first cannot answer the next one is asked, and the record says which
//! one it was.

use serde_json::{Value, json};
use sortie_test_support::provider::{Provider, ReceivedPrompt, Reply, Settings, Wire};

use super::site::{Site, model};

/// Runs on Anthropic's wire, which does this, with OpenAI's behind it, which answers.
fn check(first: Reply, first_prompts: usize, answers: bool) {
    let shown = format!("{first:?}");
    let site = start(move |prompt| match prompt.wire {
        Wire::Anthropic => first.clone(),
        Wire::Chat | Wire::Responses | Wire::Gemini => Reply::text("All is done."),
    });
    let (output, task) = site.run(
        &model(Wire::Anthropic),
        &["--fallback", &model(Wire::Responses)],
    );
    let shown = format!("{shown}: {output:#?} {:#?}", site.summary());
    let count = |wire: Wire| {
        let requests = site.provider.requests();
        requests
            .iter()
            .filter(|one| one.prompt.wire == wire)
            .count()
    };
    assert_eq!(count(Wire::Anthropic), first_prompts, "{shown}");
    assert_eq!(count(Wire::Responses), usize::from(answers), "{shown}");
    if answers {
        assert_eq!(task["status"], "completed", "{shown}");
        assert_eq!(task["result"], "All is done.", "{shown}");
        assert_eq!(task["model"], model(Wire::Responses), "{shown}");
        let events = site.events(&task);
        let failed = events
            .iter()
            .filter(|event| event["event"] == "model_failed");
        assert_eq!(failed.count(), first_prompts, "{shown}");
        assert!(output.err.contains("[main] "), "the user is told: {shown}");
    } else {
        assert_eq!(task["status"], "failed", "{shown}");
    }
    let shows = site
        .world
        .json(&["tasks", "show", task["task_id"].as_str().unwrap(), "--json"]);
    for (key, value) in task.as_object().unwrap() {
        assert_eq!(&shows[key], value, "{key}: {shown}");
    }
}

fn start(script: impl Fn(&ReceivedPrompt) -> Reply + Send + Sync + 'static) -> Site {
    Site::new(Provider::start(Settings::default(), script), "")
}

#[test]
fn the_next_model_answers_for_one_that_cannot() {
    check(Reply::Status(401, None), 1, true);
    check(Reply::Status(404, None), 1, true);
    check(Reply::Status(500, None), 2, true);
    check(Reply::Reset, 2, true);
    check(Reply::ContextOverflow, 1, true);
}

#[test]
fn a_long_wait_is_worse_than_another_model() {
    check(Reply::Status(429, Some(120)), 1, true);
}

#[test]
fn a_content_filter_is_not_bypassed_by_a_fallback() {
    check(Reply::Refusal, 1, false);
    check(Reply::ContentFilter, 1, false);
}

/// Thinking is signed by its vendor, and no other takes it.
#[test]
fn signatures_of_one_vendor_are_not_sent_to_another() {
    let site = start(|prompt| match (prompt.wire, prompt.turn) {
        (Wire::Anthropic, 1) => Reply::Thinking(
            "I should look.".to_owned(),
            Box::new(Reply::call("list_dir", json!({"path": "."}))),
        ),
        (Wire::Anthropic, _) => Reply::Status(401, None),
        (Wire::Chat | Wire::Responses | Wire::Gemini, _) => Reply::text("All is done."),
    });
    for wire in [Wire::Chat, Wire::Responses, Wire::Gemini] {
        let (output, task) = site.run(&model(Wire::Anthropic), &["--fallback", &model(wire)]);
        let shown = format!("{wire:?} {output:#?} {:#?}", site.summary());
        assert_eq!(task["model"], model(wire), "{shown}");
        let requests = site.provider.requests();
        let [.., again, other] = requests.as_slice() else {
            panic!("{shown}");
        };
        assert!(
            signed(&again.prompt.body),
            "goes back to its own vendor: {shown}"
        );
        assert!(!signed(&other.prompt.body), "{shown}");
        assert_eq!(other.prompt.turn, 2, "{shown}");
    }
}

fn signed(body: &Value) -> bool {
    body.to_string().contains("signed-")
}
