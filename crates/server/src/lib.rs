//! The API of a running Sortie: routes, keys, live events, the page.
//!
//! [`Server::bind`] takes a runtime and listens; [`Server::serve`] answers until it is told to stop.
//! Every request passes `guard` first, whatever it asks for: Host, Origin, credentials, role, rate, in
//! this order. Handlers under `routes` are thin: read, call one function of the runtime, convert. What
//! happens while it happens is told by `hub`: one task numbers it, each client only filters.

mod access;
mod app;
mod body;
mod config;
mod guard;
mod headers;
mod host;
mod hub;
pub mod keys;
mod links;
mod listen;
mod metrics;
mod once;
mod openapi;
pub mod page;
mod pages;
mod problem;
mod random;
mod readiness;
mod room;
mod routes;
mod server;
mod strangers;

pub use config::{Rate, ServerConfig, ServerLimits, TenantConfig};
pub use host::{Host, HostError};
pub use openapi::document;
pub use random::{NoRandomness, new_proof};
pub use server::{ServeError, Server, here};
