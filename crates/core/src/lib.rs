//! Sortie's vocabulary. Everything else knows this crate, and it knows nobody.
//!
//! Ids, run states, messages, events, records and the ports. What is serialisable here is a promise
//! to one reader, the journal, whose rows carry [`JOURNAL_VERSION`].

#[macro_use]
mod status;

mod agent;
mod announcement;
mod audit;
mod budget;
mod causes;
mod event;
mod id;
mod isolation;
mod message;
mod notification;
mod outcome;
mod policy;
mod ports;
mod record;
mod request;
mod request_view;
mod schema;
mod session;
mod skill;
mod spec;
mod tenant;
mod time;

pub use agent::*;
pub use announcement::*;
pub use audit::*;
pub use budget::*;
pub use causes::with_causes;
pub use event::*;
pub use id::*;
pub use isolation::*;
pub use message::*;
pub use notification::*;
pub use outcome::*;
pub use policy::*;
pub use ports::claims::*;
pub use ports::model::*;
pub use ports::once::*;
pub use ports::store::*;
pub use ports::tool::*;
pub use ports::workplace::*;
pub use record::*;
pub use request::*;
pub use request_view::*;
pub use schema::*;
pub use session::*;
pub use skill::*;
pub use spec::*;
pub use status::*;
pub use tenant::*;
pub use time::*;
