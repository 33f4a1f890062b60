//! The audit of tool calls.

use sortie_core::audit::{AuditLine, AuditReport};
use sortie_core::ports::store::AuditFilter;

use super::{Runtime, RuntimeError};

impl Runtime {
    /// Lists the audit entries that match the filter.
    pub async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, RuntimeError> {
        Ok(self.engine.store.audit(filter).await?)
    }

    /// Verifies the hash chain of the audit.
    pub async fn verify_audit(&self) -> Result<AuditReport, RuntimeError> {
        Ok(self.engine.store.verify_audit().await?)
    }
}
