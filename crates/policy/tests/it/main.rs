//! Policy, asked as the runtime asks it.

mod admission;
mod at_use;
mod decisions;
mod explanations;
mod properties;
mod speed;
mod stage;
mod suggestions;
