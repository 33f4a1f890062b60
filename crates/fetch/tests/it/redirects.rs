//! Tests that the target of a redirect is checked like a requested URL.

use reqwest::{Method, Request};
use sortie_fetch::{MAX_REDIRECTS, Response, Url};

use crate::server::{Answer, Seen, Server, answer, redirect};
use crate::{Table, anybody, guard};

/// One server under two names, of which `start.example` redirects.
struct Stage {
    server: Server,
    guard: sortie_fetch::Guard,
}

impl Stage {
    async fn new(reply: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let server = Server::start(reply).await;
        let table = Table::of(&[
            ("start.example", &[&["127.0.0.1"]]),
            ("other.example", &[&["127.0.0.1"]]),
            ("inside.example", &[&["10.0.0.1"]]),
        ]);
        let port = server.port;
        let rules = [
            format!("start.example:{port}"),
            format!("other.example:{port}"),
        ];
        let guard = guard(&rules, table);
        Self { server, guard }
    }

    /// Redirects `/` to `location`, where PORT is the server's.
    async fn to(status: u16, location: &'static str) -> Self {
        Self::new(move |seen| {
            let port = seen.address.port().to_string();
            match seen.path() {
                "/" => redirect(status, &location.replace("PORT", &port)),
                path => answer(200, "", path),
            }
        })
        .await
    }

    fn url(&self) -> Url {
        Url::parse(&format!("http://start.example:{}/", self.server.port)).unwrap()
    }

    async fn get(&self) -> Result<Response, String> {
        let answer = self.guard.get(self.url(), &anybody).await;
        answer.map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn good_redirects_are_followed() {
    for (location, expected) in [
        ("/next", "http://start.example:PORT/next"),
        ("next?x=1#part", "http://start.example:PORT/next?x=1"),
        (
            "//other.example:PORT/next",
            "http://other.example:PORT/next",
        ),
        (
            "http://OTHER.example.:PORT/a/../next",
            "http://other.example:PORT/next",
        ),
        (
            "\\\\other.example:PORT\\next",
            "http://other.example:PORT/next",
        ),
    ] {
        let stage = Stage::to(302, location).await;
        let response = stage.get().await.unwrap();
        let port = stage.server.port.to_string();
        assert_eq!(
            response.url().as_str(),
            expected.replace("PORT", &port),
            "{location}"
        );
        assert_eq!(response.hops(), [stage.url()]);
    }
}

#[tokio::test]
async fn redirects_to_refused_targets_are_not_followed() {
    for (location, expected) in [
        (
            "http://127.0.0.1/",
            "127.0.0.1 resolves to 127.0.0.1, which is on this machine",
        ),
        ("http://0x7f.1:PORT/", "127.0.0.1 resolves to 127.0.0.1"),
        (
            "//169.254.169.254/latest/",
            "169.254.169.254 resolves to 169.254.169.254",
        ),
        (
            "http://[::ffff:10.0.0.1]/",
            "::ffff:10.0.0.1 resolves to ::ffff:10.0.0.1",
        ),
        (
            "http://inside.example/",
            "inside.example resolves to 10.0.0.1",
        ),
        (
            "http://other.example:22/",
            "Port 22 of other.example is not allowed",
        ),
        ("file:///etc/passwd", "file: addresses are not fetched"),
        (
            "gopher://other.example:PORT/",
            "gopher: addresses are not fetched",
        ),
        ("data:text/html,hi", "data: addresses are not fetched"),
        (
            "javascript:alert(1)",
            "javascript: addresses are not fetched",
        ),
        (
            "http://a:b@other.example:PORT/",
            "The URL for other.example contains a user name",
        ),
        (
            "http://",
            "start.example redirects to something that is not a URL",
        ),
        (
            "http://[::1",
            "start.example redirects to something that is not a URL",
        ),
    ] {
        let stage = Stage::to(302, location).await;
        let error = stage.get().await.unwrap_err();
        assert!(error.starts_with(expected), "{location}: {error}");
        assert_eq!(stage.server.seen().len(), 1, "{location}");
    }
}

#[tokio::test]
async fn a_redirect_to_a_host_that_the_caller_refuses_is_not_followed() {
    let stage = Stage::to(302, "http://other.example:PORT/").await;
    let permits = |host: &str| match host {
        "start.example" => Ok(()),
        other => Err(format!("no {other}")),
    };
    let error = stage.guard.get(stage.url(), &permits).await.unwrap_err();
    assert_eq!(error.to_string(), "no other.example");
    assert_eq!(stage.server.seen().len(), 1);
}

#[tokio::test]
async fn redirect_loops_end() {
    let stage = Stage::to(301, "/").await;
    let error = stage.get().await.unwrap_err();
    assert_eq!(
        error,
        "start.example redirects more than 8 times. Fetch the final URL itself"
    );
    assert_eq!(stage.server.seen().len(), MAX_REDIRECTS + 1);
}

#[tokio::test]
async fn a_response_that_is_no_redirect_is_returned() {
    for (status, headers) in [
        (302, ""),
        (304, "location: /x\r\n"),
        (200, "location: /x\r\n"),
    ] {
        let stage = Stage::new(move |_| answer(status, headers, "")).await;
        let response = stage.get().await.unwrap();
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(stage.server.seen().len(), 1);
    }
}

/// Returns a summary of the second request.
async fn resent(method: Method, status: u16, location: &'static str) -> String {
    let stage = Stage::to(status, location).await;
    let mut request = Request::new(method, stage.url());
    let headers = request.headers_mut();
    for (name, value) in [
        ("authorization", "Bearer hunter2"),
        ("cookie", "session=hunter2"),
        ("x-api-key", "hunter2"),
        ("accept", "text/html"),
        ("content-type", "text/plain"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    *request.body_mut() = Some("the body".into());
    if let Err(error) = stage.guard.execute(request, &anybody).await {
        assert_eq!(stage.server.seen().len(), 1);
        return format!("! {error}");
    }
    let seen = stage.server.seen().pop().unwrap();
    let method = seen.text.split(' ').next().unwrap();
    let secrets = seen.text.matches("hunter2").count();
    let kind = seen.text.matches("content-type").count();
    assert!(seen.text.contains("accept: text/html"), "{}", seen.text);
    format!(
        "{method} secrets={secrets} type={kind} body={:?}",
        seen.body()
    )
}

#[tokio::test]
async fn headers_and_bodies_follow_redirects_by_origin() {
    let check = async |method: Method, status, location, expected: &str| {
        let shown = resent(method.clone(), status, location).await;
        assert_eq!(shown, expected, "{method} {status} {location}");
    };
    let across = "http://other.example:PORT/next";
    check(Method::POST, 302, "/next", "GET secrets=3 type=0 body=\"\"").await;
    check(Method::POST, 303, "/next", "GET secrets=3 type=0 body=\"\"").await;
    check(Method::PUT, 303, "/next", "GET secrets=3 type=0 body=\"\"").await;
    check(
        Method::POST,
        307,
        "/next",
        "POST secrets=3 type=1 body=\"the body\"",
    )
    .await;
    check(
        Method::PUT,
        301,
        "/next",
        "PUT secrets=3 type=1 body=\"the body\"",
    )
    .await;
    check(Method::POST, 302, across, "GET secrets=0 type=0 body=\"\"").await;
    check(
        Method::POST,
        307,
        across,
        "! start.example redirects the request and its body to other.example, which is not followed. Send it to other.example if that is the right host",
    )
    .await;
}
