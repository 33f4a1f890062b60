//! Skills and agent files, from folders on disk to what a run may use.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

mod agents;
mod fuzz;
mod places;
mod skills;
mod support;
mod trust;
