//! Approval requests and questions of runs, replies to them, and lasting grants.

use sortie_core::{
    OpenRequest, Replied, Reply, RequestFilter, RequestId, SessionGrant, SessionKey, Tenant,
};

use super::{Runtime, RuntimeError};

impl Runtime {
    /// What runs ask and nobody has replied to, or all of it.
    pub async fn requests(&self, filter: RequestFilter) -> Result<Vec<OpenRequest>, RuntimeError> {
        Ok(self.engine.store.requests(filter).await?)
    }

    /// The request that a person means by the beginning of its id.
    pub async fn find_request(&self, prefix: &str) -> Result<OpenRequest, RuntimeError> {
        Ok(self.engine.store.find_request(prefix).await?)
    }

    /// Replies to a request, as a person. The first reply holds.
    pub async fn reply(&self, request: &RequestId, reply: Reply) -> Result<Replied, RuntimeError> {
        Ok(self.engine.reply(request, reply).await?)
    }

    /// What persons have allowed for a session.
    pub async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> Result<Vec<SessionGrant>, RuntimeError> {
        Ok(self.engine.store.grants(tenant, session).await?)
    }

    /// Takes back what a person allowed; all of it if no rule is named.
    pub async fn revoke(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
        rule: Option<&str>,
    ) -> Result<u64, RuntimeError> {
        Ok(self.engine.store.revoke(tenant, session, rule).await?)
    }
}
