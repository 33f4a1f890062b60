//! Fills a store with ended runs, by the store's own transitions and with the journal of a real run.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use futures::stream::{FuturesUnordered, TryStreamExt as _};
use sortie_core::event::Event;
use sortie_core::id::{Fence, RunId, Seq, SessionKey};
use sortie_core::ports::store::{
    Admit, Claim, DeathLimits, Finish, Journal as _, LaneLimit, ListFilter, Registry as _, Unread,
};
use sortie_core::run::{Outcome, RunSpec, Summary};
use sortie_core::time::Clock as _;
use sortie_core::worker::WorkerId;
use sortie_runtime::ProcessClock;
use sortie_store::{DurableStore, Owner};

/// Runs that are written at once.
const BATCH: u32 = 500;
/// Turns of each session.
const TURNS_PER_SESSION: u32 = 10;

/// A real run, to be repeated.
#[derive(Debug)]
struct Template {
    spec: RunSpec,
    /// Its events between the claim and the end.
    events: Vec<Event>,
    summary: Summary,
    outcome: Outcome,
}

/// Adds so many ended runs to a store whose newest run is the template of them all. Every other run
/// has the session of the template; ten of the rest share one, `api:filled-0` and so on.
pub(crate) async fn add_ended_runs(home: &Path, count: u32) -> Result<()> {
    let clock = ProcessClock::start();
    let owner = Owner {
        pid: std::process::id(),
        command: "sortie-bench".to_owned(),
        since: clock.now(),
    };
    let store = DurableStore::open(home, &owner)?;
    let template = Template::of(&store).await?;
    let mut added = 0;
    while added < count {
        let batch = BATCH.min(count - added);
        let admitted: FuturesUnordered<_> = (added..added + batch)
            .map(|number| admit(&store, &clock, &template, number))
            .collect();
        admitted.try_collect::<Vec<RunId>>().await?;
        let fences = claim(&store, &clock, &template, batch).await?;
        ensure!(fences.len() == batch as usize, "not all runs were claimed");
        let ended: FuturesUnordered<_> = fences
            .into_iter()
            .map(|fence| finish(&store, &clock, &template, fence))
            .collect();
        ended.try_collect::<Vec<()>>().await?;
        added += batch;
    }
    Ok(())
}

impl Template {
    async fn of(store: &DurableStore) -> Result<Self> {
        let newest = ListFilter {
            limit: 1,
            ..ListFilter::default()
        };
        let mut records = store.list(newest).await?;
        let record = records.pop().context("the store has no run")?;
        let entries = store.read(record.run_id, Seq(0)).await?;
        let mut spec = None;
        let mut outcome = None;
        let mut events = Vec::new();
        for entry in entries {
            if let Event::Admitted { spec: admitted } = entry.event {
                spec = Some(*admitted);
            } else if let Event::Finished { outcome: ended } = entry.event {
                outcome = Some(ended);
            } else if !matches!(entry.event, Event::Claimed { .. }) {
                // The claim writes its own event.
                events.push(entry.event);
            }
        }
        Ok(Self {
            spec: spec.context("the template was not admitted")?,
            outcome: outcome.context("the template has not ended")?,
            events,
            summary: Summary {
                waiting_on: None,
                progress: record.summary.progress,
                ..record.summary
            },
        })
    }
}

async fn admit(
    store: &DurableStore,
    clock: &ProcessClock,
    template: &Template,
    number: u32,
) -> Result<RunId> {
    let run = clock.new_run_id();
    let mut spec = template.spec.clone();
    spec.root = run;
    if number % 2 == 1 {
        let session = format!("api:filled-{}", number / 2 / TURNS_PER_SESSION);
        spec.session = session.parse::<SessionKey>()?;
    }
    let at = clock.now();
    let parent = None;
    store
        .admit(Admit {
            run,
            spec,
            at,
            parent,
        })
        .await?;
    Ok(run)
}

async fn claim(
    store: &DurableStore,
    clock: &ProcessClock,
    template: &Template,
    max_concurrent: u32,
) -> Result<Vec<Fence>> {
    let claimed = store
        .claim(Claim {
            owner: WorkerId::from_stored("sortie-bench".to_owned()),
            at: clock.now(),
            lease_until: clock.now().plus_ms(600_000),
            lanes: vec![LaneLimit {
                lane: template.spec.lane,
                max_concurrent,
            }],
            labels: Vec::new(),
            per_parent: max_concurrent,
            per_tree: max_concurrent,
            deaths: DeathLimits {
                without_progress: 3,
                total: 25,
            },
        })
        .await?;
    Ok(claimed.into_iter().map(|claimed| claimed.fence).collect())
}

async fn finish(
    store: &DurableStore,
    clock: &ProcessClock,
    template: &Template,
    fence: Fence,
) -> Result<()> {
    let follows = store.get(fence.run).await?.head;
    store
        .finish(Finish {
            fence,
            follows,
            at: clock.now(),
            events: template.events.clone(),
            blobs: Vec::new(),
            summary: template.summary.clone(),
            outcome: template.outcome.clone(),
            audit: Vec::new(),
            unread: Unread::Kept,
        })
        .await?;
    Ok(())
}
