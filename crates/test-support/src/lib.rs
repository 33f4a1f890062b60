//! Shared test infrastructure.
//!
//! [`stage::Play`] assembles the real parts and a scripted model for one scenario.
//! [`sim::simulate`] runs the real scheduler, executor, fold, policy and store transitions with
//! paused time; model, tools, latencies, crashes and cancellations come from a seed, so a failing
//! seed fails again. [`provider::Provider`] is a model provider on loopback that produces all known
//! faults.

pub mod provider;
pub mod sim;
pub mod stage;
