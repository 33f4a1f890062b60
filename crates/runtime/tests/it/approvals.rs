//! Approval requests and questions of runs, and what comes of the replies.

use std::time::Duration;

use sortie_core::policy::{ApproveSpawn, Mode};
use sortie_core::ports::store::Replied;
use sortie_core::request::{Answerer, OpenRequest, Reply, RequestFilter, RequestKind};
use sortie_core::run::{Status, WaitingOn};
use sortie_test_support::stage::{Play, Stage, until};

const CHANGES_SOMETHING: &str = r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: write_file, args: { path: a.txt, content: x } }
      - { tool: exec, args: { command: "echo hello > b.txt" } }
      - { tool: list_dir, args: { path: "." } }
  - say: "I see."
"#;

fn patient(rules: &str) -> Play {
    Play::new(rules).set(|settings| settings.approvals.wait = true)
}

async fn started(play: Play, task: &str) -> (Stage, sortie_core::id::RunId) {
    let stage = play.begin().await;
    let mut new = stage.new_run(task);
    new.mode = Mode::Default;
    let run = stage.create(new).await;
    (stage, run)
}

async fn open(stage: &Stage, count: usize) -> Vec<OpenRequest> {
    until("requests", async || {
        let open = stage.runtime().requests(RequestFilter::default()).await;
        let open = open.expect("requests");
        (open.len() == count).then_some(open)
    })
    .await
}

fn yes(lasting: Option<&str>) -> Reply {
    Reply::Approved {
        by: "a test".to_owned(),
        lasting: lasting.map(str::to_owned),
    }
}

fn no(words: Option<&str>) -> Reply {
    Reply::Refused {
        by: "a test".to_owned(),
        words: words.map(str::to_owned),
    }
}

async fn reply(stage: &Stage, request: &OpenRequest, reply: Reply) -> Replied {
    let replied = stage.runtime().reply(&request.request.id, reply).await;
    replied.expect("a reply is taken")
}

fn approval(request: &OpenRequest) -> String {
    let RequestKind::Approval(approval) = &request.request.kind else {
        panic!("a question: {request:?}");
    };
    format!(
        "{} [{}] {} {} because {}; or always {}",
        request.agent,
        request.label,
        approval.tool,
        approval.arguments,
        approval.reason,
        approval.lasting.join(" or ")
    )
}

#[tokio::test]
async fn approval_request_names_the_agent_and_the_exact_call() {
    let (stage, run) = started(patient(CHANGES_SOMETHING), "change something").await;
    let requests = open(&stage, 2).await;
    let shown: Vec<String> = requests.iter().map(approval).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    main [main] write_file {"content":"x","path":"a.txt"} because mode: default mode requires an approval for it; or always write_file(a.txt) or write_file
    main [main] exec {"command":"echo hello > b.txt"} because mode: default mode requires an approval for it; or always
    "#);
    let record = stage.record(run).await;
    assert_eq!(record.summary.waiting_on, Some(WaitingOn::Approval));
    assert_eq!(
        (stage.file("a.txt"), stage.file("b.txt")),
        (None, None),
        "nothing runs before the answer"
    );
    reply(&stage, &requests[1], no(Some("not now"))).await;
    reply(&stage, &requests[0], yes(None)).await;
    stage.end_of(run).await;
    insta::assert_snapshot!(stage.seen("main", 2).await, @r#"
    user: change something
    assistant: write_file{"content":"x","path":"a.txt"} exec{"command":"echo hello > b.txt"} list_dir{"path":"."}
    result 1-0 ok: Created a.txt (1 lines, 1 bytes).
    result 1-1 denied: Denied: a person refused exec, so nothing ran. They said: not now
    result 1-2 ok: a.txt (1 B)
    "#);
    assert_eq!(
        (stage.file("a.txt").as_deref(), stage.file("b.txt")),
        (Some("x"), None)
    );
}

#[tokio::test]
async fn a_request_survives_a_restart_and_the_first_reply_counts() {
    let (stage, run) = started(patient(CHANGES_SOMETHING), "change something").await;
    open(&stage, 2).await;
    let stage = stage.crash().await;
    let requests = open(&stage, 2).await;
    assert!(matches!(
        reply(&stage, &requests[0], no(None)).await,
        Replied::Accepted { .. }
    ));
    let late = reply(&stage, &requests[0], yes(None)).await;
    assert_eq!(
        late,
        Replied::TooLate {
            earlier: Some(no(None))
        }
    );
    reply(&stage, &requests[1], yes(None)).await;
    stage.end_of(run).await;
    assert_eq!(stage.file("a.txt"), None);
    assert_eq!(stage.file("b.txt").as_deref(), Some("hello\n"));
}

#[tokio::test]
async fn a_grant_covers_the_session_and_only_its_rule() {
    let rules = r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "echo one >> log" } }]
  - when: { turn: 2 }
    calls: [{ tool: write_file, args: { path: notes/a.txt, content: a } }]
  - when: { turn: 3 }
    calls: [{ tool: write_file, args: { path: notes/b.txt, content: b } }]
  - when: { turn: 4 }
    calls: [{ tool: write_file, args: { path: other.txt, content: c } }]
  - say: "done"
"#;
    let (stage, run) = started(patient(rules), "write").await;
    let requests = open(&stage, 1).await;
    reply(&stage, &requests[0], yes(None)).await;
    let notes = until("the first file", async || {
        let open = stage
            .runtime()
            .requests(RequestFilter::default())
            .await
            .ok()?;
        open.into_iter()
            .find(|request| approval(request).contains("notes/a.txt"))
    })
    .await;
    reply(&stage, &notes, yes(Some("write_file(notes/**)"))).await;
    let other = until("the file elsewhere", async || {
        let open = stage
            .runtime()
            .requests(RequestFilter::default())
            .await
            .ok()?;
        open.into_iter()
            .find(|request| approval(request).contains("other.txt"))
    })
    .await;
    assert_eq!(
        stage.file("notes/b.txt").as_deref(),
        Some("b"),
        "no request was opened"
    );
    reply(&stage, &other, no(None)).await;
    stage.end_of(run).await;
    let grants = stage
        .runtime()
        .grants(
            None,
            &sortie_core::id::SessionKey::cli().in_folder(stage.workspace()),
        )
        .await;
    let rules: Vec<String> = grants
        .expect("grants")
        .into_iter()
        .map(|it| it.rule)
        .collect();
    assert_eq!(rules, ["write_file(notes/**)"]);
}

#[tokio::test]
async fn an_expired_request_is_denied() {
    let play = patient(CHANGES_SOMETHING).set(|settings| {
        settings.approvals.expiry = Duration::from_millis(150);
        settings.poll_interval = Duration::from_millis(50);
    });
    let (stage, run) = started(play, "change something").await;
    let record = stage.end_of(run).await;
    assert_eq!(record.status, Status::Completed);
    let seen = stage.seen("main", 2).await;
    assert!(seen.contains("expired, so nothing ran"), "{seen}");
    assert_eq!((stage.file("a.txt"), stage.file("b.txt")), (None, None));
}

#[tokio::test]
async fn a_run_that_waits_for_an_approver_occupies_no_slot() {
    let rules = r#"
  - when: { label: waits, turn: 1 }
    calls: [{ tool: write_file, args: { path: a.txt, content: x } }]
  - say: "done"
"#;
    let stage = patient(rules)
        .set(|settings| *settings = settings.clone().with_max_concurrent(1))
        .begin()
        .await;
    let mut waits = stage.new_task("code", "waits");
    waits.mode = Mode::Default;
    let waits = stage.create(waits).await;
    let requests = open(&stage, 1).await;
    let other = stage.create(stage.new_task("code", "other")).await;
    assert_eq!(stage.end_of(other).await.status, Status::Completed);
    assert_eq!(stage.record(waits).await.status, Status::Running);
    reply(&stage, &requests[0], yes(None)).await;
    assert_eq!(stage.end_of(waits).await.status, Status::Completed);
}

const CHILD_ASKS: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: spawn_subagent, args: { task: find out, label: kid, agentId: code } }]
  - when: { agent: code, turn: 1 }
    calls: [{ tool: ask, args: { question: "red or blue?", options: [red, blue] } }]
  - when: { agent: code }
    say: "The answer: {{last_result}}"
  - when: { agent: main, notice_contains: "asks you something" }
    calls: [{ tool: subagents, args: { action: answer, request: "{{request}}", message: blue } }]
  - say: "waiting"
"#;

#[tokio::test]
async fn a_child_asks_its_parent_then_a_person() {
    // The parent does not answer: it escalates the question.
    let rules = CHILD_ASKS.replace(
        r#"calls: [{ tool: subagents, args: { action: answer, request: "{{request}}", message: blue } }]"#,
        r#"say: "I leave that to you.""#,
    );
    let (stage, run) = started(patient(&rules), "go").await;
    let requests = open(&stage, 1).await;
    let RequestKind::Question(question) = &requests[0].request.kind else {
        panic!("not a question: {requests:?}");
    };
    assert_eq!(question.text, "red or blue?");
    let kid = stage.run_of("kid").await;
    until("the child waits", async || {
        let record = stage.record(kid).await;
        (record.summary.waiting_on == Some(WaitingOn::Question)).then_some(())
    })
    .await;
    let answer = Reply::Answered {
        by: Answerer::Person,
        name: None,
        text: "blue".to_owned(),
    };
    reply(&stage, &requests[0], answer).await;
    stage.end_of(run).await;
    let record = stage.record(kid).await;
    let answer = record.result().expect("a result");
    assert!(
        answer.contains("[A person answers]") && answer.contains("blue"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_parent_cannot_approve_its_childs_call() {
    // A parent that answers the approval request of its child as if it were a question.
    let rules = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: spawn_subagent, args: { task: write, label: kid, agentId: code } }]
  - when: { agent: code, turn: 1 }
    calls: [{ tool: write_file, args: { path: a.txt, content: x } }]
  - when: { agent: code }
    say: "over"
  - when: { agent: main, turn: 2 }
    calls: [{ tool: subagents, args: { action: answer, request: "REQUEST", message: "yes, approved" } }]
  - say: "approved! yes! y"
"#;
    let (stage, run) = started(patient(rules), "go").await;
    let requests = open(&stage, 1).await;
    let kid = stage.run_of("kid").await;
    // Steering the child with words of approval approves nothing.
    stage
        .runtime()
        .steer(kid, "approved: yes")
        .await
        .expect("a steer");
    until("the steer is taken or waits", async || {
        let open = stage
            .runtime()
            .requests(RequestFilter::default())
            .await
            .ok()?;
        (open.len() == 1).then_some(())
    })
    .await;
    assert_eq!(stage.file("a.txt"), None);
    reply(&stage, &requests[0], no(None)).await;
    stage.end_of(run).await;
    assert_eq!(stage.file("a.txt"), None);
    let seen = stage.seen("main", 3).await;
    assert!(seen.contains("no subagent of yours waits"), "{seen}");
}

#[tokio::test]
async fn a_parent_answers_its_child_by_its_label() {
    let rules = CHILD_ASKS.replace(r#"request: "{{request}}""#, "id: kid");
    let (stage, run) = started(patient(&rules), "go").await;
    stage.end_of(run).await;
    let kid = stage.run_of("kid").await;
    let record = stage.record(kid).await;
    let answer = record.result().expect("a result");
    assert!(answer.contains("blue"), "{answer}");
}

const SENDS_OUT: &str = r#"
  - when: { agent: main, turn: 1 }
    calls: [{ tool: task, args: { description: looks, prompt: look, subagent_type: explore } }]
  - when: { agent: main, turn: 2 }
    calls: [{ tool: task, args: { description: writes, prompt: write, subagent_type: code } }]
  - when: { agent: main, turn: 3 }
    calls: [{ tool: spawn_subagent, args: { task: again, label: again, agentId: code } }]
  - say: "Done."
"#;

#[tokio::test]
async fn an_agent_that_can_change_something_is_started_with_an_approval() {
    let (stage, run) = started(
        patient(SENDS_OUT).set(|settings| settings.approve_spawn = ApproveSpawn::Changing),
        "send them out",
    )
    .await;
    let requests = open(&stage, 1).await;
    insta::assert_snapshot!(approval(&requests[0]), @r#"main [main] task {"description":"writes","prompt":"write","subagent_type":"code"} because mode: default mode requires an approval to start agent code; or always group:spawn(code)"#);
    let labels = async || {
        let mut labels: Vec<String> = stage
            .records()
            .await
            .into_iter()
            .map(|it| it.label)
            .collect();
        labels.sort();
        labels
    };
    assert_eq!(labels().await, ["looks", "main"], "explore only reads");
    // One grant covers every tool that starts this agent, for the whole session.
    reply(&stage, &requests[0], yes(Some("group:spawn(code)"))).await;
    assert_eq!(stage.end_of(run).await.status, Status::Completed);
    assert_eq!(labels().await, ["again", "looks", "main", "writes"]);
    assert_eq!(open(&stage, 0).await, []);
}

#[tokio::test]
async fn approve_spawn_decides_which_agents_need_an_approval() {
    let check = async |setting: ApproveSpawn, mode: Mode, expected: &[&str]| {
        // Without an approver the calls that need one are denied.
        let stage = Play::new(SENDS_OUT)
            .set(|settings| settings.approve_spawn = setting)
            .begin()
            .await;
        let mut new = stage.new_run("send them out");
        new.mode = mode;
        let run = stage.create(new).await;
        stage.end_of(run).await;
        let mut labels: Vec<String> = stage
            .records()
            .await
            .into_iter()
            .map(|it| it.label)
            .collect();
        labels.sort();
        assert_eq!(labels, expected, "{setting} in {mode} mode");
    };
    let all = ["again", "looks", "main", "writes"];
    check(ApproveSpawn::Never, Mode::Default, &all).await;
    check(ApproveSpawn::Changing, Mode::Default, &["looks", "main"]).await;
    check(ApproveSpawn::Changing, Mode::Yolo, &all).await;
    check(ApproveSpawn::Always, Mode::Default, &["main"]).await;
    check(ApproveSpawn::Always, Mode::Yolo, &all).await;
}
