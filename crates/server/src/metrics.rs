//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use sortie_core::ports::store::ListFilter;
use sortie_core::stats::Stats;
use sortie_core::worker::{WorkerRecord, WorkerState};
use sortie_runtime::{LaneState, RuntimeError};

use crate::app::{App, Shared};
use crate::guard::Caller;

/// Upper bounds of the buckets of response times, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0];

/// The counters and gauges of the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// One histogram for each route, method and class of status, so their number is bounded.
    requests: Mutex<BTreeMap<RequestKind, Times>>,
    auth_failures: AtomicU64,
    pub(crate) websockets: AtomicU64,
    pub(crate) streams: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) missed: AtomicU64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestKind {
    route: String,
    method: &'static str,
    class: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    pub(crate) fn count_auth_failure(&self) {
        self.auth_failures.fetch_add(1, Ordering::Relaxed);
    }

    fn note(&self, kind: RequestKind, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let times = requests.entry(kind).or_default();
        for (count, end) in times.buckets.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= end);
        }
        times.count += 1;
        times.seconds += seconds;
    }
}

/// Counts and logs every request.
pub(crate) async fn observe(
    State(Shared(app)): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let method = known_method(request.method().as_str());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("other", MatchedPath::as_str)
        .to_owned();
    let response = next.run(request).await;
    let took = begun.elapsed();
    let status = response.status().as_u16();
    let key = response.extensions().get::<Caller>().map(Caller::name);
    // The path and the query are not logged: a login code is in one of them.
    tracing::debug!(
        method,
        route,
        status,
        ms = took.as_secs_f64() * 1_000.0,
        key,
        "request"
    );
    let class = status / 100;
    app.metrics.note(
        RequestKind {
            route,
            method,
            class,
        },
        took,
    );
    response
}

/// Maps unknown methods to one label value: a client could make up any number of them.
fn known_method(method: &str) -> &'static str {
    ["GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"]
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}

/// Returns all metrics. The ones of the whole server are left out for a tenant.
pub(crate) async fn text(app: &App, filter: ListFilter) -> Result<String, RuntimeError> {
    let is_all = filter.tenant.is_none();
    let stats = app.runtime.stats(filter.clone()).await?;
    let used = app.runtime.total_usage(filter).await?;
    let mut page = Exposition::default();
    tasks(&mut page, &stats);
    page.head("sortie_tokens_total", "counter", "Tokens of all tasks.");
    let input = used.input_tokens.unwrap_or_default();
    page.line(
        "sortie_tokens_total",
        &[("direction", "input")],
        input as f64,
    );
    let output = used.output_tokens.unwrap_or_default();
    page.line(
        "sortie_tokens_total",
        &[("direction", "output")],
        output as f64,
    );
    page.single(
        "sortie_cost_usd_total",
        "counter",
        "Estimated cost of all tasks.",
        used.cost_usd.unwrap_or_default(),
    );
    if is_all {
        lanes(&mut page, &app.runtime.lanes().await?);
        workers(&mut page, &app.runtime.workers().await?);
        server(&mut page, app);
        process(&mut page);
    }
    Ok(page.text)
}

fn tasks(page: &mut Exposition, stats: &Stats) {
    page.head("sortie_tasks", "gauge", "Tasks by status.");
    for (status, count) in [
        ("pending", stats.pending),
        ("running", stats.running),
        ("completed", stats.completed),
        ("failed", stats.failed),
        ("timeout", stats.timeout),
        ("cancelled", stats.cancelled),
    ] {
        page.line("sortie_tasks", &[("status", status)], count as f64);
    }
}

fn lanes(page: &mut Exposition, lanes: &[LaneState]) {
    for (name, help, value) in [
        (
            "sortie_lane_limit",
            "Runs that a lane executes at once.",
            (|lane| f64::from(lane.limit)) as fn(&LaneState) -> f64,
        ),
        ("sortie_lane_claimed", "Claimed runs of a lane.", |lane| {
            lane.claimed as f64
        }),
        ("sortie_lane_queued", "Queued runs of a lane.", |lane| {
            lane.queued as f64
        }),
    ] {
        page.head(name, "gauge", help);
        for lane in lanes {
            page.line(name, &[("lane", lane.lane.as_str())], value(lane));
        }
    }
}

fn workers(page: &mut Exposition, workers: &[WorkerRecord]) {
    page.head(
        "sortie_workers",
        "gauge",
        "Processes that execute tasks, by state.",
    );
    for state in WorkerState::ALL {
        let count = workers.iter().filter(|worker| worker.state == *state);
        let count = count.count() as f64;
        page.line("sortie_workers", &[("state", state.as_str())], count);
    }
    page.head(
        "sortie_worker_tasks",
        "gauge",
        "Tasks that a worker executes.",
    );
    for record in workers {
        let labels = [("worker", record.worker.id.as_str())];
        page.line("sortie_worker_tasks", &labels, record.runs as f64);
    }
}

fn server(page: &mut Exposition, app: &App) {
    let metrics = &app.metrics;
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    page.single(
        "sortie_websocket_clients",
        "gauge",
        "Connected WebSocket clients.",
        read(&metrics.websockets),
    );
    page.single(
        "sortie_sse_clients",
        "gauge",
        "Connected clients of server-sent events.",
        read(&metrics.streams),
    );
    page.single(
        "sortie_events_sent_total",
        "counter",
        "Messages sent to clients.",
        read(&metrics.sent),
    );
    page.single(
        "sortie_events_missed_total",
        "counter",
        "Events that slow clients missed.",
        read(&metrics.missed),
    );
    page.single(
        "sortie_auth_failures_total",
        "counter",
        "Requests with invalid credentials.",
        read(&metrics.auth_failures),
    );
    let uptime = app.runtime.now().ms_since(app.started_at) as f64 / 1_000.0;
    page.single(
        "sortie_uptime_seconds",
        "gauge",
        "Seconds since the server started.",
        uptime,
    );
    requests(page, metrics);
}

fn requests(page: &mut Exposition, metrics: &Metrics) {
    let lines = metrics
        .requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let name = "sortie_http_request_duration_seconds";
    page.head(name, "histogram", "Time until the response started.");
    for (line, times) in &lines {
        let class = format!("{}xx", line.class);
        let labels = [
            ("route", line.route.as_str()),
            ("method", line.method),
            ("status", class.as_str()),
        ];
        let with_end = |end: String| {
            let mut labels: Vec<(&str, String)> = labels
                .iter()
                .map(|(label, value)| (*label, (*value).to_owned()))
                .collect();
            labels.push(("le", end));
            labels
        };
        let bucket = format!("{name}_bucket");
        for (count, end) in times.buckets.iter().zip(BUCKETS) {
            page.owned(&bucket, &with_end(end.to_string()), *count as f64);
        }
        page.owned(&bucket, &with_end("+Inf".to_owned()), times.count as f64);
        page.line(&format!("{name}_sum"), &labels, times.seconds);
        page.line(&format!("{name}_count"), &labels, times.count as f64);
    }
}

/// Adds memory and processor time of this process, where the operating system reports them.
fn process(page: &mut Exposition) {
    if let Some(bytes) = resident_bytes() {
        page.single(
            "process_resident_memory_bytes",
            "gauge",
            "Memory in use.",
            bytes as f64,
        );
    }
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    page.single(
        "process_cpu_seconds_total",
        "counter",
        "Processor time used.",
        seconds,
    );
}

fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[derive(Debug, Default)]
struct Exposition {
    text: String,
}

impl Exposition {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").ok();
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<(&str, String)> = labels
            .iter()
            .map(|(label, value)| (*label, (*value).to_owned()))
            .collect();
        self.owned(name, &labels, value);
    }

    fn owned(&mut self, name: &str, labels: &[(&str, String)], value: f64) {
        self.text.push_str(name);
        for (index, (label, word)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let word = word.replace('\\', "\\\\").replace('"', "\\\"");
            // As above.
            write!(self.text, "{before}{label}=\"{word}\"").ok();
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        // As above.
        writeln!(self.text, " {value}").ok();
    }
}
