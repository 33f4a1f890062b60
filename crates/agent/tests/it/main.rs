//! The machine at its boundary: events in, what comes next and what the model saw out.

mod player;
mod properties;
mod stories;
