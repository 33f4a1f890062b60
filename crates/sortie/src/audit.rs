//! The audit: every tool call with its ruling, in one hash chain.

use sortie_core::audit::{AuditLine, AuditReport};
use sortie_core::ports::store::{AuditFilter, VerifyReport};
use sortie_runtime::Runtime;

use crate::error::Error;

/// The audit of a [`Sortie`](crate::Sortie).
#[derive(Clone, Copy, Debug)]
pub struct Audit<'a> {
    runtime: &'a Runtime,
}

impl<'a> Audit<'a> {
    pub(crate) const fn new(runtime: &'a Runtime) -> Self {
        Self { runtime }
    }

    /// Returns entries, oldest first.
    pub async fn list(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, Error> {
        Ok(self.runtime.audit(filter).await?)
    }

    /// Checks the hash chain of the audit.
    pub async fn verify(&self) -> Result<AuditReport, Error> {
        Ok(self.runtime.verify_audit().await?)
    }

    /// Checks every journal against its hash chain, and every record against its journal.
    pub async fn verify_journals(&self) -> Result<VerifyReport, Error> {
        Ok(self.runtime.verify().await?)
    }
}
