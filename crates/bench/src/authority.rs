//! The cost of authority: a policy decision, and a sandboxed command against a bare one.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use sortie_base::lifeline::Lifeline;
use sortie_core::policy::{Layer, Policy, PolicyLayer};
use sortie_core::ports::tool::Touches;
use sortie_policy::{Call, Compiled, ToolFacts};
use sortie_sandbox::{Mode, Places, Sandbox, probe};

/// Decisions in one round; the best round counts, because other processes share the machine.
const DECISIONS: u32 = 20_000;
const ROUNDS: u32 = 20;

/// Measures nanoseconds for a decision about a call, with ten layers and forty rules.
pub(crate) fn policy() -> anyhow::Result<Value> {
    let compiled = Compiled::new(&typical(), &[]);
    ensure!(
        compiled.unreadable().is_none(),
        "{:?}",
        compiled.unreadable()
    );
    let mut measured = serde_json::Map::new();
    for (name, touches, arguments) in [
        (
            "write_file",
            Touches::Files,
            json!({"path": "src/main.rs", "content": "x"}),
        ),
        (
            "web_fetch",
            Touches::Network,
            json!({"url": "https://docs.rs/serde"}),
        ),
        ("exec", Touches::Processes, json!({"command": "git status"})),
    ] {
        let tool = ToolFacts {
            name: name.to_owned(),
            spellings: Vec::new(),
            touches,
        };
        let granted = [name.to_owned()];
        let call = Call {
            tool: &tool,
            granted: &granted,
            arguments: &arguments,
            workspace: Path::new("/workspace"),
            sandboxed: true,
        };
        let best = (0..ROUNDS)
            .map(|_| {
                let started = Instant::now();
                for _ in 0..DECISIONS {
                    black_box(compiled.decide(black_box(&call)));
                }
                started.elapsed()
            })
            .min()
            .unwrap_or_default();
        let nanoseconds = best.as_nanos() as f64 / f64::from(DECISIONS);
        measured.insert(name.to_owned(), json!(nanoseconds));
    }
    Ok(Value::Object(measured))
}

fn typical() -> Policy {
    let layer = |kind, allow: Option<&[&str]>, deny: &[&str], ask: &[&str]| PolicyLayer {
        allow: allow.map(owned),
        deny: owned(deny),
        ask: owned(ask),
        ..PolicyLayer::new(kind, "a measurement")
    };
    Policy {
        layers: vec![
            layer(
                Layer::Global,
                None,
                &[
                    "exec(curl *)",
                    "exec(wget *)",
                    "read_file(.env)",
                    "read_file(**/*.pem)",
                ],
                &["exec(git push *)"],
            ),
            layer(
                Layer::Provider,
                None,
                &["mcp__mail__*", "mcp__calendar__*"],
                &[],
            ),
            layer(
                Layer::Agent,
                Some(&[
                    "group:fs",
                    "exec",
                    "web_fetch",
                    "task",
                    "todo_write",
                    "mcp__*",
                ]),
                &[],
                &[],
            ),
            layer(
                Layer::Group,
                None,
                &["screenshot", "send_media", "message"],
                &[],
            ),
            layer(
                Layer::Sandbox,
                None,
                &["exec(docker *)", "exec(sudo *)"],
                &[],
            ),
            layer(
                Layer::Subagent,
                None,
                &[
                    "memory_*",
                    "cron",
                    "gateway",
                    "spawn",
                    "sessions_list",
                    "sessions_send",
                ],
                &[],
            ),
            layer(
                Layer::Subagent,
                None,
                &["process_control", "file_system"],
                &[],
            ),
            layer(Layer::Parent, Some(&["*"]), &[], &[]),
            layer(Layer::Agent, None, &["write_file(secrets/**)"], &[]),
            layer(
                Layer::Spawn,
                Some(&[
                    "group:read",
                    "write_file(src/**)",
                    "exec",
                    "web_fetch(domain:docs.rs)",
                ]),
                &["write_file(src/generated/**)"],
                &[],
            ),
        ],
        ..Policy::default()
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Measures milliseconds of `true`, bare and sandboxed in alternation, so that both see the same
/// machine load.
pub(crate) fn sandbox(rounds: u32) -> anyhow::Result<Value> {
    let workspace = tempfile::tempdir()?;
    let scratch = tempfile::tempdir()?;
    let helper = std::env::current_exe()?;
    let places = Places {
        home: None,
        path: ["/usr/local/bin", "/usr/bin", "/bin"]
            .map(PathBuf::from)
            .to_vec(),
        scratch: scratch.path().to_owned(),
        own: Vec::new(),
    };
    let offer = probe(&places, &helper);
    let sandbox = Sandbox::new(Mode::Best, offer, places, helper);
    let backend = sandbox.backend()?;
    let mut bare = Vec::new();
    let mut confined = Vec::new();
    for _ in 0..rounds {
        bare.push(timed(|| {
            start(&["/bin/true".into()], workspace.path(), &[])
        })?);
        confined.push(timed(|| {
            let policy = sortie_sandbox::Policy::of(workspace.path().to_owned());
            let confined = sandbox.confine(
                &policy,
                sortie_sandbox::Command {
                    argv: vec!["/bin/true".into()],
                    cwd: workspace.path().to_owned(),
                    env: Vec::new(),
                },
            )?;
            start(&confined.argv, &confined.cwd, &confined.env)?;
            drop(confined.guard);
            Ok(())
        })?);
    }
    let (bare_best, bare_median) = best_and_median(bare);
    let (confined_best, confined_median) = best_and_median(confined);
    Ok(json!({
        "backend": format!("{backend:?}").to_lowercase(),
        "added_best_ms": confined_best - bare_best,
        "added_median_ms": confined_median - bare_median,
    }))
}

fn start(
    argv: &[std::ffi::OsString],
    cwd: &Path,
    env: &[(std::ffi::OsString, std::ffi::OsString)],
) -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt as _;
    let (program, arguments) = argv.split_first().context("nothing to start")?;
    // The helper starts nothing without a lifeline; other programs do not read it.
    let (_lifeline, given) = Lifeline::new()?;
    let status = Command::new(program)
        .args(arguments)
        .current_dir(cwd)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(given))
        .process_group(0)
        .status()?;
    ensure!(status.success(), "the command failed: {status}");
    Ok(())
}

fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Duration> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

fn best_and_median(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    (ms(times.first()), ms(times.get(times.len() / 2)))
}
