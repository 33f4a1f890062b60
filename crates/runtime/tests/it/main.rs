//! The runtime as its users and its enemies see it.

mod asking;
mod audited;
mod authority;
mod budgets;
mod calls;
mod cancelling;
mod configured;
mod delegation;
mod endings;
mod inquiries;
mod limits;
mod long_talks;
mod managing;
mod nesting;
mod pausing;
mod prompts;
mod props;
mod restart;
mod review;
mod simulation;
mod sinks;
mod talking;
