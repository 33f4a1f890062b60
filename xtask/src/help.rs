//! `cargo xtask help`: the text that lists all commands.

/// The help text. `cargo xtask docs` compares documents with it.
pub(crate) const HELP: &str = "\
cargo xtask COMMAND

  test [--quick|--long] [--advisories]
                        runs everything that CI runs: set-up, format, lints, names in documents, the
                        page, tests, documentation, licences, tidy, wire contracts, the API against
                        its document, a browser, a short load, crash and cluster run, the README's
                        first command; writes the time of each step to test-times.tsv
      --quick             only format, tidy, documents, lints and the tests that start no processes
      --long              with the long forms: tests that take minutes, 10,000 seeds of the
                          simulation, the whole load, crash and cluster runs; some hours
  crash [OPTIONS]       kills the real binary: a kill -9 loop, a sweep over crash points, failing
                        system calls, and a positive control
      --cycles N          kill cycles (default 1000; 50 with --ci)
      --seed S            repeats the choices of the run that printed S
      --loop, --sweep, --errno, --control
                          runs only these parts (default: all four)
      --ci                the short form: 50 cycles, at most 60 points of the sweep and 40 failing
                          calls
  cluster [OPTIONS]     a server and workers on one PostgreSQL (15 or newer, started by the command): kill
                        -9 and SIGSTOP past the lease while trees of runs execute, and a positive
                        control without fences
      --kills N           kills and stops (default 300; 30 with --ci)
      --binary PATH       uses this binary, built with the feature crash-points
      --workers N         workers beside the server (default 4; 2 with --ci)
      --seed S            repeats the choices of the run that printed S
      --ci                the short form
  contract [--ci]       compares the wires of the real binary with aimock (needs Node) and the
                        official SDKs of the vendors (needs Python); with --ci, a missing Node is an
                        error
  api                   tests the real server against its OpenAPI document with Schemathesis (needs
                        Python)
  web [--checks] [--browser]
                        tests the page: types and unit tests, and the whole story in Chromium (needs
                        Node)
  sim [--failing-writes] [COUNT] [FIRST]
                        runs COUNT seeds (default 10000) of the simulated world, starting with FIRST;
                        with the flag, writes to the store fail
  bench [OPTIONS]       measures an optimised build: `sortie run` with N subagents beside a bare HTTP
                        client that does the same, both against a provider on loopback; then the
                        parts of the runtime
      --quick             fewer rounds, smaller scenes
      --long              also N = 1,000, in four turns; with --growth, larger sizes
      --json              prints JSON, with every sample
      --only PART         fan-out or parts
      --flame FILE        instead: a flame graph of the fan-out with 100 subagents (needs perf)
      --growth            instead: the cost of one more tool call, child, turn, command or request
                          beside many others; writes docs/growth.svg
      --plot FILE         writes the plot to this file instead
      --binary NAME=PATH  measures another binary of sortie in the same rounds
      --latency MS,MS     latencies of the provider (default 50,0)
      --rounds N          rounds of the fan-out, whose median counts (default 7)
      --children N,N      numbers of subagents (default 1,8,32,100)
  load [--ci] [ARGS]    measures the real server under load: 10,000 WebSocket clients, 1,000 requests a
                        second beside 200 children, slow and oversized requests
      --only PART         broadcast, rest or abuse
      --clients N         another number of clients than 10,000
      --json              prints JSON
      --ci                the short form, with the binaries of the tests
  dist [--deb] [--image]
                        builds what is released into the folder dist of the target folder: an archive
                        with the binary, which needs only the C library and contains no path of this
                        machine; --deb adds a Debian package, --image a container image (needs podman
                        or docker)
  recording             draws docs/terminal.svg: the real binary on a pseudo-terminal
  tidy                  checks the rules of the architecture
  docs [--root FOLDER]  checks that every path, command, flag, configuration key, route and symbol
                        that a document names exists, in this checkout or in another one
  measure [--root FOLDER]... [--json]
                        counts product lines, copies of shared rules, names and marker words of this
                        checkout, or of each --root in a column of its own; --json has the places
  help                  prints this text

Cargo's target folder is CARGO_TARGET_DIR, or sortie/target in the user's cache folder
(XDG_CACHE_HOME or ~/.cache). External tools are installed into sortie/tools there.
";

/// Prints the help text.
pub(crate) fn print() {
    print!("{HELP}");
}
