use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    start_concurrent: 4,
    max_concurrent: 64,
    requests_per_minute: None,
    tokens_per_minute: None,
};

fn ms(millis: u64) -> Moment {
    Duration::from_millis(millis)
}

/// An operation of a test table on a valve; times are milliseconds.
#[derive(Clone, Copy, Debug)]
enum Act {
    Enter,
    /// The head of the queue tries to leave.
    Go,
    Accepted(Ticket),
    Refused(Ticket, Option<u64>),
    Lost(Ticket),
    Leave(Ticket),
}

/// Plays the operations and renders the decisions for the head, and the final state.
fn play(limits: Limits, acts: &[(u64, Act)]) -> String {
    let mut valve = Valve::new(limits);
    let mut decisions = Vec::new();
    let mut last = Moment::ZERO;
    for (at, act) in acts {
        let now = ms(*at);
        last = now;
        match *act {
            Act::Enter => {
                valve.enter();
            }
            Act::Go => decisions.push(go(&mut valve, now)),
            Act::Accepted(ticket) => valve.returned(ticket, Verdict::Accepted, 0.0, now),
            Act::Lost(ticket) => valve.returned(ticket, Verdict::Lost, 0.0, now),
            Act::Leave(ticket) => valve.leave(ticket),
            Act::Refused(ticket, after) => {
                let retry_after = after.map(ms);
                valve.returned(ticket, Verdict::Refused { retry_after }, 0.0, now);
            }
        }
    }
    let state = valve.state(last);
    let pace = state
        .per_second
        .map_or_else(String::new, |pace| format!(" {pace:.2}/s"));
    format!(
        "{} | {} of {}, {} queued{pace}",
        decisions.join(" "),
        state.in_flight,
        state.limit,
        state.queued
    )
}

fn go(valve: &mut Valve, now: Moment) -> String {
    let Some(head) = valve.head() else {
        return "nobody".to_owned();
    };
    match valve.turn_of(head, 0, now) {
        Turn::Go => {
            valve.depart(head, 0, now);
            format!("{head}")
        }
        Turn::Wait { until: Some(until) } => format!("{head}@{}", until.as_millis()),
        Turn::Wait { until: None } => format!("{head}@?"),
    }
}

#[test]
fn tables() {
    use Act::*;
    let enter = |count: usize| vec![(0, Enter); count];
    let with = |count, acts: &[(u64, Act)]| [enter(count), acts.to_vec()].concat();
    let one_a_second = Limits {
        requests_per_minute: Some(60),
        ..LIMITS
    };
    for (name, limits, acts, expected) in [
        (
            "first come, first served, as many as may",
            LIMITS,
            with(5, &[(0, Go), (0, Go), (0, Go), (0, Go), (0, Go)]),
            "1 2 3 4 5@? | 4 of 4, 1 queued",
        ),
        (
            "each answer lets one more at once, before the first refusal",
            LIMITS,
            with(
                7,
                &[
                    (0, Go),
                    (0, Go),
                    (0, Go),
                    (0, Go),
                    (9, Accepted(1)),
                    (9, Go),
                    (9, Go),
                    (9, Go),
                ],
            ),
            "1 2 3 4 5 6 7@? | 5 of 5, 1 queued",
        ),
        (
            "a refusal halves, pauses, and the refused one is first again",
            LIMITS,
            with(
                5,
                &[
                    (0, Go),
                    (0, Go),
                    (0, Go),
                    (0, Go),
                    (10, Refused(2, Some(2000))),
                    (10, Refused(4, Some(2000))),
                    (11, Accepted(1)),
                    (12, Accepted(3)),
                    (20, Go),
                    (2010, Go),
                    (2010, Go),
                ],
            ),
            "1 2 3 4 2@2010 2 4@3121 | 1 of 2, 2 queued 0.90/s",
        ),
        (
            "without being told, one second, then two",
            LIMITS,
            with(
                1,
                &[
                    (0, Go),
                    (0, Refused(1, None)),
                    (0, Go),
                    (1000, Go),
                    (1000, Refused(1, None)),
                    (1000, Go),
                ],
            ),
            "1 1@1000 1 1@3000 | 0 of 2, 1 queued 0.90/s",
        ),
        (
            "a refusal of one that left before the pause only prolongs it",
            LIMITS,
            with(
                2,
                &[
                    (0, Go),
                    (0, Go),
                    (10, Refused(1, Some(1000))),
                    (900, Refused(2, Some(1000))),
                    (1010, Go),
                    (1900, Go),
                ],
            ),
            "1 2 1@1900 1 | 1 of 2, 1 queued 0.90/s",
        ),
        (
            "those that are dropped free their places",
            LIMITS,
            with(
                6,
                &[
                    (0, Go),
                    (0, Go),
                    (0, Go),
                    (0, Go),
                    (0, Leave(1)),
                    (0, Leave(5)),
                    (0, Lost(2)),
                    (0, Go),
                    (0, Go),
                ],
            ),
            "1 2 3 4 6 nobody | 3 of 4, 0 queued",
        ),
        (
            "a configured rate lets a few go at once and then keeps the rate",
            one_a_second,
            with(5, &[(0, Go), (0, Go), (0, Go), (0, Go), (1000, Go)]),
            "1 2 3 4@1000 4 | 4 of 4, 1 queued",
        ),
    ] {
        assert_eq!(play(limits, &acts), expected, "{name}");
    }
}

#[test]
fn a_concurrency_limit_of_the_provider_is_kept() {
    use Act::*;
    // Two requests are accepted and respond slowly; a third is refused, even long after the two
    // were sent.
    let acts = [
        (0, Enter),
        (0, Enter),
        (0, Enter),
        (0, Go),
        (0, Go),
        (5000, Go),
        (5001, Refused(3, Some(1000))),
        (6001, Go),
        (9000, Accepted(1)),
        (9000, Go),
    ];
    assert_eq!(play(LIMITS, &acts), "1 2 3 3@? 3 | 2 of 2, 0 queued");
}

#[test]
fn tokens_are_counted_and_corrected() {
    let mut valve = Valve::new(Limits {
        tokens_per_minute: Some(60_000),
        ..LIMITS
    });
    let (first, second) = (valve.enter(), valve.enter());
    assert_eq!(valve.turn_of(first, 30_000, ms(0)), Turn::Go);
    valve.depart(first, 30_000, ms(0));
    let later = |until| Turn::Wait {
        until: Some(ms(until)),
    };
    assert_eq!(valve.turn_of(second, 10_000, ms(0)), later(10_000));
    valve.carried(30_000, 25_000, ms(0));
    assert_eq!(valve.turn_of(second, 10_000, ms(0)), later(5_000));
    // A request that exceeds the whole bucket is sent when the bucket is full, instead of never.
    assert_eq!(valve.turn_of(second, 1_000_000, ms(0)), later(25_000));
}

#[test]
fn a_hint_that_nothing_is_left_pauses_or_paces() {
    let allowance = |limit, resets_in| RateHint {
        requests: Some(Allowance {
            limit: Some(limit),
            remaining: 0.0,
            resets_in: Some(ms(resets_in)),
        }),
        tokens: None,
    };
    let mut valve = Valve::new(LIMITS);
    let ticket = valve.enter();
    valve.hint(&allowance(10.0, 800), ms(0));
    let wait = Turn::Wait {
        until: Some(ms(800)),
    };
    assert_eq!(valve.turn_of(ticket, 0, ms(0)), wait);

    let mut valve = Valve::new(LIMITS);
    valve.hint(&allowance(60.0, 60_000), ms(0));
    assert_eq!(valve.state(ms(0)).per_second, Some(1.0));
}

fn acts() -> impl Strategy<Value = Vec<(u64, u8, u64)>> {
    proptest::collection::vec((0..3000u64, 0..7u8, 0..12u64), 0..200)
}

proptest! {
    #[test]
    fn no_request_is_lost_and_limits_hold(acts in acts(), start in 1..9u32, max in 1..9u32) {
        let limits = Limits { start_concurrent: start, max_concurrent: max, ..LIMITS };
        let mut valve = Valve::new(limits);
        let mut present = BTreeSet::new();
        let mut now = Moment::ZERO;
        for (gap, act, ticket) in acts {
            now += ms(gap);
            match act {
                0 | 1 => { present.insert(valve.enter()); }
                2 | 3 => { go(&mut valve, now); }
                4 => { valve.leave(ticket); present.remove(&ticket); }
                5 => {
                    if valve.under_way.contains_key(&ticket) { present.remove(&ticket); }
                    valve.returned(ticket, Verdict::Accepted, 0.5, now);
                }
                _ => valve.returned(ticket, Verdict::Refused { retry_after: Some(ms(gap)) }, 0.5, now),
            }
            let seen: BTreeSet<Ticket> =
                valve.waiting.iter().chain(valve.under_way.keys()).copied().collect();
            prop_assert_eq!(&seen, &present);
            prop_assert!(valve.in_flight() <= max);
        }
        // In every case all requests are sent in the end, in order.
        let mut order = Vec::new();
        for _ in 0..10_000 {
            let Some(head) = valve.head() else { break };
            match valve.turn_of(head, 0, now) {
                Turn::Go => { valve.depart(head, 0, now); order.push(head); }
                Turn::Wait { until: Some(until) } => {
                    prop_assert!(until > now);
                    now = until;
                }
                Turn::Wait { until: None } => {
                    let oldest = *valve.under_way.keys().next().expect("somebody is under way");
                    valve.returned(oldest, Verdict::Accepted, 0.5, now);
                }
            }
        }
        prop_assert!(valve.head().is_none());
        prop_assert!(order.is_sorted());
    }
}
