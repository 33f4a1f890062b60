//! Every route against every kind of caller. A documented route without a row here fails the test.

use std::collections::BTreeSet;

use reqwest::{Method, RequestBuilder, StatusCode, header};
use serde_json::{Value, json};
use sortie_protocol::Role::{self, Admin, Operator, Viewer};

use crate::support::{PROOF, SAYS_DONE, World, answer};

/// The response to an admin of a tenant for data outside of its tenant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tenant {
    /// The data of its tenant.
    Own,
    Missing,
    /// Status 403: the route concerns the whole server.
    Forbidden,
}
use Tenant::{Forbidden, Missing, Own};

const ROUTES: &[(&str, &str, Role, Tenant)] = &[
    ("get", "/healthz", Viewer, Own),
    ("get", "/readyz", Viewer, Own),
    ("get", "/metrics", Viewer, Own),
    ("get", "/api/openapi.json", Viewer, Own),
    ("get", "/api/state", Viewer, Own),
    ("get", "/api/workers", Viewer, Forbidden),
    ("get", "/api/tenants", Viewer, Own),
    ("get", "/api/usage/export", Viewer, Own),
    ("get", "/api/config", Admin, Forbidden),
    ("get", "/api/doctor", Admin, Forbidden),
    ("get", "/api/tasks", Viewer, Own),
    ("post", "/api/tasks", Operator, Own),
    ("get", "/api/tasks/stats", Viewer, Own),
    ("post", "/api/tasks/clean", Admin, Own),
    ("get", "/api/tasks/{id}", Viewer, Missing),
    ("patch", "/api/tasks/{id}", Operator, Missing),
    ("delete", "/api/tasks/{id}", Operator, Missing),
    ("post", "/api/tasks/{id}/cancel", Operator, Missing),
    ("post", "/api/tasks/{id}/retry", Operator, Missing),
    ("post", "/api/tasks/{id}/fork", Operator, Missing),
    ("post", "/api/tasks/{id}/pause", Operator, Missing),
    ("post", "/api/tasks/{id}/resume", Operator, Missing),
    ("post", "/api/tasks/{id}/steer", Operator, Missing),
    ("post", "/api/tasks/{id}/answer", Operator, Missing),
    ("post", "/api/tasks/{id}/apply", Operator, Missing),
    ("post", "/api/tasks/{id}/discard", Operator, Missing),
    ("post", "/api/tasks/{id}/delivery", Operator, Missing),
    ("get", "/api/tasks/{id}/diff", Viewer, Missing),
    ("get", "/api/tasks/{id}/result", Viewer, Missing),
    ("get", "/api/tasks/{id}/transcript", Viewer, Missing),
    ("get", "/api/tasks/{id}/tree", Viewer, Missing),
    ("get", "/api/tasks/{id}/timeline", Viewer, Missing),
    ("get", "/api/tasks/{id}/report", Viewer, Missing),
    ("get", "/api/tasks/{id}/policy", Viewer, Missing),
    ("get", "/api/tasks/{id}/audit", Viewer, Missing),
    ("get", "/api/tasks/{id}/blobs/{blob}", Viewer, Missing),
    ("get", "/api/tasks/{id}/events", Viewer, Missing),
    ("get", "/api/sessions", Viewer, Own),
    ("get", "/api/sessions/{id}", Viewer, Missing),
    ("post", "/api/sessions/{id}/messages", Operator, Own),
    ("get", "/api/sessions/{id}/grants", Viewer, Missing),
    ("delete", "/api/sessions/{id}/grants", Admin, Missing),
    ("get", "/api/agents", Viewer, Own),
    ("get", "/api/agents/{name}", Viewer, Own),
    ("get", "/api/skills", Viewer, Own),
    ("get", "/api/models", Viewer, Own),
    ("get", "/api/models/choices", Viewer, Own),
    ("post", "/api/policy/explain", Viewer, Own),
    ("get", "/api/approvals", Viewer, Own),
    ("get", "/api/approvals/{id}", Viewer, Missing),
    ("post", "/api/approvals/{id}", Operator, Missing),
    ("get", "/api/questions", Viewer, Own),
    ("get", "/api/questions/{id}", Viewer, Missing),
    ("post", "/api/questions/{id}", Operator, Missing),
    ("get", "/api/budgets", Viewer, Own),
    ("get", "/api/usage", Viewer, Own),
    ("get", "/api/usage/series", Viewer, Own),
    ("get", "/api/audit", Viewer, Own),
    ("get", "/api/audit/verify", Admin, Forbidden),
    ("get", "/api/hooks", Admin, Forbidden),
    ("get", "/api/hooks/dead", Admin, Forbidden),
    ("post", "/api/hooks/dead", Admin, Forbidden),
    ("get", "/api/keys", Admin, Own),
    ("post", "/api/keys", Admin, Own),
    ("delete", "/api/keys/{id}", Admin, Missing),
    ("post", "/api/keys/{id}/rotate", Admin, Missing),
    ("post", "/api/login-links", Admin, Own),
    ("get", "/api/me", Viewer, Own),
    ("post", "/api/logout", Viewer, Own),
    ("get", "/api/events", Viewer, Own),
    ("get", "/api/ws", Viewer, Own),
];

/// Returns a valid body, so that a refusal is not about the body.
fn body(path: &str) -> Value {
    match path {
        "/api/tasks" => json!({"message": "do it"}),
        "/api/tasks/{id}" => json!({"label": "other"}),
        "/api/tasks/{id}/steer"
        | "/api/tasks/{id}/answer"
        | "/api/questions/{id}"
        | "/api/sessions/{id}/messages" => json!({"text": "words"}),
        "/api/tasks/{id}/fork" => json!({"at": 1}),
        "/api/tasks/{id}/delivery" | "/api/hooks/dead" => json!({"action": "retry"}),
        "/api/approvals/{id}" => json!({"decision": "approve"}),
        "/api/tasks/clean" => json!({"max_age_hours": 24}),
        "/api/policy/explain" => json!({"tool": "exec"}),
        "/api/keys" => json!({"name": "new", "role": "viewer"}),
        _ => json!({}),
    }
}

fn method(name: &str) -> Method {
    Method::from_bytes(name.to_uppercase().as_bytes()).unwrap()
}

/// Replaces ids by ones that do not exist, so that an admitted request does no harm.
fn nowhere(path: &str) -> String {
    let id = if path.starts_with("/api/sessions") {
        "web:nowhere"
    } else {
        "00000000-0000-7000-8000-000000000000"
    };
    path.replace("{id}", id)
        .replace("{name}", "explore")
        .replace("{blob}", "00")
}

struct Row<'a> {
    world: &'a World,
    method: &'a str,
    path: &'a str,
}

impl Row<'_> {
    fn bare(&self) -> RequestBuilder {
        let request = self
            .world
            .http
            .request(method(self.method), self.world.url(&nowhere(self.path)));
        if self.method == "get" {
            request
        } else {
            request.json(&body(self.path))
        }
    }

    async fn expect(&self, who: &str, request: RequestBuilder, fits: impl Fn(u16) -> bool) {
        // Streams do not end, so only the status is read.
        let status = request.send().await.unwrap().status().as_u16();
        assert!(
            fits(status),
            "{} {} as {who}: {status}",
            self.method,
            self.path
        );
    }

    async fn strangers(&self, number: usize) {
        self.expect("nobody", self.bare(), |status| status == 401)
            .await;
        // Another id each time: failed attempts are counted by id.
        let wrong = format!("sortie_wrong{number:03}_{}", "A".repeat(43));
        self.expect("a wrong token", self.bare().bearer_auth(wrong), |status| {
            status == 401
        })
        .await;
        self.expect("no token at all", self.bare().bearer_auth("x"), |status| {
            matches!(status, 401 | 429)
        })
        .await;
        let admin = &self.world.tokens.admin;
        let elsewhere = self
            .bare()
            .bearer_auth(admin)
            .header(header::HOST, "evil.example");
        self.expect("another host", elsewhere, |status| status == 421)
            .await;
        for origin in ["http://evil.example", "null"] {
            let foreign = self
                .bare()
                .bearer_auth(admin)
                .header(header::ORIGIN, origin);
            self.expect(origin, foreign, |status| status == 403).await;
        }
    }

    async fn roles(&self, needed: Role) {
        let tokens = &self.world.tokens;
        for (role, token) in [
            (Viewer, &tokens.viewer),
            (Operator, &tokens.operator),
            (Admin, &tokens.admin),
        ] {
            let may = role >= needed;
            self.expect(role.as_str(), self.bare().bearer_auth(token), |status| {
                if may {
                    !matches!(status, 401 | 403 | 405 | 421 | 429) && status < 500
                } else {
                    status == 403
                }
            })
            .await;
        }
    }

    async fn tenant(&self, expected: Tenant, things: &Things) {
        let path = things.fill(self.path);
        let request = self
            .world
            .request(method(self.method), &path, &self.world.tokens.acme);
        let request = if self.method == "get" {
            request
        } else {
            request.json(&body(self.path))
        };
        self.expect("another tenant's admin", request, |status| match expected {
            Own => !matches!(status, 401 | 403 | 404 | 405 | 421 | 429) && status < 500,
            Missing => status == 404,
            Forbidden => status == 403,
        })
        .await;
    }

    fn upgrade(&self, request: RequestBuilder) -> RequestBuilder {
        if self.path != "/api/ws" {
            return request;
        }
        request
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    async fn browser(&self, browser: &Browser, other: &Browser) {
        let request = self.upgrade(browser.on(self.bare()));
        let is_unsafe = self.method != "get" || self.path == "/api/ws";
        self.expect("a browser without Origin", request, |status| {
            if is_unsafe {
                status == 403
            } else {
                !matches!(status, 401 | 403)
            }
        })
        .await;
        self.half_a_browser(browser, other).await;
    }

    /// The cookie reaches every server of the host, so it opens nothing without the page key, which no
    /// other origin has; nor does the page key open anything without its cookie.
    async fn half_a_browser(&self, browser: &Browser, other: &Browser) {
        let origin = format!("http://{}", self.world.address);
        let here = || self.upgrade(self.bare()).header(header::ORIGIN, &origin);
        let cookie = || here().header(header::COOKIE, &browser.cookie);
        let protocol = |key: &str| format!("sortie, sortie.page-key.{key}");
        let halves = [
            ("a cookie alone", cookie()),
            ("an empty page key", cookie().header(PAGE_KEY, "")),
            (
                "a subprotocol without a key",
                cookie().header(header::SEC_WEBSOCKET_PROTOCOL, protocol("")),
            ),
            (
                "the page key of another login",
                cookie().header(PAGE_KEY, &other.page_key),
            ),
            (
                "the cookie as page key",
                cookie().header(PAGE_KEY, browser.cookie_secret()),
            ),
            (
                "a page key alone",
                here().header(PAGE_KEY, &browser.page_key),
            ),
        ];
        for (who, request) in halves {
            // Wrong keys are guesses at one session, and too many of them are slowed down.
            self.expect(who, request, |status| matches!(status, 401 | 429))
                .await;
        }
        let cookie_alone = cookie().send().await.unwrap().status();
        assert_eq!(cookie_alone, 401, "{} {}", self.method, self.path);
    }
}

/// Existing data without a tenant.
struct Things {
    task: String,
    session: String,
    key: String,
}

impl Things {
    fn fill(&self, path: &str) -> String {
        let id = match path.split('/').nth(2) {
            Some("tasks") => &self.task,
            Some("sessions") if !path.ends_with("/messages") => &self.session,
            Some("keys") => &self.key,
            _ => "web:mine",
        };
        path.replace("{id}", id)
            .replace("{name}", "explore")
            .replace("{blob}", "00")
    }
}

async fn things(world: &World) -> Things {
    let session = "web:theirs".to_owned();
    let task = json!({"message": "theirs", "session_id": session, "main": true});
    let task = world.task(&task).await;
    world.until_status(&task, "completed").await;
    let keys = world.json(world.get("/api/keys")).await;
    Things {
        task,
        session,
        key: keys[0]["id"].as_str().unwrap().to_owned(),
    }
}

/// The header in which a page shows its key.
pub(crate) const PAGE_KEY: &str = "Sortie-Page-Key";

/// What a browser has after a login: a cookie, and the page key in the storage of the page.
#[derive(Clone, Debug)]
pub(crate) struct Browser {
    pub(crate) cookie: String,
    pub(crate) page_key: String,
}

impl Browser {
    /// Reads both from the response to a login.
    pub(crate) fn of(response: &reqwest::Response) -> Self {
        let text = |name| response.headers()[name].to_str().unwrap();
        let cookie = text(header::SET_COOKIE).split(';').next().unwrap();
        let page_key = text(header::LOCATION).strip_prefix("/#page-key=").unwrap();
        Self {
            cookie: cookie.to_owned(),
            page_key: page_key.to_owned(),
        }
    }

    /// Returns the request with the credentials that the page sends.
    pub(crate) fn on(&self, request: RequestBuilder) -> RequestBuilder {
        request
            .header(header::COOKIE, &self.cookie)
            .header(PAGE_KEY, &self.page_key)
    }

    pub(crate) fn cookie_secret(&self) -> &str {
        let (_, value) = self.cookie.split_once('=').unwrap();
        value.split_once('_').unwrap().1
    }
}

/// Logs a browser in by a pasted token.
pub(crate) async fn browser(world: &World, token: &str) -> Browser {
    let response = world
        .http
        .post(world.url("/login"))
        .form(&[("token", token)])
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    Browser::of(&response)
}

fn documented() -> BTreeSet<(String, String)> {
    let document: Value = serde_json::from_str(&sortie_server::document()).unwrap();
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "patch", "delete", "put"] {
            if item.get(method).is_some() {
                found.insert((method.to_owned(), path.clone()));
            }
        }
    }
    found
}

#[test]
fn every_documented_route_has_a_row() {
    let rows: BTreeSet<(String, String)> = ROUTES
        .iter()
        .map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    assert_eq!(rows, documented());
    assert_eq!(rows.len(), ROUTES.len(), "no row twice");
}

#[tokio::test]
async fn every_route_checks_every_kind_of_caller() {
    let world = World::begin(SAYS_DONE).await;
    let things = things(&world).await;
    let own = browser(&world, &world.tokens.admin).await;
    let other = browser(&world, &world.tokens.viewer).await;
    for (number, (method, path, needed, tenant)) in ROUTES.iter().enumerate() {
        let row = Row {
            world: &world,
            method,
            path,
        };
        row.strangers(number).await;
        row.browser(&own, &other).await;
        row.tenant(*tenant, &things).await;
        row.roles(*needed).await;
    }
    let (status, task) = answer(world.get(&format!("/api/tasks/{}", things.task))).await;
    assert_eq!(status, 200, "nobody removed it: {task}");
}

#[tokio::test]
async fn unsupported_method_gets_405() {
    let world = World::begin(SAYS_DONE).await;
    for (known, path, ..) in ROUTES {
        for other in [Method::TRACE, Method::PUT, Method::OPTIONS] {
            let request = world.request(other.clone(), &nowhere(path), &world.tokens.admin);
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 405, "{other} {path}");
            let allowed = response.headers()[header::ALLOW].to_str().unwrap();
            let known = known.to_uppercase();
            assert!(allowed.contains(&known), "{other} {path}: {allowed}");
        }
    }
}

#[tokio::test]
async fn server_proves_its_identity_without_credentials() {
    let world = World::begin(SAYS_DONE).await;
    let ask = |method: Method, query: &str| {
        let url = world.url(&format!("/login/proof{query}"));
        world.http.request(method, url)
    };
    let nonce = "00112233445566778899aabbccddeeff";
    let response = ask(Method::GET, &format!("?nonce={nonce}")).send().await;
    let response = response.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    let shown = response.text().await.unwrap();
    assert!(PROOF.verifies(nonce, &shown), "{shown}");
    let long = format!("?nonce={}", "a".repeat(65));
    for query in ["", "?nonce=", "?nonce=words", &long] {
        assert_eq!(answer(ask(Method::GET, query)).await.0, 400, "{query}");
    }
    let elsewhere = ask(Method::GET, "?nonce=00").header(header::HOST, "evil.example");
    assert_eq!(answer(elsewhere).await.0, 421);
    let foreign = ask(Method::GET, "?nonce=00").header(header::ORIGIN, "http://evil.example");
    assert_eq!(answer(foreign).await.0, 403);
    assert_eq!(answer(ask(Method::POST, "?nonce=00")).await.0, 401);
}

#[tokio::test]
async fn unknown_routes_need_a_token() {
    let world = World::begin(SAYS_DONE).await;
    for path in [
        "/",
        "/assets/x.js",
        "/api/nothing",
        "/favicon.ico",
        "/loginx",
    ] {
        let (status, _) = answer(world.http.get(world.url(path))).await;
        assert_eq!(status, 401, "{path}");
    }
    let (status, problem) = answer(world.get("/api/nothing")).await;
    assert_eq!(
        (status.as_u16(), crate::support::slug(&problem)),
        (404, "not-found")
    );
    let options = world.http.request(Method::OPTIONS, world.url("/api/tasks"));
    assert_eq!(answer(options).await.0, 401, "no CORS");
}
