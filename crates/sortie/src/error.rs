//! Why an operation failed, for programs to match on.

use std::io;
use std::path::PathBuf;

use sortie_core::ports::model::ModelError;
use sortie_core::ports::store::StoreError;
use sortie_core::tenant::BadTenant;
use sortie_runtime::{Refusal, RuntimeError, ToolboxError};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The builder was given no home folder.
    #[error("no home folder: call `home` on the builder")]
    NoHome,
    /// Neither the request, the builder nor the configuration names a model.
    #[error("no model: call `model` on the builder, or set `default_model` of the request")]
    NoModel,
    /// The workspace is not a folder that this process can read.
    #[error("the workspace {} cannot be used", path.display())]
    Workspace {
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is no agent of this name.
    #[error("there is no agent {name:?}; there are: {known}")]
    UnknownAgent {
        /// The name in the request.
        name: String,
        /// The names of all agents.
        known: String,
    },
    /// The model cannot be used: its name is unknown, or its key is missing.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The request was refused, and nothing was written. Its `reason` is for the program, its
    /// `message` for people.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store refused or failed: `NotFound`, `Ambiguous`, `WrongState` and `Locked` are expected,
    /// the others mean that the store is damaged or the disk fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Two tools have the same name, or a tool's schema is invalid.
    #[error(transparent)]
    Tools(#[from] ToolboxError),
    /// The configuration limits a tenant whose name is invalid.
    #[error("the configuration has a table `tenants` with an {0}")]
    Tenant(#[from] BadTenant),
    /// The configuration of the web tools is invalid.
    #[error("{0}")]
    Web(String),
    /// The operating system refused something that the process needs.
    #[error("the operating system refused an operation")]
    Io(#[source] io::Error),
}

impl From<RuntimeError> for Error {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Refused(refusal) => Self::Refused(refusal),
            RuntimeError::Store(error) => Self::Store(error),
            RuntimeError::Toolbox(error) => Self::Tools(error),
        }
    }
}
