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
    // A simulation in which nothing dies and nothing is interrupted proves nothing.
    assert!(deaths > 250, "only {deaths} deaths");
    assert!(interruptions > 10, "only {interruptions} interruptions");
    assert!(pauses > 100, "only {pauses} pauses");
}

/// One test for each block of seeds, so that they run beside each other.
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

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in [3, 17, 160] {
        assert_eq!(simulate(seed), simulate(seed));
    }
    assert_ne!(simulate(3), simulate(4));
}

/// The controls: with a fault in the store the same checks must go red.
#[test]
fn lost_and_doubled_deliveries_are_noticed() {
    for (sabotage, expected) in [
        (Sabotage::LoseDeliveries, "it never ends"),
        (Sabotage::RepeatDeliveries, "arrived 2 times"),
    ] {
        // Which of the checks sees it first depends on the seed.
        let noticed = (0..20).find(|seed| {
            let broken = simulate_with(*seed, sabotage).err();
            broken.is_some_and(|broken| broken.what.contains(expected))
        });
        assert!(noticed.is_some(), "{sabotage:?} went unnoticed");
    }
}
