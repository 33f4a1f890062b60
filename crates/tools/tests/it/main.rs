//! Tests of the shell in the real sandbox: what it prevents, and that no process is left behind.
//!
//! Each operation that the sandbox prevents is also tried without one, where it must succeed: this
//! proves that the sandbox prevents it, and not the machine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod confined;
mod endings;
mod planted;
mod starts;
mod support;
