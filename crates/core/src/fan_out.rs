//! Fan-outs: one child for each item of a list, and one combined result.

use serde::{Deserialize, Serialize};

use crate::message::ChildRef;

/// The most items of one fan-out.
pub const MAX_FAN_OUT: usize = 100;
/// The most children of one fan-out that run at once.
pub const MAX_FAN_OUT_CONCURRENCY: u32 = 32;
/// Attempts at one item with `on_failure: retry`.
pub const MAX_FAN_OUT_ATTEMPTS: u32 = 3;

words! {
    /// What a fan-out does when the child of an item does not complete.
    OnFailure {
        /// The other items go on.
        Continue = "continue",
        /// Running children are cancelled, and no further one is started.
        Stop = "stop",
        /// The item is tried again, at most [`MAX_FAN_OUT_ATTEMPTS`] times in all.
        Retry = "retry",
    }
}

/// What a fan-out was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOutPlan {
    /// The number of items.
    pub items: u32,
    /// How many children may run at once.
    pub concurrency: u32,
    pub on_failure: OnFailure,
}

/// One attempt at one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOutMember {
    /// The index of the item.
    pub item: u32,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    #[serde(flatten)]
    pub started: MemberStart,
}

/// Whether an attempt has a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberStart {
    Child(ChildRef),
    /// The child was not admitted, for this reason.
    Refused(String),
}

/// The arguments of a fan-out: checked, not yet decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FanOutRequest {
    pub items: Vec<String>,
    /// The task of each child; `{item}` is replaced by its item.
    pub template: String,
    pub agent: Option<String>,
    /// The default if missing.
    pub concurrency: Option<u32>,
    pub on_failure: OnFailure,
}
