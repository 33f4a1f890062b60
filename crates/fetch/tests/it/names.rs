//! Tests that a name is resolved once, that all its addresses are checked, and that only these are
//! connected to.

use sortie_fetch::{NetError, Refused, Url};

use crate::server::{Server, answer};
use crate::{Table, anybody, guard};

async fn hello() -> Server {
    Server::start(|_| answer(200, "", "hello")).await
}

#[tokio::test]
async fn a_name_with_one_refused_address_is_refused() {
    let server = hello().await;
    let table = Table::of(&[
        ("mixed.example", &[&["93.184.215.14", "127.0.0.1"]]),
        ("home.example", &[&["127.0.0.1"]]),
        ("mapped.example", &[&["::ffff:127.0.0.1"]]),
        ("meta.example", &[&["169.254.169.254"]]),
        ("empty.example", &[&[]]),
    ]);
    // A suffix rule permits the port, but no address.
    let guard = guard(&[format!("*.example:{}", server.port)], table);
    for (host, expected) in [
        ("mixed.example", "mixed.example resolves to 127.0.0.1"),
        ("home.example", "home.example resolves to 127.0.0.1"),
        (
            "mapped.example",
            "mapped.example resolves to ::ffff:127.0.0.1",
        ),
        ("meta.example", "meta.example resolves to 169.254.169.254"),
        ("empty.example", "empty.example has no address"),
        ("nowhere.example", "nowhere.example has no address"),
    ] {
        let url = Url::parse(&format!("http://{host}:{}/", server.port)).unwrap();
        let error = guard.get(url, &anybody).await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_name_that_resolves_differently_is_judged_at_each_request() {
    let server = hello().await;
    let table = Table::of(&[("turn.example", &[&["127.0.0.1"], &["169.254.169.254"]])]);
    let guard = guard(&[format!("turn.example:{}", server.port)], table.clone());
    let url = Url::parse(&format!("http://turn.example:{}/", server.port)).unwrap();
    let response = guard.get(url.clone(), &anybody).await.unwrap();
    assert_eq!(
        response.remote_address().unwrap().ip().to_string(),
        "127.0.0.1"
    );
    assert_eq!(table.lookups(), 1);
    let error = guard.get(url, &anybody).await.unwrap_err();
    assert!(
        matches!(&error, NetError::Refused(Refused::Address { address, .. }) if address.to_string() == "169.254.169.254"),
        "{error:?}"
    );
    assert_eq!((table.lookups(), server.seen().len()), (2, 1));
}

#[tokio::test]
async fn the_rule_for_a_name_is_no_rule_for_its_address() {
    let server = hello().await;
    let table = Table::of(&[
        ("good.example", &[&["127.0.0.1"]]),
        ("evil.example", &[&["127.0.0.1"]]),
    ]);
    let rules = [
        format!("good.example:{}", server.port),
        format!("127.0.0.1:{}", server.port),
        format!("*:{}", server.port),
    ];
    let guard = guard(&rules, table);
    for (host, reached) in [
        ("good.example", true),
        ("127.0.0.1", true),
        ("127.0.0.2", false),
        ("evil.example", false),
    ] {
        let url = Url::parse(&format!("http://{host}:{}/", server.port)).unwrap();
        let answer = guard.get(url, &anybody).await;
        assert_eq!(answer.is_ok(), reached, "{host}: {answer:?}");
    }
}

#[tokio::test]
async fn the_caller_decides_about_each_host() {
    let server = hello().await;
    let table = Table::of(&[("good.example", &[&["127.0.0.1"]])]);
    let guard = guard(&[format!("good.example:{}", server.port)], table.clone());
    let url = Url::parse(&format!("http://GOOD.example.:{}/", server.port)).unwrap();
    let permits = |host: &str| Err(format!("{host} is not permitted here"));
    let error = guard.get(url, &permits).await.unwrap_err().to_string();
    assert_eq!(error, "good.example is not permitted here");
    assert_eq!((table.lookups(), server.seen().len()), (0, 0));
}
