//! The machine at its boundary: events in, what comes next and what the model saw out.

mod asked;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for one kind among all"
)]
mod asking;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for one kind among all"
)]
mod player;

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "tests look for one kind among all"
)]
mod properties;
mod stories;
mod timeline;
