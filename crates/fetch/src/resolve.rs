//! Names to addresses: once, all of them judged, and only those are connected to.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::guard::Judge;

/// The most addresses of one name that are tried; a name with more has its first ones tried.
const MAX_ADDRESSES: usize = 32;

/// Turns a name into addresses.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    /// All addresses of a name, best first.
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

/// A name without an address.
#[derive(Debug, thiserror::Error)]
#[error("no address")]
pub(crate) struct NoAddress;

/// What the HTTP client resolves with: the judge stands between it and every answer.
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
    // One bad address spoils the name: whoever mixes them wants the bad one to be tried.
    judge.addresses(host, &addresses)?;
    let sockets = addresses
        .into_iter()
        .take(MAX_ADDRESSES)
        // The port is the URL's, which was checked with the name.
        .map(|address| SocketAddr::new(address, 0));
    Ok(Box::new(sockets))
}
