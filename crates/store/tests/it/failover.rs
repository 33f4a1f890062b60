//! The store on PostgreSQL servers with TLS, of which one is a read-only standby.

use std::time::Duration;

use sortie_core::ports::store::*;
use sortie_store::{DurableStore, Owner, Target};

use crate::owner;
use crate::server::cluster::{Node, OTHER_NAME, authority};
use crate::support::*;

/// Returns an address with these hosts, in this order, and options.
fn target(hosts: &[(&str, u16)], options: &str) -> Target {
    let hosts: Vec<String> = hosts
        .iter()
        .map(|(name, port)| format!("{name}:{port}"))
        .collect();
    let address = format!("postgres://sortie@{}/postgres?{options}", hosts.join(","));
    address.parse().unwrap()
}

fn connect(target: &Target) -> StoreResult<DurableStore> {
    let home = tempfile::tempdir().unwrap();
    DurableStore::connect(home.path(), target, &owner())
}

/// The sessions of stores, and how many of them use TLS.
const SESSIONS: &str = "FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
     WHERE application_name = 'sortie'";

#[tokio::test]
async fn sessions_use_tls_and_check_the_certificate() {
    let mut server = Node::primary();
    let port = server.port;
    let encrypted = format!("SELECT COUNT(*) {SESSIONS} AND ssl");
    let plain = format!("SELECT COUNT(*) {SESSIONS} AND NOT ssl");
    let (ours, other) = (authority("ca.pem"), authority("other.pem"));
    let open = |name: &str, options: &str| connect(&target(&[(name, port)], options));

    for options in [
        "",
        "sslmode=prefer",
        "sslmode=require",
        &format!("sslmode=verify-full&sslrootcert={ours}"),
    ] {
        let store = open("localhost", options).unwrap();
        admit(&store, 1, spec(1)).await;
        assert!(server.count(&encrypted) > 0, "{options}");
        assert_eq!(server.count(&plain), 0, "{options}");
        drop(store);
        server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    }

    drop(open(OTHER_NAME, &format!("sslmode=verify-ca&sslrootcert={ours}")).unwrap());
    let store = open("localhost", "sslmode=disable").unwrap();
    assert!(server.count(&plain) > 0);
    drop(store);

    let refused = |name: &str, options: &str, expected: &str| {
        let text = chain_of(&open(name, options).unwrap_err());
        assert!(text.contains(expected), "{options}: {text}");
    };
    let full = |roots: &str| format!("sslmode=verify-full&sslrootcert={roots}");
    refused(
        "localhost",
        &full(&other),
        "invalid peer certificate: UnknownIssuer",
    );
    refused(
        "localhost",
        &format!("sslmode=require&sslrootcert={other}"),
        "UnknownIssuer",
    );
    refused(OTHER_NAME, &full(&ours), "not valid for name");
    refused(
        "localhost",
        &full("/nowhere/ca.pem"),
        "cannot read the root certificates",
    );
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().display().to_string();
    refused("localhost", &full(&empty), "contains no certificate");

    server.restart_without_tls();
    refused(
        "localhost",
        "sslmode=require",
        "server does not support TLS",
    );
    drop(open("localhost", "sslmode=prefer").unwrap());
}

#[tokio::test]
async fn a_standby_is_skipped_and_its_promotion_continues_the_work() {
    let mut primary = Node::primary();
    let standby = Node::standby_of(&primary);
    let hosts = [("localhost", standby.port), ("localhost", primary.port)];
    let options = format!("sslmode=verify-full&sslrootcert={}", authority("ca.pem"));
    let target = target(&hosts, &options);

    let alone = connect(&self::target(&hosts[..1], &options)).unwrap_err();
    let text = chain_of(&alone);
    assert!(text.contains("does not allow writes"), "{text}");

    let store = connect(&target).unwrap();
    let fence = running(&store, 1, spec(1)).await;
    let acknowledged = store.append_next(appending(fence, 10, vec![note("before")]));
    let follows = acknowledged.await.unwrap().head;
    store.probe().await.unwrap();

    primary.stop();
    let waits = store.append(Append {
        follows,
        ..appending(fence, 11, vec![note("meanwhile")])
    });
    let promotes = async {
        // The reason of the outage is known before the write is answered.
        let text = loop {
            let probe = tokio::time::timeout(Duration::from_millis(50), store.probe());
            if let Ok(Err(error)) = probe.await {
                let text = chain_of(&error);
                // At first the reason may be the lost connection.
                if text.contains("does not allow writes") {
                    break text;
                }
            }
        };
        assert!(
            text.contains(&format!("localhost:{}", primary.port)),
            "{text}"
        );
        standby.promote();
    };
    let (appended, ()) = tokio::join!(waits, promotes);
    appended.unwrap();

    assert_eq!(
        story(&store, 1).await,
        "admitted claimed model_failed model_failed"
    );
    store.probe().await.unwrap();
    sound(&store).await;
}

#[tokio::test]
async fn a_process_that_finds_another_owner_is_told_so() {
    let server = Node::primary();
    let target = target(&[("localhost", server.port)], "");
    // A process that exists, so that the first one does not wait for its death.
    let living = Owner { pid: 1, ..owner() };
    let home = tempfile::tempdir().unwrap();
    let store = DurableStore::connect(home.path(), &target, &owner()).unwrap();
    let fence = running(&store, 1, spec(1)).await;
    // Another process takes the lock as soon as the session of the first one has ended.
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sortie'",
    );
    let other = tempfile::tempdir().unwrap();
    let second = DurableStore::connect(other.path(), &target, &living).unwrap();
    let beat = Heartbeat {
        fences: vec![fence],
        lease_until: at(60_000),
    };
    let refused = store.heartbeat(beat).await;
    assert!(
        matches!(refused, Err(StoreError::Locked { .. })),
        "{refused:?}"
    );
    drop(second);
}
