//! Decides when a request to a model may be sent: a pure state machine for each model of a
//! provider.
//!
//! Requests wait in one FIFO queue. When a provider rate-limits a request, all requests pause for
//! as long as the provider demands; afterwards requests are sent evenly at the pace that the
//! provider was observed to accept, so that the next refusal is rare. Time is passed in, as the
//! time since the machine was created; nothing here waits.

mod breaker;
mod hint;
mod pace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use sortie_base::token_bucket::TokenBucket;

pub(crate) use breaker::{Breaker, Passage};
pub(crate) use hint::{Allowance, RateHint};
use pace::{Accepted, Pace};

/// Time since the state machine was created.
pub(crate) type Moment = Duration;
/// A request in the queue; later requests have higher numbers.
pub(crate) type Ticket = u64;

/// The highest concurrency that the governor may reach if none is configured.
pub(crate) const MAX_CONCURRENT: u32 = 64;
/// The longest pause that one refusal can cause: after it, the next request is sent.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// The first pause after a refusal without `retry-after`; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a refusal without `retry-after`.
const MAX_UNTOLD_PAUSE: Duration = Duration::from_secs(60);
/// How long departures are kept: the longest window in which providers count.
const REMEMBERED: Duration = Duration::from_secs(60);
/// The maximum number of departures that are kept.
const MAX_REMEMBERED: usize = 4096;
/// How far the concurrency may exceed the bare need, because response times vary.
const HEADROOM: f64 = 1.5;

/// The limits of a model, from configuration or the vendor's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The initial maximum number of requests in flight.
    pub start_concurrent: u32,
    /// The highest number of requests in flight that can be reached.
    pub max_concurrent: u32,
    /// The maximum number of requests sent per minute.
    pub requests_per_minute: Option<u32>,
    /// The maximum number of tokens sent per minute.
    pub tokens_per_minute: Option<u64>,
}

/// Decides when the requests to one model may be sent.
#[derive(Debug)]
pub(crate) struct Valve {
    waiting: BTreeSet<Ticket>,
    /// The requests in flight, and when they were sent.
    under_way: BTreeMap<Ticket, Moment>,
    departures: VecDeque<(Moment, Ticket)>,
    concurrency: Concurrency,
    pace: Pace,
    requests: Option<TokenBucket>,
    tokens: Option<TokenBucket>,
    refusal: ProviderRefusal,
    next_ticket: Ticket,
}

/// The limit of requests in flight.
#[derive(Debug)]
struct Concurrency {
    limit: u32,
    max: u32,
    successes: u32,
    /// Whether the limit grows with every response; ends with the provider's first refusal.
    growing_fast: bool,
    /// Whether the provider was observed to limit concurrency instead of requests per second.
    counted: bool,
    mean_answer: Option<Duration>,
}

/// The provider's latest refusals.
#[derive(Debug, Default)]
struct ProviderRefusal {
    paused_until: Option<Moment>,
    /// The first refusal of the present pause, and its `retry-after`.
    first: Option<(Moment, Option<Duration>)>,
    /// Requests sent before this moment have already been taken into account.
    judged_before: Moment,
    in_a_row: u32,
}

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Turn {
    /// The request may be sent now.
    Go,
    /// The request may not be sent before this moment; `None` means until another one completes.
    Wait { until: Option<Moment> },
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The provider sent a completion, or an error that is unrelated to limits.
    Accepted,
    /// The provider rate-limited the request.
    Refused { retry_after: Option<Duration> },
    /// No response arrived: the network or the provider failed, or the request was cancelled.
    Lost,
}

/// The observable state of a valve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ValveState {
    pub in_flight: u32,
    pub limit: u32,
    pub queued: u32,
    pub paused_for: Option<Duration>,
    pub per_second: Option<f64>,
}

impl Valve {
    pub(crate) fn new(limits: Limits) -> Self {
        let per_minute = |count: f64, burst: f64| TokenBucket::new(count / 60.0, burst);
        Self {
            waiting: BTreeSet::new(),
            under_way: BTreeMap::new(),
            departures: VecDeque::new(),
            concurrency: Concurrency::new(limits),
            pace: Pace::default(),
            requests: limits.requests_per_minute.map(|count| {
                let count = f64::from(count.max(1));
                per_minute(count, (count / 20.0).max(1.0))
            }),
            tokens: limits.tokens_per_minute.map(|count| {
                let count = count.max(1) as f64;
                per_minute(count, count / 2.0)
            }),
            refusal: ProviderRefusal::default(),
            next_ticket: 0,
        }
    }

    /// Appends a new request to the queue.
    pub(crate) fn enter(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.waiting.insert(self.next_ticket);
        self.next_ticket
    }

    /// Removes a request, whether queued or in flight.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        self.under_way.remove(&ticket);
    }

    /// Returns the position in the queue, starting at 1.
    pub(crate) fn position(&self, ticket: Ticket) -> u32 {
        let before = self.waiting.range(..ticket).count();
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    /// Returns the request at the head of the queue.
    pub(crate) fn head(&self) -> Option<Ticket> {
        self.waiting.first().copied()
    }

    /// Returns whether the request, of about `tokens` tokens, may be sent.
    pub(crate) fn turn_of(&mut self, ticket: Ticket, tokens: u64, now: Moment) -> Turn {
        if self.head() != Some(ticket) {
            return Turn::Wait { until: None };
        }
        self.resume(now);
        if let Some(until) = self.not_before(tokens, now) {
            return Turn::Wait { until: Some(until) };
        }
        if self.in_flight() >= self.limit(now) {
            return Turn::Wait { until: None };
        }
        Turn::Go
    }

    /// Records that the request was sent. Call only after [`Turn::Go`].
    pub(crate) fn depart(&mut self, ticket: Ticket, tokens: u64, now: Moment) {
        self.waiting.remove(&ticket);
        self.under_way.insert(ticket, now);
        self.departures.push_back((now, ticket));
        self.forget_old(now);
        self.pace.departed(now);
        if let Some(bucket) = &mut self.requests {
            bucket.take(1.0, now);
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.take(tokens as f64, now);
        }
    }

    /// Records the outcome of a request. A refused request is queued again at its old position.
    pub(crate) fn returned(&mut self, ticket: Ticket, verdict: Verdict, jitter: f64, now: Moment) {
        let Some(left) = self.under_way.remove(&ticket) else {
            return;
        };
        match verdict {
            Verdict::Lost => {}
            Verdict::Accepted => {
                if left >= self.refusal.judged_before {
                    self.refusal.in_a_row = 0;
                }
                self.pace.accepted(left, now);
                let crowded = self.in_flight() + 1 >= self.concurrency.limit;
                self.concurrency.accepted(now.saturating_sub(left), crowded);
            }
            Verdict::Refused { retry_after } => {
                self.waiting.insert(ticket);
                self.departures.retain(|(_, departed)| *departed != ticket);
                self.refused(left, retry_after, jitter, now);
            }
        }
    }

    /// Corrects the estimated token count of a request.
    pub(crate) fn carried(&mut self, thought: u64, really: u64, now: Moment) {
        if let Some(bucket) = &mut self.tokens {
            bucket.take(really as f64 - thought as f64, now);
        }
    }

    /// Applies the limits that the provider reported in response headers.
    pub(crate) fn hint(&mut self, hint: &RateHint, now: Moment) {
        for allowance in [hint.requests, hint.tokens].into_iter().flatten() {
            if let Some(pause) = allowance.pause() {
                self.pause_until(now + pause);
            }
        }
        if let Some(per_second) = hint.requests.and_then(Allowance::pace) {
            self.pace.slow_down_to(per_second, now);
        }
    }

    /// Returns a lower bound of how long the request will wait.
    pub(crate) fn expected_wait(&self, ticket: Ticket, now: Moment) -> Duration {
        let paused = self.paused_for(now).unwrap_or_default();
        let ahead = f64::from(self.position(ticket) - 1);
        let paced = self.pace.per_second().map_or(0.0, |pace| ahead / pace);
        paused + Duration::from_secs_f64(paced.min(86_400.0))
    }

    /// Returns whether requests wait for the provider's limit rather than for each other.
    pub(crate) fn is_limited(&self, now: Moment) -> bool {
        self.paused_for(now).is_some() || self.pace.per_second().is_some()
    }

    /// Returns the remaining time of the pause.
    pub(crate) fn paused_for(&self, now: Moment) -> Option<Duration> {
        let until = self.refusal.paused_until?;
        (until > now).then(|| until - now)
    }

    pub(crate) fn state(&self, now: Moment) -> ValveState {
        ValveState {
            in_flight: self.in_flight(),
            limit: self.limit(now),
            queued: u32::try_from(self.waiting.len()).unwrap_or(u32::MAX),
            paused_for: self.paused_for(now),
            per_second: self.pace.per_second(),
        }
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.under_way.len()).unwrap_or(u32::MAX)
    }

    fn not_before(&mut self, tokens: u64, now: Moment) -> Option<Moment> {
        if let Some(pause) = self.paused_for(now) {
            return Some(now + pause);
        }
        let requests = self
            .requests
            .as_ref()
            .and_then(|bucket| bucket.until(1.0, now));
        let tokens = self
            .tokens
            .as_ref()
            .and_then(|bucket| bucket.until(tokens as f64, now));
        let paced = self.pace.until(now);
        [requests, tokens, paced].into_iter().flatten().max()
    }

    /// Returns the configured or learned limit, or the concurrency that keeps the pace despite slow
    /// responses.
    fn limit(&self, now: Moment) -> u32 {
        let Some(pace) = self.pace.per_second() else {
            return self.concurrency.limit;
        };
        if self.concurrency.counted {
            return self.concurrency.limit;
        }
        let oldest = self.under_way.values().min();
        let oldest = oldest.map_or(Duration::ZERO, |left| now.saturating_sub(*left));
        let answer = oldest.max(self.concurrency.mean_answer.unwrap_or_default());
        let needed = (pace * answer.as_secs_f64() * HEADROOM).ceil() as u32;
        let needed = needed.saturating_add(1).min(self.concurrency.max);
        self.concurrency.limit.max(needed)
    }

    fn refused(&mut self, left: Moment, retry_after: Option<Duration>, jitter: f64, now: Moment) {
        let is_new = left >= self.refusal.judged_before && self.refusal.first.is_none();
        if is_new {
            let pause = retry_after.unwrap_or_else(|| backoff(self.refusal.in_a_row, jitter));
            self.refusal.in_a_row = self.refusal.in_a_row.saturating_add(1);
            self.refusal.first = Some((now, retry_after));
            self.pause_until(now + pause.min(MAX_PAUSE));
        } else if let Some(pause) = retry_after {
            // The request was sent before the pause began: only its `retry-after` is new
            // information.
            self.pause_until(now + pause.min(MAX_PAUSE));
        }
    }

    fn pause_until(&mut self, until: Moment) {
        let paused = self.refusal.paused_until.get_or_insert(until);
        *paused = (*paused).max(until);
    }

    /// Ends a pause that is over, and updates the learned pace: only now is it known which of the
    /// requests sent before the pause were accepted.
    fn resume(&mut self, now: Moment) {
        if self.paused_for(now).is_some() {
            return;
        }
        self.refusal.paused_until = None;
        let Some((refused_at, retry_after)) = self.refusal.first.take() else {
            return;
        };
        // The wait approximates the window in which the provider counts; no provider counts in less
        // than this.
        let window = retry_after
            .unwrap_or(FIRST_PAUSE)
            .clamp(FIRST_PAUSE, REMEMBERED);
        let pause_before = std::mem::replace(&mut self.refusal.judged_before, now);
        let lately = self.departed_since(refused_at.saturating_sub(window * 2));
        self.concurrency.growing_fast = false;
        if lately == 0 && self.in_flight() > 0 {
            // No request was accepted lately and one more was still refused: the provider limits
            // concurrency.
            self.concurrency.counted = true;
            self.concurrency.limit = self.in_flight();
            return;
        }
        self.concurrency.halve();
        let taken = Accepted {
            in_window: self.departed_since(refused_at.saturating_sub(window)),
            window,
            retry_after,
            since_pause: self.departed_since(pause_before),
            time: refused_at.saturating_sub(pause_before),
        };
        self.pace.refused(taken, now);
    }

    fn departed_since(&self, since: Moment) -> usize {
        let departed = self.departures.iter();
        departed.filter(|(left, _)| *left >= since).count()
    }

    fn forget_old(&mut self, now: Moment) {
        let oldest = now.saturating_sub(REMEMBERED);
        while let Some((left, _)) = self.departures.front() {
            if *left >= oldest && self.departures.len() <= MAX_REMEMBERED {
                break;
            }
            self.departures.pop_front();
        }
    }
}

impl Concurrency {
    fn new(limits: Limits) -> Self {
        let max = limits.max_concurrent.max(1);
        Self {
            limit: limits.start_concurrent.clamp(1, max),
            max,
            successes: 0,
            growing_fast: true,
            counted: false,
            mean_answer: None,
        }
    }

    fn accepted(&mut self, took: Duration, crowded: bool) {
        self.mean_answer = Some(match self.mean_answer {
            Some(mean) => (mean * 7 + took) / 8,
            None => took,
        });
        if !crowded {
            return;
        }
        self.successes += 1;
        if self.growing_fast || self.successes >= self.limit {
            self.successes = 0;
            self.limit = (self.limit + 1).min(self.max);
        }
    }

    fn halve(&mut self) {
        self.limit = (self.limit / 2).max(1);
        self.successes = 0;
    }
}

/// Returns one, two, four seconds and so on, with up to a quarter of jitter so that clients do not
/// retry in step.
fn backoff(in_a_row: u32, jitter: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << in_a_row.min(8));
    doubled
        .min(MAX_UNTOLD_PAUSE)
        .mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 4.0)
}

#[cfg(test)]
mod tests;
