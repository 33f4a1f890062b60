//! Points at which a test kills the process, one for each row of the crash table.
//!
//! Without the feature `crash-points` this module does nothing. With it, `arm` chooses a point, and
//! the process kills itself there as `kill -9` would.

use std::str::FromStr;

/// A point between an effect and the entry that records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A child is about to be admitted.
    BeforeAdmit,
    /// A child was admitted; its parent has not recorded it.
    AfterAdmit,
    /// A run was claimed; nothing has run.
    AfterClaim,
    /// A model replied; nothing is written.
    AfterModelAnswer,
    /// A tool ran; nothing is written.
    AfterTool,
    /// A run ended; its announcement is not delivered.
    AfterFinish,
    /// An announcement is in its parent's inbox.
    AfterDeliver,
    /// A parent has read its inbox; it has not called its model.
    AfterTakeInbox,
    /// A sink accepted a result; that is not written.
    AfterSink,
    /// A receiver outside accepted a letter, or refused it; that is not written.
    AfterLetter,
}

const NAMES: [(&str, Point); 10] = [
    ("before-admit", Point::BeforeAdmit),
    ("after-admit", Point::AfterAdmit),
    ("after-claim", Point::AfterClaim),
    ("after-model-answer", Point::AfterModelAnswer),
    ("after-tool", Point::AfterTool),
    ("after-finish", Point::AfterFinish),
    ("after-deliver", Point::AfterDeliver),
    ("after-take-inbox", Point::AfterTakeInbox),
    ("after-sink", Point::AfterSink),
    ("after-letter", Point::AfterLetter),
];

/// When to kill the process: at a point, at its `nth` visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub point: Point,
    /// The visit, from 1.
    pub nth: u32,
}

/// A crash plan that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("invalid crash plan {0:?}: expected point:n, for example after-admit:2")]
pub struct BadPlan(String);

impl FromStr for Plan {
    type Err = BadPlan;

    fn from_str(text: &str) -> Result<Self, BadPlan> {
        let bad = || BadPlan(text.to_owned());
        let (name, nth) = text.split_once(':').ok_or_else(bad)?;
        let (_, point) = NAMES
            .into_iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(bad)?;
        Ok(Self {
            point,
            nth: nth.parse().map_err(|_| bad())?,
        })
    }
}

#[cfg(feature = "crash-points")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::{Plan, Point};

    static PLAN: OnceLock<Plan> = OnceLock::new();
    static VISITS: AtomicU32 = AtomicU32::new(0);
    static BROKEN_OUTBOX: AtomicBool = AtomicBool::new(false);
    static POISON: OnceLock<String> = OnceLock::new();

    /// Arms the process; only the first plan counts.
    pub fn arm(plan: Plan) {
        PLAN.get_or_init(|| plan);
    }

    /// Turns delivery off: a control that a test harness must detect.
    pub fn break_outbox() {
        BROKEN_OUTBOX.store(true, Ordering::SeqCst);
    }

    /// Kills the process when a run with this text in its task calls a tool.
    pub fn poison(text: String) {
        POISON.get_or_init(|| text);
    }

    pub(crate) fn tool_call(task: &str) {
        if POISON.get().is_some_and(|text| task.contains(text)) {
            die();
        }
    }

    fn die() -> ! {
        let me = rustix::process::getpid();
        // If even this fails, the test that waits for the death of the process reports it.
        rustix::process::kill_process(me, rustix::process::Signal::KILL).ok();
        loop {
            std::thread::park();
        }
    }

    pub(crate) fn point(point: Point) {
        let Some(plan) = PLAN.get().filter(|plan| plan.point == point) else {
            return;
        };
        if VISITS.fetch_add(1, Ordering::SeqCst) + 1 == plan.nth {
            die();
        }
    }

    pub(crate) fn outbox_is_broken() -> bool {
        BROKEN_OUTBOX.load(Ordering::SeqCst)
    }
}

#[cfg(feature = "crash-points")]
pub use armed::{arm, break_outbox, poison};
#[cfg(feature = "crash-points")]
pub(crate) use armed::{outbox_is_broken, point, tool_call};

#[cfg(not(feature = "crash-points"))]
pub(crate) const fn point(_point: Point) {}

#[cfg(not(feature = "crash-points"))]
pub(crate) const fn tool_call(_task: &str) {}

#[cfg(not(feature = "crash-points"))]
pub(crate) const fn outbox_is_broken() -> bool {
    false
}
