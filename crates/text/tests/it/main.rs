//! What this crate promises: see each module.

mod catalogue;
mod cutting;
mod rendering;
mod usage;
