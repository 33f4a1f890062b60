//! Tests of the runtime at its public boundary.

mod approvals;
mod audit;
mod authority;
mod budgets;
mod calls;
mod cancel;
mod checks;
mod context;
mod delegation;
mod fan_out;
mod limits;
mod long_conversations;
mod model_calls;
mod nesting;
mod outcomes;
mod pause;
mod prompts;
mod props;
mod regressions;
mod restart;
mod sessions;
mod settings;
mod simulation;
mod sinks;
mod tasks;
mod tenants;
