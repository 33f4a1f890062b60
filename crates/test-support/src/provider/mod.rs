//! A provider of models on loopback: four wire formats, and all that goes wrong with them.
//!
//! [`Provider::start`] opens a real HTTP server on a free port of this machine. A script, which is a
//! function of what was [`Asked`], chooses a [`Reply`]; the server says it in the words of the wire
//! that it was asked in, streaming or whole, and breaks off where the reply says so. The HTTP is
//! written by hand, because no library sends half a chunk or a reset on request.
//!
//! Every request is [`Recorded`]. A [`Limit`] refuses what comes too fast, and a simulated prompt
//! cache counts what was read and written, so that tests can hold the client to both.

mod answer;
mod asked;
mod cache;
mod limit;
mod plan;
mod reply;
mod serve;
mod socket;
mod wire;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use answer::Tokens;
pub use asked::{Asked, Wire};
pub use limit::Limit;
pub use reply::{Call, Ending, Reply};

use serve::Shared;

/// What the provider does beside answering.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// How many requests it takes.
    pub limit: Option<Limit>,
    /// Whether it keeps prompts in a cache.
    pub cache: bool,
    /// How long it thinks before the first byte of an answer.
    pub first_byte_after: Duration,
}

/// A request, as it came, and what became of it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// When it had arrived, since the provider was started.
    pub at: Duration,
    /// The path, with its query.
    pub path: String,
    /// Its headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The bytes of its body.
    pub raw: Vec<u8>,
    /// What it asks.
    pub asked: Asked,
    /// The status it was answered with; `None` where there was no answer.
    pub status: Option<u16>,
    /// What its answer was said to have cost.
    pub tokens: Option<Tokens>,
}

/// A provider that runs until it is dropped.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    /// Starts a provider that answers by `script`.
    pub fn start(
        settings: Settings,
        script: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::new(settings, Box::new(script)));
        let (stop, stopped) = oneshot::channel();
        let (sender, ready) = std::sync::mpsc::channel();
        let server = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime for the provider");
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                    .await
                    .expect("a free port on this machine");
                let address = listener.local_addr().expect("an address that was bound");
                sender.send(address).expect("somebody who waits for it");
                tokio::select! {
                    () = serve::accept(&listener, &server) => {}
                    // An error means that the provider is gone, which is the same.
                    _ = stopped => {}
                }
            });
        });
        let address = ready.recv().expect("a provider that listens");
        Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Starts a provider that gives these replies in turn, and the last one ever after.
    pub fn in_turn(replies: Vec<Reply>) -> Self {
        Self::start(Settings::default(), in_turn(replies))
    }

    /// Where it is: without a path, which it does not mind.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in the order they came.
    pub fn requests(&self) -> Vec<Recorded> {
        locked(&self.shared.requests).clone()
    }

    /// The most requests that were being answered at one time.
    pub fn most_at_once(&self) -> usize {
        locked(&self.shared.load).most
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the script has been printed, and the test that asked has no answer.
            thread.join().ok();
        }
    }
}

/// A script that gives these replies in turn, and the last one ever after.
pub fn in_turn(replies: Vec<Reply>) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    assert!(!replies.is_empty(), "a script needs a reply");
    move |asked| replies[asked.nth.min(replies.len()) - 1].clone()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
