//! Tests of policy through its public API, as the runtime uses it.

mod at_use;
mod decisions;
mod derivation;
mod explanations;
mod properties;
mod speed;
mod stage;
mod suggestions;
