//! Tests that every example runs and succeeds.

use std::path::Path;
use std::process::Command;

/// Cargo builds the examples beside the tests: `deps/` contains this binary, `examples/` the
/// examples.
#[test]
fn every_example_runs() {
    let this = std::env::current_exe().unwrap();
    let binaries = this.parent().unwrap().with_file_name("examples");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for source in sources.read_dir().unwrap() {
        let source = source.unwrap().path();
        if source.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let binary = binaries.join(source.file_stem().unwrap());
        let output = Command::new(&binary).env_clear().output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        assert!(output.status.success(), "{}: {output:?}", binary.display());
        count += 1;
    }
    assert!(count >= 4, "only {count} examples");
}
