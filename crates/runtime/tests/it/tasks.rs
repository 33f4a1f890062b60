//! Operations on tasks: list, find, delete, steer, update, continue.

use std::time::Duration;

use sortie_core::id::{RunId, Seq, SessionKey};
use sortie_core::message::TodoStatus;
use sortie_core::ports::store::{ListFilter, StoreError};
use sortie_core::run::{Priority, RunDetails, Status};
use sortie_core::stats::Stats;
use sortie_runtime::RuntimeError;
use sortie_test_support::stage::{Play, Stage};

const TWO_TURNS: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: kid, prompt: "look", subagent_type: explore } }]
  - when: { agent: main }
    say: "{{result:1}}"
  - when: { label: broken }
    fault: { kind: error, message: "no" }
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - say: "looked"
"#;

async fn labels(stage: &Stage, filter: ListFilter) -> Vec<String> {
    let records = stage.runtime().list(filter).await.expect("a list");
    records.into_iter().map(|record| record.label).collect()
}

async fn stats(stage: &Stage, filter: ListFilter) -> Stats {
    stage.runtime().stats(filter).await.expect("numbers")
}

#[tokio::test]
async fn lists_and_numbers_by_session_status_parent_and_tree() {
    let stage = Play::new(TWO_TURNS).begin().await;
    let main = stage.play("look").await.run_id;
    let mut other = stage.new_task("explore", "elsewhere");
    other.session = "web:1".parse().expect("a session");
    let elsewhere = stage.create(other).await;
    stage.end_of(elsewhere).await;
    let broken = stage.create(stage.new_task("explore", "broken")).await;
    stage.end_of(broken).await;
    stage.model().block("open");
    let open = stage.create(stage.new_task("explore", "open")).await;
    stage.until_prompted("open", 1).await;

    let all = ListFilter::default();
    assert_eq!(
        labels(&stage, all.clone()).await,
        ["open", "broken", "elsewhere", "kid", "main"],
        "newest first"
    );
    let of = |change: &dyn Fn(&mut ListFilter)| {
        let mut filter = ListFilter::default();
        change(&mut filter);
        filter
    };
    let web: SessionKey = "web:1".parse().expect("a session");
    let of_web = of(&|filter| filter.session = Some(web.clone()));
    assert_eq!(labels(&stage, of_web).await, ["elsewhere"]);
    let failed = of(&|filter| filter.statuses = vec![Status::Failed]);
    assert_eq!(labels(&stage, failed).await, ["broken"]);
    let children = of(&|filter| filter.parent = Some(main));
    assert_eq!(labels(&stage, children).await, ["kid"]);
    let tree = of(&|filter| filter.root = Some(main));
    assert_eq!(labels(&stage, tree.clone()).await, ["kid", "main"]);
    let two = of(&|filter| filter.limit = 2);
    assert_eq!(labels(&stage, two).await, ["open", "broken"]);

    let expected = Stats {
        total: 5,
        running: 1,
        completed: 3,
        failed: 1,
        ..Stats::default()
    };
    assert_eq!(stats(&stage, all).await, expected);
    assert_eq!(stats(&stage, tree).await.completed, 2);
    assert_eq!(stage.runtime().count().await.expect("a count"), 1);
    let running = stage.runtime().running().await.expect("a list");
    assert_eq!(running.len(), 1);
    assert_eq!(running[0].run_id, open);
}

#[tokio::test]
async fn subscribers_get_every_event_of_a_run() {
    let stage = Play::new(TWO_TURNS).begin().await;
    let mut notes = stage.listen();
    let run = stage.create(stage.new_task("explore", "t")).await;
    stage.end_of(run).await;
    // The queued event is published beside the queue, so a fast scheduler may publish before it.
    let published = notes.about(run);
    assert!(published.contains("queued explore t"), "{published}");
    insta::assert_snapshot!(published.replace("queued explore t\n", ""), @r"
    started explore t
    changed Some(Tool)
    tool list_dir after 0
    progress 5 after 1
    changed Some(Model)
    completed looked
    ");
}

#[tokio::test]
async fn tool_calls_transcript_and_events_agree() {
    let stage = Play::new(TWO_TURNS).begin().await;
    stage.put("a.txt", "hello\n");
    let main = stage.play("look").await.run_id;
    let kid = stage.run_of("kid").await;
    let runtime = stage.runtime();
    let mut shown = Vec::new();
    for run in [main, kid] {
        for call in runtime.tool_calls(run).await.expect("the calls") {
            let (tool, status) = (call.tool_name, call.status.expect("a status"));
            let result = call.result.unwrap_or_default();
            shown.push(format!("{tool} {} {status:?} {result:?}", call.parameters));
        }
    }
    insta::assert_snapshot!(stage.plain(&shown.join("\n")).await, @r#"
    task {"description":"kid","prompt":"look","subagent_type":"explore"} Ok "looked"
    list_dir {"path":"."} Ok "a.txt (6 B)"
    "#);
    let transcript = runtime.transcript(kid).await.expect("a transcript");
    let lines: Vec<String> = transcript
        .iter()
        .map(|line| format!("{}: {}", line.kind, line.text))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    user: look
    call: list_dir {"path":"."}
    result: a.txt (6 B)
    assistant: looked
    runtime: completed
    "#);
    insta::assert_snapshot!(stage.log(kid).await, @r#"
    admitted explore: look
    claimed
    answered 1: list_dir{"path":"."}
    result 1-0 ok: a.txt (6 B)
    answered 2: "looked"
    finished completed: looked
    "#);
    let later = runtime.events(kid, Seq(3)).await.expect("events");
    assert_eq!(later.first().map(|entry| entry.seq), Some(Seq(4)));
    assert_eq!(
        runtime.verify().await.expect("a check").problems,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn a_task_is_found_by_a_prefix_of_its_id() {
    let stage = Play::new("  - say: done").begin().await;
    let runtime = stage.runtime();
    let one = stage.create(stage.new_task("general", "one")).await;
    let id = one.to_string();
    for length in [8, 13, 36] {
        let prefix = &id[..length];
        assert_eq!(
            runtime.resolve(prefix).await.expect("one run"),
            one,
            "{prefix}"
        );
    }
    let two = stage
        .create(stage.new_task("general", "two"))
        .await
        .to_string();
    let shared = id
        .bytes()
        .zip(two.bytes())
        .take_while(|(left, right)| left == right)
        .count();
    if shared >= 8 {
        let ambiguous = runtime.resolve(&id[..shared]).await;
        let Err(RuntimeError::Store(StoreError::Ambiguous { count, .. })) = ambiguous else {
            panic!("{ambiguous:?}");
        };
        assert_eq!(count, 2);
    }
    for wrong in ["0190", "not an id", "ffffffff"] {
        let missing = runtime.resolve(wrong).await;
        assert!(
            matches!(missing, Err(RuntimeError::Store(StoreError::NotFound(_)))),
            "{wrong}: {missing:?}"
        );
    }
}

async fn is_gone(stage: &Stage, run: RunId) -> bool {
    matches!(
        stage.runtime().get(run).await,
        Err(RuntimeError::Store(StoreError::NotFound(_)))
    )
}

#[tokio::test]
async fn delete_cancels_active_runs_and_their_descendants_first() {
    let stage = Play::new(
        r#"
  - when: { agent: main }
    calls: [{ tool: task, args: { description: kid, prompt: p, subagent_type: explore } }]
  - fault: { kind: hang }
"#,
    )
    .begin()
    .await;
    let mut notes = stage.listen();
    let main = stage.start("wait").await;
    stage.until_prompted("kid", 1).await;
    let kid = stage.run_of("kid").await;
    assert_eq!(stage.runtime().delete(main).await.expect("a number"), 2);
    assert!(is_gone(&stage, main).await && is_gone(&stage, kid).await);
    assert!(
        notes
            .about(main)
            .ends_with("cancelled cancelled by a person: the task is being deleted\ndeleted")
    );
}

#[tokio::test]
async fn clean_up_removes_only_trees_that_ended_long_enough_ago() {
    let stage = Play::new(TWO_TURNS).begin().await;
    stage.model().block("open");
    let open = stage.create(stage.new_task("explore", "open")).await;
    let main = stage.play("look").await.run_id;
    let runtime = stage.runtime();
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(
        runtime
            .clean_up(runtime.older_than(day))
            .await
            .expect("a number"),
        0
    );
    // In the millisecond of its end a tree is not older than zero.
    let removed = stage
        .until("the tree is old enough", async || {
            let rule = runtime.older_than(Duration::ZERO);
            let expected = runtime
                .count_clean_up(rule.clone())
                .await
                .expect("a number");
            let removed = runtime.clean_up(rule).await.expect("a number");
            assert_eq!(removed, expected);
            (removed > 0).then_some(removed)
        })
        .await;
    assert_eq!(removed, 2, "main and kid");
    assert!(is_gone(&stage, main).await);
    assert_eq!(stage.record(open).await.status, Status::Running);
}

#[tokio::test]
async fn a_task_can_resume_an_ended_child() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: first, prompt: "find the login", subagent_type: explore } }]
  - when: { agent: main, turn: 2 }
    calls: [{ tool: task, args: { description: second, prompt: "and the logout?", subagent_type: explore, resume: first } }]
  - when: { agent: main }
    say: "{{result:1}}"
  - when: { label: first, turn: 1 }
    calls: [{ tool: glob, args: { pattern: "*login*" } }]
  - when: { label: first }
    say: "in auth.rs"
  - when: { label: second }
    say: "also there"
"#,
    )
    .begin()
    .await;
    stage.play("ask twice").await;
    insta::assert_snapshot!(stage.seen("second", 1).await, @r#"
    user: find the login
    assistant: glob{"pattern":"*login*"}
    result 1-0 ok: No file matches *login*.
    assistant: "in auth.rs"
    user: and the logout?
    "#);
}

#[tokio::test]
async fn a_new_run_can_continue_an_ended_run_but_not_an_active_one() {
    let stage = Play::new(
        r#"
  - when: { label: open }
    fault: { kind: hang }
  - say: "You said: {{task}}"
"#,
    )
    .begin()
    .await;
    let first = stage.play("hello").await.run_id;
    let mut again = stage.new_run("and now?");
    again.continues = Some(first);
    again.label = Some("again".to_owned());
    let again = stage.create(again).await;
    stage.end_of(again).await;
    insta::assert_snapshot!(stage.seen("again", 1).await, @r#"
    user: hello
    assistant: "You said: hello"
    user: and now?
    "#);

    let open = stage.create(stage.new_task("general", "open")).await;
    let mut too_early = stage.new_run("hurry");
    too_early.continues = Some(open);
    let refused = stage
        .runtime()
        .create(too_early)
        .await
        .expect_err("refused");
    let words = stage.plain(&refused.to_string()).await;
    insta::assert_snapshot!(words, @"task <open> is still running; wait for it, or cancel it first");
}

#[tokio::test]
async fn steering_reaches_an_active_run() {
    let stage = Play::new(
        r#"
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - say: "{{notices}}"
"#,
    )
    .begin()
    .await;
    stage.model().block("t");
    let run = stage.create(stage.new_task("general", "t")).await;
    stage.until_prompted("t", 1).await;
    stage
        .runtime()
        .steer(run, "Only look at Rust.")
        .await
        .expect("accepted");
    stage.model().release("t");
    stage.end_of(run).await;
    insta::assert_snapshot!(stage.task(run).await, @r"
    status: completed
    progress: 100
    result: [Added by a person] Take this into account from now on:
    Only look at Rust.
    tool_calls: 1
    delivery: not_required
    ");
    let late = stage
        .runtime()
        .steer(run, "Too late.")
        .await
        .expect_err("refused");
    insta::assert_snapshot!(stage.plain(&late.to_string()).await, @"task <t> is completed: it has ended and takes no more messages");
}

#[tokio::test]
async fn a_queued_run_can_be_relabelled_and_reprioritised() {
    let mut play = Play::new("  - say: done");
    play.settings = play.settings.with_max_concurrent(0);
    let stage = play.begin().await;
    let first = stage.create(stage.new_task("general", "first")).await;
    let second = stage.create(stage.new_task("general", "second")).await;
    let high = Some(Priority::High);
    let updated = stage.runtime().update(second, Some("urgent"), high).await;
    updated.expect("it waits");
    let place = async |run| stage.record(run).await.queue_position;
    assert_eq!(
        (place(second).await, place(first).await),
        (Some(1), Some(2))
    );
    let stage = stage
        .restart_as(|mut play| {
            play.settings = play.settings.with_max_concurrent(1);
            play
        })
        .await;
    stage.end_of(first).await;
    assert_eq!(stage.model().order(), ["urgent", "first"]);
    insta::assert_snapshot!(stage.log(second).await, @r#"
    admitted general: do it
    updated Some("urgent") Some(High)
    claimed
    answered 1: "done"
    finished completed: done
    "#);
    let late = stage.runtime().update(second, Some("late"), None).await;
    let words = late.expect_err("it has ended").to_string();
    insta::assert_snapshot!(stage.plain(&words).await, @"task <urgent> is completed: only a task that waits in the queue can be changed");
    let report = stage.runtime().verify().await.expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
}

#[tokio::test]
async fn run_details_follow_the_journal() {
    let stage = Play::new(
        r#"
  - when: { turn: 1 }
    calls: [{ tool: todo_write, args: { todos: [{ content: one, status: pending }] } }]
  - when: { turn: 2 }
    calls: [{ tool: todo_write, args: { todos: [{ content: one, status: completed }] } }]
  - say: "done"
"#,
    )
    .begin()
    .await;
    let runtime = stage.runtime();
    let todos = async |run: RunId| {
        let record = stage.record(run).await;
        let looked = runtime.details(&record).await.expect("details");
        let looked = looked.expect("a journal");
        assert!(looked.head >= record.head, "up to the end that is known");
        let entries = runtime.events(run, Seq(0)).await.expect("a journal");
        let upto: Vec<_> = entries
            .into_iter()
            .filter(|entry| entry.seq <= looked.head)
            .collect();
        assert_eq!(RunDetails::of(&upto).as_ref(), Some(&*looked));
        looked
            .todos
            .iter()
            .map(|todo| todo.status)
            .collect::<Vec<_>>()
    };

    stage.model().block("kept");
    let run = stage.create(stage.new_task("general", "kept")).await;
    stage.until_prompted("kept", 1).await;
    assert_eq!(todos(run).await, []);
    stage.model().release("kept");
    stage.end_of(run).await;
    assert_eq!(todos(run).await, [TodoStatus::Completed]);
    assert_eq!(todos(run).await, [TodoStatus::Completed], "a second look");

    let spec = runtime.spec(run).await.expect("a spec");
    assert_eq!(spec.label, "kept");
    let unknown = runtime.spec(runtime.new_run_id()).await;
    assert!(matches!(
        unknown,
        Err(RuntimeError::Store(StoreError::NotFound(_)))
    ));
}
