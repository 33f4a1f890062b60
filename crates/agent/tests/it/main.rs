//! The machine at its boundary: events in; the next step and what the model saw out.

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for one kind among all"
)]
mod model_chain;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for one kind among all"
)]
mod player;
mod requests;

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for one kind among all"
)]
mod properties;
mod stories;
mod timeline;
