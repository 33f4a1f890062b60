//! What tenants use, and their limits.

use sortie_core::tenant::{Tenant, TenantUse};

use super::{Runtime, RuntimeError};

impl Runtime {
    /// Returns what tenants use: one of them, or all that are configured or have runs.
    pub async fn tenants(&self, tenant: Option<Tenant>) -> Result<Vec<TenantUse>, RuntimeError> {
        let store = &self.engine.store;
        Ok(store.tenants(tenant, self.now()).await?)
    }
}
