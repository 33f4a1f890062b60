//! The audit of tool calls.

use sortie_core::{AuditFilter, AuditLine, AuditReport};

use super::{Runtime, RuntimeError};

impl Runtime {
    /// What happened to calls.
    pub async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, RuntimeError> {
        Ok(self.engine.store.audit(filter).await?)
    }

    /// Checks the whole audit.
    pub async fn verify_audit(&self) -> Result<AuditReport, RuntimeError> {
        Ok(self.engine.store.verify_audit().await?)
    }
}
