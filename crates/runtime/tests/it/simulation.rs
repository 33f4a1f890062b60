//! The real runtime and store in a simulated world, seed by seed.

use sortie_test_support::sim::{Sabotage, simulate, simulate_with};

/// Seeds of one test.
const SEEDS: u64 = 250;

fn check(from: u64) {
    let (mut deaths, mut interruptions, mut pauses) = (0, 0, 0);
    for seed in from..from + SEEDS {
        match simulate(seed) {
            Ok(report) => {
                deaths += report.crashes;
                interruptions += report.interruptions;
                pauses += report.pauses;
            }
            Err(broken) => panic!("{broken}\nagain: cargo xtask sim 1 {seed}"),
        }
    }
    // A simulation without deaths and interruptions proves nothing.
    assert!(deaths > 250, "only {deaths} deaths");
    assert!(interruptions > 10, "only {interruptions} interruptions");
    assert!(pauses > 100, "only {pauses} pauses");
}

/// One test for each block of seeds, so that they run in parallel.
macro_rules! blocks {
    ($($name:ident = $block:literal),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                check($block * SEEDS);
            }
        )+
    };
}

blocks! {
    nothing_breaks_in_block_0 = 0,
    nothing_breaks_in_block_1 = 1,
    nothing_breaks_in_block_2 = 2,
    nothing_breaks_in_block_3 = 3,
    nothing_breaks_in_block_4 = 4,
    nothing_breaks_in_block_5 = 5,
    nothing_breaks_in_block_6 = 6,
    nothing_breaks_in_block_7 = 7,
}

/// Seeds of one test with failing writes, which take longer.
const FAILING_SEEDS: u64 = 80;

/// A failed write never leaves a gap in a journal, and every run ends.
fn check_failing_writes(from: u64) {
    let mut entries = 0;
    for seed in from..from + FAILING_SEEDS {
        match simulate_with(seed, Sabotage::FailWrites) {
            Ok(report) => entries += report.entries,
            Err(broken) => panic!("{broken}\nagain: cargo xtask sim --failing-writes 1 {seed}"),
        }
    }
    assert!(entries > 2_000, "only {entries} entries");
}

#[test]
fn failing_writes_break_nothing_in_block_0() {
    check_failing_writes(0);
}

#[test]
fn failing_writes_break_nothing_in_block_1() {
    check_failing_writes(FAILING_SEEDS);
}

#[test]
fn the_same_seed_gives_the_same_journals() {
    for seed in [3, 17, 160] {
        assert_eq!(simulate(seed), simulate(seed));
    }
    assert_ne!(simulate(3), simulate(4));
}

/// The control of the failing writes: a store that does not check what a write follows leaves gaps.
#[test]
fn gaps_are_noticed() {
    let noticed = (0..40).find(|seed| {
        let broken = simulate_with(*seed, Sabotage::JumpOverLostWrites).err();
        broken.is_some_and(|broken| broken.what.contains("is illegal"))
    });
    assert!(noticed.is_some(), "no journal has a gap");
}

/// The controls: with a fault in the store the same checks must fail.
#[test]
fn lost_and_doubled_deliveries_are_noticed() {
    for (sabotage, expected) in [
        (Sabotage::LoseDeliveries, "it never ends"),
        (Sabotage::RepeatDeliveries, "arrived 2 times"),
    ] {
        // Which check detects it first depends on the seed.
        let noticed = (0..20).find(|seed| {
            let broken = simulate_with(*seed, sabotage).err();
            broken.is_some_and(|broken| broken.what.contains(expected))
        });
        assert!(noticed.is_some(), "{sabotage:?} went unnoticed");
    }
}
