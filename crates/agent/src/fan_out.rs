//! The progress of a fan-out: which items have a result, which run, and what to start next.
//!
//! All of it follows from the parent's journal: the events `Delegated` name the children that were
//! started, and announcements bring their results. So after a crash only items without a result run
//! again, and never more at once than was asked for.

use std::collections::BTreeMap;

use sortie_core::fan_out::{
    FanOutMember, FanOutPlan, MAX_FAN_OUT_ATTEMPTS, MemberStart, OnFailure,
};
use sortie_core::id::RunId;
use sortie_core::inbox::Announcement;
use sortie_core::message::ChildRef;
use sortie_core::run::Outcome;

/// An item and the number of the attempt at it, from 1.
pub type Attempt = (u32, u32);

/// The progress of one fan-out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FanOut {
    /// `None` before the first children were journaled.
    plan: Option<FanOutPlan>,
    items: BTreeMap<u32, Item>,
    /// Results of children that reported before their parent had journaled them.
    early: BTreeMap<Attempt, Announcement>,
    /// Whether the remaining children were cancelled.
    stopped: bool,
}

/// The progress of one item.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Running {
        attempt: u32,
        child: ChildRef,
    },
    /// The attempt did not complete, and the item is tried again.
    Failed {
        attempt: u32,
    },
    Done {
        attempt: u32,
        result: ItemResult,
    },
}

/// The result of one item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemResult {
    Reported(Box<Announcement>),
    /// No child was admitted.
    Refused(String),
}

impl ItemResult {
    pub(crate) fn is_completed(&self) -> bool {
        match self {
            Self::Reported(announcement) => {
                matches!(announcement.outcome, Outcome::Completed { .. })
            }
            Self::Refused(_) => false,
        }
    }

    /// Returns whether another attempt is wanted: what was cancelled, is not.
    fn may_be_tried_again(&self) -> bool {
        match self {
            Self::Reported(announcement) => !matches!(
                announcement.outcome,
                Outcome::Completed { .. } | Outcome::Cancelled { .. }
            ),
            Self::Refused(_) => false,
        }
    }
}

/// What a fan-out does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FanOutStep {
    /// Children to start, in this order.
    pub start: Vec<Attempt>,
    /// Children to cancel, because another one failed.
    pub cancel: Vec<RunId>,
}

impl FanOut {
    /// Returns whether nothing has been started.
    pub fn is_new(&self) -> bool {
        self.plan.is_none()
    }

    /// Returns what it was asked for, once children were journaled.
    pub fn plan(&self) -> Option<FanOutPlan> {
        self.plan
    }

    /// Returns what a fan-out with this plan does next.
    pub fn next(&self, plan: FanOutPlan) -> FanOutStep {
        let running = || {
            self.items.values().filter_map(|item| match item {
                Item::Running { child, .. } => Some(child.run),
                Item::Failed { .. } | Item::Done { .. } => None,
            })
        };
        if self.must_stop(plan) {
            return FanOutStep {
                start: Vec::new(),
                cancel: running().filter(|_| !self.stopped).collect(),
            };
        }
        let slots = usize::try_from(plan.concurrency).unwrap_or(usize::MAX);
        let free = slots.saturating_sub(running().count());
        let open = (0..plan.items).filter_map(|item| match self.items.get(&item) {
            None => Some((item, 1)),
            Some(Item::Failed { attempt }) => Some((item, attempt + 1)),
            Some(Item::Running { .. } | Item::Done { .. }) => None,
        });
        FanOutStep {
            start: open.take(free).collect(),
            cancel: Vec::new(),
        }
    }

    /// Returns whether the call has to run again, to start or cancel children.
    pub(crate) fn is_runnable(&self) -> bool {
        self.plan
            .is_none_or(|plan| self.next(plan) != FanOutStep::default())
    }

    /// Returns whether every item has a result, or gets none any more.
    pub fn is_over(&self) -> bool {
        let Some(plan) = self.plan else {
            return false;
        };
        let is_running = |item: &Item| matches!(item, Item::Running { .. });
        !self.items.values().any(is_running) && self.next(plan) == FanOutStep::default()
    }

    /// Returns the children that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &ChildRef> {
        self.items.values().filter_map(|item| match item {
            Item::Running { child, .. } => Some(child),
            Item::Failed { .. } | Item::Done { .. } => None,
        })
    }

    /// Returns the items in order, with their results; `None` if an item was not started.
    pub(crate) fn results(&self) -> impl Iterator<Item = Option<(u32, &ItemResult)>> {
        let items = self.plan.map_or(0, |plan| plan.items);
        (0..items).map(|item| match self.items.get(&item) {
            Some(Item::Done { attempt, result }) => Some((*attempt, result)),
            Some(Item::Running { .. } | Item::Failed { .. }) | None => None,
        })
    }

    /// Records what the call has started.
    pub(crate) fn started(&mut self, plan: FanOutPlan, members: &[FanOutMember], stopped: bool) {
        self.plan = Some(plan);
        self.stopped |= stopped;
        for FanOutMember {
            item,
            attempt,
            started,
        } in members
        {
            match started {
                MemberStart::Child(child) => match self.early.remove(&(*item, *attempt)) {
                    Some(announcement) => self.done(*item, *attempt, announcement.into()),
                    None => {
                        let (attempt, child) = (*attempt, child.clone());
                        self.items.insert(*item, Item::Running { attempt, child });
                    }
                },
                MemberStart::Refused(why) => {
                    // A limit of the tree does not go away by trying again.
                    let result = ItemResult::Refused(why.clone());
                    let attempt = *attempt;
                    self.items.insert(*item, Item::Done { attempt, result });
                }
            }
        }
    }

    /// Records the result of a child.
    pub fn reported(&mut self, (item, attempt): Attempt, announcement: Announcement) {
        match self.items.get(&item) {
            Some(Item::Running { attempt: now, .. }) if *now == attempt => {
                self.done(item, attempt, announcement.into());
            }
            Some(Item::Done { .. }) => {}
            Some(Item::Running { .. } | Item::Failed { .. }) | None => {
                self.early.insert((item, attempt), announcement);
            }
        }
    }

    fn done(&mut self, item: u32, attempt: u32, result: ItemResult) {
        let retries = self
            .plan
            .is_some_and(|plan| plan.on_failure == OnFailure::Retry);
        let again = retries && result.may_be_tried_again() && attempt < MAX_FAN_OUT_ATTEMPTS;
        let state = if again {
            Item::Failed { attempt }
        } else {
            Item::Done { attempt, result }
        };
        self.items.insert(item, state);
    }

    fn must_stop(&self, plan: FanOutPlan) -> bool {
        let has_failed = |item: &Item| match item {
            Item::Done { result, .. } => !result.is_completed(),
            Item::Failed { .. } => true,
            Item::Running { .. } => false,
        };
        plan.on_failure == OnFailure::Stop && self.items.values().any(has_failed)
    }
}

impl From<Announcement> for ItemResult {
    fn from(announcement: Announcement) -> Self {
        Self::Reported(Box::new(announcement))
    }
}

#[cfg(test)]
mod tests {
    use sortie_core::id::CallId;
    use sortie_core::message::Usage;
    use sortie_core::run::{Cancellation, CancelledBy, EdgeMode, Reason};

    use super::*;

    fn plan(items: u32, concurrency: u32, on_failure: OnFailure) -> FanOutPlan {
        FanOutPlan {
            items,
            concurrency,
            on_failure,
        }
    }

    fn run(item: u32) -> RunId {
        format!("00000000-0000-7000-8000-{item:012}")
            .parse()
            .unwrap()
    }

    fn member((item, attempt): Attempt) -> FanOutMember {
        FanOutMember {
            item,
            attempt,
            started: MemberStart::Child(ChildRef {
                run: run(item),
                agent: "general".to_owned(),
                label: item.to_string(),
            }),
        }
    }

    fn announcement(item: u32, completes: bool) -> Announcement {
        Announcement {
            child: run(item),
            call: Some(CallId::new(1, 0)),
            mode: EdgeMode::Blocking,
            agent: "general".to_owned(),
            label: item.to_string(),
            task: String::new(),
            outcome: if completes {
                Outcome::Completed {
                    text: "ok".to_owned(),
                    checked: None,
                }
            } else {
                Outcome::Failed {
                    reason: Reason::Error,
                    message: "broken".to_owned(),
                    partial: None,
                }
            },
            tool_calls: 0,
            elapsed_ms: 0,
            usage: Usage::default(),
            changes: None,
        }
    }

    /// Starts what comes next, as the runtime does; returns what was started.
    fn advance(fan_out: &mut FanOut, plan: FanOutPlan) -> Vec<Attempt> {
        let step = fan_out.next(plan);
        let members: Vec<_> = step.start.iter().copied().map(member).collect();
        fan_out.started(plan, &members, !step.cancel.is_empty());
        step.start
    }

    #[test]
    fn no_more_run_at_once_than_were_asked_for() {
        let plan = plan(5, 2, OnFailure::Continue);
        let mut fan_out = FanOut::default();
        assert!(fan_out.is_runnable());
        assert_eq!(advance(&mut fan_out, plan), [(0, 1), (1, 1)]);
        assert!(!fan_out.is_runnable());
        fan_out.reported((1, 1), announcement(1, false));
        assert!(fan_out.is_runnable() && !fan_out.is_over());
        assert_eq!(advance(&mut fan_out, plan), [(2, 1)]);
        for item in [0, 2] {
            fan_out.reported((item, 1), announcement(item, true));
        }
        assert_eq!(advance(&mut fan_out, plan), [(3, 1), (4, 1)]);
        for item in [4, 3] {
            assert!(!fan_out.is_over());
            fan_out.reported((item, 1), announcement(item, true));
        }
        assert!(fan_out.is_over());
        let completed: Vec<bool> = fan_out
            .results()
            .map(|result| result.unwrap().1.is_completed())
            .collect();
        assert_eq!(completed, [true, false, true, true, true]);
    }

    #[test]
    fn stop_cancels_once_and_starts_nothing() {
        let plan = plan(4, 2, OnFailure::Stop);
        let mut fan_out = FanOut::default();
        advance(&mut fan_out, plan);
        fan_out.reported((0, 1), announcement(0, false));
        assert_eq!(fan_out.next(plan).cancel, [run(1)]);
        assert!(advance(&mut fan_out, plan).is_empty());
        assert!(!fan_out.is_runnable() && !fan_out.is_over());
        fan_out.reported((1, 1), announcement(1, false));
        assert!(fan_out.is_over());
        assert_eq!(fan_out.results().flatten().count(), 2);
    }

    #[test]
    fn retry_is_bounded() {
        let plan = plan(1, 5, OnFailure::Retry);
        let mut fan_out = FanOut::default();
        for attempt in 1..=MAX_FAN_OUT_ATTEMPTS {
            assert_eq!(advance(&mut fan_out, plan), [(0, attempt)]);
            assert!(!fan_out.is_over());
            fan_out.reported((0, attempt), announcement(0, false));
        }
        assert!(fan_out.is_over());
    }

    #[test]
    fn what_was_cancelled_is_not_tried_again() {
        let plan = plan(1, 1, OnFailure::Retry);
        let mut fan_out = FanOut::default();
        assert_eq!(advance(&mut fan_out, plan), [(0, 1)]);
        let cancelled = Announcement {
            outcome: Outcome::Cancelled {
                cancellation: Cancellation {
                    by: CancelledBy::Person,
                    reason: "enough".to_owned(),
                },
                partial: None,
            },
            ..announcement(0, false)
        };
        fan_out.reported((0, 1), cancelled);
        assert!(fan_out.is_over());
    }

    #[test]
    fn a_result_that_came_before_its_child_was_journaled_counts() {
        let plan = plan(1, 1, OnFailure::Continue);
        let mut fan_out = FanOut::default();
        fan_out.reported((0, 1), announcement(0, true));
        assert!(fan_out.is_runnable() && !fan_out.is_over());
        advance(&mut fan_out, plan);
        assert!(fan_out.is_over());
    }
}
