//! Two hundred children with and without a thousand requests a second beside them, in alternation.

use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::numbers::{Row, Spread, median};
use sortie_bench::http::{Address, Http};
use sortie_bench::server::Server;

/// Connections that share the requests.
const CONNECTIONS: u32 = 20;
/// The latency of the children's model.
const LATENCY_MS: u64 = 1_000;
/// The aim: how much slower the children may become.
const MAX_SLOWDOWN_PERCENT: f64 = 5.0;
/// The limit: beyond this the machine load is not the cause any more.
const BROKEN_SLOWDOWN_PERCENT: f64 = 25.0;
/// The limit of late responses: beyond this the server cannot keep the rate.
const BROKEN_P99_MS: f64 = 1_000.0;

/// The size of the scene.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) children: u32,
    pub(crate) pairs: u32,
    pub(crate) per_second: u32,
}

/// Measures the wall time of the children with and without requests.
pub(crate) async fn measure(sortie: &Path, scene: Scene) -> Result<Vec<Row>> {
    let server = Server::start(sortie).await?;
    let mut http = Http::connect(&server.address).await?;
    let model = server.script("fan-out.json", &fan_out(scene.children))?;
    let warm = server.run(&mut http, &model, "warm-up").await?;
    server.end_of(&mut http, &warm).await?;

    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let mut results = RequestResults::new();
    for pair in 0..scene.pairs {
        alone.push(children(&server, &mut http, &model, &format!("alone-{pair}")).await?);
        let load = Load::start(&server.address, &warm, scene.per_second);
        beside.push(children(&server, &mut http, &model, &format!("beside-{pair}")).await?);
        results.add(&load.stop().await?);
    }
    let (alone, beside) = (median(alone), median(beside));
    let slower = (beside / alone - 1.0) * 100.0;
    ensure!(results.latencies.total() > 0, "nothing was asked");
    Ok(vec![
        Row::number(
            format!("{} children of {LATENCY_MS} ms × 4, alone", scene.children),
            format!("{alone:.0} ms"),
            alone,
        ),
        Row::number(
            format!("… beside {} requests a second", scene.per_second),
            format!("{beside:.0} ms ({slower:+.1} %)"),
            slower,
        )
        .within(
            format!("≤ {MAX_SLOWDOWN_PERCENT:.0} % slower"),
            BROKEN_SLOWDOWN_PERCENT,
        )
        .timed(),
        Row::number(
            "requests a second that were really answered",
            format!("{:.0}", results.per_second()),
            results.per_second(),
        ),
        Row::number(
            "request to answer (list, get, stats), p50 / p99 / longest",
            results.latencies.shown(),
            results.latencies.per_mille(990) as f64,
        )
        .within("", BROKEN_P99_MS)
        .timed(),
        Row::number(
            "answers that were not 200",
            results.bad.to_string(),
            results.bad as f64,
        )
        .within("none", 0.0),
        Row::number(
            "memory of the server at most",
            format!("{:.0} MiB", server.memory_mib("VmHWM")?),
            server.memory_mib("VmHWM")?,
        ),
    ])
}

/// Runs a fan-out and returns its wall time in milliseconds, by the server's clock.
async fn children(server: &Server, http: &mut Http, model: &str, session: &str) -> Result<f64> {
    let run = server.run(http, model, session).await?;
    let task = server.end_of(http, &run).await?;
    let at = |name: &str| {
        let text = task[name].as_str().context("a record without a time")?;
        anyhow::Ok(jiff::Timestamp::from_str(text)?.as_millisecond())
    };
    Ok((at("completed_at")? - at("started_at")?) as f64)
}

/// A main run that spawns children, each of which reads a file three times.
fn fan_out(children: u32) -> Value {
    let calls: Vec<Value> = (0..children)
        .map(|number| {
            json!({"tool": "task", "args": {
                "description": format!("child {number}"),
                "prompt": format!("read the note, {number}"),
                "subagent_type": "explore",
            }})
        })
        .collect();
    let look = |turn: u32| {
        json!({
            "when": {"depth": 1, "turn": turn},
            "calls": [{"tool": "read_file", "args": {"path": "note.txt", "offset": turn}}],
        })
    };
    json!({
        "version": 1,
        "defaults": {
            "latency_ms": LATENCY_MS,
            "usage": {"input_tokens": 1000, "output_tokens": 50},
        },
        "rules": [
            {"when": {"depth": 0, "turn": 1}, "latency_ms": 1, "calls": calls},
            {"when": {"depth": 0}, "latency_ms": 1, "say": "done"},
            look(1), look(2), look(3),
            {"say": "done"},
        ],
    })
}

/// The results of the requests.
struct RequestResults {
    latencies: Spread,
    bad: u64,
    seconds: f64,
}

impl RequestResults {
    fn new() -> Self {
        Self {
            latencies: Spread::new(),
            bad: 0,
            seconds: 0.0,
        }
    }

    fn add(&mut self, other: &Self) {
        self.latencies.add_pairs(&other.latencies.pairs());
        self.bad += other.bad;
        self.seconds += other.seconds;
    }

    fn per_second(&self) -> f64 {
        self.latencies.total() as f64 / self.seconds.max(0.001)
    }
}

/// Requests at a fixed rate, whatever the responses do: a late response delays only the next
/// request on its connection, and that one's delay counts.
struct Load {
    stop: Arc<AtomicBool>,
    results: Arc<Mutex<RequestResults>>,
    started: Instant,
    tasks: tokio::task::JoinSet<Result<()>>,
}

impl Load {
    fn start(address: &Address, run: &str, per_second: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let results = Arc::new(Mutex::new(RequestResults::new()));
        let mut tasks = tokio::task::JoinSet::new();
        let period = Duration::from_secs(1) * CONNECTIONS / per_second;
        for number in 0..CONNECTIONS {
            let pace = Pace {
                address: address.clone(),
                run: run.to_owned(),
                first: Instant::now() + period * number / CONNECTIONS,
                period,
                stop: Arc::clone(&stop),
                results: Arc::clone(&results),
            };
            tasks.spawn(pace.keep());
        }
        Self {
            stop,
            results,
            started: Instant::now(),
            tasks,
        }
    }

    async fn stop(mut self) -> Result<RequestResults> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.context("a requester died")??;
        }
        let mut results = self.results.lock().await;
        results.seconds = self.started.elapsed().as_secs_f64();
        Ok(std::mem::replace(&mut *results, RequestResults::new()))
    }
}

/// One connection of the load.
struct Pace {
    address: Address,
    run: String,
    first: Instant,
    period: Duration,
    stop: Arc<AtomicBool>,
    results: Arc<Mutex<RequestResults>>,
}

impl Pace {
    async fn keep(self) -> Result<()> {
        let mut http = Http::connect(&self.address).await?;
        let lines = [
            "GET /api/tasks?limit=50&summary=true".to_owned(),
            format!("GET /api/tasks/{}", self.run),
            "GET /api/tasks/stats".to_owned(),
            format!("GET /api/tasks/{}", self.run),
            "GET /api/tasks?status=running&limit=50&summary=true".to_owned(),
        ];
        let mut ticks = interval_at(self.first, self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for line in lines.iter().cycle() {
            let due = ticks.tick().await;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let (status, _) = http.send(line, None).await?;
            let late = u64::try_from(due.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut results = self.results.lock().await;
            results.latencies.add(late);
            results.bad += u64::from(status != 200);
        }
        Ok(())
    }
}
