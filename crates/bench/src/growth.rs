//! How the cost of one more step grows: with the length of a run, the size of the store, the length
//! of a conversation and the size of a tree. Every step is one of the real binary, with a provider
//! on loopback that responds at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sortie_bench::http::Http;
use sortie_bench::process::Cost;
use sortie_bench::server::Server;
use tempfile::TempDir;

use crate::fan_out::{median, sortie, variables, write_note};
use crate::fill::add_ended_runs;
use crate::provider::{MAIN_MARK, Provider, REPLIES, SPAWNS_PER_TURN, steps, tree};

/// How often a command is measured; the median counts.
const TIMES: usize = 5;
/// Requests of one kind to a server, whose CPU time the kernel reports in hundredths of a second.
const REQUESTS: u32 = 200;
/// Runs through a server, and turns of a conversation, at each size.
const TURNS: u32 = 30;
/// Children of a tree that execute at once.
const AT_ONCE: u32 = 100;
/// The session that the turns of the conversation belong to.
const SESSION: &str = "api:long";

/// One kind of step.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The step.
    pub(crate) step: String,
    /// What grows.
    pub(crate) of: &'static str,
    pub(crate) points: Vec<Point>,
}

/// The cost of a step at one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) size: u32,
    pub(crate) cpu_ms: f64,
    pub(crate) wall_ms: f64,
}

/// The binary to measure, and how far the sizes go.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) binary: PathBuf,
    pub(crate) quick: bool,
    pub(crate) long: bool,
}

impl Plan {
    /// Returns the sizes of the ordinary form, without the last one if it is the quick form and with
    /// one more if it is the long one.
    fn sizes(&self, ordinary: &[u32], more: Option<u32>) -> Vec<u32> {
        let mut sizes = ordinary.to_vec();
        if self.quick {
            sizes.pop();
        }
        sizes.extend(more.filter(|_| self.long));
        sizes
    }
}

/// Measures all series.
pub(crate) fn measure(plan: &Plan) -> Result<Vec<Series>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let provider = Provider::start()?;
    let bench = Bench {
        plan,
        provider: &provider,
    };
    let mut all = vec![bench.tool_calls()?];
    eprintln!("growth: tool calls are measured");
    all.push(bench.children()?);
    eprintln!("growth: trees are measured");
    all.push(runtime.block_on(bench.turns())?);
    eprintln!("growth: conversations are measured");
    all.extend(runtime.block_on(bench.stores())?);
    Ok(all)
}

#[derive(Clone, Copy, Debug)]
struct Bench<'a> {
    plan: &'a Plan,
    provider: &'a Provider,
}

impl Bench<'_> {
    /// Measures one more tool call in a run that already has many.
    fn tool_calls(&self) -> Result<Series> {
        let sizes = self.plan.sizes(&[1, 10, 100, 1000], Some(5000));
        let points = added_cost(&sizes, |size| {
            let folder = folder(size + 1)?;
            let mut command = self.sortie(folder.path())?;
            command
                .env("SORTIE__MAIN__MAX_ITERATIONS", "10000")
                .args(["run", MAIN_MARK, "--json", "--model"])
                .arg(format!("anthropic/{}", steps(size)));
            completed(&mut command)
        })?;
        Ok(Series {
            step: "one more tool call of a run".to_owned(),
            of: "tool calls of the run",
            points,
        })
    }

    /// Measures one more child of a tree that already has many.
    fn children(&self) -> Result<Series> {
        let sizes = self.plan.sizes(&[1, 10, 100, 1000, 10_000], None);
        let points = added_cost(&sizes, |size| {
            let folder = folder(1)?;
            let rounds = size.div_ceil(SPAWNS_PER_TURN);
            let model = tree(size.min(SPAWNS_PER_TURN), rounds, 0);
            let mut command = self.sortie(folder.path())?;
            command
                .env("SORTIE__SUBAGENTS__MAX_CONCURRENT", AT_ONCE.to_string())
                .env("SORTIE__SUBAGENTS__MAX_CHILDREN", "1000000")
                .args(["run", MAIN_MARK, "--json", "--model"])
                .arg(format!("anthropic/{model}"));
            completed(&mut command)
        })?;
        Ok(Series {
            step: "one more child of a run".to_owned(),
            of: "children of the tree",
            points,
        })
    }

    /// Measures one more turn of a conversation.
    async fn turns(&self) -> Result<Series> {
        let server = self.server(folder(1)?).await?;
        let mut http = Http::connect(&server.address).await?;
        let mut turns = 0;
        let mut points = Vec::new();
        for size in self.plan.sizes(&[1, 100, 1000], None) {
            while turns < size {
                send_message(&mut http).await?;
                turns += 1;
            }
            let point =
                repeated(size, TURNS, &server, async |http| send_message(http).await).await?;
            turns += TURNS;
            points.push(point);
        }
        Ok(Series {
            step: "one more turn of a conversation".to_owned(),
            of: "turns of the conversation",
            points,
        })
    }

    /// Measures commands and requests beside many ended runs.
    async fn stores(&self) -> Result<Vec<Series>> {
        const STEPS: [&str; 6] = [
            "`sortie run` without tool calls",
            "`sortie tasks list --limit 20`",
            "`sortie run` through a server",
            "`GET /api/tasks?limit=50`",
            "`GET /api/sessions?limit=50`",
            "`GET /api/sessions/{id}`",
        ];
        let mut all = STEPS.map(|step| Series {
            step: step.to_owned(),
            of: "ended runs in the store",
            points: Vec::new(),
        });
        for size in self.plan.sizes(&[0, 10_000, 100_000], Some(1_000_000)) {
            let points = self.store(size).await?;
            for (series, point) in all.iter_mut().zip(points) {
                series.points.push(point);
            }
            eprintln!("growth: a store with {size} ended runs is measured");
        }
        Ok(all.into())
    }

    async fn store(&self, size: u32) -> Result<[Point; 6]> {
        let folder = folder(1)?;
        // The template of all others; it also creates the store.
        self.run(folder.path())?;
        add_ended_runs(&folder.path().join("home"), size)
            .await
            .context("fill a store")?;
        if (1..=10_000).contains(&size) {
            self.check(folder.path())?;
        }
        let run = commands(size, || self.run(folder.path()))?;
        let list = commands(size, || {
            let mut command = self.sortie(folder.path())?;
            Cost::of(command.args(["tasks", "list", "--limit", "20", "--json"]))
        })?;
        let server = self.server(folder).await?;
        let through = self.through_the_server(size, &server)?;
        let mut points = vec![run, list, through];
        for line in [
            "GET /api/tasks?limit=50",
            "GET /api/sessions?limit=50",
            // The template's session if there is no filled one.
            match size {
                0 => "GET /api/sessions/cli:direct",
                _ => "GET /api/sessions/api:filled-0",
            },
        ] {
            let point = repeated(size, REQUESTS, &server, async |http| {
                http.json(line, None).await.map(drop)
            });
            points.push(point.await?);
        }
        points.try_into().ok().context("a step was not measured")
    }

    fn run(&self, folder: &Path) -> Result<Cost> {
        let mut command = self.sortie(folder)?;
        command.args(["run", MAIN_MARK, "--json", "--model"]);
        completed(command.arg(format!("anthropic/{REPLIES}")))
    }

    /// Lets `sortie doctor` check the journals of a filled store.
    fn check(&self, folder: &Path) -> Result<()> {
        let mut command = self.sortie(folder)?;
        Cost::of(command.args(["doctor", "--json"])).context("check a filled store")?;
        Ok(())
    }

    /// Adds the CPU time of the server to that of the command.
    fn through_the_server(&self, size: u32, server: &Server) -> Result<Point> {
        let before = server.cpu_seconds()?;
        let costs = (0..TURNS)
            .map(|_| self.run(server.folder()))
            .collect::<Result<Vec<Cost>>>()?;
        let server_ms = (server.cpu_seconds()? - before) * 1000.0 / f64::from(TURNS);
        Ok(Point {
            size,
            cpu_ms: median(costs.iter().map(|cost| cost.cpu_ms).collect()) + server_ms,
            wall_ms: median(costs.iter().map(|cost| cost.wall_ms).collect()),
        })
    }

    /// Returns a command of the binary in the workspace of a folder.
    fn sortie(&self, folder: &Path) -> Result<Command> {
        let mut command = sortie(&self.plan.binary, folder, self.provider)?;
        command.current_dir(folder.join("workspace"));
        Ok(command)
    }

    async fn server(&self, folder: TempDir) -> Result<Server> {
        let mut more = variables(self.provider).to_vec();
        more.push(("SORTIE__MODEL", format!("anthropic/{REPLIES}")));
        Server::start_in(&self.plan.binary, folder, &more).await
    }
}

/// Returns a folder with a workspace.
fn folder(lines: u32) -> Result<TempDir> {
    let folder = tempfile::tempdir().context("make a folder")?;
    fs::create_dir_all(folder.path().join("home")).context("make a home")?;
    write_note(&folder.path().join("workspace"), lines)?;
    Ok(folder)
}

fn completed(command: &mut Command) -> Result<Cost> {
    let cost = Cost::of(command)?;
    let task: Value = serde_json::from_str(&cost.out).context("read the task")?;
    ensure!(task["status"] == "completed", "the run ended as {task}");
    Ok(cost)
}

/// Measures runs of each size, and divides what a run costs more than the one before by what it has
/// more.
fn added_cost(sizes: &[u32], run: impl Fn(u32) -> Result<Cost>) -> Result<Vec<Point>> {
    let mut before = commands(0, || run(0))?;
    let mut points = Vec::new();
    for &size in sizes {
        let now = commands(size, || run(size))?;
        let added = f64::from(size - before.size);
        points.push(Point {
            size,
            cpu_ms: (now.cpu_ms - before.cpu_ms) / added,
            wall_ms: (now.wall_ms - before.wall_ms) / added,
        });
        before = now;
    }
    Ok(points)
}

/// Returns the medians of a command.
fn commands(size: u32, run: impl Fn() -> Result<Cost>) -> Result<Point> {
    // Long commands are less noisy, and take long.
    let times = if size >= 1000 { TIMES.min(3) } else { TIMES };
    let costs = (0..times).map(|_| run()).collect::<Result<Vec<Cost>>>()?;
    Ok(Point {
        size,
        cpu_ms: median(costs.iter().map(|cost| cost.cpu_ms).collect()),
        wall_ms: median(costs.iter().map(|cost| cost.wall_ms).collect()),
    })
}

/// Returns the server's CPU time and the median wall time of a request.
async fn repeated(
    size: u32,
    times: u32,
    server: &Server,
    request: impl AsyncFn(&mut Http) -> Result<()>,
) -> Result<Point> {
    let mut http = Http::connect(&server.address).await?;
    request(&mut http).await?;
    let before = server.cpu_seconds()?;
    let mut walls = Vec::new();
    for _ in 0..times {
        let started = Instant::now();
        request(&mut http).await?;
        walls.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    let cpu = server.cpu_seconds()? - before;
    Ok(Point {
        size,
        cpu_ms: cpu * 1000.0 / f64::from(times),
        wall_ms: median(walls),
    })
}

/// Sends a message and waits for the end of its turn.
async fn send_message(http: &mut Http) -> Result<()> {
    let line = format!("POST /api/sessions/{SESSION}/messages");
    let body = json!({"text": "and then?"});
    let (status, stream) = http
        .send_accepting("text/event-stream", &line, Some(&body))
        .await?;
    let stream = String::from_utf8_lossy(&stream);
    ensure!(
        status == 200 && stream.contains("event: done") && stream.contains("\"completed\""),
        "{line}: {status} {stream}"
    );
    Ok(())
}

/// Returns the table in Markdown: one row for each step, one column for each size.
pub(crate) fn markdown(all: &[Series]) -> String {
    let points = all.iter().flat_map(|series| &series.points);
    let mut sizes: Vec<u32> = points.map(|point| point.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut head = vec![
        "one more step, CPU / wall in ms".to_owned(),
        "beside".to_owned(),
    ];
    head.extend(sizes.iter().copied().map(with_commas));
    let mut lines = vec![
        head.clone(),
        head.iter().map(|_| "---".to_owned()).collect(),
    ];
    for series in all {
        let cell = |size: &u32| {
            let point = series.points.iter().find(|point| point.size == *size);
            point.map_or_else(String::new, |point| {
                format!("{} / {}", short(point.cpu_ms), short(point.wall_ms))
            })
        };
        let mut line = vec![series.step.clone(), series.of.to_owned()];
        line.extend(sizes.iter().map(cell));
        lines.push(line);
    }
    let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
    lines.iter().map(line).collect()
}

pub(crate) fn json(all: &[Series]) -> Value {
    let series = |series: &Series| {
        let point = |point: &Point| {
            json!({
                "size": point.size,
                "cpu_ms": point.cpu_ms,
                "wall_ms": point.wall_ms,
            })
        };
        json!({
            "step": series.step,
            "of": series.of,
            "points": series.points.iter().map(point).collect::<Vec<_>>(),
        })
    };
    all.iter().map(series).collect()
}

/// Returns a number with as many digits as say something.
fn short(milliseconds: f64) -> String {
    match milliseconds {
        small if small < 10.0 => format!("{small:.2}"),
        medium if medium < 100.0 => format!("{medium:.1}"),
        large => format!("{large:.0}"),
    }
}

/// Returns a number with commas between its thousands.
pub(crate) fn with_commas(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
