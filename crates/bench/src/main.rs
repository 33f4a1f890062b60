//! Measures Sortie: the real binary beside a bare HTTP client, the parts of the runtime, and growth.
//! `cargo xtask bench` builds and starts it.

mod authority;
mod bare;
mod fan_out;
mod fill;
mod flame;
mod growth;
mod inner;
mod model;
mod options;
mod plot;
mod provider;
mod scenes;
mod turns;

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Map, Value};
use sortie_bench::process::{launch, raise_open_files};

use options::{Options, Part};

/// Children of the run that the flame graph shows.
const FLAME_CHILDREN: u32 = 100;

fn main() -> ExitCode {
    // In a sandbox, this binary is also the helper that drops its own rights.
    let mut words = std::env::args_os().skip(1);
    if words
        .next()
        .is_some_and(|word| word == sortie_sandbox::HELPER_COMMAND)
    {
        return sortie_sandbox::run_helper(words);
    }
    let done = launch(std::env::args_os().skip(1)).unwrap_or_else(run);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The first word may select a part that this program starts as a process of its own.
fn run() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    raise_open_files()?;
    match words[..] {
        ["one", name, argument] => {
            println!("{}", scenes::measure(name, argument)?);
            Ok(())
        }
        ["serve"] => turns::be_the_provider(),
        ["bare", port, model, workspace] => bare::run(port, model, workspace),
        _ => everything(&options::parse(&words)?),
    }
}

fn everything(options: &Options) -> anyhow::Result<()> {
    if let Some(path) = &options.flame {
        let drawn = fan_out::flame(options.binary()?, FLAME_CHILDREN)?;
        std::fs::write(path, drawn).context("write the flame graph")?;
        eprintln!("flame graph: {}", path.display());
        return Ok(());
    }
    let mut json = Map::new();
    if options.wants(Part::FanOut) {
        let measured = fan_out::measure(options.fan_out())?;
        if !options.json {
            println!("{}", measured.markdown());
        }
        json.insert("fan_out".to_owned(), measured.json());
    }
    if options.wants(Part::Parts) {
        let lines = inner::measure(options.quick)?;
        if !options.json {
            println!("{}", inner::markdown(&lines));
        }
        json.insert(
            "parts".to_owned(),
            lines.iter().map(inner::Line::json).collect(),
        );
    }
    if options.wants(Part::Growth) {
        let all = growth::measure(&options.growth()?)?;
        if !options.json {
            println!("{}", growth::markdown(&all));
        }
        json.insert("growth".to_owned(), growth::json(&all));
        if let Some(path) = &options.plot {
            std::fs::write(path, plot::svg(&all)).context("write the plot")?;
            eprintln!("growth: the plot is in {}", path.display());
        }
    }
    if options.json {
        println!("{:#}", Value::Object(json));
    }
    Ok(())
}
