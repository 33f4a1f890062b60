//! Measures the runtime. Each measurement runs in its own process, so that memory and CPU time are
//! its own; the parent process prints a table.
//!
//! `sortie-bench [--quick] [--sortie PATH]` measures everything; it starts `sortie-bench one NAME
//! ARG` for each line.

mod authority;
mod model;
mod process;
mod provider;
mod scenes;
mod turns;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use serde_json::Value;

/// Concurrent children, and how often each number is measured (the median counts).
const FAN_OUT: [(u32, u32); 5] = [(1, 3), (8, 3), (32, 3), (100, 5), (1000, 3)];

fn main() -> ExitCode {
    // In a sandbox, this binary is also the helper that drops its own rights.
    let mut words = std::env::args_os().skip(1);
    if words
        .next()
        .is_some_and(|word| word == sortie_sandbox::HELPER_COMMAND)
    {
        return sortie_sandbox::run_helper(words);
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [one, name, argument] = &words[..]
        && one == "one"
    {
        let measured = scenes::measure(name, argument)?;
        println!("{measured}");
        return Ok(());
    }
    if let [serve] = &words[..]
        && serve == "serve"
    {
        return turns::be_the_provider();
    }
    let quick = words.iter().any(|word| word == "--quick");
    let sortie = words
        .iter()
        .position(|word| word == "--sortie")
        .and_then(|at| words.get(at + 1))
        .map(PathBuf::from);
    everything(quick, sortie.as_ref())
}

fn everything(quick: bool, sortie: Option<&PathBuf>) -> anyhow::Result<()> {
    println!("| what | measured |\n| --- | --- |");
    fan_out(quick)?;
    let spawns = one("spawn", if quick { "500" } else { "5000" })?;
    row(
        "durable spawn, one after the other, p50 / p99",
        &format!(
            "{} / {} ms",
            number(&spawns, "alone_p50_ms", 2),
            number(&spawns, "alone_p99_ms", 2)
        ),
    );
    row(
        "durable spawn, 200 at once, p50 / p99",
        &format!(
            "{} / {} ms",
            number(&spawns, "crowd_p50_ms", 1),
            number(&spawns, "crowd_p99_ms", 1)
        ),
    );
    row(
        "runs accepted per second, 200 at once",
        &number(&spawns, "crowd_per_second", 0),
    );
    let appends = one("append", if quick { "20" } else { "200" })?;
    row(
        "events appended per second, 200 writers, each durable",
        &number(&appends, "events_per_second", 0),
    );
    let idle = one("idle", if quick { "1000" } else { "10000" })?;
    row(
        &format!(
            "memory with {} children waiting for a model",
            idle["children"]
        ),
        &format!(
            "{} MB ({} kB each)",
            number(&idle, "resident_mb", 0),
            number(&idle, "kb_per_child", 1)
        ),
    );
    let finished = if quick { "2000" } else { "100000" };
    let recovery = one("recovery", finished)?;
    row(
        &format!("recovery with 1000 active and {finished} finished runs: to ready"),
        &format!("{} ms", number(&recovery, "ready_ms", 0)),
    );
    row(
        "… until all 1000 are claimed again",
        &format!("{} ms", number(&recovery, "claimed_ms", 0)),
    );
    for kilobytes in ["30", "300"] {
        let turn = one("turn", kilobytes)?;
        row(
            &format!("CPU of a turn over HTTP, history of {kilobytes} kB"),
            &format!("{} ms", number(&turn, "cpu_ms", 2)),
        );
    }
    let policy = one("policy", "0")?;
    row(
        "decision of policy, ten layers: file / host / command",
        &format!(
            "{} / {} / {} µs",
            number(&in_microseconds(&policy), "write_file", 1),
            number(&in_microseconds(&policy), "web_fetch", 1),
            number(&in_microseconds(&policy), "exec", 1)
        ),
    );
    let sandbox = one("sandbox", if quick { "20" } else { "200" })?;
    row(
        &format!(
            "added by the sandbox to a command ({}), best / median",
            sandbox["backend"].as_str().unwrap_or_default()
        ),
        &format!(
            "{} / {} ms",
            number(&sandbox, "added_best_ms", 1),
            number(&sandbox, "added_median_ms", 1)
        ),
    );
    let tool = one("tool", "0")?;
    row(
        "last byte of an answer to the start of its tool, median",
        &format!("{} ms", number(&tool, "p50_ms", 2)),
    );
    let streams = one("streams", if quick { "100" } else { "1000" })?;
    row(
        &format!(
            "memory of a stream under way ({} of them)",
            streams["streams"]
        ),
        &format!("{} kB", number(&streams, "kb_per_stream", 0)),
    );
    if let Some(sortie) = sortie {
        let start = process::median_start(sortie, if quick { 10 } else { 50 })?;
        row(
            "cold start of `sortie tasks stats`, median",
            &format!("{:.1} ms", start.as_secs_f64() * 1000.0),
        );
    }
    Ok(())
}

fn fan_out(quick: bool) -> anyhow::Result<()> {
    let mut measured: Vec<(u32, Value)> = Vec::new();
    for (children, times) in FAN_OUT {
        let times = if quick { 1 } else { times };
        let mut tries = (0..times)
            .map(|_| one("fanout", &children.to_string()))
            .collect::<anyhow::Result<Vec<_>>>()?;
        tries.sort_by(|left, right| {
            let wall = |value: &Value| value["wall_ms"].as_f64().unwrap_or(f64::MAX);
            wall(left).total_cmp(&wall(right))
        });
        let middle = tries.swap_remove(tries.len() / 2);
        row(
            &format!("{children} children, 3 tool calls each: wall over the ideal 300 ms"),
            &format!(
                "{} ({} ms)",
                number(&middle, "ratio", 3),
                number(&middle, "wall_ms", 0)
            ),
        );
        measured.push((children, middle));
    }
    let by = |children: u32, name: &str| {
        measured
            .iter()
            .find(|(count, _)| *count == children)
            .and_then(|(_, value)| value[name].as_f64())
            .unwrap_or(f64::NAN)
    };
    row(
        "CPU of an added child (100 → 1000)",
        &format!("{:.2} ms", (by(1000, "cpu_ms") - by(100, "cpu_ms")) / 900.0),
    );
    row(
        "resident memory of an added child (100 → 1000)",
        &format!(
            "{:.0} kB",
            (by(1000, "peak_kb") - by(100, "peak_kb")) / 900.0
        ),
    );
    Ok(())
}

/// Measures one scene in its own process.
fn one(name: &str, argument: &str) -> anyhow::Result<Value> {
    let me = std::env::current_exe().context("find this program")?;
    let output = Command::new(me)
        .args(["one", name, argument])
        .output()
        .context("start a measurement")?;
    if !output.status.success() {
        bail!(
            "{name} {argument}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("read {name} {argument}"))
}

fn row(what: &str, measured: &str) {
    println!("| {what} | {measured} |");
}

fn in_microseconds(nanoseconds: &Value) -> Value {
    let fields = nanoseconds.as_object().into_iter().flatten();
    fields
        .map(|(name, value)| {
            let microseconds = value.as_f64().unwrap_or(0.0) / 1000.0;
            (name.clone(), Value::from(microseconds))
        })
        .collect()
}

fn number(value: &Value, name: &str, digits: usize) -> String {
    value[name]
        .as_f64()
        .map_or_else(|| "?".to_owned(), |number| format!("{number:.digits$}"))
}
