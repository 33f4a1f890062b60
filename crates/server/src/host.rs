//! What only the program around the server knows.

use std::fmt;
use std::path::Path;

use async_trait::async_trait;
use sortie_core::SkillRef;
use sortie_protocol::{ConfigLine, DoctorLine};

/// What only the program around the server knows.
///
/// Implementers guarantee that nothing they answer carries a secret.
#[async_trait]
pub trait Host: Send + Sync + fmt::Debug {
    /// Its version.
    fn version(&self) -> String;
    /// The settings in force and who set them, with secrets taken out.
    async fn config(&self) -> Result<Vec<ConfigLine>, HostError>;
    /// What a check of this machine finds.
    async fn doctor(&self) -> Result<Vec<DoctorLine>, HostError>;
    /// The skills that runs in a folder could load.
    async fn skills(&self, workspace: &Path) -> Result<Vec<SkillRef>, HostError>;
}

/// Why it could not be told.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HostError(pub String);
