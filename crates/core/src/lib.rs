//! Sortie's vocabulary. Every other crate may depend on this one; it depends on none of them.
//!
//! Values: [`run`], [`event`], [`message`], [`inbox`], [`request`], [`policy`], [`budget`], [`audit`].
//! Traits that the runtime works through: [`ports`]. Types that serialize here define the journal
//! format, whose rows carry [`event::JOURNAL_VERSION`]; [`notification::Notification`] and
//! [`request_view::RequestView`] are also what clients read.

#[macro_use]
pub mod words;

pub mod agent;
pub mod audit;
pub mod budget;
pub mod check;
pub mod config;
pub mod error;
pub mod event;
pub mod fan_out;
pub mod hook;
pub mod id;
pub mod inbox;
pub mod message;
pub mod notification;
pub mod policy;
pub mod ports;
pub mod report;
pub mod request;
pub mod request_view;
pub mod run;
pub mod schema;
pub mod session;
pub mod skill;
pub mod stats;
pub mod tenant;
pub mod time;
pub mod worker;
