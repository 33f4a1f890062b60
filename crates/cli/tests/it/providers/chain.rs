//! A chain of models: when the first cannot answer the next one is asked, and the record says which
//! one it was.

use serde_json::{Value, json};
use sortie_test_support::provider::{Provider, ReceivedPrompt, Reply, Settings, Wire};

use super::site::{Site, model};

/// Runs on Anthropic's wire, which does this, with OpenAI's behind it, which answers.
fn check(first: Reply, asked_first: usize, answers: bool) {
    let shown = format!("{first:?}");
    let site = start(move |asked| match asked.wire {
        Wire::Anthropic => first.clone(),
        Wire::Chat | Wire::Responses | Wire::Gemini => Reply::text("All is done."),
    });
    let (said, task) = site.run(
        &model(Wire::Anthropic),
        &["--fallback", &model(Wire::Responses)],
    );
    let shown = format!("{shown}: {said:#?} {:#?}", site.summary());
    let count = |wire: Wire| {
        let requests = site.provider.requests();
        requests.iter().filter(|one| one.asked.wire == wire).count()
    };
    assert_eq!(count(Wire::Anthropic), asked_first, "{shown}");
    assert_eq!(count(Wire::Responses), usize::from(answers), "{shown}");
    if answers {
        assert_eq!(task["status"], "completed", "{shown}");
        assert_eq!(task["result"], "All is done.", "{shown}");
        assert_eq!(task["model"], model(Wire::Responses), "{shown}");
        let events = site.events(&task);
        let failed = events
            .iter()
            .filter(|event| event["event"] == "model_failed");
        assert_eq!(failed.count(), asked_first, "{shown}");
        assert!(said.err.contains("[main] "), "the user is told: {shown}");
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
fn a_filter_is_not_gone_around() {
    check(Reply::Refusal, 1, false);
    check(Reply::ContentFilter, 1, false);
}

/// Thinking is signed by its vendor, and no other takes it.
#[test]
fn what_one_vendor_signed_is_not_sent_to_another() {
    let site = start(|asked| match (asked.wire, asked.turn) {
        (Wire::Anthropic, 1) => Reply::Thinking(
            "I should look.".to_owned(),
            Box::new(Reply::call("list_dir", json!({"path": "."}))),
        ),
        (Wire::Anthropic, _) => Reply::Status(401, None),
        (Wire::Chat | Wire::Responses | Wire::Gemini, _) => Reply::text("All is done."),
    });
    for wire in [Wire::Chat, Wire::Responses, Wire::Gemini] {
        let (said, task) = site.run(&model(Wire::Anthropic), &["--fallback", &model(wire)]);
        let shown = format!("{wire:?} {said:#?} {:#?}", site.summary());
        assert_eq!(task["model"], model(wire), "{shown}");
        let requests = site.provider.requests();
        let [.., again, other] = requests.as_slice() else {
            panic!("{shown}");
        };
        assert!(
            signed(&again.asked.body),
            "goes back to its own vendor: {shown}"
        );
        assert!(!signed(&other.asked.body), "{shown}");
        assert_eq!(other.asked.turn, 2, "{shown}");
    }
}

fn signed(body: &Value) -> bool {
    body.to_string().contains("signed-")
}
