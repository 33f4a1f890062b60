//! What the tests share: a simulated world in which the real runtime lives and dies.
//!
//! [`stage::Play`] puts the real parts and a scripted model together for one scenario.
//! [`sim::simulate`] runs the real scheduler, executor, machine, policy and store transitions with
//! paused time. Model, tools, latencies, crashes and cancels come from a seed, so a failing seed
//! fails again. [`provider::Provider`] is a provider of models on loopback, with all its faults.

pub mod provider;
pub mod sim;
pub mod stage;
