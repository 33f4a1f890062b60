//! Sortie's vocabulary. Everything else knows this crate, and it knows nobody.
//!
//! Ids, run states, messages, events, records and the ports. What is serialisable here is a promise
//! to one reader, the journal, whose rows carry [`JOURNAL_VERSION`].

mod agent;
mod announcement;
mod event;
mod id;
mod message;
mod notification;
mod outcome;
mod ports;
mod record;
mod spec;
mod status;
mod time;

pub use agent::*;
pub use announcement::*;
pub use event::*;
pub use id::*;
pub use message::*;
pub use notification::*;
pub use outcome::*;
pub use ports::model::*;
pub use ports::store::*;
pub use ports::tool::*;
pub use record::*;
pub use spec::*;
pub use status::*;
pub use time::*;
