//! Conversations, retries and views.

use std::time::Duration;

use serde_json::json;
use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::policy::{Decision, Layer, Mode};
use sortie_core::ports::store::{Archive as _, ListFilter, StoreError};
use sortie_core::run::{ForkPoint, Lane, Status};
use sortie_core::session::SessionFilter;
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;
use sortie_runtime::{Fork, NewRun, PolicySubject, RuntimeError, SpanKind};
use sortie_test_support::stage::{Play, Stage};

const ECHO: &str = r#"
  - say: "done"
"#;

fn message(stage: &Stage, session: &str, text: &str) -> NewRun {
    NewRun {
        session: session.parse().expect("a session"),
        label: None,
        ..stage.new_run(text)
    }
}

async fn send(stage: &Stage, new: NewRun) -> (RunId, bool) {
    let sent = stage
        .runtime()
        .send_message(new)
        .await
        .expect("it is accepted");
    (sent.run, sent.steered)
}

#[tokio::test]
async fn a_message_steers_the_active_turn_or_starts_the_next() {
    let stage = Play::new(ECHO).begin().await;
    stage.model().block("one");
    let (first, steered) = send(&stage, message(&stage, "web:1", "one")).await;
    assert!(!steered);
    stage.until_prompted("one", 1).await;
    assert_eq!(
        send(&stage, message(&stage, "web:1", "and")).await,
        (first, true)
    );
    // Another session, and the same session of another tenant, are other conversations.
    let (other, steered) = send(&stage, message(&stage, "web:2", "two")).await;
    assert!(!steered && other != first);
    let theirs = NewRun {
        tenant: Some("acme".parse().expect("a tenant")),
        ..message(&stage, "web:1", "three")
    };
    let (third, steered) = send(&stage, theirs).await;
    assert!(!steered && third != first);
    assert_eq!(
        stage.runtime().spec(third).await.expect("a spec").continues,
        None
    );
    stage.model().release("one");
    stage.end_of(first).await;
    assert!(stage.log(first).await.contains("steer \"and\""));
    // It arrived during what would have been the last model call, so there is one more.
    assert!(stage.seen("one", 2).await.contains("and"));
    // A background task of the session is not a turn of it.
    let task = NewRun {
        session: "web:1".parse().expect("a session"),
        ..stage.new_task("explore", "aside")
    };
    stage.end_of(stage.create(task).await).await;
    let (next, steered) = send(&stage, message(&stage, "web:1", "four")).await;
    assert!(!steered);
    let spec = stage.runtime().spec(next).await.expect("a spec");
    assert_eq!((spec.continues, spec.lane), (Some(first), Lane::Main));
    stage.end_of(next).await;
    assert!(stage.seen("four", 1).await.contains("one"));
    let sessions = stage.runtime().sessions(SessionFilter::default()).await;
    let sessions = sessions.expect("the sessions");
    let shown: Vec<_> = sessions
        .iter()
        .map(|it| {
            (
                it.session.as_str(),
                it.tenant.as_ref().map(Tenant::as_str),
                it.turns,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("web:1", None, 2),
            ("web:1", Some("acme"), 1),
            ("web:2", None, 1)
        ]
    );
    assert_eq!(sessions[0].title, "one");
    assert_eq!(sessions[0].workspace, stage.workspace());
}

#[tokio::test]
async fn simultaneous_messages_create_one_turn() {
    let stage = Play::new(ECHO).begin().await;
    for text in ["a", "b", "c", "d"] {
        stage.model().block(text);
    }
    let sent = futures::future::join_all(
        ["a", "b", "c", "d"].map(|text| send(&stage, message(&stage, "web:1", text))),
    )
    .await;
    let runs: std::collections::BTreeSet<RunId> = sent.iter().map(|(run, _)| *run).collect();
    assert_eq!(runs.len(), 1, "{sent:?}");
    assert_eq!(sent.iter().filter(|(_, steered)| *steered).count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_does_not_wait_for_one_of_another_session() {
    let stage = Play::new(ECHO).begin().await;
    let (first, _) = send(&stage, message(&stage, "web:1", "one")).await;
    stage.end_of(first).await;
    let (answered, wait) = std::sync::mpsc::channel();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let runtime = stage.shared_runtime();
    let second = message(&stage, "web:1", "two");
    let slow = tokio::spawn(async move {
        let check = move |_: &sortie_core::run::RunSpec| {
            begun.send(()).expect("the test waits");
            let other = wait.recv_timeout(Duration::from_secs(10));
            other.map_err(|_| {
                RuntimeError::Store(StoreError::NotFound("the other session waits".to_owned()))
            })
        };
        runtime.send_message_if(None, second, check).await
    });
    has_begun.await.expect("the first message is being checked");
    send(&stage, message(&stage, "web:2", "three")).await;
    answered.send(()).expect("the first message still waits");
    slow.await.expect("no panic").expect("it is accepted");
}

#[tokio::test]
async fn a_conversation_continues_after_its_beginning_was_removed() {
    let stage = Play::new(ECHO).begin().await;
    let mut turns = Vec::new();
    for text in ["red", "green", "blue"] {
        let (run, _) = send(&stage, message(&stage, "web:1", text)).await;
        assert_eq!(stage.end_of(run).await.status, Status::Completed, "{text}");
        turns.push(run);
        // Once as the last turn, and once with another that continues from it.
        if text == "red" {
            stage.runtime().delete(run).await.expect("a number");
        }
    }
    stage.runtime().delete(turns[1]).await.expect("a number");
    let (last, _) = send(&stage, message(&stage, "web:1", "grey")).await;
    assert_eq!(stage.end_of(last).await.status, Status::Completed);
    let seen = stage.seen("grey", 1).await;
    assert!(seen.contains("blue") && !seen.contains("red"), "{seen}");
    assert!(!seen.contains("green"), "{seen}");
}

#[tokio::test]
async fn a_conversation_remembers_its_archived_turns() {
    let stage = Play::new(ECHO).begin().await;
    let mut turns = Vec::new();
    for text in ["red", "green"] {
        let (run, _) = send(&stage, message(&stage, "web:1", text)).await;
        assert_eq!(stage.end_of(run).await.status, Status::Completed, "{text}");
        turns.push(run);
    }
    let far = stage.runtime().now().plus_ms(1_000);
    let stage = stage
        .restart_and(async |store| {
            assert_eq!(store.archive(far, far).await.expect("a number"), 2);
        })
        .await;
    assert!(stage.record(turns[1]).await.archived_at.is_some());
    let (last, _) = send(&stage, message(&stage, "web:1", "grey")).await;
    assert_eq!(stage.end_of(last).await.status, Status::Completed);
    let seen = stage.seen("grey", 1).await;
    assert!(seen.contains("red") && seen.contains("green"), "{seen}");
    let spec = stage.runtime().spec(turns[0]).await.expect("a spec");
    assert_eq!(spec.continues, None);
    let record = stage.record(turns[0]).await;
    let details = stage.runtime().details(&record).await.expect("it is read");
    assert!(details.is_some());
}

#[tokio::test]
async fn creating_a_run_twice_under_one_id_creates_one_run() {
    let stage = Play::new(ECHO).begin().await;
    let id = stage.runtime().new_run_id();
    for _ in 0..2 {
        let made = stage.runtime().create_as(id, stage.new_run("once")).await;
        assert_eq!(made.expect("a run"), id);
    }
    stage.end_of(id).await;
    assert_eq!(stage.records().await.len(), 1);
    let runtime = stage.runtime();
    let [again, branch, turn] = [(); 3].map(|()| runtime.new_run_id());
    for _ in 0..2 {
        assert_eq!(runtime.retry_as(id, again).await.expect("a run"), again);
        let point = ForkPoint {
            run: id,
            at: Seq(1),
        };
        let fork = Fork {
            point,
            model: None,
            label: None,
            mode: Mode::Default,
        };
        assert_eq!(runtime.fork_as(fork, branch).await.expect("a run"), branch);
    }
    // The turn is still active when the message is repeated, and does not read it twice.
    stage.model().block("hello");
    for _ in 0..2 {
        let new = message(&stage, "web:1", "hello");
        let sent = runtime
            .send_message_if(Some(turn), new, |_| Ok::<_, RuntimeError>(()))
            .await
            .expect("it is accepted");
        assert_eq!((sent.run, sent.steered), (turn, false));
    }
    assert_eq!(stage.records().await.len(), 4);
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused() {
    let stage = Play::new(ECHO).begin().await;
    stage.model().block("one");
    let run = stage.create(message(&stage, "web:1", "one")).await;
    let long = "字".repeat(sortie_core::inbox::MAX_MESSAGE_CHARS);
    stage
        .runtime()
        .steer(run, &long)
        .await
        .expect("it is accepted");
    let longer = format!("{long}!");
    assert!(stage.runtime().steer(run, &longer).await.is_err());
    let new = message(&stage, "web:1", &longer);
    assert!(stage.runtime().send_message(new).await.is_err());
}

#[tokio::test]
async fn retry_requires_an_ended_run() {
    let stage = Play::new(ECHO).begin().await;
    stage.model().block("one");
    let run = stage.create(message(&stage, "web:1", "one")).await;
    stage.until_prompted("one", 1).await;
    assert!(stage.runtime().retry(run).await.is_err());
    stage.model().release("one");
    stage.end_of(run).await;
    stage.runtime().retry(run).await.expect("a new run");
}

#[tokio::test]
async fn a_retried_run_is_the_same_task_as_a_root() {
    let stage = Play::new(
        r#"
  - when: { label: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: look, subagent_type: explore } }]
  - when: { label: main }
    say: "done"
  - fault: { kind: error, message: "no luck" }
"#,
    )
    .begin()
    .await;
    let tenant: Tenant = "acme".parse().expect("a tenant");
    let mut new = stage.new_run("delegate");
    new.tenant = Some(tenant.clone());
    new.max_depth = Some(9);
    let main = stage.create(new).await;
    stage.end_of(main).await;
    let kid = stage.run_of("kid").await;
    let before = stage.runtime().spec(kid).await.expect("a spec");
    assert_eq!(before.tenant, Some(tenant));
    assert_eq!(
        before.caps.max_depth, 1,
        "the limit of the settings applies"
    );
    let again = stage.runtime().retry(kid).await.expect("a new run");
    let after = stage.runtime().spec(again).await.expect("a spec");
    assert_eq!(
        (after.parent.is_none(), after.root, after.depth),
        (true, again, 0)
    );
    assert_eq!(
        (
            &after.task,
            &after.tenant,
            &after.policy,
            &after.tools,
            after.limits
        ),
        (
            &before.task,
            &before.tenant,
            &before.policy,
            &before.tools,
            before.limits
        )
    );
    assert_eq!(after.agent, before.agent);
    assert_eq!(stage.end_of(again).await.parent, None);
    let gone = stage.runtime().new_run_id();
    assert!(stage.runtime().retry(gone).await.is_err());
}

#[tokio::test]
async fn a_timeline_shows_what_each_run_waited_for() {
    let stage = Play::new(
        r#"
  - when: { label: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: p, subagent_type: explore } }]
  - say: "done"
"#,
    )
    .begin()
    .await;
    stage.model().block("kid#1");
    let main = stage.start("delegate").await;
    stage.until_prompted("kid", 1).await;
    let kid = stage.run_of("kid").await;
    // An interval that is visible: times are whole milliseconds.
    let requested_at = stage.runtime().now();
    stage
        .until("a moment", async || {
            (stage.runtime().now() > requested_at.plus_ms(5)).then_some(())
        })
        .await;
    stage.model().release("kid#1");
    stage.end_of(main).await;
    let (line, left_out) = stage.runtime().timeline(main).await.expect("a time line");
    assert_eq!((line.root, line.tasks.len(), left_out), (main, 2, 0));
    let path = &line.critical_path;
    assert_eq!(path.first().map(|span| span.from), Some(line.from));
    assert_eq!(path.last().map(|span| span.until), Some(line.until));
    assert!(path.windows(2).all(|pair| pair[0].until == pair[1].from));
    assert!(
        path.iter()
            .any(|span| (span.run, span.kind) == (kid, SpanKind::Model)),
        "{path:?}"
    );
    assert!(
        stage
            .runtime()
            .timeline(stage.runtime().new_run_id())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn policy_view_and_explanation_match_enforcement() {
    let stage = Play::new(ECHO).begin().await;
    let mut new = stage.new_run("look");
    new.mode = Mode::Default;
    let main = stage.create(new.clone()).await;
    stage.end_of(main).await;
    let view = stage.runtime().policy_view(main).await.expect("a policy");
    let spec = stage.runtime().spec(main).await.expect("a spec");
    assert_eq!((&view.hash, view.mode), (&spec.policy_hash, Mode::Default));
    let decision = |name: &str| {
        let found = view.tools.iter().find(|(tool, _)| tool == name);
        found.map(|(_, ruling)| ruling.decision)
    };
    assert_eq!(decision("read_file"), Some(Decision::Allow));
    assert_eq!(decision("write_file"), Some(Decision::Ask));
    assert_eq!(view.tools.len(), spec.tools.len());
    let explain = async |whose| {
        let arguments = json!({"path": "a", "content": "b"});
        let explained = stage
            .runtime()
            .explain(whose, "write_file", &arguments)
            .await;
        explained.expect("an explanation")
    };
    let own = explain(PolicySubject::Run(main)).await;
    assert_eq!(own.explanation.ruling.decision, Decision::Ask);
    let of_agent = PolicySubject::Agent {
        name: "explore".to_owned(),
        new: Box::new(new),
    };
    let other = explain(of_agent).await;
    assert_eq!(other.explanation.ruling.layer, Layer::Grant);
    assert!(other.removed_by.is_some());
}

#[tokio::test]
async fn lanes_models_and_usage_are_reported() {
    let stage = Play::new(ECHO).begin().await;
    stage.end_of(stage.start("look").await).await;
    let lanes = stage.runtime().lanes().await.expect("the lanes");
    let shown: Vec<_> = lanes
        .iter()
        .map(|it| (it.lane, it.limit, it.queued))
        .collect();
    assert_eq!(shown, [(Lane::Main, 8, 0), (Lane::Subagent, 5, 0)]);
    assert_eq!(stage.runtime().models_state(), []);
    let hour = 3_600_000;
    let series = stage
        .runtime()
        .usage_series(ListFilter::default(), hour, Timestamp(0))
        .await
        .expect("a series");
    assert_eq!(series.iter().map(|point| point.completed).sum::<u64>(), 1);
    let session = SessionKey::cli();
    assert!(
        stage
            .runtime()
            .grants(None, &session)
            .await
            .expect("a list")
            .is_empty()
    );
}

/// Regression: a run whose first completion was its last ended although a message had arrived
/// before it.
#[tokio::test]
async fn a_message_before_the_first_step_is_read() {
    let stage = Play::new(ECHO)
        .set(|settings| settings.lanes.main = 1)
        .begin()
        .await;
    stage.model().block("one");
    let first = stage.create(message(&stage, "web:1", "one")).await;
    stage.until_prompted("one", 1).await;
    let waits = stage.create(message(&stage, "web:2", "two")).await;
    let steered = stage.runtime().steer(waits, "and be brief").await;
    steered.expect("a run that waits can be steered");
    stage.model().release("one");
    stage.end_of(first).await;
    stage.end_of(waits).await;
    let log = stage.log(waits).await;
    assert!(log.contains("steer \"and be brief\""), "{log}");
    assert!(stage.seen("two", 1).await.contains("and be brief"));
}
