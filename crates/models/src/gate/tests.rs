use std::collections::VecDeque;

use super::*;

const LIMITS: Limits = Limits {
    start_concurrent: 16,
    max_concurrent: 64,
    requests_per_minute: None,
    tokens_per_minute: None,
};

/// How a simulated provider counts requests.
#[derive(Clone, Copy, Debug)]
enum Counts {
    /// A bucket that refills steadily and holds the requests of one second.
    Bucket,
    /// A bucket that holds one request: requests must keep a minimum distance.
    Strict,
    /// A fixed number of requests in each second of the clock.
    Window,
    /// A fixed number of requests in any sliding second.
    Sliding,
}

/// A simulated provider that accepts a number of requests per second and refuses the rest.
#[derive(Debug)]
struct Provider {
    counts: Counts,
    per_second: f64,
    /// Whether `retry-after` is exact or in whole seconds.
    exact: bool,
    answer_takes: Duration,
    start: Instant,
    state: Mutex<(f64, Duration, VecDeque<Duration>)>,
    refused: Mutex<u32>,
}

impl Provider {
    async fn ask(&self) -> Result<(), Duration> {
        let free_in = self.take();
        match free_in {
            None => {
                tokio::time::sleep(self.answer_takes).await;
                Ok(())
            }
            Some(free_in) => {
                *locked(&self.refused) += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
                let whole = Duration::from_secs(free_in.as_secs_f64().ceil() as u64);
                Err(if self.exact { free_in } else { whole })
            }
        }
    }

    /// Returns the time until the next request is accepted, if this one is refused.
    fn take(&self) -> Option<Duration> {
        let now = self.start.elapsed();
        let mut state = locked(&self.state);
        let (level, at, log) = &mut *state;
        match self.counts {
            Counts::Bucket | Counts::Strict => {
                let gained = (now - *at).as_secs_f64() * self.per_second;
                let most = match self.counts {
                    Counts::Strict => 1.0,
                    Counts::Bucket | Counts::Window | Counts::Sliding => self.per_second,
                };
                *level = (*level + gained).min(most);
                *at = now;
                if *level >= 1.0 {
                    *level -= 1.0;
                    return None;
                }
                Some(Duration::from_secs_f64((1.0 - *level) / self.per_second))
            }
            Counts::Window => {
                log.retain(|taken| taken.as_secs() == now.as_secs());
                if (log.len() as f64) < self.per_second {
                    log.push_back(now);
                    return None;
                }
                Some(Duration::from_secs(now.as_secs() + 1) - now)
            }
            Counts::Sliding => {
                let second = Duration::from_secs(1);
                log.retain(|taken| now - *taken < second);
                if (log.len() as f64) < self.per_second {
                    log.push_back(now);
                    return None;
                }
                Some(log[0] + second - now)
            }
        }
    }
}

/// Sends a request through the gate until the provider accepts it.
async fn answered(gate: &Arc<Gate>, provider: &Provider) -> Duration {
    let mut place = gate.enter(GateRequest::default());
    loop {
        place
            .wait_turn(&sortie_core::ports::model::NoDeltas)
            .await
            .unwrap();
        match provider.ask().await {
            Ok(()) => {
                place.returned(Return::Answered { tokens: None });
                return place.waited();
            }
            Err(retry_after) => place.returned(Return::Refused {
                retry_after: Some(retry_after),
            }),
        }
    }
}

/// Returns how long 32 children with `turns` turns each take, relative to the ideal schedule, and
/// the number of refusals.
async fn fan_out(
    counts: Counts,
    per_second: f64,
    exact: bool,
    takes_ms: u64,
    turns: u32,
) -> (f64, u32) {
    let governor = Governor::new();
    let gate = governor.gate("mock", "m", LIMITS);
    let provider = Arc::new(Provider {
        counts,
        per_second,
        exact,
        answer_takes: Duration::from_millis(takes_ms),
        start: Instant::now(),
        state: Mutex::new((per_second, Duration::ZERO, VecDeque::new())),
        refused: Mutex::default(),
    });
    let start = Instant::now();
    let mut children = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (gate, provider) = (Arc::clone(&gate), Arc::clone(&provider));
        children.spawn(async move {
            for _ in 0..turns {
                answered(&gate, &provider).await;
            }
        });
    }
    while let Some(child) = children.join_next().await {
        child.unwrap();
    }
    // The last request is sent at that time, and its response still has to arrive.
    let ideal = f64::from(32 * turns) / per_second + provider.answer_takes.as_secs_f64();
    let refused = *locked(&provider.refused);
    (start.elapsed().as_secs_f64() / ideal, refused)
}

/// Returns the slowest of many schedules relative to its ideal, and the most refusals of any.
async fn worst(counts: Counts, exact: &[bool]) -> (f64, u32, String) {
    let mut worst = (0.0, 0, String::new());
    for per_second in [1.0, 2.0, 5.0, 10.0, 20.0] {
        for exact in exact {
            for (takes_ms, turns) in [(5, 3), (5, 10), (200, 3), (800, 3), (800, 10)] {
                let (part, refused) = fan_out(counts, per_second, *exact, takes_ms, turns).await;
                worst.1 = refused.max(worst.1);
                if part > worst.0 {
                    worst.0 = part;
                    worst.2 = format!(
                        "{counts:?} {per_second}/s, exact {exact}, {takes_ms} ms, {turns} turns"
                    );
                }
            }
        }
    }
    worst
}

#[tokio::test(start_paused = true)]
async fn thirty_two_children_finish_close_to_the_ideal_schedule() {
    for (counts, exact, most) in [
        (Counts::Bucket, &[true, false][..], 1.3),
        (Counts::Window, &[true, false], 1.3),
        (Counts::Sliding, &[true, false], 1.3),
        (Counts::Strict, &[true], 1.3),
        // With a wait of a whole second after every refusal, the gate takes a while to find the
        // pace.
        (Counts::Strict, &[false], 2.3),
    ] {
        let (part, refused, case) = worst(counts, exact).await;
        assert!(part <= most, "{part:.2} times the ideal: {case}");
        // Learning keeps refusals rare: without it each second would bring some.
        assert!(refused < 64, "{refused} refusals: {counts:?}");
    }
}

/// Records the waiting states that a request reports.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<String>>);

impl DeltaSink for Recorder {
    fn text(&self, _delta: &str) {}
    fn rate_limited(&self, wait: Option<RateLimitWait>) {
        let line = match wait {
            Some(RateLimitWait {
                position,
                resumes_in_ms: Some(ms),
            }) => format!("#{position} in {ms}"),
            Some(RateLimitWait {
                position,
                resumes_in_ms: None,
            }) => format!("#{position}"),
            None => "on".to_owned(),
        };
        locked(&self.0).push(line);
    }
}

fn gate(start_concurrent: u32) -> (Governor, Arc<Gate>) {
    let governor = Governor::new();
    let limits = Limits {
        start_concurrent,
        max_concurrent: start_concurrent,
        ..LIMITS
    };
    let gate = governor.gate("mock", "m", limits);
    (governor, gate)
}

async fn gone(gate: &Arc<Gate>) -> QueueEntry {
    let mut place = gate.enter(GateRequest::default());
    place
        .wait_turn(&sortie_core::ports::model::NoDeltas)
        .await
        .unwrap();
    place
}

#[tokio::test(start_paused = true)]
async fn a_rate_limited_request_reports_its_wait_and_is_sent_again() {
    let (governor, gate) = gate(4);
    let recorder = Recorder::default();
    let mut place = gone(&gate).await;
    place.returned(Return::Refused {
        retry_after: Some(Duration::from_secs(3)),
    });
    let states = &governor.states()[0];
    assert_eq!(states.paused_for, Some(Duration::from_secs(3)));
    assert_eq!((states.in_flight, states.queued), (0, 1));
    place.wait_turn(&recorder).await.unwrap();
    assert_eq!(*locked(&recorder.0), ["#1 in 3000", "on"]);
    assert_eq!(place.waited(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_prompt_frees_its_queue_position_and_slot() {
    let (governor, gate) = gate(1);
    let under_way = gone(&gate).await;
    let mut second = gate.enter(GateRequest::default());
    let mut third = gate.enter(GateRequest::default());
    let recorder = Recorder::default();
    {
        let waiting = third.wait_turn(&recorder);
        let waited = tokio::time::timeout(Duration::from_millis(200), waiting).await;
        assert!(waited.is_err());
    }
    let second_waits = second.wait_turn(&recorder);
    let waited = tokio::time::timeout(Duration::from_millis(200), second_waits).await;
    assert!(waited.is_err());
    drop(second);
    assert_eq!(*locked(&recorder.0), ["#2", "#1"]);
    drop(under_way);
    third.wait_turn(&recorder).await.unwrap();
    drop(third);
    let states = &governor.states()[0];
    assert_eq!((states.in_flight, states.queued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_ends_with_an_error() {
    for (has_fallback, retry_after, waited, expected) in [
        (true, 10, 10, "admitted"),
        (true, 21, 0, "rate_limited"),
        (false, 21, 21, "admitted"),
        (false, 300, 300, "admitted"),
    ] {
        let (_governor, gate) = gate(4);
        let request = GateRequest {
            has_fallback,
            tokens: 0,
        };
        let mut place = gate.enter(request);
        place
            .wait_turn(&sortie_core::ports::model::NoDeltas)
            .await
            .unwrap();
        place.returned(Return::Refused {
            retry_after: Some(Duration::from_secs(retry_after)),
        });
        let result = place.wait_turn(&sortie_core::ports::model::NoDeltas).await;
        let result = result.map_or_else(|error| error.fault.name(), |()| "admitted");
        assert_eq!(result, expected, "{has_fallback} {retry_after}");
        assert_eq!(
            place.waited().as_secs(),
            waited,
            "{has_fallback} {retry_after}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_always_refused_fails_after_fifteen_minutes() {
    let (_governor, gate) = gate(4);
    let start = Instant::now();
    let mut place = gate.enter(GateRequest::default());
    let error = loop {
        match place.wait_turn(&sortie_core::ports::model::NoDeltas).await {
            Ok(()) => place.returned(Return::Refused { retry_after: None }),
            Err(error) => break error,
        }
    };
    assert_eq!(error.fault.name(), "rate_limited");
    assert!(
        error
            .message
            .starts_with("mock/m is rate-limited: waited 900 s")
    );
    assert_eq!(start.elapsed().as_secs(), 900);
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_opens_the_breaker_for_all_its_models() {
    let governor = Governor::new();
    let (one, other) = (
        governor.gate("mock", "one", LIMITS),
        governor.gate("mock", "other", LIMITS),
    );
    for _ in 0..5 {
        gone(&one).await.returned(Return::Failed);
    }
    assert_eq!(governor.states()[1].breaker, "open");
    let mut impatient = other.enter(GateRequest {
        has_fallback: true,
        tokens: 0,
    });
    let error = impatient
        .wait_turn(&sortie_core::ports::model::NoDeltas)
        .await
        .unwrap_err();
    assert_eq!(error.fault, Fault::Transient);
    drop(impatient);

    let recorder = Recorder::default();
    let mut patient = other.enter(GateRequest::default());
    patient.wait_turn(&recorder).await.unwrap();
    assert_eq!(*locked(&recorder.0), ["#1 in 5000", "on"]);
    assert_eq!(governor.states()[0].breaker, "trying");
    patient.returned(Return::Answered { tokens: None });
    assert_eq!(governor.states()[0].breaker, "closed");
}
