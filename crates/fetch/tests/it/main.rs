//! Tests of the guard against real sockets, hostile servers and resolvers whose answers change.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod hostile;
mod names;
mod redirects;
mod server;
mod spellings;
#[cfg(feature = "tools")]
mod tools;
mod urls;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use sortie_fetch::{Allow, Guard, Resolver};

/// A resolver with a table: the n-th query of a name gets its n-th answer, and later ones the last.
#[derive(Debug, Default)]
struct Table {
    names: BTreeMap<&'static str, Vec<Vec<&'static str>>>,
    lookups: AtomicUsize,
}

impl Table {
    fn of(names: &[(&'static str, &[&[&'static str]])]) -> Arc<Self> {
        let names = names
            .iter()
            .map(|(name, answers)| {
                (
                    *name,
                    answers.iter().map(|answer| answer.to_vec()).collect(),
                )
            })
            .collect();
        Arc::new(Self {
            names,
            lookups: AtomicUsize::new(0),
        })
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Resolver for Table {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let number = self.lookups.fetch_add(1, Ordering::Relaxed);
        let answers = self.names.get(host).ok_or(io::ErrorKind::NotFound)?;
        let answer = answers.get(number).or(answers.last());
        Ok(answer
            .into_iter()
            .flatten()
            .map(|text| text.parse().unwrap())
            .collect())
    }
}

fn allow(hosts: &[String]) -> Allow {
    Allow {
        hosts: hosts.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..Allow::default()
    }
}

fn guard(hosts: &[String], resolver: Arc<Table>) -> Guard {
    Guard::with_resolver(allow(hosts), resolver).unwrap()
}

fn anybody(_host: &str) -> Result<(), String> {
    Ok(())
}
