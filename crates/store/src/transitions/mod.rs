//! The transitions: functions over a connection that is inside a transaction.

pub(crate) mod account_check;
pub(crate) mod accounts;
pub(crate) mod admit;
pub(crate) mod append;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod cancel;
pub(crate) mod claim;
pub(crate) mod deliver;
pub(crate) mod finish;
pub(crate) mod idempotency;
pub(crate) mod inbox;
pub(crate) mod lease;
pub(crate) mod mailbox;
pub(crate) mod park;
pub(crate) mod pause;
pub(crate) mod read;
pub(crate) mod rebuild;
pub(crate) mod recover;
pub(crate) mod request_views;
pub(crate) mod requests;
pub(crate) mod sessions;
pub(crate) mod snapshots;
pub(crate) mod update;
pub(crate) mod verify;
