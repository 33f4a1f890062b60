//! Tests the binary as users and programs call it: real processes, each with its own home.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod approvals;
mod audited;
mod chat;
mod clients;
mod configured;
mod control;
#[cfg(feature = "crash-points")]
mod crash_table;
mod damage;
#[cfg(feature = "postgres")]
#[expect(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../../store/tests/it/server.rs"]
mod database;
mod delegation;
mod demo;
mod doctor;
mod documented;
mod fan_out;
mod files;
mod first_hour;
mod found;
mod given;
mod hooks;
mod hostile;
mod isolated;
mod life;
mod memory;
#[cfg(feature = "crash-points")]
mod poison;
mod policy;
#[cfg(feature = "postgres")]
mod postgres;
mod private;
mod providers;
mod readiness;
mod recording;
mod reference;
mod remains;
mod replays;
mod restarts;
mod run;
mod screen;
mod server;
mod stale_prompts;
mod stored;
mod strangers;
mod tasks;
mod terminal;
mod top;
#[cfg(feature = "postgres")]
mod workers;
mod world;
