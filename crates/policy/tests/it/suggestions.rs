//! Tests the rules that are suggested for a lasting grant.

use std::path::Path;

use sortie_policy::{Call, Compiled, suggest};

use crate::stage::{all_names, policy, tool, with_call};

fn check(call: &str, expected: &[&str]) {
    let found = with_call(call, true, suggest);
    assert_eq!(found, expected, "{call}");
    // Each suggested rule really waives the approval request.
    for rule in &found {
        let compiled = Compiled::new(&policy(&[], "default"), std::slice::from_ref(rule));
        let decision = with_call(call, true, |call| compiled.decide(call).decision);
        let dangerous = found.len() == 1;
        assert!(decision.as_str() == "allow" || dangerous, "{call}: {rule}");
    }
}

#[test]
fn narrowest_rule_is_suggested_first() {
    check(
        "exec git commit -m 'a b'",
        &["exec(git commit -m 'a b')", "exec(git commit *)"],
    );
    check("exec ls", &["exec(ls)", "exec(ls *)"]);
    check(
        "exec npm run build",
        &["exec(npm run build)", "exec(npm run build *)"],
    );
    // The command runs another command inside it, which one rule cannot name.
    check("exec git -C x status", &[]);
    check("exec ls > out", &[]);
    check(
        "exec grep 'a*b' \"it's\"",
        &[r"exec(grep 'a*b' 'it'\''s')", "exec(grep *)"],
    );
    check("exec git add . && git commit", &[]);
    check(
        "write_file src/main.rs",
        &[
            "write_file(src/main.rs)",
            "write_file(src/**)",
            "write_file",
        ],
    );
    check("write_file a.txt", &["write_file(a.txt)", "write_file"]);
    check(
        "write_file a[1]{x}.txt",
        &["write_file(a[[]1[]][{]x[}].txt)", "write_file"],
    );
    check("grep src", &["grep(src/**)", "grep"]);
    check("grep", &["grep"]);
    check(
        "web_fetch https://User@Example.com:1/x",
        &["web_fetch(domain:example.com)"],
    );
    check("mcp__srv__get", &["mcp__srv__get"]);
}

#[test]
fn programs_that_run_anything_get_only_exact_rules() {
    check("exec python x.py", &["exec(python x.py)"]);
    check("exec bash build.sh", &["exec(bash build.sh)"]);
    check("exec ./run.sh a", &["exec(./run.sh a)"]);
    check("exec rm x", &["exec(rm x)"]);
    check("exec uv run x", &["exec(uv run x)"]);
    check("exec git push --force", &["exec(git push --force)"]);
    for call in [
        "exec env X=1 ls",
        "exec sudo ls",
        "exec bash -c 'ls'",
        "exec echo $HOME",
        "exec $program",
        "exec echo 'open",
        "exec python x.py && ls",
        "write_file ../x",
        "web_fetch nonsense",
    ] {
        check(call, &[]);
    }
}

#[test]
fn a_pattern_in_the_name_of_an_agent_is_not_suggested() {
    let suggested = |agent: &str| {
        suggest(&Call {
            tool: &tool("task"),
            granted: &all_names(),
            arguments: &serde_json::json!({ "subagent_type": agent }),
            workspace: Path::new("/w"),
            sandboxed: true,
        })
    };
    assert_eq!(suggested("code"), ["group:spawn(code)"]);
    assert_eq!(suggested("*"), [] as [&str; 0]);
    assert_eq!(suggested("co*"), [] as [&str; 0]);
}
