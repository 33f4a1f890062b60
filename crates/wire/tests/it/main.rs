//! The wire formats, as bytes in both directions.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "cases read better when they hand over what they made"
)]

mod answers;
mod faults;
mod properties;
mod quirks;
mod refusals;
mod requests;
mod steps;
mod support;
mod text_calls;
