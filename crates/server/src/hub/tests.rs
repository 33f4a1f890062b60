//! Clients that are slower than the events.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use sortie_core::policy::Mode;
use sortie_core::skill::SkillRef;
use sortie_core::words::Lang;
use sortie_protocol::{ConfigLine, DoctorLine, Proof, Resume};
use sortie_test_support::stage::{MODEL, Play, Stage};
use tempfile::TempDir;

use super::frame::Source;
use super::ring::After;
use super::{Frame, NewSubscription, Outgoing, Subscriber, TEXTS_KEPT, Topic};
use crate::app::App;
use crate::config::{ServerConfig, ServerLimits};
use crate::guard::Caller;
use crate::host::{Host, HostError};
use crate::keys::Credential;
use crate::server::Server;

/// The bytes of the ring, and a little for messages being sent.
const MOST_BYTES: usize = 17 * 1024 * 1024;
const LONG: usize = 64 * 1024;

#[derive(Debug)]
struct NoBinary;

#[async_trait]
impl Host for NoBinary {
    fn version(&self) -> String {
        "0.0.0-test".to_owned()
    }

    async fn config(&self) -> Result<Vec<ConfigLine>, HostError> {
        Ok(Vec::new())
    }

    async fn doctor(&self) -> Result<Vec<DoctorLine>, HostError> {
        Ok(Vec::new())
    }

    async fn models(&self) -> Result<Vec<String>, HostError> {
        Ok(Vec::new())
    }

    async fn skills(&self, _workspace: &Path) -> Result<Vec<SkillRef>, HostError> {
        Ok(Vec::new())
    }
}

/// A server without connections, with made-up events.
struct World {
    _stage: Stage,
    _home: TempDir,
    server: Server,
    frames: Vec<Weak<Frame>>,
}

impl World {
    async fn begin() -> Self {
        let stage = Play::new("  - say: \"done\"\n").begin().await;
        let home = TempDir::new().unwrap();
        let config = ServerConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            hosts: Vec::new(),
            workspaces: vec![stage.workspace().to_owned()],
            tenants: BTreeMap::new(),
            home: home.path().to_owned(),
            lang: Lang::En,
            default_model: MODEL.to_owned(),
            default_mode: Mode::Default,
            proof: Proof::new([5; 32]),
            limits: ServerLimits::default(),
        };
        let server = Server::bind(config, stage.shared_runtime(), Arc::new(NoBinary));
        Self {
            server: server.await.unwrap(),
            _stage: stage,
            _home: home,
            frames: Vec::new(),
        }
    }

    fn app(&self) -> &Arc<App> {
        &self.server.app
    }

    /// A client that subscribes to everything after a sequence number.
    fn listener(&self, seq: u64, text: bool) -> Subscriber {
        let app = self.app();
        let now = app.runtime.now();
        let token = app.keys.file().ensure_first(now).unwrap().reveal();
        let shown = Credential::of_token(&token).unwrap();
        let found = app.keys.by_token(&shown, now).unwrap().unwrap();
        let mut listener = Subscriber::new(app, Caller::from(found));
        let resume = Resume {
            epoch: app.hub.epoch().to_owned(),
            seq,
        };
        let is_resumed = listener.subscribe(NewSubscription {
            id: "s".to_owned(),
            topic: Topic::All,
            text,
            resume: Some(resume),
        });
        assert!(is_resumed);
        listener
    }

    fn frame(&self, text: &str) -> Frame {
        let run = self.app().runtime.new_run_id();
        let source = Source {
            session: "web:test".parse().unwrap(),
            root: run,
            tenant: None,
        };
        Frame::text(run, source, text)
    }

    /// Publishes an event of that many bytes.
    fn publish(&mut self, bytes: usize) {
        let mut frame = self.frame(&"x".repeat(bytes));
        let hub = &self.app().hub;
        hub.publish(|seq| {
            frame.seq = seq;
            frame.name = "event";
            frame
        });
        let ring = hub.ring();
        let After::Frame(kept) = ring.after(ring.seq() - 1) else {
            panic!("it is kept");
        };
        let kept = Arc::downgrade(kept);
        drop(ring);
        self.frames.push(kept);
    }

    /// Streams a piece of a completion.
    fn stream(&self, text: &str) {
        self.app().hub.publish_text(self.frame(text));
    }

    /// The bytes of all events that are still referenced.
    fn referenced(&self) -> usize {
        let alive = self.frames.iter().filter_map(Weak::upgrade);
        alive.map(|frame| frame.bytes.len()).sum()
    }
}

async fn next(listener: &mut Subscriber) -> Outgoing {
    listener.next().await.unwrap()
}

#[tokio::test]
async fn text_is_sent_in_order_with_the_events() {
    let mut world = World::begin().await;
    let mut listener = world.listener(0, true);
    world.stream("a word");
    world.stream("another");
    world.publish(1);
    world.stream("of the next answer");
    world.publish(1);
    let mut names = Vec::new();
    for _ in 0..6 {
        names.push(next(&mut listener).await.name());
    }
    assert_eq!(names, ["control", "text", "text", "event", "text", "event"]);
}

#[tokio::test]
async fn events_wait_behind_a_bounded_amount_of_text() {
    let mut world = World::begin().await;
    let mut listener = world.listener(0, true);
    for _ in 0..3 * TEXTS_KEPT {
        world.stream("a word");
    }
    world.publish(1);
    assert_eq!(next(&mut listener).await.name(), "control");
    let mut texts = 0;
    while next(&mut listener).await.name() == "text" {
        texts += 1;
        // More text arrives than this client reads.
        world.stream("more");
        world.stream("and more");
    }
    assert!(texts <= TEXTS_KEPT, "{texts}");
}

#[tokio::test]
async fn slow_clients_do_not_keep_evicted_events_in_memory() {
    let mut world = World::begin().await;
    let mut slow = world.listener(0, false);
    assert_eq!(next(&mut slow).await.name(), "control");
    for _ in 0..200 {
        world.publish(LONG);
    }
    // A returning client has all of these to read, and is slow too.
    let mut late = world.listener(0, false);
    assert_eq!(next(&mut late).await.name(), "control");
    assert_eq!(next(&mut late).await.seq(), Some(1));
    for _ in 0..800 {
        world.publish(LONG);
    }
    assert!(world.referenced() < MOST_BYTES, "{}", world.referenced());
    assert_eq!(next(&mut slow).await.name(), "snapshot");
    assert_eq!(next(&mut late).await.seq(), Some(2), "already fetched");
    assert_eq!(next(&mut late).await.name(), "snapshot");
    world.publish(1);
    for mut listener in [slow, late] {
        assert_eq!(next(&mut listener).await.seq(), Some(1_001), "it goes on");
    }
}

#[tokio::test]
async fn resumed_client_gets_missed_events_once_and_in_order() {
    let mut world = World::begin().await;
    for _ in 0..5 {
        world.publish(1);
    }
    let mut listener = world.listener(2, false);
    world.publish(1);
    assert_eq!(next(&mut listener).await.name(), "control");
    assert!(!listener.is_drained());
    for seq in 3..=6 {
        assert_eq!(next(&mut listener).await.seq(), Some(seq));
    }
    assert!(listener.is_drained());
}
