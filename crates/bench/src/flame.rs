//! A flame graph of the fan-out: where the CPU time of the real binary goes, kernel included.
//!
//! `perf` samples the binary and unwinds its stacks by the tables that every binary has, so the optimised
//! build is measured as it is. Each box is a function; its width is its share of all samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Samples per second of each thread.
const FREQUENCY: &str = "3999";
/// How `perf` finds the callers: it copies this much of each stack.
const CALL_GRAPH: &str = "dwarf,16384";
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const TOP: f64 = 40.0;
/// Boxes that are narrower than this share of all samples are left out.
const LEAST_SHARE: f64 = 0.002;
/// The width of a character, for the text of a box.
const CHARACTER: f64 = 6.7;
/// Characters of the name of a function.
const MAX_NAME: usize = 120;

const STYLE: &str = "\
text { font: 11px ui-monospace, monospace; fill: #1f2328 }
.ground { fill: #ffffff } .title { font: 15px system-ui, sans-serif }
.ours { fill: #f59e0b } .database { fill: #86b6ef } .kernel { fill: #c4b5d4 } .other { fill: #d5d9de }
@media (prefers-color-scheme: dark) { .ground { fill: #0d1117 } .title { fill: #e6edf3 } }
";

/// One function in one place of the tree of calls.
#[derive(Debug, Default)]
struct Node {
    samples: u64,
    calls: BTreeMap<String, Self>,
}

impl Node {
    fn add<'a>(&mut self, mut stack: impl Iterator<Item = &'a str>) {
        self.samples += 1;
        if let Some(function) = stack.next() {
            self.calls
                .entry(function.to_owned())
                .or_default()
                .add(stack);
        }
    }

    fn depth(&self, least: f64) -> usize {
        let calls = self.calls.values();
        let shown = calls.filter(|call| call.samples as f64 >= least);
        shown.map(|call| call.depth(least) + 1).max().unwrap_or(0)
    }
}

/// Returns a command that runs `program` under `perf` and records its samples in `file`.
pub(crate) fn recorded(program: &Path, file: &Path) -> Command {
    let mut command = Command::new("perf");
    command
        .args(["record", "--quiet", "--event", "cpu-clock"])
        .args(["--freq", FREQUENCY, "--call-graph", CALL_GRAPH, "--output"])
        .arg(file)
        .arg("--")
        .arg(program)
        .stdin(Stdio::null());
    command
}

/// Draws the samples of `file`, which [`recorded`] has written.
pub(crate) fn draw(file: &Path, title: &str) -> Result<String> {
    let output = Command::new("perf")
        .args([
            "script",
            "--no-inline",
            "--fields",
            "comm,ip,sym",
            "--input",
        ])
        .arg(file)
        .stderr(Stdio::null())
        .output()
        .context("perf is missing; on Debian it is in the package linux-perf")?;
    ensure!(output.status.success(), "perf script: {}", output.status);
    let tree = tree(&String::from_utf8_lossy(&output.stdout));
    ensure!(tree.samples > 0, "perf has recorded no sample");
    Ok(svg(&tree, title))
}

/// Reads the output of `perf script`: a line with the thread's name, then its stack, innermost first.
fn tree(text: &str) -> Node {
    let mut root = Node::default();
    for sample in text.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let Some(thread) = lines.next() else {
            continue;
        };
        let thread = thread.trim();
        let mut stack: Vec<String> = lines.map(function).collect();
        // The frames of the thread's start are the same everywhere.
        stack.push(thread.to_owned());
        root.add(stack.iter().rev().map(String::as_str));
    }
    root
}

/// Returns the function of a line such as `5591 std::fs::read+0x1f`, without the hash that the compiler
/// appends.
fn function(line: &str) -> String {
    let name = line.trim().split_once(' ').map_or("", |(_, name)| name);
    let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
    let name = match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 => path,
        _ => name,
    };
    match name {
        "" | "[unknown]" => "unknown".to_owned(),
        name => name.chars().take(MAX_NAME).collect(),
    }
}

fn svg(tree: &Node, title: &str) -> String {
    let all = tree.samples as f64;
    let rows = tree.depth(all * LEAST_SHARE) as f64;
    let height = TOP + rows * ROW + 10.0;
    let title = escaped(title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<style>\n{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"10\" y=\"24\">{title}: {} samples</text>\n",
        tree.samples
    );
    boxes(&mut out, tree, (0.0, TOP), all);
    out.push_str("</svg>\n");
    out
}

/// Draws the functions that a node calls, side by side, and below each what it calls.
fn boxes(out: &mut String, node: &Node, (x, y): (f64, f64), all: f64) {
    let mut x = x;
    for (name, call) in &node.calls {
        let share = call.samples as f64 / all;
        if share >= LEAST_SHARE {
            let width = share * WIDTH;
            let fits = ((width - 4.0) / CHARACTER).max(0.0) as usize;
            let shown: String = match name.chars().count() > fits {
                true => name
                    .chars()
                    .take(fits.saturating_sub(1))
                    .chain(['…'])
                    .collect(),
                false => name.clone(),
            };
            // Writing to a String cannot fail.
            write!(
                out,
                "<g><title>{} ({:.1} %)</title><rect class=\"{}\" x=\"{x:.1}\" y=\"{y}\" \
                 width=\"{:.1}\" height=\"{}\"/>",
                escaped(name),
                share * 100.0,
                class(name),
                (width - 0.5).max(0.3),
                ROW - 1.0
            )
            .ok();
            if fits > 2 {
                write!(
                    out,
                    "<text x=\"{:.1}\" y=\"{}\">{}</text>",
                    x + 2.0,
                    y + 12.0,
                    escaped(&shown)
                )
                .ok();
            }
            out.push_str("</g>\n");
            boxes(out, call, (x, y + ROW), all);
        }
        x += share * WIDTH;
    }
}

/// Returns the kind of code of a function, which decides its colour.
fn class(name: &str) -> &'static str {
    let is_kernel = ["sys_", "do_", "exc_", "entry_SYSCALL", "asm_"];
    match name {
        name if name.contains("sortie") => "ours",
        name if name.contains("sqlite") => "database",
        name if is_kernel.iter().any(|start| name.contains(start)) => "kernel",
        _ => "other",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
sortie-store
\t55d0 sqlite3_step+0x1f
\t55d1 sortie_store::writer::serve::h0123456789abcdef+0x2
\t55d2 [unknown]

tokio-rt-worker
\t55d3 <alloc::vec::Vec<T> as core::clone::Clone>::clone+0x9
";

    #[test]
    fn stacks_are_folded_from_the_outermost_function() {
        let tree = tree(SCRIPT);
        assert_eq!(tree.samples, 2);
        let store = &tree.calls["sortie-store"];
        let serve = &store.calls["unknown"].calls["sortie_store::writer::serve"];
        assert_eq!(serve.calls["sqlite3_step"].samples, 1);
        assert_eq!(tree.depth(1.0), 4);
    }

    #[test]
    fn a_drawing_escapes_the_names_of_functions() {
        let drawn = svg(&tree(SCRIPT), "a & b");
        assert!(drawn.contains("&lt;alloc::vec::Vec&lt;T&gt;"), "{drawn}");
        assert!(!drawn.contains("<alloc"), "{drawn}");
        assert!(drawn.contains("a &amp; b: 2 samples"), "{drawn}");
    }
}
