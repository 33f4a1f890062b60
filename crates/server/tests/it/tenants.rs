//! Tests that tenants cannot see each other's data.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sortie_core::config::TenantLimits;
use sortie_test_support::stage::{MODEL, Play};

use crate::live::Client;
use crate::support::{SAYS_DONE, World, answer, patient};

fn as_acme(world: &World, method: Method, path: &str) -> RequestBuilder {
    world.request(method, path, &world.tokens.acme_operator)
}

async fn task_of_acme(world: &World, task: Value) -> Value {
    world
        .json(as_acme(world, Method::POST, "/api/tasks").json(&task))
        .await
}

#[tokio::test]
async fn lists_counts_and_sessions_are_limited_to_the_tenant() {
    let world = World::begin(SAYS_DONE).await;
    let theirs = world
        .task(&json!({"message": "secret", "session_id": "web:x", "main": true}))
        .await;
    let mine = task_of_acme(
        &world,
        json!({"message": "mine", "session_id": "web:x", "main": true}),
    )
    .await;
    let id = mine["task_id"].as_str().unwrap();
    assert_eq!(mine["tenant"], "acme");
    world.until_status(id, "completed").await;
    world.until_status(&theirs, "completed").await;
    let look = async |path: &str| world.json(as_acme(&world, Method::GET, path)).await;
    for path in [
        "/api/tasks",
        "/api/tasks?session_id=web:x",
        "/api/tasks?q=e",
        "/api/sessions",
        "/api/sessions/web:x",
        "/api/usage",
        "/api/audit",
    ] {
        let text = look(path).await.to_string();
        assert!(
            !text.contains("secret") && !text.contains(&theirs),
            "{path}: {text}"
        );
    }
    assert_eq!(look("/api/tasks").await.as_array().unwrap().len(), 1);
    assert_eq!(look("/api/tasks/stats").await["total"], 1);
    assert_eq!(look("/api/sessions").await[0]["turns"], 1);
    let state = look("/api/state").await;
    assert_eq!(
        (&state["home"], &state["lanes"], &state["models"]),
        (&json!(""), &json!([]), &json!([]))
    );
    assert_eq!(state["connections"], json!({"websocket": 0, "sse": 0}));
    assert_eq!(look("/api/models").await, json!([]));
    let choices = json!({"default": MODEL, "models": [MODEL, "offline"]});
    assert_eq!(look("/api/models/choices").await, choices, "no load");
    let metrics = as_acme(&world, Method::GET, "/metrics")
        .send()
        .await
        .unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(
        metrics.contains("sortie_tasks{status=\"completed\"} 1"),
        "{metrics}"
    );
    let all = world.json(world.get("/api/tasks")).await;
    assert_eq!(
        all.as_array().unwrap().len(),
        2,
        "who has no tenant sees all"
    );
}

#[tokio::test]
async fn prefix_matches_only_tasks_of_the_tenant() {
    let world = World::begin(SAYS_DONE).await;
    let theirs = world.task(&json!({"message": "x"})).await;
    let mine = task_of_acme(&world, json!({"message": "y"})).await;
    let mine = mine["task_id"].as_str().unwrap();
    // Both were created in the same minute, so their ids share a prefix.
    assert_eq!(mine[..8], theirs[..8]);
    let path = format!("/api/tasks/{}", &mine[..8]);
    let found = world.json(as_acme(&world, Method::GET, &path)).await;
    assert_eq!(found["task_id"], mine);
    let (status, _) = answer(world.get(&path)).await;
    assert_eq!(status, 409, "for others it is ambiguous");
    let path = format!("/api/tasks?parent_id={theirs}");
    assert_eq!(answer(as_acme(&world, Method::GET, &path)).await.0, 404);
    let goes_on = json!({"message": "z", "continues": theirs});
    let request = as_acme(&world, Method::POST, "/api/tasks").json(&goes_on);
    assert_eq!(answer(request).await.0, 404);
}

#[tokio::test]
async fn prefix_matches_old_tasks_among_many() {
    const OTHERS: usize = 1_050;
    let world = World::begin(SAYS_DONE).await;
    world.stage.model().block("others");
    let mine = task_of_acme(&world, json!({"message": "y"})).await;
    let mine = mine["task_id"].as_str().unwrap();
    let prefix = &mine[..35];
    for _ in 0..OTHERS / 50 {
        let made = (0..50).map(|_| {
            let mut new = world.stage.new_task("explore", "others");
            new.tenant = Some("acme".parse().unwrap());
            new.task = format!("look at {prefix}");
            world.stage.create(new)
        });
        futures::future::join_all(made).await;
    }
    for prefix in [
        prefix.to_owned(),
        prefix.to_uppercase(),
        prefix.replace('-', ""),
        mine.replace('-', ""),
    ] {
        let path = format!("/api/tasks/{prefix}");
        let found = world.json(as_acme(&world, Method::GET, &path)).await;
        assert_eq!(found["task_id"], mine, "{prefix}");
    }
    for prefix in [format!("{mine}0"), "-".repeat(9), "0".repeat(9)] {
        let path = format!("/api/tasks/{prefix}");
        let (status, _) = answer(as_acme(&world, Method::GET, &path)).await;
        assert_eq!(status, 404, "{prefix}");
    }
}

#[tokio::test]
async fn a_tenant_works_in_a_folder_of_its_own() {
    let world = World::begin(SAYS_DONE).await;
    let task = task_of_acme(&world, json!({"message": "x"})).await;
    let id = task["task_id"].as_str().unwrap();
    let detail = world.until_status(id, "completed").await;
    let own = world
        .home
        .path()
        .join("tenants/acme")
        .canonicalize()
        .unwrap();
    assert_eq!(detail["workspace"], own.to_str().unwrap());
    for token in [&world.tokens.acme, &world.tokens.acme_operator] {
        let elsewhere = json!({"message": "x", "workspace": world.stage.workspace()});
        let request = world
            .request(Method::POST, "/api/tasks", token)
            .json(&elsewhere);
        assert_eq!(answer(request).await.0, 403, "an admin of a tenant too");
    }
}

#[tokio::test]
async fn live_events_are_limited_to_the_tenant() {
    let world = World::begin(SAYS_DONE).await;
    world.stage.model().block("theirs");
    let theirs = world
        .task(&json!({"message": "x", "label": "theirs"}))
        .await;
    world.stage.until_prompted("theirs", 1).await;
    let (mut client, hello) = Client::connect(&world, &world.tokens.acme).await;
    assert_eq!(hello["me"]["tenant"], "acme");
    client.subscribe(json!({"text": true})).await;
    let snapshot = client.next().await;
    assert_eq!(snapshot["tasks"], json!([]), "{snapshot}");
    world.stage.model().release("theirs");
    world.until_status(&theirs, "completed").await;
    let mine = task_of_acme(&world, json!({"message": "y"})).await;
    loop {
        let message = client.next().await;
        assert!(!message.to_string().contains(&theirs), "{message}");
        if message["type"] == "completed" {
            assert_eq!(message["task_id"], mine["task_id"]);
            break;
        }
    }
    let subscribe = json!({"type": "subscribe", "id": "t", "scope": "task", "task_id": theirs});
    client.send(&subscribe).await;
    assert_eq!(client.until("error").await["code"], "not-found");
}

#[tokio::test]
async fn a_quota_is_refused_with_its_value_and_when_it_resets() {
    let play = Play::new(SAYS_DONE).set(|settings| {
        let limits = TenantLimits {
            weight: Some(300),
            usd_per_month: Some(0.0),
            ..TenantLimits::default()
        };
        settings
            .tenants
            .named
            .insert("acme".parse().unwrap(), limits);
    });
    let world = World::of(play, patient()).await;
    let request = as_acme(&world, Method::POST, "/api/tasks").json(&json!({"message": "t"}));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 429);
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["type"], "urn:sortie:problem:quota-reached");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("usd_per_month = 0.00"), "{detail}");
    let resets_at = problem["resets_at"].as_str().unwrap();
    assert!(resets_at.ends_with("-01T00:00:00.000Z"), "{resets_at}");
    // Others are not limited, and do not see the tenant's quotas.
    let theirs = world.task(&json!({"message": "t"})).await;
    world.until_status(&theirs, "completed").await;
    let state = world
        .json(as_acme(&world, Method::GET, "/api/tenants"))
        .await;
    assert_eq!(state.as_array().unwrap().len(), 1);
    assert_eq!(
        (&state[0]["tenant"], &state[0]["weight"]),
        (&json!("acme"), &json!(300))
    );
    let quotas = state[0]["quotas"].as_array().unwrap();
    let money = quotas
        .iter()
        .find(|quota| quota["quota"] == "usd_per_month");
    assert_eq!(money.unwrap()["limit"], 0.0);
}

#[tokio::test]
async fn usage_is_exported_as_json_and_csv_for_the_own_tenant() {
    let world = World::begin(SAYS_DONE).await;
    let theirs = world.task(&json!({"message": "t"})).await;
    world.until_status(&theirs, "completed").await;
    let mine = task_of_acme(&world, json!({"message": "mine"})).await;
    world
        .until_status(mine["task_id"].as_str().unwrap(), "completed")
        .await;
    let path = "/api/usage/export?by=tenant,day";
    let own = world.json(as_acme(&world, Method::GET, path)).await;
    assert_eq!(own.as_array().unwrap().len(), 1);
    assert_eq!(
        (&own[0]["tenant"], &own[0]["tasks"]),
        (&json!("acme"), &json!(1))
    );
    assert!(own[0].get("agent").is_none());
    let request = as_acme(&world, Method::GET, &format!("{path}&format=csv"));
    let response = request.send().await.unwrap();
    assert_eq!(
        response.headers()["content-type"],
        "text/csv; charset=utf-8"
    );
    let csv = response.text().await.unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert!(lines[0].starts_with("tenant,day,tasks,"), "{csv}");
    let day = own[0]["day"].as_str().unwrap();
    assert!(lines[1].starts_with(&format!("acme,{day},1,")), "{csv}");
    let all = world.request(Method::GET, "/api/usage/export", &world.tokens.admin);
    assert_eq!(world.json(all).await.as_array().unwrap().len(), 2);
    for bad in ["by=week", "since=1", "until=2000-01-01"] {
        let path = format!("/api/usage/export?{bad}");
        let response = as_acme(&world, Method::GET, &path).send().await.unwrap();
        assert_eq!(response.status(), 400, "{bad}");
    }
}
