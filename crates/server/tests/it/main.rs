//! Tests against a real server on a port of its own, with a real store and a scripted model.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail like the tests themselves"
)]

mod changes;
mod compression;
mod driving;
mod entering;
mod idempotency;
mod leaving;
mod limits;
mod live;
mod matrix;
mod metrics;
mod openapi;
mod pages;
mod requests;
mod secrets;
mod sessions;
mod streams;
mod support;
mod tasks;
mod tenants;
