//! Tests of authentication: keys, login links and browser sessions.

use std::os::unix::fs::PermissionsExt as _;

use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::matrix::{Browser, browser};
use crate::support::{SAYS_DONE, World, answer, slug};

#[tokio::test]
async fn first_start_writes_a_private_token_file() {
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
async fn rotated_key_is_valid_for_its_grace_and_a_revoked_one_is_not() {
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
async fn keys_expire_and_cannot_create_keys_with_more_rights() {
    let world = World::begin(SAYS_DONE).await;
    let input = json!({"name": "short", "role": "admin", "expires_seconds": 0});
    let made = world.json(world.post("/api/keys", &input)).await;
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
async fn login_link_works_once_and_previews_do_not_use_it_up() {
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
    let response = world.typed(url).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    let set = response.headers()[header::SET_COOKIE]
        .to_str()
        .unwrap()
        .to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=604800"] {
        assert!(set.contains(part), "{set}");
    }
    let again = world.typed(url).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
    assert!(again.headers().get(header::SET_COOKIE).is_none());
    let me = Browser::of(&response).on(world.http.get(world.url("/api/me")));
    let me = world.json(me).await;
    assert_eq!(
        (&me["role"], &me["via"]),
        (&json!("viewer"), &json!("browser"))
    );
}

/// Creates a new login link of a key.
async fn link(world: &World, token: &str) -> String {
    let made = world.request(Method::POST, "/api/login-links", token);
    let made = world.json(made.json(&json!({}))).await;
    made["url"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn foreign_page_cannot_log_a_browser_in_with_another_key() {
    let world = World::begin(SAYS_DONE).await;
    let url = link(&world, &world.tokens.acme).await;
    let own = browser(&world, &world.tokens.admin).await.cookie;
    let led = |site: &'static str| world.http.get(&url).header("Sec-Fetch-Site", site);
    for request in [
        led("cross-site"),
        led("same-site"),
        // A browser that sends no fetch metadata, as on other machines without TLS.
        world.http.get(&url),
        // Typed, but the browser is logged in with another key.
        led("none").header(header::COOKIE, &own),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers().get(header::SET_COOKIE).is_none());
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap();
        assert!(policy.contains("form-action 'self'"), "{policy}");
        let html = response.text().await.unwrap();
        assert!(
            html.contains("created the link yourself") && html.contains("链接"),
            "{html}"
        );
        assert!(
            html.contains("name=\"code\"") && !html.contains("name=\"token\""),
            "{html}"
        );
    }
    let code = url.split_once("code=").unwrap().1;
    let confirm = |origin: &str| {
        world
            .http
            .post(world.url("/login"))
            .header(header::ORIGIN, origin)
            .form(&[("code", code)])
    };
    let foreign = confirm("http://evil.example").send().await.unwrap();
    assert_eq!(foreign.status(), 403);
    let ours = confirm(&format!("http://{}", world.address))
        .send()
        .await
        .unwrap();
    assert_eq!(
        ours.status(),
        StatusCode::SEE_OTHER,
        "nobody used the link up"
    );
    assert!(ours.headers().contains_key(header::SET_COOKIE));
    let again = confirm(&format!("http://{}", world.address))
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 401, "it works once");
}

#[tokio::test]
async fn typed_login_link_needs_no_confirmation() {
    let world = World::begin(SAYS_DONE).await;
    let own = browser(&world, &world.tokens.admin).await.cookie;
    for site in ["none", "same-origin"] {
        let url = link(&world, &world.tokens.admin).await;
        let typed = world
            .http
            .get(&url)
            .header("Sec-Fetch-Site", site)
            .header(header::COOKIE, &own);
        assert_eq!(typed.send().await.unwrap().status(), StatusCode::SEE_OTHER);
    }
    let odd = world
        .http
        .get(world.url("/login?code=%22%3E%3Cscript%3E"))
        .header("Sec-Fetch-Site", "cross-site");
    let html = odd.send().await.unwrap().text().await.unwrap();
    assert!(!html.contains("<script>"), "{html}");
}

#[tokio::test]
async fn browser_session_survives_a_restart_until_logout() {
    let world = World::begin(SAYS_DONE).await;
    let browser = browser(&world, &world.tokens.operator).await;
    let world = world.restart().await;
    let with = |method: Method, path: &str| {
        browser
            .on(world.http.request(method, world.url(path)))
            .header(header::ORIGIN, format!("http://{}", world.address))
    };
    assert_eq!(
        world.json(with(Method::GET, "/api/me")).await["role"],
        "operator"
    );
    let navigated = world.http.get(world.url("/"));
    let page = navigated
        .header(header::COOKIE, &browser.cookie)
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
async fn browser_without_a_cookie_gets_the_login_page_in_both_languages() {
    let world = World::begin(SAYS_DONE).await;
    let request = world
        .http
        .get(world.url("/tasks/1"))
        .header(header::ACCEPT, "text/html");
    let response = request.send().await.unwrap();
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

/// Returns the cookies of a response, as a browser would send them back.
fn cookies(response: &reqwest::Response) -> String {
    let set = response.headers().get_all(header::SET_COOKIE).iter();
    let pairs = set.map(|cookie| cookie.to_str().unwrap().split(';').next().unwrap());
    pairs.collect::<Vec<_>>().join("; ")
}

fn location(response: &reqwest::Response) -> &str {
    response.headers()[header::LOCATION].to_str().unwrap()
}

#[tokio::test]
async fn login_returns_to_the_address_that_the_browser_asked_for() {
    let world = World::begin(SAYS_DONE).await;
    let wanted = "/tasks?q=argon&status=failed";
    let stopped = world
        .http
        .get(world.url(wanted))
        .header(header::ACCEPT, "text/html");
    let stopped = stopped.send().await.unwrap();
    assert_eq!(stopped.status(), 401);
    let kept = cookies(&stopped);
    assert!(kept.starts_with("sortie_next_"), "{kept}");
    let set = stopped.headers()[header::SET_COOKIE].to_str().unwrap();
    assert!(set.contains("HttpOnly") && set.contains("Path=/login"));
    let html = stopped.text().await.unwrap();
    let field = "name=\"next\" value=\"/tasks?q=argon&amp;status=failed\"";
    assert!(html.contains(field), "{html}");
    // A pasted token, in the form of that page.
    let paste = async |next: &str| {
        let form = [("token", world.tokens.admin.as_str()), ("next", next)];
        let pasted = world.http.post(world.url("/login")).form(&form);
        pasted.send().await.unwrap()
    };
    let pasted = paste(wanted).await;
    assert_eq!(pasted.status(), StatusCode::SEE_OTHER);
    let start = format!("{wanted}#page-key=");
    assert!(location(&pasted).starts_with(&start));
    for foreign in ["//evil.example", "https://evil.example", "/\\evil.example"] {
        let pasted = paste(foreign).await;
        assert!(location(&pasted).starts_with("/#page-key="), "{foreign}");
    }
    // A link, which another tab opens: the cookie carries the address, once.
    let url = link(&world, &world.tokens.admin).await;
    let followed = world.typed(&url).header(header::COOKIE, &kept);
    let followed = followed.send().await.unwrap();
    assert!(location(&followed).starts_with(&start));
    assert!(cookies(&followed).contains("sortie_next_"), "removed");
    let again = link(&world, &world.tokens.admin).await;
    let again = world
        .typed(&again)
        .header(header::COOKIE, cookies(&followed));
    let again = again.send().await.unwrap();
    assert!(location(&again).starts_with("/#page-key="));
}

#[tokio::test]
async fn used_link_opens_the_page_for_a_browser_that_is_logged_in() {
    let world = World::begin(SAYS_DONE).await;
    let url = link(&world, &world.tokens.admin).await;
    let first = world.typed(&url).send().await.unwrap();
    let own = Browser::of(&first).cookie;
    for _ in 0..15 {
        let again = world.typed(&url).header(header::COOKIE, &own);
        let again = again.send().await.unwrap();
        assert_eq!(
            again.status(),
            StatusCode::SEE_OTHER,
            "not a failed attempt"
        );
        assert_eq!(location(&again), "/");
        assert!(again.headers().get(header::SET_COOKIE).is_none());
    }
    let stranger = world.typed(&url).send().await.unwrap();
    assert_eq!(stranger.status(), 401);
    let html = stranger.text().await.unwrap();
    assert!(html.contains("role=\"alert\"") && html.contains("name=\"token\""));
    assert!(!html.contains('`'), "commands are shown as code: {html}");
}

#[tokio::test]
async fn login_page_has_a_style_sheet_that_needs_no_credentials() {
    let world = World::begin(SAYS_DONE).await;
    let form = world.http.get(world.url("/login"));
    let form = form.header(header::ACCEPT_LANGUAGE, "zh-CN,zh");
    let html = form.send().await.unwrap().text().await.unwrap();
    assert!(html.contains("<html lang=\"zh\">") && html.contains("lang=\"en\""));
    assert!(!html.contains("<script") && !html.contains("style=") && !html.contains("<style"));
    assert!(html.contains("href=\"/login/style.css\""), "{html}");
    let style = world.http.get(world.url("/login/style.css"));
    let style = style.send().await.unwrap();
    assert_eq!(style.status(), 200);
    assert_eq!(
        style.headers()[header::CONTENT_TYPE],
        "text/css; charset=utf-8"
    );
    assert!(style.text().await.unwrap().contains("light-dark("));
    let posted = world.http.post(world.url("/login/style.css"));
    assert_eq!(answer(posted).await.0, 401);
}

#[tokio::test]
async fn browser_sessions_end_with_their_key() {
    let world = World::begin(SAYS_DONE).await;
    let made = world
        .json(world.post("/api/keys", &json!({"name": "guest", "role": "viewer"})))
        .await;
    let browser = browser(&world, made["token"].as_str().unwrap()).await;
    let me = || browser.on(world.http.get(world.url("/api/me")));
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
async fn failed_attempts_are_limited_and_lock_no_key_out() {
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
    let pasted = |token: &str| {
        world
            .http
            .post(world.url("/login"))
            .form(&[("token", token)])
            .send()
    };
    assert_eq!(
        pasted(&wrong).await.unwrap().status(),
        429,
        "nor is there another door"
    );
    let right = world.request(Method::GET, "/api/me", &world.tokens.viewer);
    assert_eq!(answer(right).await.0, 200, "whoever knows it comes in");
    let right = pasted(&world.tokens.viewer).await.unwrap();
    assert_eq!(right.status(), StatusCode::SEE_OTHER);
    let link = world.json(world.post("/api/login-links", &json!({}))).await;
    let guess = |number: u32| {
        let code = format!("{number:043}");
        world.typed(&world.url(&format!("/login?code={code}")))
    };
    for number in 0..10 {
        assert_eq!(guess(number).send().await.unwrap().status(), 401);
    }
    assert_eq!(guess(10).send().await.unwrap().status(), 429);
    let url = link["url"].as_str().unwrap();
    let followed = world.typed(url).send().await.unwrap();
    assert_eq!(followed.status(), StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn logins_count_against_the_rate_of_their_key() {
    let mut limits = sortie_server::ServerLimits::default();
    limits.rate.per_second = 1.try_into().unwrap();
    limits.rate.burst = 3.try_into().unwrap();
    let world = World::with(SAYS_DONE, limits).await;
    let mut statuses = Vec::new();
    for _ in 0..6 {
        let form = [("token", &world.tokens.viewer)];
        let pasted = world.http.post(world.url("/login")).form(&form);
        statuses.push(pasted.send().await.unwrap().status().as_u16());
    }
    assert_eq!(statuses[0], 303);
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn key_names_are_unique_by_tenant_and_local_is_reserved() {
    let world = World::begin(SAYS_DONE).await;
    let make = |token: &str, name: &str| {
        world
            .request(Method::POST, "/api/keys", token)
            .json(&json!({"name": name, "role": "viewer"}))
    };
    let (admin, acme) = (&world.tokens.admin, &world.tokens.acme);
    for name in ["local", "LOCAL", " local "] {
        for token in [admin, acme] {
            let (status, problem) = answer(make(token, name)).await;
            assert_eq!((status.as_u16(), slug(&problem)), (409, "conflict"));
        }
    }
    assert_eq!(answer(make(admin, "bot")).await.0, 201);
    assert_eq!(answer(make(admin, "bot")).await.0, 409);
    assert_eq!(answer(make(acme, "bot")).await.0, 201, "another tenant's");
}

#[tokio::test]
async fn browser_sessions_end_with_the_secret_that_created_them() {
    let world = World::begin(SAYS_DONE).await;
    let made = world
        .json(world.post("/api/keys", &json!({"name": "guest", "role": "admin"})))
        .await;
    let id = made["key"]["id"].as_str().unwrap();
    let token = made["token"].as_str().unwrap();
    let first = browser(&world, token).await;
    let link = world.request(Method::POST, "/api/login-links", token);
    let link = world.json(link).await;
    let me = async |browser: &Browser| {
        let me = world.http.get(world.url("/api/me"));
        answer(browser.on(me)).await.0
    };
    let rotate = async |body: Value| {
        let path = format!("/api/keys/{id}/rotate");
        world.json(world.post(&path, &body)).await["token"].clone()
    };
    let second = rotate(json!({"grace_seconds": 3600})).await;
    assert_eq!(me(&first).await, 200, "for its grace");
    let newer = browser(&world, second.as_str().unwrap()).await;
    rotate(json!({"grace_seconds": 3600})).await;
    assert_eq!(me(&first).await, 401, "that was two secrets ago");
    assert_eq!(me(&newer).await, 200);
    rotate(json!({})).await;
    assert_eq!(me(&newer).await, 401);
    let late = world.typed(link["url"].as_str().unwrap());
    let late = late.send().await.unwrap();
    assert!(late.status().is_client_error(), "{}", late.status());
    assert!(late.headers().get(header::SET_COOKIE).is_none());
}

#[tokio::test]
async fn too_many_browser_sessions_end_only_those_of_the_same_key() {
    let world = World::begin(SAYS_DONE).await;
    let admins = browser(&world, &world.tokens.admin).await;
    let first = browser(&world, &world.tokens.acme_operator).await;
    for _ in 0..20 {
        browser(&world, &world.tokens.acme_operator).await;
    }
    let me = async |browser: &Browser| {
        let me = world.http.get(world.url("/api/me"));
        answer(browser.on(me)).await.0
    };
    assert_eq!(me(&first).await, 401, "its oldest");
    assert_eq!(me(&admins).await, 200);
}

#[tokio::test]
async fn cookie_names_differ_by_port() {
    let world = World::begin(SAYS_DONE).await;
    let name = format!("sortie_session_{}", world.address.port());
    let browser = browser(&world, &world.tokens.viewer).await;
    let cookie = &browser.cookie;
    assert_eq!(cookie.split('=').next().unwrap(), name);
    let both = format!("sortie_session_1=abcdefgh_{}; {cookie}", "A".repeat(43));
    let origin = format!("http://{}", world.address);
    let with = |request: reqwest::RequestBuilder| {
        request
            .header(header::COOKIE, &both)
            .header(crate::matrix::PAGE_KEY, &browser.page_key)
            .header(header::ORIGIN, &origin)
    };
    let me = with(world.http.get(world.url("/api/me")));
    assert_eq!(answer(me).await.0, 200);
    let left = with(world.http.post(world.url("/api/logout")));
    let left = left.send().await.unwrap();
    let gone = left.headers()[header::SET_COOKIE].to_str().unwrap();
    assert!(gone.starts_with(&format!("{name}=;")), "{gone}");
}

#[tokio::test]
async fn key_beyond_its_rate_gets_429() {
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
async fn security_headers_are_on_every_response() {
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
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(headers[name], value, "{}", response.url());
        }
        // A form without a referrer would come from the origin "null".
        let is_page = response.url().path() == "/login";
        let referrer = if is_page {
            "same-origin"
        } else {
            "no-referrer"
        };
        assert_eq!(headers["referrer-policy"], referrer, "{}", response.url());
        // A form of a page without a referrer would come from the origin "null".
        let is_page = response.url().path() == "/login";
        let referrer = if is_page {
            "same-origin"
        } else {
            "no-referrer"
        };
        assert_eq!(headers["referrer-policy"], referrer);
        assert!(headers.contains_key("content-security-policy"));
        assert!(headers.contains_key("permissions-policy"));
        assert!(!headers.contains_key("access-control-allow-origin"));
    }
}

#[tokio::test]
async fn configured_host_names_are_accepted() {
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
