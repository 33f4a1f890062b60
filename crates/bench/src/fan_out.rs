//! The fan-out as a user sees it: the real binary, a provider on loopback, and a bare HTTP client
//! that does the same. The main agent spawns N children at once; each child reads a file three
//! times and reports.
//!
//! Bare client and binaries take turns, so that other work on the machine affects all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sortie_bench::process::{Cost, measured};

use crate::flame;
use crate::provider::{LINES_PER_READ, MAIN_MARK, NOTE, Provider, SPAWNS_PER_TURN, tree};

/// Calls of `read_file` of each child, one after the other.
const READS: u32 = 3;
/// The search path of measured programs, which get no other variable of this process.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How many rounds; the median counts.
    pub(crate) rounds: usize,
    pub(crate) latencies: Vec<Duration>,
    pub(crate) children: Vec<u32>,
    /// Binaries of sortie, with the names of their rows.
    pub(crate) binaries: Vec<(String, PathBuf)>,
}

/// All samples of a plan.
#[derive(Debug)]
pub(crate) struct Measured {
    plan: Plan,
    samples: BTreeMap<Case, Vec<Sample>>,
}

/// One cell: a row of the table with a latency and a number of children.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    latency: Duration,
    contender: String,
    children: u32,
}

/// One run of a program.
#[derive(Clone, Copy, Debug)]
struct Sample {
    wall_ms: f64,
    cpu_ms: f64,
    peak_mb: f64,
    /// From the start of the process to the arrival of its first prompt.
    first_prompt_ms: f64,
    main_bytes: f64,
    child_bytes: f64,
}

/// A program that runs the scene.
enum Contender<'a> {
    Bare,
    Sortie(&'a Path),
}

const BARE: &str = "bare HTTP client";

/// Measures everything that the plan contains.
pub(crate) fn measure(plan: Plan) -> Result<Measured> {
    let provider = Provider::start()?;
    let mut samples: BTreeMap<Case, Vec<Sample>> = BTreeMap::new();
    let mut contenders = vec![(BARE, Contender::Bare)];
    for (name, path) in &plan.binaries {
        contenders.push((name, Contender::Sortie(path)));
    }
    for round in 0..plan.rounds {
        for &latency in &plan.latencies {
            provider.set_latency(latency);
            for &children in &plan.children {
                for (name, contender) in &contenders {
                    let sample = once(&provider, contender, children).with_context(|| {
                        format!("{name} with {children} children, round {}", round + 1)
                    })?;
                    let case = Case {
                        latency,
                        contender: (*name).to_owned(),
                        children,
                    };
                    samples.entry(case).or_default().push(sample);
                }
                // The next program to start is another one in each round.
                contenders.rotate_left(1);
            }
        }
        eprintln!("fan-out: round {} of {}", round + 1, plan.rounds);
    }
    Ok(Measured { plan, samples })
}

/// Returns the turns of the main agent that spawn children. More children than one turn may spawn
/// come in several turns, each of which waits for its children.
fn rounds(children: u32) -> u32 {
    children.div_ceil(SPAWNS_PER_TURN)
}

/// Returns the prompts on the critical path: the children of a turn prompt at the same time.
fn prompts_in_a_row(children: u32) -> u32 {
    let rounds = rounds(children);
    rounds + 1 + rounds * (READS + 1)
}

fn once(provider: &Provider, contender: &Contender<'_>, children: u32) -> Result<Sample> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let workspace = folder.path().join("workspace");
    write_note(&workspace, LINES_PER_READ + READS)?;
    let rounds = rounds(children);
    ensure!(
        children.is_multiple_of(rounds),
        "{children} is no multiple of {rounds}"
    );
    let model = tree(children / rounds, rounds, READS);
    let mut command = match contender {
        Contender::Bare => {
            let mut command = measured(&std::env::current_exe()?)?;
            command.args(["bare", &provider.port.to_string(), &model]);
            command.arg(&workspace).env_clear();
            command
        }
        Contender::Sortie(binary) => {
            let mut command = sortie(binary, folder.path(), provider)?;
            send_out(&mut command, &workspace, children, &model);
            command
        }
    };
    provider.take_log();
    let cost = Cost::of(&mut command)?;
    let log = provider.take_log();
    if matches!(contender, Contender::Sortie(_)) {
        let task: Value = serde_json::from_str(&cost.out).context("read the task")?;
        ensure!(task["status"] == "completed", "the run ended as {task}");
    }
    let prompts = rounds + 1 + children * (READS + 1);
    ensure!(
        log.requests == prompts,
        "{} prompts instead of {prompts}",
        log.requests
    );
    let first_at = log.first_at_ns.context("no prompt arrived")?;
    let bytes = |bytes: Option<usize>| bytes.map_or(f64::NAN, |bytes| bytes as f64);
    Ok(Sample {
        wall_ms: cost.wall_ms,
        cpu_ms: cost.cpu_ms,
        peak_mb: cost.peak_kb as f64 / 1024.0,
        first_prompt_ms: first_at.saturating_sub(cost.started_ns) as f64 / 1e6,
        main_bytes: bytes(log.main_bytes),
        child_bytes: bytes(log.child_bytes),
    })
}

/// Adds the arguments of the run that sends the children out.
fn send_out(command: &mut Command, workspace: &Path, children: u32, model: &str) {
    let instruction = format!("{MAIN_MARK}: send them out");
    command
        .current_dir(workspace)
        .env("SORTIE__SUBAGENTS__MAX_CONCURRENT", children.to_string())
        .env("SORTIE__SUBAGENTS__MAX_CHILDREN", children.to_string())
        .args(["run", &instruction, "--json", "--model"])
        .arg(format!("anthropic/{model}"));
}

/// Draws where the CPU time of the fan-out goes, with a provider that responds at once.
pub(crate) fn flame(binary: &Path, children: u32) -> Result<String> {
    let provider = Provider::start()?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let workspace = folder.path().join("workspace");
    write_note(&workspace, LINES_PER_READ + READS)?;
    let samples = folder.path().join("perf.data");
    let mut command = at_home(flame::recorded(binary, &samples), folder.path(), &provider);
    send_out(
        &mut command,
        &workspace,
        children,
        &tree(children, 1, READS),
    );
    let output = command
        .output()
        .context("perf is missing; on Debian it is in the package linux-perf")?;
    ensure!(
        output.status.success(),
        "perf record: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    flame::draw(&samples, &format!("sortie run with {children} subagents"))
}

/// Returns a command that measures a binary of sortie, with a fresh home in `folder` and all models
/// at the provider. The provider's limits are raised so that all children can prompt at once, and
/// no child waits for another one to fill the prompt cache.
pub(crate) fn sortie(binary: &Path, folder: &Path, provider: &Provider) -> Result<Command> {
    Ok(at_home(measured(binary)?, folder, provider))
}

fn at_home(mut command: Command, folder: &Path, provider: &Provider) -> Command {
    command
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", folder)
        .envs(variables(provider))
        .arg("--home")
        .arg(folder.join("home"));
    command
}

/// Returns the variables of a process whose models are all at the provider.
pub(crate) fn variables(provider: &Provider) -> [(&'static str, String); 4] {
    let url = format!("http://127.0.0.1:{}", provider.port);
    [
        ("ANTHROPIC_API_KEY", "sk-bench-0123456789".to_owned()),
        ("ANTHROPIC_BASE_URL", url),
        (
            "SORTIE__PROVIDERS__ANTHROPIC__MAX_CONCURRENT",
            "10000".to_owned(),
        ),
        (
            "SORTIE__PROVIDERS__ANTHROPIC__WARM_CACHE",
            "false".to_owned(),
        ),
    ]
}

/// Makes a workspace with the file that the models read.
pub(crate) fn write_note(workspace: &Path, lines: u32) -> Result<()> {
    fs::create_dir_all(workspace).context("make a workspace")?;
    let mut text = String::new();
    for line in 1..=lines {
        // Writing to a String cannot fail.
        writeln!(text, "line {line} of the note that the models read").ok();
    }
    fs::write(workspace.join(NOTE), text).context("write the note")
}

impl Measured {
    fn median(&self, case: &Case, value: impl Fn(&Sample) -> f64) -> f64 {
        let samples = self.samples.get(case).into_iter().flatten();
        median(samples.map(value).collect())
    }

    fn rows(&self) -> Vec<Row> {
        let names = self.plan.binaries.iter().map(|(name, _)| name.as_str());
        let names: Vec<&str> = std::iter::once(BARE).chain(names).collect();
        let latencies = self.plan.latencies.iter();
        latencies
            .flat_map(|latency| names.iter().map(|name| self.row(*latency, name)))
            .collect()
    }

    fn row(&self, latency: Duration, contender: &str) -> Row {
        let case = |children: u32| Case {
            latency,
            contender: contender.to_owned(),
            children,
        };
        let counts = &self.plan.children;
        let few = counts.iter().copied().min().unwrap_or(1);
        // 1,000 children saturate the processors; the cost of a child is that of an idle machine.
        let many = counts.iter().copied().filter(|count| *count <= 100).max();
        let many = many.unwrap_or(few);
        let cpu = |children| self.median(&case(children), |sample| sample.cpu_ms);
        Row {
            contender: contender.to_owned(),
            latency,
            walls_ms: counts
                .iter()
                .map(|count| (*count, self.median(&case(*count), |sample| sample.wall_ms)))
                .collect(),
            cpu_per_child_ms: (many > few).then(|| (cpu(many) - cpu(few)) / f64::from(many - few)),
            first_prompt_ms: self.median(&case(few), |sample| sample.first_prompt_ms),
            peaks_mb: [few, many]
                .map(|count| (count, self.median(&case(count), |sample| sample.peak_mb))),
            main_bytes: self.median(&case(few), |sample| sample.main_bytes),
            child_bytes: self.median(&case(few), |sample| sample.child_bytes),
        }
    }

    /// Returns the table in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let rows = self.rows();
        let Some(first) = rows.first() else {
            return String::new();
        };
        let mut head = vec!["what".to_owned(), "latency".to_owned()];
        head.extend(
            first
                .walls_ms
                .iter()
                .map(|(count, _)| format!("N = {count}")),
        );
        let [(few, _), (many, _)] = first.peaks_mb;
        head.extend([
            format!("CPU of an added child ({few} → {many})"),
            "process start to first prompt".to_owned(),
            format!("max RSS, N = {few} / {many}"),
            "first prompt, main / child".to_owned(),
        ]);
        let mut lines = vec![
            head.clone(),
            head.iter().map(|_| "---".to_owned()).collect(),
        ];
        lines.extend(rows.iter().map(Row::cells));
        lines.push(target(first));
        let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
        lines.iter().map(line).collect()
    }

    /// Returns medians and all samples.
    pub(crate) fn json(&self) -> Value {
        let samples = self.samples.iter().map(|(case, samples)| {
            json!({
                "what": case.contender,
                "latency_ms": case.latency.as_secs_f64() * 1000.0,
                "children": case.children,
                "samples": samples.iter().map(Sample::json).collect::<Vec<_>>(),
            })
        });
        json!({
            "rows": self.rows().iter().map(Row::json).collect::<Vec<_>>(),
            "samples": samples.collect::<Vec<_>>(),
        })
    }
}

impl Sample {
    fn json(&self) -> Value {
        json!({
            "wall_ms": self.wall_ms,
            "cpu_ms": self.cpu_ms,
            "peak_mb": self.peak_mb,
            "first_prompt_ms": self.first_prompt_ms,
        })
    }
}

/// The medians of one program with one latency.
#[derive(Clone, Debug)]
struct Row {
    contender: String,
    latency: Duration,
    walls_ms: Vec<(u32, f64)>,
    cpu_per_child_ms: Option<f64>,
    first_prompt_ms: f64,
    peaks_mb: [(u32, f64); 2],
    main_bytes: f64,
    child_bytes: f64,
}

impl Row {
    fn ideal_ms(&self, children: u32) -> f64 {
        f64::from(prompts_in_a_row(children)) * self.latency.as_secs_f64() * 1000.0
    }

    fn cells(&self) -> Vec<String> {
        let wall = |(children, wall): &(u32, f64)| match self.latency.is_zero() {
            true => format!("{wall:.0} ms"),
            false => format!("{:.3}", wall / self.ideal_ms(*children)),
        };
        let mut cells = vec![
            self.contender.clone(),
            format!("{} ms", self.latency.as_secs_f64() * 1000.0),
        ];
        cells.extend(self.walls_ms.iter().map(wall));
        let [(_, few), (_, many)] = self.peaks_mb;
        let cpu = self.cpu_per_child_ms;
        cells.extend([
            cpu.map_or_else(|| "–".to_owned(), |cpu| format!("{cpu:.2} ms")),
            format!("{:.1} ms", self.first_prompt_ms),
            format!("{few:.1} / {many:.1} MB"),
            format!("{:.0} / {:.0} bytes", self.main_bytes, self.child_bytes),
        ]);
        cells
    }

    fn json(&self) -> Value {
        let walls = self.walls_ms.iter().map(|(children, wall)| {
            let ideal = self.ideal_ms(*children);
            json!({
                "children": children,
                "wall_ms": wall,
                "over_ideal": (ideal > 0.0).then(|| wall / ideal),
            })
        });
        json!({
            "what": self.contender,
            "latency_ms": self.latency.as_secs_f64() * 1000.0,
            "walls": walls.collect::<Vec<_>>(),
            "cpu_per_child_ms": self.cpu_per_child_ms,
            "first_prompt_ms": self.first_prompt_ms,
            "peak_mb": self.peaks_mb.map(|(children, peak)| json!({"children": children, "mb": peak})),
            "main_prompt_bytes": self.main_bytes,
            "child_prompt_bytes": self.child_bytes,
        })
    }
}

/// The targets for sortie with a latency of 50 ms. They are information: no number fails a run.
fn target(row: &Row) -> Vec<String> {
    let wall = |(children, _): &(u32, f64)| match children {
        1 => "≤ 1.08",
        8 => "≤ 1.09",
        32 => "≤ 1.12",
        100 => "≤ 1.20",
        1000 => "≤ 1.50",
        _ => "–",
    };
    let mut cells = vec!["*target*".to_owned(), "50 ms".to_owned()];
    cells.extend(row.walls_ms.iter().map(|pair| wall(pair).to_owned()));
    let rest = ["≤ 2 ms", "≤ 30 ms", "≤ 20 MB", "≤ 10000 / 6000 bytes"];
    cells.extend(rest.map(str::to_owned));
    cells
}

/// Returns the middle value; NaN if there is none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_one_turn_prompt_at_the_same_time() {
        assert_eq!([1, 100, 250, 1000].map(prompts_in_a_row), [6, 6, 6, 21]);
    }

    #[test]
    fn an_outlier_does_not_move_the_median() {
        assert!((median(vec![3.0, 900.0, 1.0]) - 3.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 2.0]) - 3.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }
}
