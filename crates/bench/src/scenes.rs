//! The scenes. Each runs alone in its process, on a real store on a real disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use sortie_core::event::Event;
use sortie_core::id::{Fence, RunId, Seq};
use sortie_core::message::Usage;
use sortie_core::ports::store::{Admit, Append, Claim, Journal as _, LaneLimit, Registry as _};
use sortie_core::run::{Cancellation, CancelledBy, Lane, RunSpec, Summary};
use sortie_core::time::Clock;
use sortie_core::worker::WorkerId;
use sortie_runtime::{NewRun, Parts, ProcessClock, Runtime, Settings};
use sortie_store::{DurableStore, Owner};
use sortie_tools::{ToolSettings, standard_tools};

use crate::authority;
use crate::model::FixedModel;
use crate::turns;
use sortie_bench::process::memory_kb;

/// Active runs when the process died, in the recovery scene.
const ACTIVE: u32 = 1000;
/// Concurrent writers or spawners.
const CROWD: usize = 200;

pub(crate) fn measure(name: &str, argument: &str) -> anyhow::Result<Value> {
    let count: u32 = argument.parse().context("a number is wanted")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match name {
            "spawn" => spawns(count).await,
            "append" => appends(count).await,
            "idle" => idle(count).await,
            "recovery" => recovery(count).await,
            "turn" => turns::turn_cost(count).await,
            "tool" => turns::to_the_tool(count).await,
            "streams" => turns::streams(count).await,
            "policy" => authority::policy(),
            "sandbox" => authority::sandbox(count),
            other => bail!("there is no scene {other}"),
        }
    })
}

async fn idle(children: u32) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let mains = children.div_ceil(1000);
    let model = FixedModel {
        children: children / mains,
        prompts: Arc::default(),
    };
    let prompts = Arc::clone(&model.prompts);
    let before = memory_kb("VmRSS")?;
    let runtime = start(folder.path(), model, wide(children)).await?;
    for _ in 0..mains {
        runtime
            .create(NewRun::new("send them out", folder.path(), "fixed"))
            .await?;
    }
    wait_until(&prompts, children).await?;
    let resident = memory_kb("VmRSS")?;
    Ok(json!({
        "children": children,
        "resident_mb": resident / 1024.0,
        "kb_per_child": (resident - before) / f64::from(children),
    }))
}

async fn spawns(count: u32) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let mut settings = wide(1);
    // No run may start: only admission is measured.
    settings.lanes.subagent = 0;
    let runtime = Arc::new(start(folder.path(), silent_model(), settings).await?);
    let mut alone = Vec::new();
    for _ in 0..count / 5 {
        alone.push(spawn_one(&runtime, folder.path()).await?);
    }
    let mut crowd = Vec::new();
    let started = Instant::now();
    let mut waiting = FuturesUnordered::new();
    for _ in 0..count {
        if waiting.len() == CROWD
            && let Some(taken) = waiting.next().await
        {
            crowd.push(taken?);
        }
        waiting.push(spawn_one(&runtime, folder.path()));
    }
    while let Some(taken) = waiting.next().await {
        crowd.push(taken?);
    }
    let wall = started.elapsed();
    Ok(json!({
        "alone_p50_ms": percentile(&mut alone, 50),
        "alone_p99_ms": percentile(&mut alone, 99),
        "crowd_p50_ms": percentile(&mut crowd, 50),
        "crowd_p99_ms": percentile(&mut crowd, 99),
        "crowd_per_second": f64::from(count) / wall.as_secs_f64(),
    }))
}

async fn spawn_one(runtime: &Runtime, folder: &Path) -> anyhow::Result<Duration> {
    let started = Instant::now();
    runtime
        .create(NewRun::new("wait", folder, "fixed").in_background())
        .await?;
    Ok(started.elapsed())
}

async fn appends(rounds: u32) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let clock = ProcessClock::start();
    let store = open(folder.path(), clock)?;
    let spec = example_spec(folder.path()).await?;
    for _ in 0..CROWD {
        admit(&store, &clock, &spec).await?;
    }
    let claimed = claim_all(&store, &clock, CROWD as u32).await?;
    let started = Instant::now();
    let writers: FuturesUnordered<_> = claimed
        .into_iter()
        .map(|fence| {
            let store = &store;
            async move {
                let mut follows = store.get(fence.run).await?.head;
                for _ in 0..rounds {
                    let appended = store
                        .append(Append {
                            fence,
                            follows,
                            at: clock.now(),
                            events: vec![Event::ModelFailed {
                                model: "fixed".to_owned(),
                                fault: sortie_core::ports::model::Fault::Transient,
                                message: "x".repeat(200),
                                shown: false,
                            }],
                            summary: summary(),
                            blobs: Vec::new(),
                            audit: Vec::new(),
                            spent: None,
                            letters: Vec::new(),
                        })
                        .await?;
                    follows = appended.head;
                }
                anyhow::Ok(())
            }
        })
        .collect();
    let results: Vec<anyhow::Result<()>> = writers.collect().await;
    results.into_iter().collect::<anyhow::Result<()>>()?;
    let events = f64::from(rounds) * CROWD as f64;
    Ok(json!({ "events_per_second": events / started.elapsed().as_secs_f64() }))
}

async fn recovery(finished: u32) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    fill(folder.path(), finished).await?;
    let model = silent_model();
    let prompts = Arc::clone(&model.prompts);
    let started = Instant::now();
    let runtime = start(folder.path(), model, wide(ACTIVE)).await?;
    let ready = started.elapsed();
    ensure!(
        runtime.recovered().resumed.len() == ACTIVE as usize,
        "recovery found {} runs",
        runtime.recovered().resumed.len()
    );
    wait_until(&prompts, ACTIVE).await?;
    let claimed = started.elapsed();
    Ok(json!({
        "ready_ms": ready.as_secs_f64() * 1000.0,
        "claimed_ms": claimed.as_secs_f64() * 1000.0,
    }))
}

/// Leaves a store as a killed process would: ended runs and some active ones.
async fn fill(folder: &Path, finished: u32) -> anyhow::Result<()> {
    let clock = ProcessClock::start();
    let store = open(folder, clock)?;
    let spec = example_spec(folder).await?;
    let mut waiting = FuturesUnordered::new();
    for _ in 0..finished {
        if waiting.len() == CROWD
            && let Some(done) = waiting.next().await
        {
            done?;
        }
        waiting.push(finish_one(&store, &clock, &spec));
    }
    while let Some(done) = waiting.next().await {
        done?;
    }
    for _ in 0..ACTIVE {
        admit(&store, &clock, &spec).await?;
    }
    let claimed = claim_all(&store, &clock, ACTIVE).await?;
    ensure!(claimed.len() == ACTIVE as usize, "not all were claimed");
    Ok(())
}

async fn finish_one(
    store: &DurableStore,
    clock: &ProcessClock,
    spec: &RunSpec,
) -> anyhow::Result<()> {
    let run = admit(store, clock, spec).await?;
    let cancellation = Cancellation {
        by: CancelledBy::Person,
        reason: "it only fills the store".to_owned(),
    };
    store.cancel(run, cancellation, clock.now()).await?;
    Ok(())
}

async fn admit(
    store: &DurableStore,
    clock: &ProcessClock,
    spec: &RunSpec,
) -> anyhow::Result<RunId> {
    let run = clock.new_run_id();
    let mut spec = spec.clone();
    spec.root = run;
    store
        .admit(Admit {
            run,
            spec,
            at: clock.now(),
            parent: None,
        })
        .await?;
    Ok(run)
}

async fn claim_all(
    store: &DurableStore,
    clock: &ProcessClock,
    max_concurrent: u32,
) -> anyhow::Result<Vec<Fence>> {
    let claimed = store
        .claim(Claim {
            owner: WorkerId::from_stored("bench".to_owned()),
            at: clock.now(),
            lease_until: clock.now().plus_ms(600_000),
            lanes: vec![LaneLimit {
                lane: Lane::Subagent,
                max_concurrent,
            }],
            labels: Vec::new(),
            per_parent: max_concurrent,
            per_tree: max_concurrent,
            deaths: sortie_core::ports::store::DeathLimits {
                without_progress: 3,
                total: 25,
            },
        })
        .await?;
    Ok(claimed.into_iter().map(|claimed| claimed.fence).collect())
}

/// Returns a spec from the journal of a run that the runtime admitted.
async fn example_spec(folder: &Path) -> anyhow::Result<RunSpec> {
    let elsewhere = tempfile::tempdir()?;
    let mut settings = wide(1);
    settings.lanes.subagent = 0;
    let runtime = start(elsewhere.path(), silent_model(), settings).await?;
    let run = runtime
        .create(NewRun::new("wait", folder, "fixed").in_background())
        .await?;
    let entries = runtime.events(run, Seq(0)).await?;
    runtime.shut_down().await;
    match entries.into_iter().next().map(|entry| entry.event) {
        Some(Event::Admitted { spec }) => Ok(*spec),
        other => bail!("a journal begins with {other:?}"),
    }
}

async fn wait_until(counter: &AtomicU32, wanted: u32) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(300);
    while counter.load(Ordering::SeqCst) < wanted {
        ensure!(
            Instant::now() < deadline,
            "only {} of {wanted} started",
            counter.load(Ordering::SeqCst)
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn start(folder: &Path, model: FixedModel, settings: Settings) -> anyhow::Result<Runtime> {
    let clock = ProcessClock::start();
    let parts = Parts::new(
        Arc::new(open(folder, clock)?),
        Arc::new(model),
        standard_tools(ToolSettings::default()),
    );
    Ok(Runtime::start(parts, settings).await?)
}

pub(crate) fn open(folder: &Path, clock: ProcessClock) -> anyhow::Result<DurableStore> {
    let owner = Owner {
        pid: std::process::id(),
        command: "sortie-bench".to_owned(),
        since: clock.now(),
    };
    Ok(DurableStore::open(&folder.join("home"), &owner)?)
}

fn wide(children: u32) -> Settings {
    let mut settings = Settings::default().with_max_concurrent(children.max(1));
    settings.caps.max_children_per_tree = children.max(1);
    settings.lanes.main = 64;
    settings
}

fn silent_model() -> FixedModel {
    FixedModel {
        children: 0,
        prompts: Arc::default(),
    }
}

fn summary() -> Summary {
    Summary {
        waiting_on: None,
        progress: 0,
        tool_calls: 0,
        usage: Usage::default(),
        unpriced: 0,
        model: "fixed".to_owned(),
        last_text: None,
    }
}

fn percentile(taken: &mut [Duration], percent: usize) -> f64 {
    taken.sort();
    let at = (taken.len() * percent / 100).min(taken.len().saturating_sub(1));
    taken
        .get(at)
        .map_or(f64::NAN, |taken| taken.as_secs_f64() * 1000.0)
}
