//! Decides which runs are claimed alone because the process died while it executed them.
//!
//! When a process dies, each run that it had claimed may be the cause. All of them are queued
//! again, and none is ended for a death that another run may have caused: after [`SUSPECTED_AFTER`]
//! deaths without progress a run is claimed only beside runs that have made progress since their
//! own claim, and no run is claimed beside it until it has. An innocent run makes progress, which
//! clears it. After a restart no run is claimed, so the first suspect is really alone: if the
//! process dies again, that run is the cause. A death beside other runs is not counted against a
//! suspect. A run whose process dies again and again although it makes progress is claimed alone
//! permanently before it reaches the total.

use sortie_core::ports::store::DeathLimits;

/// Deaths without progress after which a run is claimed alone. A single death is often a restart or
/// a power loss and proves little.
const SUSPECTED_AFTER: u32 = 2;
/// Deaths of a run while it was alone, before any limit ends it.
const ALONE_BEFORE_THE_END: u32 = 2;

/// How often the process died while it executed a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deaths {
    pub(crate) total: u32,
    /// Since the last claim under which the run made progress.
    pub(crate) since_progress: u32,
}

/// How a run may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Custody {
    /// Beside others.
    None,
    /// Alone, until it has made progress.
    UntilProgress,
    /// Always alone.
    Always,
}

impl Deaths {
    /// Adds one death.
    pub(crate) const fn and_one(self, progressed: bool) -> Self {
        Self {
            total: self.total + 1,
            since_progress: if progressed {
                1
            } else {
                self.since_progress + 1
            },
        }
    }

    /// Adds one death while other runs were claimed too: one of those may have caused it, so it
    /// does not bring a suspect closer to its end.
    pub(crate) fn and_one_beside_others(self, progressed: bool, limits: DeathLimits) -> Self {
        match self.custody(limits) {
            Custody::None => self.and_one(progressed),
            Custody::UntilProgress if progressed => self.and_one(true),
            Custody::UntilProgress | Custody::Always => self,
        }
    }

    /// Whether the run has reached a limit and ends.
    pub(crate) const fn is_hopeless(self, limits: DeathLimits) -> bool {
        self.since_progress > limits.without_progress || self.total > limits.total
    }

    /// Ensures that the last deaths before a limit is exceeded happen while the run is alone.
    fn custody(self, limits: DeathLimits) -> Custody {
        let before = |limit: u32| (limit + 1).saturating_sub(ALONE_BEFORE_THE_END);
        if self.total >= before(limits.total) {
            Custody::Always
        } else if self.since_progress >= SUSPECTED_AFTER.min(before(limits.without_progress)) {
            Custody::UntilProgress
        } else {
            Custody::None
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimedRun {
    pub(crate) deaths: Deaths,
    /// Whether its journal has grown since the claim.
    pub(crate) progressed: bool,
}

/// A queued run.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) run: String,
    pub(crate) deaths: Deaths,
}

/// What may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimRule<'a> {
    /// Any run that the lanes allow.
    Open,
    /// This run, and no other beside it.
    Only(&'a str),
    /// No run: a suspect is alone, or waits until it can be.
    Closed,
}

/// Decides what may be claimed; `waiting` is sorted by urgency. Suspects come first, so that a busy
/// process does not starve them.
pub(crate) fn gate<'a>(
    claimed: &[ClaimedRun],
    waiting: &'a [Waiting],
    limits: DeathLimits,
) -> ClaimRule<'a> {
    let is_alone = |claimed: &ClaimedRun| match claimed.deaths.custody(limits) {
        Custody::None => false,
        Custody::UntilProgress => !claimed.progressed,
        Custody::Always => true,
    };
    if claimed.iter().any(is_alone) {
        return ClaimRule::Closed;
    }
    let suspect = waiting
        .iter()
        .find(|waiting| waiting.deaths.custody(limits) != Custody::None);
    match suspect {
        None => ClaimRule::Open,
        // A death beside others does not count, so a suspect waits only for runs that may have
        // become suspects themselves.
        Some(suspect) if claimed.iter().all(|claimed| claimed.progressed) => {
            ClaimRule::Only(&suspect.run)
        }
        Some(_) => ClaimRule::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DeathLimits = DeathLimits {
        without_progress: 3,
        total: 25,
    };

    /// Simulates a process that executes these runs until it dies; `true` is a run that kills it.
    /// Other runs make progress once they are alone. Returns the number of deaths and the runs that
    /// were ended.
    fn live(poison: &[bool], progress: bool) -> (u32, Vec<usize>) {
        let mut runs: Vec<Option<Deaths>> = vec![Some(Deaths::default()); poison.len()];
        let (mut deaths, mut given_up) = (0, Vec::new());
        loop {
            let waiting: Vec<Waiting> = runs
                .iter()
                .enumerate()
                .filter_map(|(number, run)| {
                    run.map(|deaths| Waiting {
                        run: number.to_string(),
                        deaths,
                    })
                })
                .collect();
            if waiting.is_empty() {
                return (deaths, given_up);
            }
            let claimed: Vec<usize> = match gate(&[], &waiting, LIMITS) {
                ClaimRule::Open => waiting.iter().map(|run| run.run.parse().unwrap()).collect(),
                ClaimRule::Only(run) => vec![run.parse().unwrap()],
                ClaimRule::Closed => panic!("nothing is claimed, and nothing can be"),
            };
            if !claimed.iter().any(|run| poison[*run]) {
                claimed.iter().for_each(|run| runs[*run] = None);
                continue;
            }
            deaths += 1;
            for run in claimed {
                let counted = runs[run].unwrap_or_default().and_one(progress);
                if counted.is_hopeless(LIMITS) {
                    given_up.push(run);
                    runs[run] = None;
                } else {
                    runs[run] = Some(counted);
                }
            }
        }
    }

    #[test]
    fn only_runs_that_kill_their_process_are_ended() {
        // Tries every subset of five runs as killers.
        for set in 0..32_u32 {
            let poison: Vec<bool> = (0..5).map(|bit| set & (1 << bit) != 0).collect();
            let killers: Vec<usize> = (0..5).filter(|run| poison[*run]).collect();
            let (deaths, mut given_up) = live(&poison, false);
            given_up.sort_unstable();
            assert_eq!(given_up, killers, "{set:b}");
            assert!(deaths <= 2 + 2 * set.count_ones(), "{set:b}: {deaths}");
        }
    }

    #[test]
    fn a_run_that_makes_progress_and_kills_its_process_ends_while_alone() {
        assert_eq!(live(&[false, true, false, false], true), (26, vec![1]));
    }

    #[test]
    fn a_death_beside_others_is_not_counted_against_a_suspect() {
        let suspect = Deaths {
            total: 2,
            since_progress: 2,
        };
        assert_eq!(suspect.and_one_beside_others(false, LIMITS), suspect);
        assert_eq!(
            suspect.and_one_beside_others(true, LIMITS),
            suspect.and_one(true)
        );
        let first = Deaths::default().and_one_beside_others(false, LIMITS);
        assert_eq!(first, Deaths::default().and_one(false));
    }

    #[test]
    fn progress_clears_a_suspect_but_not_a_run_near_its_total_limit() {
        let gate_beside = |total, since_progress, progressed| {
            let deaths = Deaths {
                total,
                since_progress,
            };
            gate(&[ClaimedRun { deaths, progressed }], &[], LIMITS)
        };
        assert_eq!(gate_beside(1, 1, false), ClaimRule::Open);
        assert_eq!(gate_beside(2, 2, false), ClaimRule::Closed);
        assert_eq!(gate_beside(2, 2, true), ClaimRule::Open);
        assert_eq!(gate_beside(24, 1, true), ClaimRule::Closed);
    }

    #[test]
    fn a_suspect_waits_until_everything_claimed_has_made_progress() {
        let suspect = [Waiting {
            run: "a".to_owned(),
            deaths: Deaths {
                total: 2,
                since_progress: 2,
            },
        }];
        let beside = |progressed| {
            [ClaimedRun {
                deaths: Deaths::default(),
                progressed,
            }]
        };
        assert_eq!(gate(&beside(false), &suspect, LIMITS), ClaimRule::Closed);
        assert_eq!(gate(&beside(true), &suspect, LIMITS), ClaimRule::Only("a"));
        assert_eq!(gate(&[], &suspect, LIMITS), ClaimRule::Only("a"));
    }
}
