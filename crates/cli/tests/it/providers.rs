//! The binary against a provider on loopback that misbehaves: what the user sees, and what the
//! provider saw.

mod cache;
mod chain;
mod faults;
mod limited;
mod site;
mod sizes;
mod steps;
mod text_calls;
