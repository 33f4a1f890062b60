//! Tests of skills and agent files, from folders on disk to the permissions of a run.
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
