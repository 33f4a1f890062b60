//! The table of hidden characters outside of this crate.

use std::path::Path;

use serde_json::Value;
use sortie_base::hidden::{
    DRAWN, HIDDEN, JOINING, PICTOGRAPHS, SPACES, TAG_FLAGS, UNICODE_VERSION, write_out,
    write_out_for_terminal, write_out_line,
};

/// The tables as the web page has them.
fn script() -> String {
    let lines = |ranges: &[(char, char)]| -> String {
        let line = |(first, last): &(char, char)| {
            format!("  [{:#x}, {:#x}],\n", u32::from(*first), u32::from(*last))
        };
        ranges.iter().map(line).collect()
    };
    let mut text = format!(
        "// Generated from crates/base/src/hidden.rs (Unicode {UNICODE_VERSION}); do not edit. Renew it with\n// UPDATE_HIDDEN=1 cargo test -p sortie-base\n"
    );
    for (name, ranges) in [
        ("HIDDEN", HIDDEN),
        ("SPACES", SPACES),
        ("DRAWN", DRAWN),
        ("PICTOGRAPHS", PICTOGRAPHS),
        ("JOINING", &[JOINING]),
    ] {
        text.push_str(&format!(
            "export const {name}: readonly (readonly [number, number])[] = [\n{}];\n",
            lines(ranges)
        ));
    }
    let flags = TAG_FLAGS.map(|flag| format!("  \"{}\",\n", flag.escape_unicode()));
    text.push_str(&format!(
        "export const TAG_FLAGS: readonly string[] = [\n{}];\n",
        flags.concat()
    ));
    text
}

#[test]
fn the_page_has_the_same_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/markdown/hidden.ts");
    #[expect(
        clippy::disallowed_methods,
        reason = "how a developer updates the file"
    )]
    if std::env::var_os("UPDATE_HIDDEN").is_some() {
        std::fs::write(&path, script()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), script());
}

/// Runs over the cases that `web/test/hidden.test.ts` runs over in the page.
#[test]
fn hidden_characters_are_shown_as_in_the_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hidden-characters.json");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(cases.len() > 60, "{} cases", cases.len());
    for case in &cases {
        let field = |name: &str| case[name].as_str().unwrap();
        let text = field("text");
        assert_eq!(write_out(text), field("exact"), "{case}");
        assert_eq!(write_out_line(text), field("exact_line"), "{case}");
        assert_eq!(write_out_for_terminal(text), field("prose"), "{case}");
    }
}
