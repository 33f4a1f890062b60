//! Tests each step of a decision, and their precedence.

use std::path::Path;

use serde_json::json;
use sortie_core::policy::{Layer, Mode, Policy, PolicyLayer};
use sortie_core::ports::tool::Touches;
use sortie_policy::{Call, Compiled, ToolFacts};

use crate::stage::{decide, policy, shown, with_call};

fn check(layers: &[&str], settings: &str, call: &str, expected: &str) {
    let ruling = decide(layers, settings, "", call);
    assert_eq!(
        shown(&ruling),
        expected,
        "{layers:?} [{settings}] {call}: {}",
        ruling.why
    );
}

fn check_granted(layers: &[&str], settings: &str, grants: &str, call: &str, expected: &str) {
    let ruling = decide(layers, settings, grants, call);
    assert_eq!(
        shown(&ruling),
        expected,
        "{layers:?} [{settings}] +{grants} {call}"
    );
}

#[test]
fn unparsable_rule_denies_everything_and_is_named() {
    for bad in [
        "group:all",
        "exec(git",
        "read_file, x)",
        "todo_write(x)",
        "write_file(../x)",
    ] {
        let text = format!("provider: deny {bad}");
        let ruling = decide(&["global: approve *", &text], "yolo", "*", "todo_write");
        assert_eq!(ruling.decision.as_str(), "deny", "{bad}");
        assert_eq!(ruling.layer.as_str(), "provider", "{bad}");
        assert!(
            ruling.why.contains("the provider rules cannot be parsed"),
            "{}",
            ruling.why
        );
    }
    let compiled = Compiled::new(&policy(&["agent: allow exec()"], "default"), &[]);
    let why = "the rule `exec()` of the agent rules cannot be parsed, so the policy denies everything: the parentheses are empty; omit them to match every call";
    assert_eq!(compiled.unreadable(), Some(why));
    // A grant only waives approval requests: without it the run may do less, never more.
    check_granted(&[], "default", "group:all", "exec ls", "ask mode");
}

#[test]
fn a_policy_has_a_bounded_number_of_rules() {
    let mut policy = policy(&["global:"], "yolo");
    policy.layers[0].deny = vec!["x".to_owned(); sortie_policy::MAX_RULES];
    assert_eq!(Compiled::new(&policy, &[]).unreadable(), None);
    policy.layers[0].deny.push("x".to_owned());
    assert!(Compiled::new(&policy, &[]).unreadable().is_some());
}

#[test]
fn tool_that_was_not_granted_is_denied() {
    let compiled = Compiled::new(&policy(&["global: approve *"], "yolo"), &[]);
    let ruling = with_call("exec ls", true, |call| {
        compiled.decide(&Call {
            granted: &[],
            ..*call
        })
    });
    assert_eq!(shown(&ruling), "deny grant");
}

#[test]
fn deny_wins_in_any_order() {
    check(
        &["global: deny exec"],
        "yolo",
        "exec ls",
        "deny global exec",
    );
    check(
        &["global: deny Bash"],
        "yolo",
        "exec ls",
        "deny global Bash",
    );
    check(&["global: deny EX*"], "yolo", "exec ls", "deny global EX*");
    check(
        &["global: allow exec; deny exec; approve exec"],
        "yolo",
        "exec ls",
        "deny global exec",
    );
    check(
        &["spawn: deny exec", "global: approve exec"],
        "yolo",
        "exec ls",
        "deny spawn exec",
    );
    check(
        &["global: deny group:exec"],
        "yolo",
        "exec ls",
        "deny global group:exec",
    );
    check(
        &["global: deny group:fs"],
        "yolo",
        "write_file a",
        "deny global group:fs",
    );
    check(
        &["global: deny group:fs"],
        "yolo",
        "read_file a",
        "deny global group:fs",
    );
    check(
        &["global: deny group:read"],
        "yolo",
        "write_file a",
        "allow mode",
    );
    check(
        &["global: deny group:write"],
        "yolo",
        "read_file a",
        "allow mode",
    );
    check(
        &["global: deny group:net"],
        "yolo",
        "web_fetch https://a.b",
        "deny global group:net",
    );
    check(
        &["global: deny group:spawn"],
        "yolo",
        "task",
        "deny global group:spawn",
    );
    check(
        &["global: deny group:mcp"],
        "yolo",
        "mcp__srv__get",
        "deny global group:mcp",
    );
    check(
        &["global: deny mcp__srv__*"],
        "yolo",
        "mcp__srv__get",
        "deny global mcp__srv__*",
    );
    check(
        &["global: deny mcp__other__*"],
        "yolo",
        "mcp__srv__get",
        "allow mode",
    );
    // The first layer in the fixed order is named, whatever their order in the policy.
    check(
        &["spawn: deny *", "global: deny exec"],
        "yolo",
        "exec ls",
        "deny global exec",
    );
}

#[test]
fn an_exception_lifts_only_its_own_layer() {
    let lifted = "subagent: deny memory_*; except memory_load";
    check(&[lifted], "default", "memory_load", "allow mode");
    check(
        &[lifted, "global: deny memory_*"],
        "default",
        "memory_load",
        "deny global memory_*",
    );
    let command = "subagent: deny exec(git *); except exec(git status)";
    check(&[command], "yolo", "exec git status", "allow mode");
    check(
        &[command],
        "yolo",
        "exec git log",
        "deny subagent exec(git *)",
    );
    check(
        &[command],
        "yolo",
        "exec git status; git log",
        "deny subagent exec(git *)",
    );
}

#[test]
fn allow_list_denies_tools_that_it_does_not_name() {
    check(&["agent: allow"], "yolo", "todo_write", "deny agent");
    check(
        &["agent: allow read_file"],
        "yolo",
        "read_file a",
        "allow mode",
    );
    check(
        &["agent: allow read_file"],
        "yolo",
        "grep src",
        "deny agent",
    );
    check(
        &["agent: allow *", "group: allow todowrite"],
        "yolo",
        "exec ls",
        "deny group",
    );
    check(
        &["agent: allow group:read"],
        "default",
        "grep src",
        "allow mode",
    );
    let one_of_two = &["agent: allow exec(git *)", "spawn: allow exec(cargo *)"];
    check(one_of_two, "yolo", "exec git status", "deny spawn");
    check(one_of_two, "yolo", "exec cargo test", "deny agent");
    let both = &["agent: allow exec(git *), bash(cargo *)"];
    check(both, "yolo", "exec git status && cargo test", "allow mode");
    check(both, "yolo", "exec git status && curl a.b", "deny agent");
}

#[test]
fn rules_match_on_arguments() {
    let files = &["agent: allow write_file(src/**), read_file; deny read_file(.env)"];
    check(files, "yolo", "write_file src/a/b.rs", "allow mode");
    check(files, "yolo", "write_file ./src//a/../b.rs", "allow mode");
    check(
        files,
        "yolo",
        "write_file /home/ada/shop/src/b.rs",
        "allow mode",
    );
    check(files, "yolo", "write_file src/../Cargo.toml", "deny agent");
    check(
        files,
        "yolo",
        "write_file src/../../shop/src/a",
        "deny agent",
    );
    check(
        files,
        "yolo",
        "write_file /home/ada/shopping/src/a",
        "deny agent",
    );
    check(files, "yolo", "write_file srcs/a", "deny agent");
    check(files, "default", "read_file README.md", "allow mode");
    check(
        files,
        "default",
        "read_file ./x/../.env",
        "deny agent read_file(.env)",
    );
    check(
        files,
        "default",
        "read_file .ENV",
        "deny agent read_file(.env)",
    );
    check(
        files,
        "default",
        "read_file ../elsewhere",
        "deny agent read_file(.env)",
    );
    check(
        &["agent: allow grep(src/**)"],
        "default",
        "grep src",
        "allow mode",
    );
    check(
        &["agent: allow grep(src/**)"],
        "default",
        "grep src/a",
        "allow mode",
    );
    check(
        &["agent: allow grep(src/**)"],
        "default",
        "grep",
        "deny agent",
    );
    check(
        &["agent: allow group:fs(src/**)"],
        "default",
        "read_file src/a",
        "allow mode",
    );
    let hosts = &["agent: allow web_fetch(domain:example.com), web_fetch(domain:*.rs)"];
    check(
        hosts,
        "yolo",
        "web_fetch https://example.com/a",
        "allow mode",
    );
    check(hosts, "yolo", "web_fetch https://docs.rs", "allow mode");
    check(
        hosts,
        "yolo",
        "web_fetch https://example.com.evil.org",
        "deny agent",
    );
    check(
        hosts,
        "yolo",
        "web_fetch https://example.com@evil.org",
        "deny agent",
    );
    check(hosts, "yolo", "web_fetch example.com", "deny agent");
    let denied = &["global: deny web_fetch(domain:evil.org)"];
    check(
        denied,
        "yolo",
        "web_fetch nonsense",
        "deny global web_fetch(domain:evil.org)",
    );
    check(denied, "yolo", "web_fetch https://a.org", "allow mode");
    let commands = &["global: deny exec(curl *)"];
    check(commands, "yolo", "exec git status", "allow mode");
    check(
        commands,
        "yolo",
        "exec env X=1 /usr/bin/curl a.b",
        "deny global exec(curl *)",
    );
    check(
        commands,
        "yolo",
        "exec echo $(c'url' a.b)",
        "deny global exec(curl *)",
    );
    check(
        commands,
        "yolo",
        "exec $program a.b",
        "deny global exec(curl *)",
    );
    check(
        commands,
        "yolo",
        "exec echo 'open",
        "deny global exec(curl *)",
    );
}

#[test]
fn read_only_runs_cannot_change_anything() {
    for (settings, layer) in [("read-only yolo", "agent"), ("plan", "mode")] {
        check(
            &["global: approve *"],
            settings,
            "write_file a",
            &format!("deny {layer}"),
        );
        check(
            &["global: approve *"],
            settings,
            "mcp__srv__get",
            &format!("deny {layer}"),
        );
        check(&["global: approve *"], settings, "exec ls", "deny sandbox");
        check(
            &[],
            &format!("{settings} sandboxed"),
            "exec ls",
            "allow mode",
        );
        check(&[], settings, "read_file a", "allow mode");
        check(&[], settings, "task", "allow mode");
    }
    check(&[], "read-only default sandboxed", "exec ls", "allow mode");
    check(
        &["global: ask exec"],
        "read-only default sandboxed",
        "exec ls",
        "ask global exec",
    );
    check(
        &[],
        "read-only default",
        "web_fetch https://a.b",
        "ask mode",
    );
    check(&[], "plan", "web_fetch https://a.b", "deny mode");
    check(
        &["global: approve group:net"],
        "plan",
        "web_fetch https://a.b",
        "allow global group:net",
    );
}

#[test]
fn dangerous_commands_need_approval_or_are_denied() {
    let call = "exec git push --force";
    for (settings, expected) in [
        ("default", "ask danger"),
        ("accept-edits", "ask danger"),
        ("yolo", "deny danger"),
        ("dont-ask", "deny danger"),
        ("plan sandboxed", "deny danger"),
        ("yolo dangerous", "allow mode"),
        ("default dangerous", "ask mode"),
    ] {
        check(&[], settings, call, expected);
    }
    check(&["global: approve exec"], "yolo", call, "deny danger");
    check(
        &["global: approve exec(git push *)"],
        "default",
        call,
        "ask danger",
    );
    let exact = &["global: approve exec(git push --force)"];
    check(
        exact,
        "default",
        call,
        "allow global exec(git push --force)",
    );
    check(
        exact,
        "dont-ask",
        call,
        "allow global exec(git push --force)",
    );
    check(exact, "default", "exec git push --force; ls", "ask danger");
    check_granted(&[], "default", "exec", call, "ask danger");
    let granted = "exec(git push --force)";
    check_granted(
        &[],
        "default",
        granted,
        call,
        "allow session exec(git push --force)",
    );
    check(
        &["spawn: approve exec(git push --force)"],
        "default",
        call,
        "ask danger",
    );
}

#[test]
fn ask_rules_require_and_approve_rules_waive_approval() {
    let ask = &["group: ask write_file(.github/**), read_file"];
    check(
        ask,
        "accept-edits",
        "write_file .github/ci.yml",
        "ask group write_file(.github/**)",
    );
    check(ask, "accept-edits", "write_file src/a", "allow mode");
    check(ask, "default", "read_file a", "ask group read_file");
    check(ask, "dont-ask", "read_file a", "deny mode read_file");
    check(ask, "plan", "read_file a", "deny mode read_file");
    check(ask, "yolo", "read_file a", "allow mode read_file");
    let both = &["global: ask read_file; approve read_file"];
    check(both, "default", "read_file a", "ask global read_file");
    let approve = &["provider: approve exec(git *), mcp__srv__*"];
    check(
        approve,
        "dont-ask",
        "exec git log",
        "allow provider exec(git *)",
    );
    check(approve, "default", "exec git log; ls", "ask mode");
    check(
        approve,
        "default",
        "mcp__srv__get",
        "allow provider mcp__srv__*",
    );
    check(&["spawn: approve exec"], "default", "exec ls", "ask mode");
    check(&["parent: approve exec"], "default", "exec ls", "ask mode");
    check_granted(
        &[],
        "default",
        "exec(ls)",
        "exec ls",
        "allow session exec(ls)",
    );
    check_granted(&[], "default", "exec(ls)", "exec ls -l", "ask mode");
    let spread = &[
        "global: approve exec(git *)",
        "agent: approve exec(cargo *)",
    ];
    let jointly = "allow global exec(git *), exec(cargo *)";
    check(spread, "default", "exec git pull && cargo test", jointly);
    let with_session = "allow session exec(git *), exec(ls)";
    let one = &["global: approve exec(git *)"];
    check_granted(
        one,
        "default",
        "exec(ls)",
        "exec git pull && ls",
        with_session,
    );
}

#[test]
fn mode_decides_if_no_rule_applies() {
    //                        plan    dont-ask default accept  yolo
    for (call, expected) in [
        ("todo_write", ["allow", "allow", "allow", "allow", "allow"]),
        ("read_file a", ["allow", "allow", "allow", "allow", "allow"]),
        ("task", ["allow", "allow", "allow", "allow", "allow"]),
        ("write_file a", ["deny", "deny", "ask", "allow", "allow"]),
        ("exec ls", ["deny", "deny", "ask", "ask", "allow"]),
        (
            "web_fetch https://a.b",
            ["deny", "deny", "ask", "ask", "allow"],
        ),
        ("mcp__srv__get", ["deny", "deny", "ask", "ask", "allow"]),
    ] {
        for (mode, expected) in Mode::ALL.iter().zip(expected) {
            let ruling = decide(&[], mode.as_str(), "", call);
            assert_eq!(ruling.decision.as_str(), expected, "{call} in {mode}");
        }
    }
}

#[test]
fn denial_names_layer_and_reason() {
    let ruling = decide(&["agent: allow read_file, grep"], "default", "", "exec ls");
    assert_eq!(ruling.why, "the agent rules allows only grep, read_file");
    let ruling = decide(&[], "yolo", "", "exec rm -rf /");
    assert!(
        ruling.why.starts_with("`rm -rf /`: it deletes "),
        "{}",
        ruling.why
    );
}

#[test]
fn starting_an_agent_that_is_not_free_is_decided_by_the_mode() {
    let granted = ["task".to_owned(), "subagents".to_owned()];
    let decide = |mode: Mode, grants: &[&str], name: &str, arguments: serde_json::Value| {
        let policy = Policy {
            mode,
            free_agents: Some(vec!["explore".to_owned()]),
            ..Policy::default()
        };
        let grants: Vec<String> = grants.iter().map(|grant| (*grant).to_owned()).collect();
        let tool = ToolFacts {
            name: name.to_owned(),
            spellings: Vec::new(),
            touches: Touches::Runs,
        };
        let call = Call {
            tool: &tool,
            granted: &granted,
            arguments: &arguments,
            workspace: Path::new("/w"),
            sandboxed: true,
        };
        let ruling = shown(&Compiled::new(&policy, &grants).decide(&call));
        (ruling, sortie_policy::suggest(&call))
    };
    let ruling = |mode, grants: &[&str], agent: &str| {
        decide(mode, grants, "task", json!({"subagent_type": agent})).0
    };
    assert_eq!(ruling(Mode::Default, &[], "code"), "ask mode");
    assert_eq!(ruling(Mode::AcceptEdits, &[], "Code"), "ask mode");
    assert_eq!(ruling(Mode::DontAsk, &[], "code"), "deny mode");
    assert_eq!(ruling(Mode::Yolo, &[], "code"), "allow mode");
    assert_eq!(ruling(Mode::Default, &[], " Explore "), "allow mode");
    for grant in ["group:spawn(code)", "task(CODE)", "task"] {
        let granted = ruling(Mode::Default, &[grant], "code");
        assert_eq!(granted, format!("allow session {grant}"));
        assert!(ruling(Mode::Default, &["task(code)"], "general").starts_with("ask"));
    }
    // Without a name the default agent is meant.
    let (unnamed, lasting) = decide(Mode::Default, &[], "task", json!({}));
    assert_eq!(
        (unnamed.as_str(), &lasting[..]),
        ("ask mode", &["group:spawn(general)".to_owned()][..])
    );
    // Managing subagents starts none.
    assert_eq!(
        decide(Mode::Default, &[], "subagents", json!({})).0,
        "allow mode"
    );
}

#[test]
fn rules_about_tools_that_start_a_subagent_restrict_the_tool_that_starts_several() {
    let tool = |name: &str| ToolFacts {
        name: name.to_owned(),
        spellings: Vec::new(),
        touches: Touches::Runs,
    };
    let (fan_out, subagents) = (tool("fan_out"), tool("subagents"));
    let granted = ["fan_out".to_owned(), "subagents".to_owned()];
    let code = json!({ "agent": "code" });
    let decided = |policy: &Policy, tool: &ToolFacts, arguments: &serde_json::Value| {
        let call = Call {
            tool,
            granted: &granted,
            arguments,
            workspace: Path::new("/w"),
            sandboxed: true,
        };
        shown(&Compiled::new(policy, &[]).decide(&call))
    };
    for (rule, restricts) in [
        ("task", true),
        ("spawn_subagent", true),
        ("spawn_*", true),
        ("task(code)", true),
        ("task(explore)", false),
        ("exec", false),
    ] {
        let denying = Policy {
            mode: Mode::Yolo,
            layers: vec![PolicyLayer {
                deny: vec![rule.to_owned()],
                ..PolicyLayer::new(Layer::Global, "test")
            }],
            ..Policy::default()
        };
        let ruling = decided(&denying, &fan_out, &code);
        assert_eq!(ruling.starts_with("deny"), restricts, "{rule}: {ruling}");
        let ruling = decided(&denying, &subagents, &json!({}));
        assert_eq!(ruling, "allow mode", "{rule}");
        let asking = Policy {
            mode: Mode::Default,
            layers: vec![PolicyLayer {
                ask: vec![rule.to_owned()],
                ..PolicyLayer::new(Layer::Global, "test")
            }],
            ..denying
        };
        let ruling = decided(&asking, &fan_out, &code);
        assert_eq!(ruling.starts_with("ask"), restricts, "{rule}: {ruling}");
    }
}
