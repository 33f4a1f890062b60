//! How people and programs come in, and how they are kept out.

use std::os::unix::fs::PermissionsExt as _;

use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::matrix::cookie;
use crate::support::{SAYS_DONE, World, answer, slug};

#[tokio::test]
async fn the_first_start_leaves_a_token_that_only_its_owner_reads() {
    let world = World::begin(SAYS_DONE).await;
    for name in ["token", "keys.json"] {
        let file = world.home.path().join(name);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let kept = std::fs::read_to_string(world.home.path().join("keys.json")).unwrap();
    let secret = world.tokens.admin.splitn(3, '_').nth(2).unwrap();
    assert!(!kept.contains(secret), "only hashes are kept");
    let token = std::fs::read_to_string(world.home.path().join("token")).unwrap();
    assert_eq!(token, world.tokens.admin);
    let me = world.json(world.get("/api/me")).await;
    assert_eq!(
        (&me["name"], &me["role"], &me["via"]),
        (&json!("local"), &json!("admin"), &json!("key"))
    );
}

#[tokio::test]
async fn a_rotated_key_holds_for_its_grace_and_a_revoked_one_not_at_all() {
    let world = World::begin(SAYS_DONE).await;
    let made = world
        .json(world.post("/api/keys", &json!({"name": "bot", "role": "operator"})))
        .await;
    let id = made["key"]["id"].as_str().unwrap();
    let old = made["token"].as_str().unwrap();
    let works = async |token: &str| {
        let (status, _) = answer(world.request(Method::GET, "/api/me", token)).await;
        status.is_success()
    };
    assert!(works(old).await);
    let rotate = format!("/api/keys/{id}/rotate");
    let rotated = world
        .json(world.post(&rotate, &json!({"grace_seconds": 3600})))
        .await;
    let new = rotated["token"].as_str().unwrap();
    assert!(works(new).await, "the new one at once");
    assert!(works(old).await, "the old one for a while");
    let again = world.json(world.post(&rotate, &json!({}))).await;
    let newest = again["token"].as_str().unwrap();
    assert!(works(newest).await);
    assert!(!works(new).await, "without grace the old one is over");
    assert!(!works(old).await, "and so is the one before");
    let listed = world.json(world.get("/api/keys")).await.to_string();
    assert!(!listed.contains("hash") && !listed.contains(newest));
    let revoke = world.request(
        Method::DELETE,
        &format!("/api/keys/{id}"),
        &world.tokens.admin,
    );
    assert_eq!(world.json(revoke).await["id"], id);
    assert!(!works(newest).await);
}

#[tokio::test]
async fn a_key_can_end_by_itself_and_no_key_makes_one_that_may_more() {
    let world = World::begin(SAYS_DONE).await;
    let wish = json!({"name": "short", "role": "admin", "expires_seconds": 0});
    let made = world.json(world.post("/api/keys", &wish)).await;
    let token = made["token"].as_str().unwrap();
    assert_eq!(
        answer(world.request(Method::GET, "/api/me", token)).await.0,
        401
    );
    let acme = &world.tokens.acme;
    let own = world
        .request(Method::POST, "/api/keys", acme)
        .json(&json!({"name": "theirs", "role": "viewer"}));
    assert_eq!(world.json(own).await["key"]["tenant"], "acme");
    let other = world
        .request(Method::POST, "/api/keys", acme)
        .json(&json!({"name": "x", "role": "viewer", "tenant": "other"}));
    assert_eq!(answer(other).await.0, 403);
    let listed = world
        .json(world.request(Method::GET, "/api/keys", acme))
        .await;
    for key in listed.as_array().unwrap() {
        assert_eq!(key["tenant"], "acme");
    }
}

#[tokio::test]
async fn a_login_link_works_once_for_whoever_really_follows_it() {
    let world = World::begin(SAYS_DONE).await;
    let link = world
        .json(world.post("/api/login-links", &json!({"role": "viewer"})))
        .await;
    let url = link["url"].as_str().unwrap();
    let head = world.http.head(url).send().await.unwrap();
    assert_eq!(head.status(), StatusCode::NO_CONTENT);
    let ahead = world
        .http
        .get(url)
        .header("Sec-Purpose", "prefetch;prerender");
    assert_eq!(ahead.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    let response = world.http.get(url).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(response.headers()[header::LOCATION], "/");
    let set = response.headers()[header::SET_COOKIE]
        .to_str()
        .unwrap()
        .to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=604800"] {
        assert!(set.contains(part), "{set}");
    }
    let again = world.http.get(url).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
    assert!(again.headers().get(header::SET_COOKIE).is_none());
    let cookie = set.split(';').next().unwrap();
    let me = world
        .http
        .get(world.url("/api/me"))
        .header(header::COOKIE, cookie);
    let me = world.json(me).await;
    assert_eq!(
        (&me["role"], &me["via"]),
        (&json!("viewer"), &json!("browser"))
    );
}

#[tokio::test]
async fn a_browser_stays_in_across_a_restart_until_it_leaves() {
    let world = World::begin(SAYS_DONE).await;
    let cookie = cookie(&world, &world.tokens.operator).await;
    let world = world.restart().await;
    let with = |method: Method, path: &str| {
        world
            .http
            .request(method, world.url(path))
            .header(header::COOKIE, &cookie)
            .header(header::ORIGIN, format!("http://{}", world.address))
    };
    assert_eq!(
        world.json(with(Method::GET, "/api/me")).await["role"],
        "operator"
    );
    let page = with(Method::GET, "/")
        .header(header::ACCEPT, "text/html")
        .send()
        .await
        .unwrap();
    assert_eq!(page.status(), 200);
    let policy = page.headers()[header::CONTENT_SECURITY_POLICY]
        .to_str()
        .unwrap();
    assert!(policy.contains("script-src 'self'") && policy.contains("frame-ancestors 'none'"));
    let made = with(Method::POST, "/api/tasks").json(&json!({"message": "x", "label": "web"}));
    let made = world.json(made).await;
    let id = made["task_id"].as_str().unwrap();
    world.until_status(id, "completed").await;
    world.json(with(Method::POST, "/api/logout")).await;
    assert_eq!(answer(with(Method::GET, "/api/me")).await.0, 401);
}

#[tokio::test]
async fn a_browser_without_a_cookie_is_told_what_to_do_in_both_languages() {
    let world = World::begin(SAYS_DONE).await;
    let asked = world
        .http
        .get(world.url("/tasks/1"))
        .header(header::ACCEPT, "text/html");
    let response = asked.send().await.unwrap();
    assert_eq!(response.status(), 401);
    let html = response.text().await.unwrap();
    assert!(
        html.contains("sortie open") && html.contains("令牌"),
        "{html}"
    );
    assert!(!html.contains("<script"));
    let form = world.http.get(world.url("/login")).send().await.unwrap();
    assert_eq!(form.status(), 200);
    assert!(form.text().await.unwrap().contains("name=\"token\""));
}

#[tokio::test]
async fn sessions_end_with_the_key_behind_them() {
    let world = World::begin(SAYS_DONE).await;
    let made = world
        .json(world.post("/api/keys", &json!({"name": "guest", "role": "viewer"})))
        .await;
    let cookie = cookie(&world, made["token"].as_str().unwrap()).await;
    let me = || {
        world
            .http
            .get(world.url("/api/me"))
            .header(header::COOKIE, &cookie)
    };
    assert_eq!(answer(me()).await.0, 200);
    let id = made["key"]["id"].as_str().unwrap();
    let revoke = world.request(
        Method::DELETE,
        &format!("/api/keys/{id}"),
        &world.tokens.admin,
    );
    world.json(revoke).await;
    assert_eq!(answer(me()).await.0, 401);
}

#[tokio::test]
async fn guessing_is_slow_even_from_here_and_even_with_the_right_token() {
    let world = World::begin(SAYS_DONE).await;
    let id = world.tokens.viewer.split('_').nth(1).unwrap();
    let wrong = format!("sortie_{id}_{}", "A".repeat(43));
    for _ in 0..10 {
        assert_eq!(
            answer(world.request(Method::GET, "/api/me", &wrong))
                .await
                .0,
            401
        );
    }
    let response = world
        .request(Method::GET, "/api/me", &wrong)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 429);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    let right = world.request(Method::GET, "/api/me", &world.tokens.viewer);
    let (status, problem) = answer(right).await;
    assert_eq!(
        (status.as_u16(), slug(&problem)),
        (429, "too-many-requests")
    );
    assert_eq!(
        answer(world.get("/api/me")).await.0,
        200,
        "others are not hindered"
    );
    let pasted = world
        .http
        .post(world.url("/login"))
        .form(&[("token", &world.tokens.viewer)]);
    assert_eq!(
        pasted.send().await.unwrap().status(),
        429,
        "nor is there another door"
    );
}

#[tokio::test]
async fn one_key_that_asks_too_often_waits() {
    let mut limits = sortie_server::ServerLimits::default();
    limits.rate.per_second = 1.try_into().unwrap();
    limits.rate.burst = 5.try_into().unwrap();
    let world = World::with(SAYS_DONE, limits).await;
    let mut refused = None;
    for _ in 0..7 {
        let response = world.get("/healthz").send().await.unwrap();
        if response.status() == 429 {
            refused = Some(response);
        }
    }
    let refused = refused.unwrap();
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    let other = world.request(Method::GET, "/healthz", &world.tokens.viewer);
    assert_eq!(answer(other).await.0, 200, "another key has its own rate");
}

#[tokio::test]
async fn headers_of_safety_are_on_every_answer() {
    let world = World::begin(SAYS_DONE).await;
    for request in [
        world.get("/api/tasks"),
        world.get("/api/nothing"),
        world.http.get(world.url("/api/tasks")),
        world.http.get(world.url("/login")),
        world.get("/api/tasks").header(header::HOST, "evil.example"),
    ] {
        let response = request.send().await.unwrap();
        let headers = response.headers();
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(headers[name], value, "{}", response.url());
        }
        assert!(headers.contains_key("content-security-policy"));
        assert!(headers.contains_key("permissions-policy"));
        assert!(!headers.contains_key("access-control-allow-origin"));
    }
}

#[tokio::test]
async fn a_name_that_was_given_is_ours_too() {
    let world = World::begin(SAYS_DONE).await;
    let named = world.get("/api/me").header(header::HOST, "sortie.example");
    assert_eq!(answer(named).await.0, 200);
    let link = world
        .post("/api/login-links", &json!({}))
        .header(header::HOST, "sortie.example")
        .header("X-Forwarded-Proto", "https");
    let link: Value = world.json(link).await;
    assert!(
        link["url"]
            .as_str()
            .unwrap()
            .starts_with("https://sortie.example/login?code=")
    );
}
