//! Tests of servers on the network, which is loopback here.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::any;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use sortie_fetch::{Allow, Guard, HostRule};
use sortie_mcp::ServerState;
use tokio::net::TcpListener;

use crate::server::TestServer;
use crate::support::{SECRET, Stage, run, tool};

/// Serves on a free port; returns the address of its MCP endpoint and a guard that allows it.
async fn serve(router: Router) -> (String, Guard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let allow = Allow {
        hosts: vec![HostRule::exact("127.0.0.1", port).unwrap()],
        ..Allow::default()
    };
    (
        format!("http://127.0.0.1:{port}/mcp"),
        Guard::new(allow).unwrap(),
    )
}

fn router(behaviour: &str, stage: &Stage) -> Router {
    let server = TestServer::new(behaviour, stage.path());
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    Router::new().nest_service("/mcp", service)
}

/// The response of a server that answers every request in one way.
trait Answer: Fn(&HeaderMap) -> Response<Body> + Clone + Send + Sync + 'static {}

impl<F: Fn(&HeaderMap) -> Response<Body> + Clone + Send + Sync + 'static> Answer for F {}

/// Returns a server that answers every request in one way.
fn stubborn(answer: impl Answer) -> Router {
    Router::new().fallback(any(
        move |headers: HeaderMap| async move { answer(&headers) },
    ))
}

fn settings(url: &str) -> Value {
    json!({
        "type": "http",
        "url": format!("{url}?token=${{KEY}}"),
        "headers": { "Authorization": "Bearer ${KEY}" },
        "startup_timeout_seconds": 10,
    })
}

#[tokio::test]
async fn a_server_on_the_network_is_used_like_any_other() {
    let stage = Stage::new();
    let (url, guard) = serve(router("plain", &stage)).await;
    let pool = stage.pool(&settings(&url), Some(guard));
    let report = pool.list_tools().await.remove(0);
    assert_eq!(
        (&report.state, report.tools.len()),
        (&ServerState::Ready, 4)
    );
    let answer = run(&*tool(&pool, "act"), json!({ "a": 1 })).await.unwrap();
    assert!(
        answer.text.contains(r#""arguments":{"a":1}"#),
        "{}",
        answer.text
    );
    pool.shut_down().await;
}

#[tokio::test]
async fn a_large_answer_of_the_network_is_bounded() {
    let stage = Stage::new();
    let (url, guard) = serve(router("huge", &stage)).await;
    let pool = stage.pool(&settings(&url), Some(guard));
    pool.list_tools().await;
    let answer = run(&*tool(&pool, "act"), json!({})).await.unwrap();
    assert!(answer.text.contains("[left out: 1951424 more bytes]"));
}

/// Checks that a server with this response is unavailable, with this message and without secrets.
async fn check(answer: impl Answer, expected: &str) {
    let stage = Stage::new();
    let (url, guard) = serve(stubborn(answer)).await;
    let pool = stage.pool(&settings(&url), Some(guard));
    let report = pool.list_tools().await.remove(0);
    let text = format!("{report:?} {pool:?}");
    assert!(text.contains(expected), "{text}\nexpected {expected}");
    assert!(!text.contains(SECRET), "{text}");
}

fn respond(status: StatusCode, header: (&str, &str), body: impl Into<Body>) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .header(header.0, header.1);
    response.body(body.into()).unwrap()
}

#[tokio::test]
async fn error_responses_are_reported_without_secrets() {
    check(
        |headers| {
            let body = format!(
                "bad token: {:?}",
                headers.get("authorization").map(|value| value.to_str())
            );
            respond(
                StatusCode::UNAUTHORIZED,
                ("content-type", "text/plain"),
                body,
            )
        },
        "check the credentials in its `headers`: bad token: Some(Ok(\\\"[redacted]",
    )
    .await;
    check(
        |_| {
            respond(
                StatusCode::INTERNAL_SERVER_ERROR,
                ("content-type", "text/html"),
                "<h1>oh</h1>",
            )
        },
        "HTTP 500 Internal Server Error: <h1>oh</h1>",
    )
    .await;
    check(
        |_| {
            respond(
                StatusCode::OK,
                ("content-type", "text/html"),
                "<h1>welcome</h1>",
            )
        },
        "its response is not MCP: <h1>welcome</h1>",
    )
    .await;
    check(
        |_| {
            let endless =
                futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1024 * 1024]));
            respond(
                StatusCode::OK,
                ("content-type", "application/json"),
                Body::from_stream(endless),
            )
        },
        "its response is larger than",
    )
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let private = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}/latest/", private.local_addr().unwrap());
    let answer =
        move |_: &HeaderMap| respond(StatusCode::TEMPORARY_REDIRECT, ("location", &target), "");
    tokio::select! {
        () = check(answer, "redirects are not followed") => {}
        visitor = private.accept() => panic!("{visitor:?}"),
    }
}

/// A hand-written server that implements the protocol only partly.
async fn rough(headers: HeaderMap, body: String) -> Response<Body> {
    let request: Value = serde_json::from_str(&body).unwrap_or_default();
    let id = &request["id"];
    if id.is_null() {
        return respond(StatusCode::ACCEPTED, ("x", "y"), "");
    }
    let modern = headers.contains_key("x-modern");
    let info = json!({ "name": "rough", "version": "0" });
    let tools = json!([
        { "name": "act", "inputSchema": {} },
        { "name": "no schema" },
        { "name": 3, "inputSchema": {} },
    ]);
    let (key, value) = match request["method"].as_str().unwrap() {
        "initialize" if modern => (
            "error",
            json!({ "code": -32601, "message": "unknown method" }),
        ),
        "initialize" => (
            "result",
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": info }),
        ),
        "server/discover" => (
            "result",
            json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {} }, "serverInfo": info, "ttlMs": 0, "cacheScope": "private",
            }),
        ),
        "tools/list" => ("result", json!({ "tools": tools })),
        _ => (
            "result",
            json!({ "content": [{ "type": "hologram", "light": 1 }] }),
        ),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": id, key: value }).to_string();
    respond(StatusCode::OK, ("content-type", "application/json"), answer)
}

#[tokio::test]
async fn a_listing_that_violates_the_protocol_is_read_as_far_as_possible() {
    for modern in [false, true] {
        let stage = Stage::new();
        let (url, guard) = serve(Router::new().fallback(any(rough))).await;
        let mut server = settings(&url);
        if modern {
            server["headers"]["X-Modern"] = json!("yes");
        }
        let pool = stage.pool(&server, Some(guard));
        let report = pool.list_tools().await.remove(0);
        let names: Vec<&str> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["mcp__srv__act"], "{report:?}");
        let failure = run(&*tool(&pool, "act"), json!({})).await.unwrap_err();
        assert!(
            failure.contains("does not follow the protocol"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_server_that_the_guard_refuses_is_unavailable() {
    let stage = Stage::new();
    let (url, _) = serve(router("plain", &stage)).await;
    let guard = Guard::new(Allow::default()).unwrap();
    let pool = stage.pool(&settings(&url), Some(guard));
    let report = pool.list_tools().await.remove(0);
    let text = format!("{:?}", report.state);
    assert!(text.contains("127.0.0.1"), "{text}");
    assert!(
        matches!(report.state, ServerState::Unavailable(_)),
        "{text}"
    );
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn configured_headers_cannot_replace_those_of_the_protocol() {
    let stage = Stage::new();
    let mut server = settings("http://127.0.0.1:1/mcp");
    server["headers"] = json!({ "Mcp-Session-Id": "x" });
    let pool = stage.pool(&server, Some(Guard::new(Allow::default()).unwrap()));
    let report = pool.list_tools().await.remove(0);
    assert!(
        format!("{:?}", report.state).contains("set by the protocol"),
        "{:?}",
        report.state
    );
}
