//! The ports: narrow traits between the runtime and the world.

pub(crate) mod claims;
pub(crate) mod model;
pub(crate) mod once;
pub(crate) mod store;
pub(crate) mod tool;
pub(crate) mod workplace;
