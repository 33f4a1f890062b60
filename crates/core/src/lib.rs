//! Sortie's vocabulary. Every other crate may depend on this one; it depends on none of them.
//!
//! Values: [`run`], [`event`], [`message`], [`inbox`], [`request`], [`policy`], [`budget`], [`audit`].
//! Traits that the runtime works through: [`ports`]. Types that serialize here define the journal
//! format, whose rows carry [`event::JOURNAL_VERSION`]; [`Notification`] and [`RequestView`] are also
//! what clients read.

#[macro_use]
pub mod words;

pub mod agent;
pub mod audit;
pub mod budget;
pub mod error;
pub mod event;
pub mod id;
pub mod inbox;
pub mod message;
pub mod notification;
pub mod policy;
pub mod ports;
pub mod request;
pub mod request_view;
pub mod run;
pub mod schema;
pub mod session;
pub mod skill;
pub mod stats;
pub mod tenant;
pub mod time;

pub use agent::*;
pub use audit::*;
pub use budget::*;
pub use error::*;
pub use event::*;
pub use id::*;
pub use inbox::*;
pub use message::*;
pub use notification::*;
pub use policy::*;
pub use ports::model::*;
pub use ports::store::*;
pub use ports::tool::*;
pub use ports::workspace::*;
pub use request::*;
pub use request_view::*;
pub use run::*;
pub use schema::*;
pub use session::*;
pub use skill::*;
pub use stats::*;
pub use tenant::*;
pub use time::*;
pub use words::*;
