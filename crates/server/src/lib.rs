//! The API of a running Sortie: routes, keys, live events, the page.
//!
//! [`Server::bind`] takes a runtime and binds an address; [`Server::serve`] serves requests until it
//! is stopped. Every request passes `guard` first: Host, Origin, credentials, role, rate, in this
//! order. Handlers under `routes` are thin: they read the request, call one function of the runtime
//! and convert the result. `hub` publishes live events: one task numbers them, each client only
//! filters.

mod access;
mod anonymous;
mod app;
mod body;
mod body_memory;
mod compression;
mod config;
mod deep_link;
mod guard;
mod headers;
mod host;
mod hub;
mod idempotency;
pub mod keys;
mod links;
mod listen;
mod metrics;
mod openapi;
pub mod page;
mod pages;
mod problem;
mod random;
mod readiness;
mod routes;
mod server;

pub use config::{Rate, ServerConfig, ServerLimits, TenantConfig};
pub use host::{Host, HostError};
pub use openapi::document;
pub use random::{NoRandomness, new_proof};
pub use server::{ServeError, Server};
