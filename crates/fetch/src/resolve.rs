//! Resolves a name once, judges all of its addresses, and connects only to these.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::guard::Judge;

/// Limit of addresses per name; further addresses are not tried.
const MAX_ADDRESSES: usize = 32;

/// Turns a name into addresses.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    /// Returns all addresses of a name, best first.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let addresses = tokio::net::lookup_host((host, 0)).await?;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// The name has no address.
#[derive(Debug, thiserror::Error)]
#[error("no address")]
pub(crate) struct NoAddress;

/// The resolver of the HTTP client: it judges every address before the client sees it.
#[derive(Debug)]
pub(crate) struct JudgedResolver {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) judge: Arc<Judge>,
}

impl Resolve for JudgedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Arc::clone(&self.resolver);
        let judge = Arc::clone(&self.judge);
        Box::pin(async move { judged(&*resolver, &judge, name.as_str()).await })
    }
}

async fn judged(
    resolver: &dyn Resolver,
    judge: &Judge,
    host: &str,
) -> Result<Addrs, Box<dyn Error + Send + Sync>> {
    let addresses = resolver.resolve(host).await.map_err(|_| NoAddress)?;
    if addresses.is_empty() {
        return Err(NoAddress.into());
    }
    // One bad address refuses the name: an attacker mixes addresses so that the bad one is tried.
    judge.addresses(host, &addresses)?;
    let sockets = addresses
        .into_iter()
        .take(MAX_ADDRESSES)
        // The port comes from the URL, which was checked with the name.
        .map(|address| SocketAddr::new(address, 0));
    Ok(Box::new(sockets))
}
