//! Ten thousand clients that subscribe to everything; a tenth of them read nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::numbers::{Row, Spread};
use sortie_bench::http::Http;
use sortie_bench::server::Server;

/// Client processes: one for each core of a small machine.
const PROCESSES: usize = 2;
/// One client in so many reads nothing.
const SLOW_PART: usize = 10;
/// The interval between runs: a few events each second, as a busy page has them.
const EVERY: Duration = Duration::from_secs(2);
/// How long the last events may take to arrive.
const QUIET_TIME: Duration = Duration::from_secs(3);
/// Limits beyond which the scene fails.
const MAX_MIB: f64 = 500.0;
const MAX_P99_MS: f64 = 1_000.0;

/// The size of the scene.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) clients: usize,
    pub(crate) runs: u32,
}

/// Measures memory and latency.
pub(crate) async fn measure(sortie: &Path, scene: Scene) -> Result<Vec<Row>> {
    let server = Server::start(sortie).await?;
    let mut http = Http::connect(&server.address).await?;
    let model = server.script("hello.json", &hello())?;
    // A first run, so that a snapshot is not empty.
    let first = server.run(&mut http, &model, "warm-up").await?;
    server.end_of(&mut http, &first).await?;
    let before = server.memory_mib("VmRSS")?;

    let started = Instant::now();
    let mut crowd = Crowd::start(&server, scene.clients)?;
    let entered = started.elapsed();
    let idle = server.memory_mib("VmRSS")?;
    crowd.received()?;

    let cpu = server.cpu_seconds()?;
    let started = Instant::now();
    for number in 0..scene.runs {
        let run = server
            .run(&mut http, &model, &format!("run-{number}"))
            .await?;
        server.end_of(&mut http, &run).await?;
        let next = EVERY * (number + 1);
        tokio::time::sleep(next.saturating_sub(started.elapsed())).await;
    }
    tokio::time::sleep(QUIET_TIME).await;
    let wall = started.elapsed().as_secs_f64();
    let busy = (server.cpu_seconds()? - cpu) / wall * 100.0;
    let received = crowd.received()?;
    let state = http.json("GET /api/state", None).await?;
    let peak = server.memory_mib("VmHWM")?;

    let readers = (scene.clients - scene.clients / SLOW_PART) as u64;
    ensure!(
        received.latencies.total() >= readers * u64::from(scene.runs),
        "events were lost on the way"
    );
    let clients = scene.clients;
    Ok(vec![
        Row::number(
            format!("{clients} WebSocket clients: time until all are subscribed"),
            format!("{:.1} s", entered.as_secs_f64()),
            entered.as_secs_f64(),
        ),
        Row::number(
            "memory of the server without clients",
            format!("{before:.0} MiB"),
            before,
        ),
        Row::number(
            format!("memory with {clients} clients, at rest"),
            format!(
                "{idle:.0} MiB ({:.1} kB each)",
                (idle - before) * 1024.0 / clients as f64
            ),
            idle,
        )
        .within("< 500 MiB", MAX_MIB),
        Row::number(
            "… at most, while events are sent and a tenth reads nothing",
            format!("{peak:.0} MiB"),
            peak,
        )
        .within("< 500 MiB", MAX_MIB),
        Row::number(
            format!(
                "event to receipt, p50 / p99 / longest ({} receipts)",
                received.latencies.total()
            ),
            received.latencies.shown(),
            received.latencies.per_mille(990) as f64,
        )
        .within("p99 < 1 s", MAX_P99_MS)
        .timed(),
        Row::number(
            "readers that were closed, missed events or saw a gap",
            format!(
                "{} / {} / {}",
                received.closed, received.missed, received.gaps
            ),
            (received.closed + received.missed + received.gaps) as f64,
        )
        .within("none", 0.0),
        Row::number(
            "CPU of the server meanwhile (of one core)",
            format!("{busy:.0} %"),
            busy,
        ),
        Row::number(
            "connections that the server counts in the end",
            state["connections"]["websocket"].to_string(),
            state["connections"]["websocket"]
                .as_f64()
                .unwrap_or(f64::NAN),
        ),
    ])
}

/// A run that reads a file and returns a word: about six events.
fn hello() -> Value {
    json!({
        "version": 1,
        "defaults": {"latency_ms": 20, "usage": {"input_tokens": 100, "output_tokens": 10}},
        "rules": [
            {"when": {"turn": 1}, "calls": [{"tool": "read_file", "args": {"path": "note.txt"}}]},
            {"say": "done"},
        ],
    })
}

/// What all processes received.
struct Received {
    latencies: Spread,
    closed: u64,
    missed: u64,
    gaps: u64,
}

struct Crowd {
    processes: Vec<Process>,
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Crowd {
    /// Starts the clients and waits until all are subscribed.
    fn start(server: &Server, clients: usize) -> Result<Self> {
        let me = std::env::current_exe().context("find this program")?;
        let token = server.token_file();
        let mut processes = Vec::new();
        for number in 0..PROCESSES {
            let count = clients / PROCESSES + usize::from(number < clients % PROCESSES);
            let mut child = Command::new(&me)
                .arg("clients")
                .arg(&server.address.host)
                .arg(&token)
                .arg(count.to_string())
                .arg((count / SLOW_PART).to_string())
                // A source address for each process, so that ports do not run out.
                .arg(format!("127.0.0.{}", number + 2))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("start clients")?;
            let input = child.stdin.take();
            let output = child.stdout.take().context("clients without an output")?;
            processes.push(Process {
                child,
                input,
                output: BufReader::new(output),
            });
        }
        for process in &mut processes {
            let line = process.line()?;
            ensure!(line == "ready", "clients were not let in");
        }
        Ok(Self { processes })
    }

    /// Returns what they received since the last call.
    fn received(&mut self) -> Result<Received> {
        let mut received = Received {
            latencies: Spread::new(),
            closed: 0,
            missed: 0,
            gaps: 0,
        };
        for process in &mut self.processes {
            let input = process.input.as_mut().context("clients without an input")?;
            writeln!(input, "report").context("request a report from the clients")?;
            let report: Value =
                serde_json::from_str(&process.line()?).context("parse a report of the clients")?;
            received.latencies.add_pairs(&report["latencies"]);
            received.closed += report["closed"].as_u64().unwrap_or(0);
            received.missed += report["missed"].as_u64().unwrap_or(0);
            received.gaps += report["gaps"].as_u64().unwrap_or(0);
        }
        Ok(received)
    }
}

impl Process {
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .context("listen to the clients")?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // They end when their input closes.
        drop(self.input.take());
        if let Err(error) = self.child.wait() {
            eprintln!("warning: clients were not seen to end: {error}");
        }
    }
}
