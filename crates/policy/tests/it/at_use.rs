//! Tests the objects that a call really uses, after links and redirects.

use std::path::Path;

use sortie_core::ports::tool::Permits as _;
use sortie_policy::{AtUse, Compiled};

use crate::stage::{policy, with_call};

/// Checks whether the call may use the real object, `path:` or `host:`.
fn check(layers: &[&str], mode: &str, call: &str, real: &str, expected: bool) {
    let compiled = Compiled::new(&policy(layers, mode), &[]);
    let found = with_call(call, true, |call| {
        let at_use = AtUse::new(&compiled, *call);
        match real.split_once(':').expect("path: or host:") {
            ("path", path) => at_use.path(Path::new(path)),
            (_, host) => at_use.host(host),
        }
    });
    assert_eq!(
        found.is_ok(),
        expected,
        "{layers:?} {call} -> {real}: {found:?}"
    );
}

#[test]
fn real_file_must_be_permitted_too() {
    let allow = &["agent: allow write_file(src/**)"];
    check(allow, "yolo", "write_file src/a", "path:src/a", true);
    check(allow, "yolo", "write_file src/link", "path:docs/a", false);
    check(
        &["agent: deny read_file(.env)"],
        "yolo",
        "read_file link",
        "path:.env",
        false,
    );
    check(
        &["agent: deny read_file(.env)"],
        "yolo",
        "read_file link",
        "path:x",
        true,
    );
    check(
        &["agent: deny grep(secret/**)"],
        "yolo",
        "grep",
        "path:src/a",
        true,
    );
    check(
        &["agent: deny grep(secret/**)"],
        "yolo",
        "grep",
        "path:secret/a",
        false,
    );
    check(
        &["agent: allow grep(src/**)"],
        "yolo",
        "grep src",
        "path:src/deep/a",
        true,
    );
    check(&["agent: allow grep"], "yolo", "grep", "path:", true);
}

#[test]
fn a_yes_to_one_thing_is_no_yes_to_another() {
    // The mode requires an approval.
    check(&[], "default", "write_file a", "path:a", true);
    check(&[], "default", "write_file ./x/../a", "path:a", true);
    check(&[], "default", "write_file link", "path:a", false);
    check(&[], "accept-edits", "write_file link", "path:a", true);
    // A rule approves the call, and a link leads elsewhere.
    let approve = &["global: approve write_file(src/**)"];
    check(approve, "default", "write_file src/a", "path:src/b", true);
    check(approve, "default", "write_file src/a", "path:docs/b", false);
    // A rule requires an approval: beneath the named folder, and by another rule.
    let ask = &["global: ask grep(src/**), grep(src/keys/**)"];
    check(ask, "default", "grep src", "path:src/main.rs", true);
    check(
        &["global: ask grep(src/keys/**)"],
        "default",
        "grep src",
        "path:src/keys/a",
        false,
    );
}

#[test]
fn redirect_target_must_be_permitted_too() {
    let allow = &["agent: allow web_fetch(domain:a.com)"];
    check(allow, "yolo", "web_fetch https://a.com", "host:a.com", true);
    check(
        allow,
        "yolo",
        "web_fetch https://a.com",
        "host:b.com",
        false,
    );
    check(&[], "yolo", "web_fetch https://a.com", "host:b.com", true);
    check(
        &[],
        "default",
        "web_fetch https://A.com",
        "host:a.com",
        true,
    );
    check(
        &[],
        "default",
        "web_fetch https://a.com",
        "host:b.com",
        false,
    );
    let approve = &["global: approve web_fetch(domain:a.com)"];
    check(
        approve,
        "default",
        "web_fetch https://a.com",
        "host:a.com",
        true,
    );
    check(
        approve,
        "default",
        "web_fetch https://a.com",
        "host:b.com",
        false,
    );
    check(
        approve,
        "default",
        "web_fetch https://a.com",
        "host:not a host",
        false,
    );
}

#[test]
fn denial_names_layer_and_rule() {
    let compiled = Compiled::new(&policy(&["global: deny read_file(.env)"], "default"), &[]);
    let found = with_call("read_file link", true, |call| {
        AtUse::new(&compiled, *call).path(Path::new(".env"))
    });
    let expected = "the global rules denies it (global policy, rule `read_file(.env)`)";
    assert_eq!(found, Err(expected.to_owned()));
}

#[test]
fn a_refusal_in_default_mode_names_the_target_of_a_link() {
    let compiled = Compiled::new(&policy(&[], "default"), &[]);
    let denial = |path: &str| {
        let found = with_call("write_file CLAUDE.md", true, |call| {
            AtUse::new(&compiled, *call).path(Path::new(path))
        });
        found.expect_err("refused")
    };
    let named = denial("AGENTS.md");
    assert!(
        named.contains("call the tool again with AGENTS.md itself"),
        "{named}"
    );
    // A name that could break the sentence is not shown.
    let unnamed = denial("a\nb");
    assert!(
        unnamed.contains("call the tool again with this one itself"),
        "{unnamed}"
    );
}
