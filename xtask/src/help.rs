//! `cargo xtask help`.

const HELP: &str = "\
cargo xtask COMMAND

  test [--advisories]   everything that CI runs: set-up, format, lints, tests, docs, licences,
                        tidy, wire contracts, a short crash run, the README's first command
  crash [OPTIONS]       kill -9 loop, crash-point sweep and positive control on the real binary
      --cycles N          kill cycles (default 1000; 50 with --ci)
      --seed S            makes the same choices as the run that printed S
      --loop, --sweep, --control
                          only these parts (default: all three)
      --ci                the short form: 50 cycles, at most 60 points of the sweep
  contract [--ci]       the wires of the real binary against aimock (needs Node) and the official
                        SDKs of the vendors (needs Python); --ci does not let Node be missing
  sim [COUNT] [FIRST]   the simulated world: so many seeds (default 10000), from this one
  bench [ARGS]          measures; the arguments go to the benchmark
  tidy                  the rules of the architecture, checked
  help                  this text

Compiled dependencies are kept in CARGO_TARGET_DIR, or else in the user's cache folder
(XDG_CACHE_HOME or ~/.cache) under sortie/target; tools of others under sortie/tools.
";

/// Prints what there is.
pub(crate) fn print() {
    print!("{HELP}");
}
