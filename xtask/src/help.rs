//! `cargo xtask help`.

/// The help text. `cargo xtask docs` compares documents with it.
pub(crate) const HELP: &str = "\
cargo xtask COMMAND

  test [--advisories]   everything that CI runs: set-up, format, lints, the page, tests, docs,
                        licences, tidy, wire contracts, the API against its document, a browser,
                        a short load and a short crash run, the README's first command
  crash [OPTIONS]       kill -9 loop, crash-point sweep, failing system calls and positive control
                        on the real binary
      --cycles N          kill cycles (default 1000; 50 with --ci)
      --seed S            makes the same choices as the run that printed S
      --loop, --sweep, --errno, --control
                          only these parts (default: all four)
      --ci                the short form: 50 cycles, at most 60 points of the sweep and 40 failing
                          calls
  contract [--ci]       the wires of the real binary against aimock (needs Node) and the official
                        SDKs of the vendors (needs Python); --ci does not let Node be missing
  api                   the real server against its OpenAPI document, by Schemathesis (needs Python)
  web [--checks] [--browser]
                        the page: types and unit tests, and the whole story in Chromium (needs Node)
  sim [--failing-writes] [COUNT] [FIRST]
                        the simulated world: so many seeds (default 10000), from this one; the flag
                        lets writes to the store fail
  bench [ARGS]          measures; the arguments go to the benchmark
  load [--ci] [ARGS]    the real server under load: 10,000 WebSocket clients, 1,000 requests a second
                        beside 200 children, slow and oversized requests
      --only PART         broadcast, rest or abuse
      --clients N         other than 10,000
      --json              for programs
      --ci                the short form, with what the tests have built
  tidy                  the rules of the architecture, checked
  docs                  every path, command, flag, configuration key, route and symbol that a
                        document names exists
  measure [--root FOLDER] [--json]
                        counts product lines, copies of shared rules, names and marker words; of
                        another checkout with --root, with places as JSON with --json
  help                  this text

Compiled dependencies are kept in CARGO_TARGET_DIR, or else in the user's cache folder
(XDG_CACHE_HOME or ~/.cache) under sortie/target; tools of others under sortie/tools.
";

/// Prints what there is.
pub(crate) fn print() {
    print!("{HELP}");
}
