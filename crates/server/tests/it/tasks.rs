//! Tests of tasks over the API: creation, lists, views, changes and deletion.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::{Method, header};
use serde_json::{Value, json};
use sortie_test_support::stage::Play;

use crate::support::{SAYS_DONE, World, answer, patient, slug};

const LISTS_A_FOLDER: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: list_dir, args: { path: "." } }]
  - say: "looked"
"#;

#[tokio::test]
async fn task_is_created_ends_and_has_all_views() {
    let world = World::begin(LISTS_A_FOLDER).await;
    let input = json!({"message": "look around", "label": "look", "agent": "explore",
        "session_id": "web:1", "priority": "high", "budget": {"tokens": 100_000}});
    let response = world.post("/api/tasks", &input).send().await.unwrap();
    assert_eq!(response.status(), 201);
    let place = response.headers()[header::LOCATION]
        .to_str()
        .unwrap()
        .to_owned();
    let task: Value = response.json().await.unwrap();
    let id = task["task_id"].as_str().unwrap();
    assert_eq!(place, format!("/api/tasks/{id}"));
    assert_eq!(task["priority"], "high");
    let done = world.until_status(id, "completed").await;
    assert_eq!(done["result"], "looked");
    assert_eq!(done["workspace"], world.stage.workspace().to_str().unwrap());
    assert_eq!(done["mode"], "default");
    assert_eq!(done["budget"][0]["kind"], "tokens");
    let look = async |view: &str| {
        world
            .json(world.get(&format!("/api/tasks/{id}/{view}")))
            .await
    };
    assert_eq!(look("result").await["result"], "looked");
    let transcript = look("transcript").await;
    let kinds: Vec<&str> = transcript
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["user", "call", "result", "assistant", "finished"]);
    assert_eq!(transcript[1]["call"]["name"], "list_dir");
    assert_eq!(transcript[2]["result"]["ruling"]["decision"], "allow");
    let events = look("events").await;
    assert_eq!(events[0]["event"], "admitted");
    assert_eq!(
        events.as_array().unwrap().last().unwrap()["event"],
        "finished"
    );
    let after = look("events?after=1").await;
    assert_eq!(
        after.as_array().unwrap().len(),
        events.as_array().unwrap().len() - 1
    );
    assert_eq!(look("tree").await[0]["task_id"], id);
    assert_eq!(look("timeline").await["tasks"][0]["label"], "look");
    let report = look("report").await;
    assert_eq!(report["tasks"][0]["tool_calls"], 1);
    assert_eq!(report["estimate"]["payoff"], "no_children");
    assert_eq!(look("policy").await["mode"], "default");
    assert_eq!(look("audit").await[0]["tool"], "list_dir");
    let short = world
        .json(world.get(&format!("/api/tasks/{}", &id[..13])))
        .await;
    assert_eq!(short["task_id"], id);
    let fork = format!("/api/tasks/{id}/fork");
    let fork = world.json(world.post(&fork, &json!({"at": 1}))).await;
    let branch = fork["task_id"].as_str().unwrap();
    let ended = world.until_status(branch, "completed").await;
    assert_eq!(ended["result"], "looked");
    let delete = format!("/api/tasks/{branch}");
    let delete = world.request(Method::DELETE, &delete, &world.tokens.admin);
    world.json(delete).await;
    let stats = world.json(world.get("/api/tasks/stats")).await;
    assert_eq!(
        (&stats["total"], &stats["completed"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn session_id_without_a_colon_belongs_to_the_channel_api() {
    let world = World::begin(SAYS_DONE).await;
    let id = world
        .task(&json!({"message": "x", "session_id": "family"}))
        .await;
    let task = world.json(world.get(&format!("/api/tasks/{id}"))).await;
    assert_eq!(task["session_id"], "api:family");
    for session in ["family", "api:family"] {
        let list = format!("/api/tasks?session_id={session}");
        assert_eq!(world.json(world.get(&list)).await[0]["task_id"], id);
    }
    let (status, problem) = answer(world.get("/api/tasks?session_id=:family")).await;
    assert_eq!((status.as_u16(), slug(&problem)), (400, "bad-request"));
}

#[tokio::test]
async fn stats_count_archived_tasks_and_respect_the_session() {
    let archives_at_once = Play::new(SAYS_DONE).set(|set| set.archive_after = Some(Duration::ZERO));
    let world = World::of(archives_at_once, patient()).await;
    for session in ["family", "web:1", "web:1"] {
        let id = world
            .task(&json!({"message": "x", "session_id": session}))
            .await;
        world.until_status(&id, "completed").await;
    }
    // Tasks are archived at the start of the next process.
    let world = world.restart().await;
    world
        .stage
        .until("all tasks are archived", async || {
            let list = world.json(world.get("/api/tasks")).await;
            list.as_array().unwrap().is_empty().then_some(())
        })
        .await;
    let total = async |query: &str| {
        let stats = world
            .json(world.get(&format!("/api/tasks/stats{query}")))
            .await;
        assert_eq!(stats["total"], stats["completed"], "{stats}");
        stats["total"].as_u64().unwrap()
    };
    assert_eq!(total("").await, 3);
    assert_eq!(total("?session_id=web:1").await, 2);
    assert_eq!(total("?session_id=family").await, 1);
    assert_eq!(total("?session_id=web:2").await, 0);
}

#[tokio::test]
async fn a_running_task_is_steered_paused_resumed_cancelled_and_deleted() {
    let world = World::begin(LISTS_A_FOLDER).await;
    world.stage.model().block("slow");
    let id = world.task(&json!({"message": "x", "label": "slow"})).await;
    world.stage.until_prompted("slow", 1).await;
    let act = async |what: &str, body: Value| {
        answer(world.post(&format!("/api/tasks/{id}/{what}"), &body)).await
    };
    let (status, _) = act("steer", json!({"text": "quickly"})).await;
    assert_eq!(status, 202);
    let (status, paused) = act("pause", json!({})).await;
    assert_eq!((status.as_u16(), &paused["paused"]), (200, &json!(true)));
    let (status, resumed) = act("resume", json!({})).await;
    assert_eq!((status.as_u16(), &resumed["paused"]), (200, &json!(false)));
    let (status, cancelled) = act("cancel", json!({"reason": "enough"})).await;
    assert_eq!(
        (status.as_u16(), &cancelled["cancelled"]),
        (200, &json!([id]))
    );
    let ended = world.until_status(&id, "cancelled").await;
    assert!(
        ended["error"]
            .as_str()
            .unwrap()
            .contains("enough (api:local)"),
        "it says who: {ended}"
    );
    let (status, again) = act("cancel", json!({})).await;
    assert_eq!(
        (status.as_u16(), &again["already_ended"]),
        (200, &json!("cancelled"))
    );
    let (status, refused) = act("pause", json!({})).await;
    assert_eq!((status.as_u16(), slug(&refused)), (409, "conflict"));
    world.stage.model().release("slow");
    let (status, retried) = act("retry", json!({})).await;
    assert_eq!(status, 201);
    let second = retried["task_id"].as_str().unwrap();
    assert_ne!(second, id);
    world.until_status(second, "completed").await;
    let delete = world.request(
        Method::DELETE,
        &format!("/api/tasks/{id}"),
        &world.tokens.operator,
    );
    assert_eq!(world.json(delete).await["deleted"], 1);
    let (status, gone) = answer(world.get(&format!("/api/tasks/{id}"))).await;
    assert_eq!((status.as_u16(), slug(&gone)), (404, "not-found"));
}

#[tokio::test]
async fn invalid_requests_get_problems_and_never_5xx() {
    let world = World::begin(SAYS_DONE).await;
    let check = async |request: reqwest::RequestBuilder, status: u16, expected: &str| {
        let response = request.send().await.unwrap();
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "application/problem+json",
            "{expected}"
        );
        let found = response.status().as_u16();
        let problem: Value = response.json().await.unwrap();
        assert_eq!((found, slug(&problem)), (status, expected), "{problem}");
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        assert_eq!(problem["status"], status);
    };
    let tasks = "/api/tasks";
    check(
        world.post(tasks, &json!({"message": ""})),
        400,
        "bad-request",
    )
    .await;
    check(
        world.post(tasks, &json!({"massage": "x"})),
        400,
        "bad-request",
    )
    .await;
    check(
        world.post(tasks, &json!({"message": "x", "agent": "nobody"})),
        400,
        "bad-request",
    )
    .await;
    check(
        world.post(tasks, &json!({"message": "x", "session_id": "y:"})),
        400,
        "bad-request",
    )
    .await;
    let relative = json!({"message": "x", "workspace": "here"});
    check(world.post(tasks, &relative), 400, "bad-request").await;
    let missing = json!({"message": "x", "workspace": "/does/not/exist"});
    check(world.post(tasks, &missing), 400, "bad-request").await;
    check(world.get("/api/tasks?status=done"), 400, "bad-request").await;
    check(world.get("/api/tasks?limt=1"), 400, "bad-request").await;
    check(world.get("/api/tasks?cursor=x"), 400, "bad-request").await;
    check(world.get("/api/tasks?limit=1001"), 400, "bad-request").await;
    for after in ["-1", "9223372036854775808"] {
        let audit = format!("/api/audit?after={after}");
        check(world.get(&audit), 400, "bad-request").await;
    }
    check(world.post(tasks, &json!(["x"])), 400, "bad-request").await;
    let list = world.post("/api/login-links", &json!([]));
    check(list, 400, "bad-request").await;
    let forever = json!({"name": "x", "role": "viewer", "expires_seconds": u64::MAX});
    check(world.post("/api/keys", &forever), 400, "bad-request").await;
    check(world.get("/api/tasks/%FF"), 400, "bad-request").await;
    check(world.get("/api/tasks/abc"), 404, "not-found").await;
    check(world.get("/api/tasks/not-hex-at-all"), 404, "not-found").await;
    check(world.get("/api/sessions/web:none"), 404, "not-found").await;
    check(world.get("/api/agents/nobody"), 404, "not-found").await;
    check(
        world.get("/api/usage/series?bucket=hour&since=1999-01-01T00:00:00Z"),
        400,
        "bad-request",
    )
    .await;
    check(world.get("/api/ws"), 400, "bad-request").await;
    for method in [Method::PUT, Method::TRACE, Method::OPTIONS] {
        let request = || world.request(method.clone(), tasks, &world.tokens.admin);
        check(request(), 405, "method-not-allowed").await;
        let response = request().send().await.unwrap();
        let allowed = response.headers()[header::ALLOW].to_str().unwrap();
        assert!(
            allowed.contains("GET") && allowed.contains("POST"),
            "{allowed}"
        );
    }
    let text = world
        .request(Method::POST, tasks, &world.tokens.admin)
        .body("{\"message\":\"x\"}");
    check(text, 415, "unsupported-media-type").await;
    let deep = format!(
        "{{\"message\":\"x\",\"result_schema\":{}{}}}",
        "[".repeat(80),
        "]".repeat(80)
    );
    let deep = world
        .request(Method::POST, tasks, &world.tokens.admin)
        .header(header::CONTENT_TYPE, "application/json")
        .body(deep);
    check(deep, 400, "bad-request").await;
    let large = json!({"text": "x".repeat(1_100_000)});
    let id = world.task(&json!({"message": "x"})).await;
    check(
        world.post(&format!("/api/tasks/{id}/steer"), &large),
        413,
        "too-large",
    )
    .await;
    let larger = json!({"message": "x".repeat(4_200_000)});
    check(world.post(tasks, &larger), 413, "too-large").await;
}

#[tokio::test]
async fn operators_are_limited_to_allowed_folders_and_modes() {
    let world = World::begin(SAYS_DONE).await;
    let outside = tempfile::TempDir::new().unwrap();
    let inside = world.stage.workspace().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let sly = world.stage.workspace().join("sly");
    std::os::unix::fs::symlink(outside.path(), &sly).unwrap();
    let sibling = format!("{}-sibling", world.stage.workspace().display());
    std::fs::create_dir(&sibling).unwrap();
    let check = async |token: &str, more: Value, expected: u16| {
        let mut body = json!({"message": "x"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let request = world.request(Method::POST, "/api/tasks", token).json(&body);
        let (status, problem) = answer(request).await;
        assert_eq!(status, expected, "{more}: {problem}");
    };
    let (admin, operator) = (&world.tokens.admin, &world.tokens.operator);
    check(operator, json!({}), 201).await;
    check(operator, json!({"workspace": inside}), 201).await;
    check(operator, json!({"workspace": outside.path()}), 403).await;
    check(operator, json!({"workspace": sly}), 403).await;
    check(operator, json!({"workspace": sibling}), 403).await;
    check(operator, json!({"workspace": "/does/not/exist"}), 403).await;
    check(admin, json!({"workspace": outside.path()}), 201).await;
    for mode in ["default", "plan", "dont-ask"] {
        check(operator, json!({"mode": mode}), 201).await;
    }
    for mode in ["accept-edits", "yolo"] {
        check(operator, json!({"mode": mode}), 403).await;
        check(admin, json!({"mode": mode}), 201).await;
    }
    let report = json!({"report_to": [format!("file:{}/r", outside.path().display())]});
    check(operator, report.clone(), 403).await;
    check(&world.tokens.acme, report.clone(), 403).await;
    check(admin, report, 201).await;
    check(operator, json!({"model": "script:/etc/passwd"}), 403).await;
    check(operator, json!({"fallbacks": ["replay:/etc"]}), 403).await;
    std::fs::remove_dir(&sibling).unwrap();
}

#[tokio::test]
async fn paging_gives_each_task_once_while_new_ones_arrive() {
    const TASKS: usize = 2_500;
    let world = World::begin(SAYS_DONE).await;
    // The tasks are not executed: the test is about the store, and stays fast.
    world.stage.model().block("page");
    let mut expected = BTreeSet::new();
    for chunk in 0..TASKS / 100 {
        let made = (0..100).map(|_| {
            let mut new = world.stage.new_task("explore", "page");
            new.task = format!("chunk {chunk}");
            world.stage.create(new)
        });
        let made = futures::future::join_all(made).await;
        expected.extend(made.iter().map(ToString::to_string));
    }
    let mut seen = BTreeSet::new();
    let mut path = "/api/tasks?limit=200&summary=true".to_owned();
    loop {
        let response = world.get(&path).send().await.unwrap();
        let link = response.headers().get(header::LINK).cloned();
        let tasks: Value = response.json().await.unwrap();
        for task in tasks.as_array().unwrap() {
            let id = task["task_id"].as_str().unwrap().to_owned();
            assert!(seen.insert(id.clone()), "{id} came twice");
        }
        world
            .stage
            .create(world.stage.new_task("explore", "page"))
            .await;
        let Some(link) = link else { break };
        let link = link.to_str().unwrap();
        assert!(link.ends_with(">; rel=\"next\""), "{link}");
        path = link[1..].split('>').next().unwrap().to_owned();
    }
    assert!(expected.is_subset(&seen), "{} of {TASKS}", seen.len());
}
