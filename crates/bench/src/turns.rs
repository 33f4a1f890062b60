//! The cost of a turn with a real provider: encoding, transport, decoding, and the way to the tool.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use sortie_core::config::ProviderConfig;
use sortie_core::id::{CallId, RunId};
use sortie_core::message::{
    Arguments, Block, Message, ResultStatus, SharedMessage, ToolCall, ToolResult,
};
use sortie_core::ports::model::{
    DeltaSink, Model, ModelDirectory, ModelRequest, NoDeltas, PromptOrigin, RateLimitWait,
    TurnOptions, Wire,
};
use sortie_core::ports::tool::{
    Recovery, Tool, ToolAnswer, ToolContext, ToolReply, ToolSpec, Touches,
};
use sortie_core::time::Clock;
use sortie_models::{Directory, DirectorySettings, Secret};
use sortie_runtime::{NewRun, Parts, ProcessClock, Runtime, Settings};
use sortie_tools::{ToolSettings, standard_tools};

use sortie_bench::process::{cpu_ms, memory_kb};

use crate::provider::{CALLS, Provider, REPLIES, STALLS};
use crate::scenes::open;

/// Turns whose CPU time is added up, so that the clock's resolution does not matter.
const TURNS: u32 = 200;
/// Turns before the measurement, to warm up the connection and the caches.
const WARM_UP: u32 = 20;
/// The size of one tool result in the history.
const RESULT_BYTES: usize = 3_000;
/// Concurrent streams of one model: no more than the governor's initial limit.
const STREAMS_PER_MODEL: u32 = 8;
/// Turns of the run whose tool starts are timed.
const TIMED_TURNS: u32 = 60;

/// A provider in its own process, so that only the client is measured.
struct ProviderProcess {
    child: Child,
    port: u16,
}

impl ProviderProcess {
    fn start() -> anyhow::Result<Self> {
        let me = std::env::current_exe().context("find this program")?;
        let mut child = Command::new(me)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the provider")?;
        let out = child.stdout.take().context("the provider's output")?;
        let mut line = String::new();
        BufReader::new(out)
            .read_line(&mut line)
            .context("read the port")?;
        let port = line.trim().parse().context("a port")?;
        Ok(Self { child, port })
    }
}

impl Drop for ProviderProcess {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill() {
            eprintln!("the provider could not be ended: {error}");
        }
        // Reaped, so that no zombie stays; its exit code does not matter.
        self.child.wait().ok();
    }
}

/// Implements `sortie-bench serve`: prints its port and serves until its stdin closes.
pub(crate) fn be_the_provider() -> anyhow::Result<()> {
    let provider = Provider::start()?;
    println!("{}", provider.port);
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())
        .context("wait for the end of stdin")?;
    Ok(())
}

/// Measures the CPU time of a turn with a history of so many kB.
pub(crate) async fn turn_cost(kilobytes: u32) -> anyhow::Result<Value> {
    let provider = ProviderProcess::start()?;
    let model = find(provider.port, REPLIES)?;
    let messages = history(kilobytes as usize * 1000);
    for _ in 0..WARM_UP {
        model
            .turn(request(REPLIES, messages.clone()), &NoDeltas)
            .await?;
    }
    let before = cpu_ms()?;
    let started = Instant::now();
    for _ in 0..TURNS {
        model
            .turn(request(REPLIES, messages.clone()), &NoDeltas)
            .await?;
    }
    let wall = started.elapsed();
    Ok(json!({
        "cpu_ms": (cpu_ms()? - before) / f64::from(TURNS),
        "wall_ms": wall.as_secs_f64() * 1000.0 / f64::from(TURNS),
    }))
}

/// Measures the memory of a stream in flight.
pub(crate) async fn streams(count: u32) -> anyhow::Result<Value> {
    let provider = ProviderProcess::start()?;
    let directory = directory(provider.port);
    // One prompt before the measurement: client, tables and thread pools do not belong to the
    // stream.
    let model = directory.find(&format!("bench/{REPLIES}"))?;
    model
        .turn(request(REPLIES, history(1_000)), &NoDeltas)
        .await?;
    // The governor lets only a few prompts to an unknown model out at once, so there are many
    // models.
    let models = (0..count.div_ceil(STREAMS_PER_MODEL))
        .map(|number| Ok(directory.find(&format!("bench/{STALLS}-{number}"))?))
        .collect::<anyhow::Result<Vec<Arc<dyn Model>>>>()?;
    let before = memory_kb("VmRSS")?;
    let deltas = DeltaCounter(AtomicU32::new(0));
    let messages = history(3_000);
    let mut turns: FuturesUnordered<_> = (0..count)
        .zip(models.iter().cycle())
        .map(|(_, model)| model.turn(request(STALLS, messages.clone()), &deltas))
        .collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    while deltas.0.load(Ordering::SeqCst) < count * DELTAS {
        ensure!(Instant::now() < deadline, "not all streams began");
        tokio::select! {
            ended = turns.next() => {
                if let Some(answer) = ended {
                    answer?;
                }
            }
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
    let kb = (memory_kb("VmRSS")? - before) / f64::from(count);
    Ok(json!({"streams": count, "kb_per_stream": kb}))
}

/// Text deltas that a stream sends before it stalls.
const DELTAS: u32 = 20;

struct DeltaCounter(AtomicU32);

impl DeltaSink for DeltaCounter {
    fn text(&self, delta: &str) {
        if !delta.is_empty() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn rate_limited(&self, _wait: Option<RateLimitWait>) {}
}

/// Measures the time from the last byte of a completion to the start of its tool, through the whole
/// engine.
pub(crate) async fn to_the_tool(_: u32) -> anyhow::Result<Value> {
    let provider = Provider::start()?;
    let folder = tempfile::tempdir()?;
    let probe = Arc::new(Probe::new());
    let mut tools = standard_tools(ToolSettings::default());
    tools.push(Arc::clone(&probe) as Arc<dyn Tool>);
    let clock = ProcessClock::start();
    let parts = Parts::new(
        Arc::new(open(folder.path(), clock)?),
        directory(provider.port),
        tools,
    );
    let runtime = Runtime::start(parts, Settings::default()).await?;
    let run = runtime
        .create(NewRun {
            max_iterations: Some(TIMED_TURNS),
            ..NewRun::new("probe", folder.path(), &format!("bench/{CALLS}"))
        })
        .await?;
    runtime.wait_for(run).await?;
    runtime.shut_down().await;
    let sent = provider.take_log().last_bytes;
    let begun = probe
        .begun
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    ensure!(begun.len() >= 3, "the tool ran {} times", begun.len());
    let mut taken: Vec<Duration> = sent
        .iter()
        .zip(&begun)
        .map(|(sent, begun)| begun.saturating_duration_since(*sent))
        .collect();
    taken.sort();
    Ok(json!({
        "p50_ms": taken[taken.len() / 2].as_secs_f64() * 1000.0,
        "turns": begun.len(),
    }))
}

/// A tool that records when it starts. Its results differ, so that the loop detection does not
/// trigger.
#[derive(Debug)]
struct Probe {
    spec: ToolSpec,
    begun: Mutex<Vec<Instant>>,
}

impl Probe {
    fn new() -> Self {
        Self {
            spec: ToolSpec {
                name: "probe".to_owned(),
                description: "Notes when it starts.".to_owned(),
                parameters: json!({"type": "object"}),
            },
            begun: Mutex::default(),
        }
    }
}

#[async_trait]
impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Nothing
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    async fn run(&self, _context: &ToolContext<'_>, _arguments: Value) -> ToolReply {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push(Instant::now());
        Ok(ToolAnswer::text(format!("start {}", begun.len())).into())
    }
}

fn find(port: u16, name: &str) -> anyhow::Result<Arc<dyn Model>> {
    Ok(directory(port).find(&format!("bench/{name}"))?)
}

fn directory(port: u16) -> Arc<Directory> {
    let provider = ProviderConfig {
        wire: Some(Wire::Anthropic),
        base_url: Some(format!("http://127.0.0.1:{port}")),
        api_key: Some(Secret::new("bench")),
        max_concurrent: Some(10_000),
        warm_cache: Some(false),
        ..ProviderConfig::default()
    };
    Arc::new(Directory::new(DirectorySettings {
        providers: [("bench".to_owned(), provider)].into(),
        ..DirectorySettings::default()
    }))
}

fn request(name: &str, messages: Vec<SharedMessage>) -> ModelRequest {
    let run = run_id();
    ModelRequest {
        origin: PromptOrigin {
            run,
            root: run,
            cache_key: run.to_string(),
            agent: "bench".to_owned(),
            label: "bench".to_owned(),
            task: "bench".to_owned(),
            depth: 0,
            turn: 1,
        },
        model: format!("bench/{name}"),
        system: "You are measured.".into(),
        tools: tools(),
        messages,
        images: Arc::default(),
        options: TurnOptions::default(),
    }
}

fn run_id() -> RunId {
    static RUN: OnceLock<RunId> = OnceLock::new();
    *RUN.get_or_init(|| ProcessClock::start().new_run_id())
}

/// The tools, shared by all prompts as a runtime shares them.
fn tools() -> Arc<[ToolSpec]> {
    static TOOLS: OnceLock<Arc<[ToolSpec]>> = OnceLock::new();
    Arc::clone(TOOLS.get_or_init(|| {
        standard_tools(ToolSettings::default())
            .iter()
            .map(|tool| tool.spec().clone())
            .collect()
    }))
}

/// Returns a history of about so many bytes: calls and results, as agents have them.
fn history(bytes: usize) -> Vec<SharedMessage> {
    let mut messages = vec![Arc::new(Message::User {
        text: "look around".to_owned(),
    })];
    let text = "fn main() { println!(\"a line of \\\"code\\\"\"); }\n".repeat(RESULT_BYTES / 46);
    for turn in 0..u32::try_from(bytes / RESULT_BYTES).unwrap_or(0).max(1) {
        let id = CallId::new(turn, 0);
        messages.push(Arc::new(Message::Assistant {
            blocks: vec![Block::Call(ToolCall {
                id: id.clone(),
                provider_id: Some(format!("toolu_{turn}")),
                name: "read_file".to_owned(),
                arguments: Arguments::Json(json!({"path": "src/main.rs"})),
            })],
        }));
        messages.push(Arc::new(Message::Tools {
            results: vec![ToolResult {
                call: id,
                provider_id: Some(format!("toolu_{turn}")),
                text: text.clone(),
                status: ResultStatus::Ok,
                full: None,
                images: Vec::new(),
            }],
        }));
    }
    messages
}
