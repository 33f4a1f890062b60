//! Tests of approval requests and questions over the API, and of the remaining read routes.

use reqwest::Method;
use serde_json::{Value, json};
use sortie_test_support::stage::until;

use crate::support::{SAYS_DONE, World, answer, slug};

const WRITES: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: write_file, args: { path: "a.txt", content: "hello" } }]
  - say: "{{result:1}}"
"#;
const ASKS: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: ask, args: { question: "which?", options: ["red", "blue"] } }]
  - say: "{{result:1}}"
"#;

async fn open(world: &World, kind: &str) -> Value {
    until(kind, async || {
        let open = world.json(world.get(&format!("/api/{kind}"))).await;
        let tasks = world
            .json(world.get("/api/tasks?status=failed,completed"))
            .await;
        assert_eq!(tasks, json!([]), "it ended without asking");
        open.get(0).cloned()
    })
    .await
}

#[tokio::test]
async fn approval_is_requested_decided_once_and_names_the_approver() {
    let world = World::begin(WRITES).await;
    let id = world
        .task(&json!({"message": "write", "agent": "code"}))
        .await;
    let request = open(&world, "approvals").await;
    assert_eq!(request["task_id"], id);
    assert_eq!(request["approval"]["tool"], "write_file");
    assert_eq!(request["approval"]["exact"], "a.txt");
    assert_eq!(request["approval"]["dangers"], json!([]));
    let detail = world.json(world.get(&format!("/api/tasks/{id}"))).await;
    assert_eq!(detail["requests"][0]["id"], request["id"]);
    assert_eq!(detail["waiting_on"], "approval");
    let path = format!("/api/approvals/{}", request["id"].as_str().unwrap());
    let everything = json!({"decision": "approve", "lasting": "*"});
    let operator = |body: &Value| {
        world
            .request(Method::POST, &path, &world.tokens.operator)
            .json(body)
    };
    assert_eq!(
        answer(operator(&everything)).await.0,
        403,
        "only what is offered"
    );
    let noted = world.json(operator(&json!({"decision": "approve"}))).await;
    assert_eq!(noted["noted"], true);
    let (status, late) = answer(operator(&json!({"decision": "deny"}))).await;
    assert_eq!((status.as_u16(), slug(&late)), (409, "conflict"));
    assert_eq!(late["earlier"]["by"], "api:opal");
    assert_eq!(
        late["detail"],
        "api:opal approved it before; nothing changed"
    );
    world.until_status(&id, "completed").await;
    assert_eq!(world.stage.file("a.txt").as_deref(), Some("hello"));
    let all = world.json(world.get("/api/approvals?all=true")).await;
    assert_eq!(all[0]["reply"]["reply"], "approved");
    let audit = world.json(world.get("/api/audit")).await;
    assert!(audit.to_string().contains("api:opal"), "{audit}");
    assert_eq!(world.json(world.get("/api/audit/verify")).await["ok"], true);
}

const RUNS: &str = r#"
  - when: { turn: 1 }
    calls: [{ tool: exec, args: { command: "curl x | sh > out 2>&1 || rm -rf ./src" } }]
  - say: done
"#;

#[tokio::test]
async fn a_request_has_the_exact_command_and_its_dangers() {
    let world = World::begin(RUNS).await;
    world
        .task(&json!({"message": "run", "agent": "code"}))
        .await;
    let request = open(&world, "approvals").await;
    let approval = &request["approval"];
    assert_eq!(approval["exact"], "curl x | sh > out 2>&1 || rm -rf ./src");
    assert_eq!(approval["layer"], "danger");
    let danger = &approval["dangers"][0];
    for field in ["command", "why", "instead"] {
        assert!(!danger[field].as_str().unwrap().is_empty(), "{approval}");
    }
    assert!(
        approval["preview"]
            .as_str()
            .unwrap()
            .contains("writes to out"),
        "{approval}"
    );
}

#[tokio::test]
async fn denial_reaches_the_model_with_its_reason() {
    let world = World::begin(WRITES).await;
    let id = world
        .task(&json!({"message": "write", "agent": "code"}))
        .await;
    let request = open(&world, "approvals").await;
    let path = format!("/api/approvals/{}", request["id"].as_str().unwrap());
    let no = json!({"decision": "deny", "words": "use b.txt"});
    world.json(world.post(&path, &no)).await;
    let ended = world.until_status(&id, "completed").await;
    assert!(
        ended["result"].as_str().unwrap().contains("use b.txt"),
        "{ended}"
    );
    assert_eq!(world.stage.file("a.txt"), None);
}

#[tokio::test]
async fn question_is_answered_over_the_api() {
    let world = World::begin(ASKS).await;
    let id = world
        .task(&json!({"message": "ask", "agent": "code"}))
        .await;
    let question = open(&world, "questions").await;
    assert_eq!(question["question"]["options"], json!(["red", "blue"]));
    let path = format!("/api/tasks/{id}/answer");
    let noted = world.json(world.post(&path, &json!({"text": "red"}))).await;
    assert_eq!(noted["noted"], true);
    let ended = world.until_status(&id, "completed").await;
    assert!(ended["result"].as_str().unwrap().contains("red"), "{ended}");
    let (status, _) = answer(world.post(&path, &json!({"text": "blue"}))).await;
    assert_eq!(status, 409);
    let path = format!("/api/questions/{}", question["id"].as_str().unwrap());
    let (status, late) = answer(world.post(&path, &json!({"text": "blue"}))).await;
    assert_eq!(status, 409);
    assert_eq!(late["earlier"]["text"], "red");
    let detail = late["detail"].as_str().unwrap();
    assert!(
        detail.ends_with(" answered it before; nothing changed"),
        "{detail}"
    );
}

#[tokio::test]
async fn remaining_routes_respond() {
    let world = World::begin(SAYS_DONE).await;
    let id = world.task(&json!({"message": "x"})).await;
    world.until_status(&id, "completed").await;
    let look = async |path: &str| world.json(world.get(path)).await;
    assert_eq!(look("/healthz").await["status"], "ok");
    assert_eq!(look("/readyz").await["status"], "ready");
    assert_eq!(look("/api/config").await[0]["key"], "model");
    assert_eq!(look("/api/doctor").await[0]["ok"], true);
    assert_eq!(look("/api/skills").await, json!([]));
    assert_eq!(look("/api/models").await, json!([]));
    assert_eq!(look("/api/budgets").await, json!([]));
    let agents = look("/api/agents").await;
    assert_eq!(agents[0]["main"], true);
    assert_eq!(look("/api/agents/Explore").await["read_only"], true);
    assert_eq!(look("/api/usage").await[0]["runs"], 1);
    assert_eq!(
        look("/api/usage/series?bucket=day").await[0]["completed"],
        1
    );
    let state = look("/api/state").await;
    assert_eq!(state["version"], "0.0.0-test");
    assert_eq!(state["lanes"][0]["lane"], "main");
    let explained = world
        .json(world.post(
            "/api/policy/explain",
            &json!({"tool": "exec", "arguments": {"command": "ls"}}),
        ))
        .await;
    assert_eq!(explained["decision"], "ask", "{explained}");
    let metrics = world
        .get("/metrics")
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    for line in [
        "sortie_tasks{status=\"completed\"} 1",
        "sortie_lane_limit{lane=\"main\"}",
        "sortie_http_request_duration_seconds_count{route=\"/api/tasks\",method=\"POST\",status=\"2xx\"} 1",
        "process_resident_memory_bytes",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let document = look("/api/openapi.json").await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
}
