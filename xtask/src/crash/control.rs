//! The positive control: with a broken outbox the checks must fail; otherwise a pass means nothing.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::Bench;
use super::check::problems;
use super::scenario::TREE;
use super::site::Site;
use crate::scratch::Scratch;

/// Cycles of the control.
const CYCLES: u32 = 3;
/// The healthy scenario takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(4);

/// Breaks the outbox and requires that the checks detect it.
pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    for number in 1..=CYCLES {
        let scratch = Scratch::new(bench.folder, &format!("control-{number}"))?;
        let site = Site::new(bench.binary, scratch.path())?.with_broken("outbox");
        // Killed in the middle, then resumed without a limit: neither may repair the delivery.
        site.run(&TREE, LIMIT / 4)?;
        site.resume(LIMIT)?;
        let found = problems(&TREE, &site.observe()?);
        let about_delivery = found
            .iter()
            .filter(|problem| problem.contains("announced 0 times"));
        println!(
            "control {number}: {} broken promises, {} of them about delivery",
            found.len(),
            about_delivery.clone().count()
        );
        ensure!(
            about_delivery.count() > 0,
            "the outbox is broken, and the checks do not detect it: {found:?}"
        );
    }
    println!("the checks detect the broken outbox every time");
    Ok(())
}
