//! Serves connections.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::cache::{Cache, charged};
use super::limit::Limiter;
use super::plan::{Finish, Making, Plan, turned_away};
use super::prompt::wire_of;
use super::reply::Reply;
use super::socket::{Connection, Next, Received};
use super::{ReceivedPrompt, Wire};
use super::{Recorded, Settings, locked};

type Script = Box<dyn Fn(&ReceivedPrompt) -> Reply + Send + Sync>;

/// What all connections share.
pub(super) struct Shared {
    settings: Settings,
    script: Script,
    start: Instant,
    bucket: Mutex<Option<Limiter>>,
    cache: Mutex<Cache>,
    pub(super) requests: Mutex<Vec<Recorded>>,
    pub(super) load: Mutex<Load>,
}

/// The requests in progress.
#[derive(Debug, Default)]
pub(super) struct Load {
    answered: usize,
    now: usize,
    pub(super) most: usize,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(settings: Settings, script: Script) -> Self {
        Self {
            settings,
            script,
            start: Instant::now(),
            bucket: Mutex::new(settings.limit.map(Limiter::new)),
            cache: Mutex::default(),
            requests: Mutex::default(),
            load: Mutex::default(),
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Accepts connections until the provider is dropped.
pub(super) async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).ok();
        let shared = Arc::clone(shared);
        connections.spawn(async move {
            // Many tests drop the client in the middle.
            talk(&shared, Connection::new(stream)).await.ok();
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn talk(shared: &Shared, mut connection: Connection) -> io::Result<()> {
    while let Some(received) = connection.request().await? {
        let work = Work::begin(shared, received);
        if work.carry_out(&mut connection).await? == Next::Nothing {
            return Ok(());
        }
    }
    Ok(())
}

/// One request in progress.
struct Work<'a> {
    shared: &'a Shared,
    plan: Plan,
    /// The place of its prompt in the cache.
    kept: Option<usize>,
    is_counted: bool,
}

impl<'a> Work<'a> {
    fn begin(shared: &'a Shared, received: Received) -> Self {
        let body: Option<Value> = serde_json::from_slice(&received.body).ok();
        let (Some(wire), Some(body)) = (wire_of(&received.path), body) else {
            return Self::turned_away(shared, None, 404, None);
        };
        let at = shared.now();
        let mut prompt = ReceivedPrompt::read(wire, &received.path, body);
        let refused = match &mut *locked(&shared.bucket) {
            Some(bucket) => bucket.take(at).err(),
            None => None,
        };
        if refused.is_none() {
            prompt.nth = shared.count_in();
        }
        let place = shared.record(received, at, prompt.clone());
        let work = match refused {
            Some(retry_after) => Self::turned_away(shared, Some(wire), 429, retry_after),
            None => Self::answered(shared, &prompt),
        };
        shared.note(place, &work.plan);
        work
    }

    fn turned_away(
        shared: &'a Shared,
        wire: Option<Wire>,
        status: u16,
        retry_after: Option<u64>,
    ) -> Self {
        Self {
            shared,
            plan: turned_away(wire, status, retry_after),
            kept: None,
            is_counted: false,
        }
    }

    fn answered(shared: &'a Shared, prompt: &ReceivedPrompt) -> Self {
        let reply = (shared.script)(prompt);
        let (prompt_tokens, kept) = if shared.settings.cache {
            let (prompt_tokens, place) = locked(&shared.cache).charge(prompt);
            (prompt_tokens, Some(place))
        } else {
            let mut prompt_tokens = charged(prompt, 0);
            prompt_tokens.fresh += std::mem::take(&mut prompt_tokens.cache_write);
            (prompt_tokens, None)
        };
        let making = Making {
            prompt,
            prompt_tokens,
            model: prompt.model.clone(),
        };
        let mut plan = making.plan(&reply);
        plan.wait += shared.settings.first_byte_after;
        Self {
            shared,
            plan,
            kept,
            is_counted: true,
        }
    }

    async fn carry_out(self, connection: &mut Connection) -> io::Result<Next> {
        if !self.plan.wait.is_zero() && !connection.wait(self.plan.wait).await {
            return Ok(Next::Nothing);
        }
        if let Some(head) = self.plan.head {
            connection.head(head).await?;
        }
        if let Some(kept) = self.kept.filter(|_| self.plan.tokens.is_some()) {
            locked(&self.shared.cache).begun(kept);
        }
        let is_abrupt = matches!(self.plan.finish, Finish::Abrupt);
        let last = self.plan.chunks.len().saturating_sub(1);
        for (index, chunk) in self.plan.chunks.iter().enumerate() {
            match is_abrupt && index == last {
                true => connection.half_chunk(chunk).await?,
                false => connection.chunk(chunk).await?,
            }
        }
        connection.finish(&self.plan.finish).await
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if self.is_counted {
            locked(&self.shared.load).now -= 1;
        }
    }
}

impl Shared {
    /// Counts an accepted request; returns its number.
    fn count_in(&self) -> usize {
        let mut load = locked(&self.load);
        load.answered += 1;
        load.now += 1;
        load.most = load.most.max(load.now);
        load.answered
    }

    fn record(&self, received: Received, at: Duration, prompt: ReceivedPrompt) -> usize {
        let mut requests = locked(&self.requests);
        requests.push(Recorded {
            at,
            path: received.path,
            headers: received.headers,
            raw: received.body,
            prompt,
            status: None,
            tokens: None,
        });
        requests.len() - 1
    }

    fn note(&self, place: usize, plan: &Plan) {
        if let Some(recorded) = locked(&self.requests).get_mut(place) {
            recorded.status = plan.head.map(|head| head.status);
            recorded.tokens = plan.tokens;
        }
    }
}
