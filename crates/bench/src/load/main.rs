//! Load test of the real server: ten thousand WebSocket clients, a thousand requests a second
//! beside two hundred children, and abusive clients. `cargo xtask load` builds and starts it.
//!
//! Clients run in their own processes (`sortie-load clients …`), so that memory and CPU time of the
//! server are its own.

mod abuse;
mod broadcast;
mod clients;
mod numbers;
mod rest;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use sortie_bench::process::raise_open_files;

use numbers::Row;

/// The options of the command line.
#[derive(Debug)]
struct Options {
    sortie: PathBuf,
    json: bool,
    /// The short form, for daily use: fewer clients, less time, the same limits.
    short: bool,
    only: Option<String>,
    clients: Option<usize>,
}

fn main() -> ExitCode {
    match run() {
        Ok(kept) if kept => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether every limit was kept.
fn run() -> Result<bool> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    raise_open_files()?;
    if words.first().is_some_and(|word| word == "clients") {
        words.remove(0);
        clients::run(&words)?;
        return Ok(true);
    }
    let options = parse(&words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the executor")?;
    let mut rows = runtime.block_on(measure(&options))?;
    if options.short {
        // The short form runs on any machine beside other work: limits on speed do not count.
        for row in rows.iter_mut().filter(|row| row.timed) {
            row.broken = false;
        }
    }
    if options.json {
        let all: Vec<Value> = rows.iter().map(Row::json).collect();
        println!("{:#}", json!({ "rows": all }));
    } else {
        numbers::print(&rows);
    }
    let broken: Vec<&str> = rows
        .iter()
        .filter(|row| row.broken)
        .map(|row| row.what.as_str())
        .collect();
    if !broken.is_empty() {
        eprintln!("promises that were not kept: {}", broken.join("; "));
    }
    Ok(broken.is_empty())
}

async fn measure(options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    if wanted("broadcast") {
        let scene = broadcast::Scene {
            clients: options
                .clients
                .unwrap_or(if options.short { 1_000 } else { 10_000 }),
            runs: if options.short { 5 } else { 15 },
        };
        rows.extend(
            broadcast::measure(&options.sortie, scene)
                .await
                .context("broadcast")?,
        );
    }
    if wanted("rest") {
        let scene = if options.short {
            rest::Scene {
                children: 50,
                pairs: 1,
                per_second: 50,
            }
        } else {
            rest::Scene {
                children: 200,
                pairs: 3,
                per_second: 1_000,
            }
        };
        rows.extend(
            rest::measure(&options.sortie, scene)
                .await
                .context("rest")?,
        );
    }
    if wanted("abuse") {
        let scene = abuse::Scene {
            connections: if options.short { 300 } else { 1_000 },
            seconds: if options.short { 8 } else { 30 },
        };
        rows.extend(
            abuse::measure(&options.sortie, scene)
                .await
                .context("abuse")?,
        );
    }
    ensure!(
        !rows.is_empty(),
        "nothing of that name: broadcast, rest or abuse"
    );
    Ok(rows)
}

fn parse(words: &[String]) -> Result<Options> {
    let mut options = Options {
        sortie: PathBuf::new(),
        json: false,
        short: false,
        only: None,
        clients: None,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--json" => options.json = true,
            "--short" => options.short = true,
            "--sortie" => options.sortie = value()?.into(),
            "--only" => options.only = Some(value()?.clone()),
            "--clients" => options.clients = Some(value()?.parse().context("--clients")?),
            other => bail!(
                "unknown argument {other:?}; there are --sortie PATH, --short, --json, \
                 --only broadcast|rest|abuse, --clients N"
            ),
        }
    }
    ensure!(
        options.sortie.is_file(),
        "--sortie has to name the binary of sortie"
    );
    Ok(options)
}
