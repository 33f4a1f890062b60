//! Tests the opinions of every layer.

use sortie_policy::Compiled;

use crate::stage::{policy, shown, strings, with_call};

fn check(layers: &[&str], grants: &str, call: &str, expected: &[&str]) {
    let compiled = Compiled::new(&policy(layers, "default"), &strings(grants));
    let explanation = with_call(call, true, |call| compiled.explain(call));
    let decided = with_call(call, true, |call| compiled.decide(call));
    assert_eq!(explanation.ruling, decided);
    let mut lines = vec![shown(&explanation.ruling)];
    for layer in &explanation.layers {
        let opinions = layer.opinions.iter().map(|opinion| {
            let rule = opinion.rule.as_deref().unwrap_or("-");
            format!("{} {rule}", opinion.view.as_str())
        });
        let opinions: Vec<String> = opinions.collect();
        lines.push(format!("{}: {}", layer.layer, opinions.join("; ")));
    }
    assert_eq!(lines, expected, "{call}");
}

#[test]
fn explanation_contains_every_layer() {
    let layers = &[
        "global: approve exec(git *); ask exec(git push *)",
        "agent: allow read_file, exec(git *)",
        "subagent: deny exec; except exec(git status)",
        "group: deny write_file",
        "spawn: allow read_file; approve *",
    ];
    check(
        layers,
        "exec",
        "exec git status",
        &[
            "deny spawn",
            "global: approves exec(git *)",
            "agent: allows exec(git *)",
            "group: ",
            "subagent: lifts exec(git status)",
            "spawn: leaves out -",
            "session: approves exec",
        ],
    );
    check(
        layers,
        "",
        "exec git push",
        &[
            "deny subagent exec",
            "global: asks exec(git push *); approves exec(git *)",
            "agent: allows exec(git *)",
            "group: ",
            "subagent: denies exec",
            "spawn: leaves out -",
        ],
    );
    check(&["global: deny x("], "", "exec ls", &["deny global x("]);
}
