//! Approval requests and questions of runs, replies to them, and lasting grants.

use sortie_core::id::SessionKey;
use sortie_core::ports::store::Replied;
use sortie_core::request::{OpenRequest, Reply, RequestFilter, RequestId, SessionGrant};
use sortie_core::tenant::Tenant;

use super::{Runtime, RuntimeError};

impl Runtime {
    /// Lists the requests that match the filter: open ones, or all.
    pub async fn requests(&self, filter: RequestFilter) -> Result<Vec<OpenRequest>, RuntimeError> {
        Ok(self.engine.store.requests(filter).await?)
    }

    /// Finds a request by a prefix of its id.
    pub async fn find_request(&self, prefix: &str) -> Result<OpenRequest, RuntimeError> {
        Ok(self.engine.store.find_request(prefix).await?)
    }

    /// Replies to a request, as a person. The first reply counts.
    pub async fn reply(&self, request: &RequestId, reply: Reply) -> Result<Replied, RuntimeError> {
        Ok(self.engine.reply(request, reply).await?)
    }

    /// Lists the grants of a session.
    pub async fn grants(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
    ) -> Result<Vec<SessionGrant>, RuntimeError> {
        Ok(self.engine.store.grants(tenant, session).await?)
    }

    /// Revokes the grant of this rule, or all grants of the session; returns how many.
    pub async fn revoke(
        &self,
        tenant: Option<&Tenant>,
        session: &SessionKey,
        rule: Option<&str>,
    ) -> Result<u64, RuntimeError> {
        Ok(self.engine.store.revoke(tenant, session, rule).await?)
    }
}
