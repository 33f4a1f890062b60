//! The parts of the runtime, each scene in its own process, so that memory and CPU time are its own.

use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// One measured line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    what: String,
    measured: String,
}

impl Line {
    pub(crate) fn json(&self) -> Value {
        json!({"what": self.what, "measured": self.measured})
    }
}

/// Returns the table in Markdown.
pub(crate) fn markdown(lines: &[Line]) -> String {
    let rows = lines
        .iter()
        .map(|line| format!("| {} | {} |\n", line.what, line.measured));
    std::iter::once("| what | measured |\n| --- | --- |\n".to_owned())
        .chain(rows)
        .collect()
}

/// Measures all scenes; `quick` makes them smaller.
pub(crate) fn measure(quick: bool) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut row = |what: &str, measured: &str| {
        lines.push(Line {
            what: what.to_owned(),
            measured: measured.to_owned(),
        });
    };
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
    Ok(lines)
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
