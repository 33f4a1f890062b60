//! The ports: traits between the runtime and storage, models, tools and the workspace.

pub mod hooks;
pub mod model;
pub mod store;
pub mod tool;
pub mod workspace;
