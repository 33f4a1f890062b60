//! The shell in the real sandbox: what holds, and that nothing is left behind.
//!
//! What the sandbox refuses is also tried without one, where it must succeed: the refusal is the
//! sandbox's, and not the machine's.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod endings;
mod held;
mod planted;
mod starts;
mod support;
