//! Runs the simulation for many seeds: `sortie-sim [--failing-writes] [COUNT] [FIRST]`.

use std::process::ExitCode;

use sortie_test_support::sim::{Sabotage, simulate_with};

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter("sortie_runtime=error")
        .without_time()
        .init();
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let sabotage = if words.first().is_some_and(|word| word == "--failing-writes") {
        words.remove(0);
        Sabotage::FailWrites
    } else {
        Sabotage::None
    };
    let mut numbers = words.iter().map(|word| word.parse::<u64>());
    let (Ok(count), Ok(first)) = (
        numbers.next().unwrap_or(Ok(10_000)),
        numbers.next().unwrap_or(Ok(0)),
    ) else {
        eprintln!("usage: sortie-sim [--failing-writes] [COUNT] [FIRST SEED]");
        return ExitCode::from(2);
    };
    let (mut runs, mut crashes, mut pauses) = (0, 0, 0);
    let (mut entries, mut interruptions) = (0, 0);
    for seed in first..first + count {
        match simulate_with(seed, sabotage) {
            Ok(report) => {
                runs += report.runs;
                crashes += report.crashes;
                pauses += report.pauses;
                entries += report.entries;
                interruptions += report.interruptions;
            }
            Err(broken) => {
                eprintln!("{broken}\nagain: cargo xtask sim 1 {seed}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{count} seeds from {first}: {runs} runs, {entries} journal entries, {crashes} deaths of \
         the process, {pauses} pauses, {interruptions} calls told to verify first; nothing broken"
    );
    ExitCode::SUCCESS
}
