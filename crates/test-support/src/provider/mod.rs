//! A model provider on loopback: four wire formats and their known faults.
//!
//! [`Provider::start`] opens a real HTTP server on a free port. A script, which is a function of
//! the prompt ([`ReceivedPrompt`]), chooses a [`Reply`]; the server encodes it in the wire format of the
//! request, streaming or whole, and breaks off where the reply says so. The HTTP is written by
//! hand, because no library sends half a chunk or a reset on request.
//!
//! Every request is [`Recorded`]. A [`Limit`] rejects requests above its rate, and a simulated
//! prompt cache counts what was read and written, so that tests can check the client against both.

mod answer;
mod cache;
mod limit;
mod plan;
mod prompt;
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
pub use limit::Limit;
pub use prompt::ReceivedPrompt;
pub use reply::{Call, Ending, Reply};
pub use sortie_core::ports::model::Wire;

use serve::Shared;

/// Settings of the provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    pub limit: Option<Limit>,
    /// Whether it has a prompt cache.
    pub cache: bool,
    /// The delay before the first byte of a completion.
    pub first_byte_after: Duration,
}

/// A recorded request with its response.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// When it had arrived, since the provider started.
    pub at: Duration,
    /// The path with its query.
    pub path: String,
    /// The headers, with lower-case names.
    pub headers: BTreeMap<String, String>,
    pub raw: Vec<u8>,
    pub prompt: ReceivedPrompt,
    /// The status of the response; `None` if there was none.
    pub status: Option<u16>,
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
    /// Starts a provider that replies by `script`.
    pub fn start(
        settings: Settings,
        script: impl Fn(&ReceivedPrompt) -> Reply + Send + Sync + 'static,
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
                sender
                    .send(address)
                    .expect("the starting thread waits for the address");
                tokio::select! {
                    () = serve::accept(&listener, &server) => {}
                    // An error means that the provider was dropped, which is the same.
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

    /// Starts a provider that gives these replies in turn, then repeats the last one.
    pub fn in_turn(replies: Vec<Reply>) -> Self {
        Self::start(Settings::default(), in_turn(replies))
    }

    /// Returns its URL without a path; it accepts any.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        locked(&self.shared.requests).clone()
    }

    /// Returns the maximum of concurrent requests.
    pub fn most_at_once(&self) -> usize {
        locked(&self.shared.load).most
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the script has been printed, and the test's request has no response.
            thread.join().ok();
        }
    }
}

/// Returns a script that gives these replies in turn, then repeats the last one.
pub fn in_turn(replies: Vec<Reply>) -> impl Fn(&ReceivedPrompt) -> Reply + Send + Sync + 'static {
    assert!(!replies.is_empty(), "a script needs a reply");
    move |prompt| replies[prompt.nth.min(replies.len()) - 1].clone()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
