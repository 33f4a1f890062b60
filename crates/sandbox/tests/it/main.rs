//! Real commands in the real sandbox, on every backend that works on this machine.
//!
//! Each case is also run without a sandbox first, where it must succeed: what the sandbox refuses is
//! refused by it, and not by the machine.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod support;
mod swaps;

mod crowd;
mod endings;
mod files;
mod groups;
mod machine;
mod network;
mod protected;
mod work;
