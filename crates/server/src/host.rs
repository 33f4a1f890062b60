//! Data of the program that embeds the server.

use std::fmt;
use std::path::Path;

use async_trait::async_trait;
use sortie_core::skill::SkillRef;
use sortie_protocol::{ConfigLine, DoctorLine};

/// Data of the program that embeds the server.
///
/// Implementers guarantee that their answers are redacted.
#[async_trait]
pub trait Host: Send + Sync + fmt::Debug {
    /// Returns the version of the program.
    fn version(&self) -> String;
    /// Returns the effective settings and where each was set, redacted.
    async fn config(&self) -> Result<Vec<ConfigLine>, HostError>;
    /// Returns the results of the checks of this machine.
    async fn doctor(&self) -> Result<Vec<DoctorLine>, HostError>;
    /// Returns the models that tasks can name: those that are likely to work, the best first.
    async fn models(&self) -> Result<Vec<String>, HostError>;
    /// Returns the skills that runs in a folder can load.
    async fn skills(&self, workspace: &Path) -> Result<Vec<SkillRef>, HostError>;
}

/// Why the program could not answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HostError(pub String);
