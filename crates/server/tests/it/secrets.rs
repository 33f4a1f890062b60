//! Tests that no log record contains a token, a cookie or a code.

use std::io::Write;
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::matrix::browser;
use crate::support::{SAYS_DONE, World, answer};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Runs on one thread, so that this test's subscriber receives every log record.
#[tokio::test]
async fn no_secret_is_in_any_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let mut world = World::begin(SAYS_DONE).await;
    let browser = browser(&world, &world.tokens.operator).await;
    let me = browser.on(world.http.get(world.url("/api/me")));
    assert_eq!(answer(me).await.0, 200);
    let made = world
        .json(world.post("/api/keys", &json!({"name": "bot", "role": "viewer"})))
        .await;
    let token = made["token"].as_str().unwrap().to_owned();
    let id = made["key"]["id"].as_str().unwrap().to_owned();
    let rotated = world
        .json(world.post(&format!("/api/keys/{id}/rotate"), &json!({})))
        .await;
    let link = world.json(world.post("/api/login-links", &json!({}))).await;
    let url = link["url"].as_str().unwrap();
    let code = url.split("code=").nth(1).unwrap().to_owned();
    assert_eq!(world.typed(url).send().await.unwrap().status(), 303);
    assert_eq!(world.typed(url).send().await.unwrap().status(), 401);
    assert_eq!(
        answer(world.request(Method::GET, "/api/me", &token))
            .await
            .0,
        401
    );
    world.task(&json!({"message": "x"})).await;
    world.stop().await;
    drop(guard);
    let text = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(
        text.contains("/api/keys/{id}/rotate"),
        "requests are logged: {text}"
    );
    assert!(text.contains(&format!("key {id}")), "and failures, by id");
    // Base64url may contain underscores: the text after the id is the secret.
    let secret = |token: &str| token.splitn(3, '_').nth(2).unwrap().to_owned();
    let secrets = [
        secret(&world.tokens.admin),
        secret(&world.tokens.operator),
        secret(&token),
        secret(rotated["token"].as_str().unwrap()),
        browser.cookie_secret().to_owned(),
        browser.page_key.clone(),
        code,
    ];
    for secret in secrets {
        assert!(secret.len() >= 8, "{secret}");
        assert!(!text.contains(&secret), "a secret is in the log");
    }
}
