//! Runs real commands in the real sandbox, on every backend that works on this machine.
//!
//! Each case first runs without a sandbox, where it must succeed: this shows that the sandbox
//! refuses it, and not the machine.

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
