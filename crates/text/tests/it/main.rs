//! What this crate promises: see each module.

mod catalogue;
mod cutting;
mod saying;
mod usage;
