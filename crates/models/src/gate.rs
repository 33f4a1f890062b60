//! Queues model requests until a provider's limits admit them: the waiting around the pure
//! decisions of `governor`.
//!
//! The process has one [`Gate`] for each model of a provider, shared by all runs. A queue position
//! is tied to its `QueueEntry`: dropping a request frees its position and its slot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sortie_core::ports::model::{DeltaSink, Fault, ModelError, RateLimitWait};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::governor::{
    Breaker, Limits, Moment, Passage, RateHint, Ticket, Turn, Valve, ValveState, Verdict,
};

/// The longest total wait of a request before it fails with an error.
const MAX_WAIT: Duration = Duration::from_secs(15 * 60);
/// The longest wait of a request if the run can fall back to another model.
const MAX_WAIT_WITH_FALLBACK: Duration = Duration::from_secs(20);
/// How often a waiting request re-checks its turn: a wake-up is only a hint, the check decides.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a request waits before the wait is reported: most waits are over by then.
const REPORT_AFTER: Duration = Duration::from_millis(50);

/// The gates of all models of this process.
#[derive(Debug)]
pub struct Governor {
    start: Instant,
    gates: Mutex<BTreeMap<(String, String), Arc<Gate>>>,
}

/// The observable state of the gate of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct GateState {
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
    pub in_flight: u32,
    /// The maximum number of requests in flight.
    pub limit: u32,
    /// Requests in the queue.
    pub queued: u32,
    /// The remaining time of the present pause, if the gate is paused.
    pub paused_for: Option<Duration>,
    /// The learned pace, in requests per second.
    pub per_second: Option<f64>,
    /// The state of the provider's circuit breaker: `closed` (requests pass), `open` (requests are
    /// blocked) or `trying` (one probe is in flight).
    pub breaker: &'static str,
}

impl Default for Governor {
    fn default() -> Self {
        Self::new()
    }
}

impl Governor {
    /// Creates a governor without gates.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            gates: Mutex::default(),
        }
    }

    /// Returns the state of each gate, by provider and model.
    pub fn states(&self) -> Vec<GateState> {
        let gates: Vec<_> = locked(&self.gates)
            .iter()
            .map(|(names, gate)| (names.clone(), Arc::clone(gate)))
            .collect();
        let show = |((provider, model), gate): ((String, String), Arc<Gate>)| {
            let (state, breaker) = gate.state();
            GateState {
                provider,
                model,
                in_flight: state.in_flight,
                limit: state.limit,
                queued: state.queued,
                paused_for: state.paused_for,
                per_second: state.per_second,
                breaker,
            }
        };
        gates.into_iter().map(show).collect()
    }

    /// Returns the gate of a model. The limits of the first caller apply.
    pub(crate) fn gate(&self, provider: &str, model: &str, limits: Limits) -> Arc<Gate> {
        let mut gates = locked(&self.gates);
        let key = (provider.to_owned(), model.to_owned());
        if let Some(gate) = gates.get(&key) {
            return Arc::clone(gate);
        }
        let neighbour = gates.iter().find(|((name, _), _)| name == provider);
        let breaker = neighbour.map(|(_, gate)| Arc::clone(&gate.breaker));
        let gate = Arc::new(Gate {
            name: format!("{provider}/{model}"),
            start: self.start,
            inside: Mutex::new(Inside {
                valve: Valve::new(limits),
                waiters: BTreeMap::new(),
            }),
            breaker: breaker.unwrap_or_default(),
        });
        gates.insert(key, Arc::clone(&gate));
        gate
    }
}

/// The queue of requests to one model.
#[derive(Debug)]
pub(crate) struct Gate {
    name: String,
    start: Instant,
    inside: Mutex<Inside>,
    /// Shared by all models of the provider.
    breaker: Arc<Mutex<Breaker>>,
}

#[derive(Debug)]
struct Inside {
    valve: Valve,
    waiters: BTreeMap<Ticket, Arc<Notify>>,
}

/// What a request needs from a gate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GateRequest {
    /// Whether the run falls back to another model if this one does not reply soon.
    pub has_fallback: bool,
    /// The estimated number of tokens of the request.
    pub tokens: u64,
}

/// The outcome of a request, as far as the gate needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// The provider replied; `tokens` is the total usage of the exchange, if known.
    Answered { tokens: Option<u64> },
    /// The provider returned an error that concerns only this request.
    Declined,
    /// The provider rate-limited the request. It is queued again at its old position.
    Refused { retry_after: Option<Duration> },
    /// The network or the provider failed.
    Failed,
}

impl Gate {
    /// Appends a request to the queue.
    pub(crate) fn enter(self: &Arc<Self>, request: GateRequest) -> QueueEntry {
        let bell = Arc::new(Notify::new());
        let mut inside = locked(&self.inside);
        let ticket = inside.valve.enter();
        inside.waiters.insert(ticket, Arc::clone(&bell));
        QueueEntry {
            gate: Arc::clone(self),
            ticket,
            bell,
            request,
            left: None,
            waited: Duration::ZERO,
        }
    }

    /// Applies the limits that the provider reported in response headers.
    pub(crate) fn hint(&self, hint: &RateHint) {
        locked(&self.inside).valve.hint(hint, self.now());
    }

    fn state(&self) -> (ValveState, &'static str) {
        let state = locked(&self.inside).valve.state(self.now());
        (state, locked(&self.breaker).state_name())
    }

    fn now(&self) -> Moment {
        Instant::now().saturating_duration_since(self.start)
    }
}

impl Inside {
    fn wake_next(&self) {
        let next = self.valve.head().and_then(|head| self.waiters.get(&head));
        if let Some(bell) = next {
            bell.notify_one();
        }
    }
}

/// The position of a request: in the queue, then in flight.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    gate: Arc<Gate>,
    ticket: Ticket,
    bell: Arc<Notify>,
    request: GateRequest,
    left: Option<Moment>,
    waited: Duration,
}

/// The next step of a waiting request.
enum Step {
    Go,
    Wait {
        until: Option<Moment>,
        wait: RateLimitWait,
    },
    GiveUp(ModelError),
}

impl QueueEntry {
    /// Waits until the request may be sent, and reports the wait to `deltas`.
    pub(crate) async fn wait_turn(&mut self, deltas: &dyn DeltaSink) -> Result<(), ModelError> {
        let began = self.gate.now();
        let before = self.waited;
        let mut reported: Option<(Moment, RateLimitWait)> = None;
        let outcome = loop {
            let now = self.gate.now();
            self.waited = before + now.saturating_sub(began);
            let (until, wait) = match self.step(now) {
                Step::Go => break Ok(()),
                Step::GiveUp(error) => break Err(error),
                Step::Wait { until, wait } => (until, wait),
            };
            let report_at = match reported {
                None if wait.resumes_in_ms.is_some() => now,
                None => began + REPORT_AFTER,
                Some((last, last_wait)) if last_wait.position != wait.position => {
                    last + RECHECK_INTERVAL
                }
                Some(_) => now + RECHECK_INTERVAL,
            };
            if report_at <= now {
                deltas.rate_limited(Some(wait));
                reported = Some((now, wait));
            }
            let look = now + RECHECK_INTERVAL;
            let wake = [until, (report_at > now).then_some(report_at)];
            let wake = wake.into_iter().flatten().fold(look, Moment::min);
            self.wait_until(wake.max(now + Duration::from_millis(1)))
                .await;
        };
        if reported.is_some() {
            deltas.rate_limited(None);
        }
        outcome
    }

    /// Records the outcome of the request. Only a rate-limited request may be admitted again.
    pub(crate) fn returned(&mut self, how: Return) {
        let Some(left) = self.left.take() else {
            return;
        };
        let now = self.gate.now();
        let mut breaker = locked(&self.gate.breaker);
        match how {
            Return::Answered { .. } | Return::Declined | Return::Refused { .. } => {
                breaker.answered();
            }
            Return::Failed => breaker.failed(left, now),
        }
        drop(breaker);
        let verdict = match how {
            Return::Answered { .. } | Return::Declined => Verdict::Accepted,
            Return::Refused { retry_after } => Verdict::Refused { retry_after },
            Return::Failed => Verdict::Lost,
        };
        let mut inside = locked(&self.gate.inside);
        let valve = &mut inside.valve;
        if let Return::Answered {
            tokens: Some(really),
        } = how
        {
            valve.carried(self.request.tokens, really, now);
        }
        valve.returned(self.ticket, verdict, fastrand::f64(), now);
        inside.wake_next();
    }

    /// Returns how long the request has waited in total.
    pub(crate) const fn waited(&self) -> Duration {
        self.waited
    }

    async fn wait_until(&self, moment: Moment) {
        tokio::select! {
            () = self.bell.notified() => {}
            () = tokio::time::sleep_until(self.gate.start + moment) => {}
        }
    }

    fn step(&mut self, now: Moment) -> Step {
        let mut inside = locked(&self.gate.inside);
        let mut breaker = locked(&self.gate.breaker);
        let passage = breaker.passage(now);
        let turn = inside.valve.turn_of(self.ticket, self.request.tokens, now);
        let until = match (turn, passage) {
            (Turn::Go, Passage::Open | Passage::Try) => {
                breaker.pass(now);
                inside.valve.depart(self.ticket, self.request.tokens, now);
                self.left = Some(now);
                inside.wake_next();
                return Step::Go;
            }
            (Turn::Go, Passage::Closed(until)) => Some(until),
            (Turn::Wait { until }, Passage::Closed(until_probe)) => until.max(Some(until_probe)),
            (Turn::Wait { until }, Passage::Open | Passage::Try) => until,
        };
        if let Passage::Closed(until_probe) = passage
            && (self.request.has_fallback || self.waited >= MAX_WAIT)
        {
            return Step::GiveUp(self.suspended(until_probe.saturating_sub(now)));
        }
        let resumes_in = match passage {
            Passage::Closed(until_probe) => Some(until_probe.saturating_sub(now)),
            Passage::Open | Passage::Try => inside.valve.paused_for(now),
        };
        if let Some(error) = self.waits_too_long(&inside.valve, now) {
            return Step::GiveUp(error);
        }
        let wait = RateLimitWait {
            position: inside.valve.position(self.ticket),
            resumes_in_ms: resumes_in.map(millis),
        };
        Step::Wait { until, wait }
    }

    fn suspended(&self, until_probe: Duration) -> ModelError {
        ModelError::retryable(format!(
            "requests to the provider of {} are suspended after repeated failures; retry in {} s",
            self.gate.name,
            until_probe.as_secs() + 1
        ))
    }

    fn waits_too_long(&self, valve: &Valve, now: Moment) -> Option<ModelError> {
        let expected = valve.expected_wait(self.ticket, now);
        let too_long = if self.request.has_fallback {
            self.waited.max(expected) > MAX_WAIT_WITH_FALLBACK
        } else {
            // Waiting for requests in flight is no failure: each of them ends.
            self.waited >= MAX_WAIT && valve.is_limited(now)
        };
        too_long.then(|| {
            let retry_after_ms = (!expected.is_zero()).then(|| millis(expected));
            ModelError::new(
                Fault::RateLimited { retry_after_ms },
                format!(
                    "{} is rate-limited: waited {} s and would wait longer; send fewer prompts at once, or choose another model",
                    self.gate.name,
                    self.waited.as_secs()
                ),
            )
        })
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        if let Some(left) = self.left {
            let now = self.gate.now();
            locked(&self.gate.breaker).dropped(left, now);
        }
        let mut inside = locked(&self.gate.inside);
        inside.valve.leave(self.ticket);
        inside.waiters.remove(&self.ticket);
        inside.wake_next();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
