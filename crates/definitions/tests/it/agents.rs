//! Tests of the agent files of each system, and of their precedence.

use sortie_core::agent::AgentSource;
use sortie_definitions::{LoadedAgent, Verdict};

use crate::support::World;

/// Writes an agent as a few lines that a reader can compare with its file.
fn render(agent: &LoadedAgent) -> String {
    let LoadedAgent {
        definition,
        ask,
        mode,
        timeout,
        budget,
        skills,
        mcp_servers,
        isolation,
        background,
        thinking,
        temperature,
        hooks,
        offered,
        unknown,
        problems,
        ..
    } = agent;
    let mut lines = vec![
        format!("{}: {}", definition.name, definition.when_to_use),
        format!("prompt {:?}", definition.prompt),
        format!(
            "model {:?} thinking {thinking:?} temperature {temperature:?}",
            definition.model
        ),
        format!(
            "allow {:?} deny {:?} ask {ask:?}",
            definition.tools.allow, definition.tools.deny
        ),
        format!(
            "mode {mode:?} read_only {} isolation {isolation:?}",
            definition.read_only
        ),
        format!(
            "turns {:?} timeout {timeout:?} tokens {:?} background {background:?}",
            definition.max_iterations, budget.tokens
        ),
        format!(
            "skills {skills:?} servers {mcp_servers:?} hooks {}",
            hooks.is_some()
        ),
        format!(
            "color {:?} offered {offered} unknown {unknown:?}",
            definition.color
        ),
    ];
    lines.extend(problems.iter().map(|problem| {
        let line = problem
            .line
            .map(|line| line.to_string())
            .unwrap_or_default();
        format!("{:?} {line}: {}", problem.severity, problem.text)
    }));
    lines.join("\n")
}

fn load(file: &str, text: &str) -> String {
    let world = World::with(&[(&format!("project/.claude/agents/{file}"), text)]);
    let files = world.agents(true);
    match files.agents.as_slice() {
        [agent] => render(agent),
        _ => world.shown(&files.report()),
    }
}

#[test]
fn claude_code() {
    insta::assert_snapshot!(load("x.md", include_str!("fixtures/claude.md")), @r#"
    code-reviewer: Use this agent when code was written. Examples: <example>user: "review my change" assistant: "I'll send the code-reviewer"</example>
    prompt "You are a careful reviewer.\n\n- Read the diff first."
    model Inherit thinking Some("high") temperature None
    allow Some(["read_file", "grep", "glob", "exec(git diff:*, git log:*)", "mcp__github__*"]) deny ["web_fetch"] ask []
    mode Some(AcceptEdits) read_only false isolation Some(Worktree)
    turns Some(12) timeout None tokens None background Some(true)
    skills ["pdf"] servers [Named("github"), Inline { name: "local", config: Object {"command": String("./server.sh"), "type": String("stdio")} }] hooks true
    color Some("purple") offered true unknown []
    Note 3: this is not valid YAML and was read as plain text; put the value in quotes
    Warning 4: there is no tool "NotebookEdit" here; it is left out
    Warning 6: the model "sonnet" is a size name of one vendor; the parent's model is used
    Note 22: `memory` has no meaning here
    "#);
}

#[test]
fn opencode() {
    insta::assert_snapshot!(load("docs-writer.md", include_str!("fixtures/opencode.md")), @r##"
    docs-writer: Writes documentation, never code
    prompt "You write documentation."
    model Named("anthropic/claude-sonnet-4-5") thinking None temperature Some(0.2)
    allow None deny ["exec", "exec(git push *)", "web_fetch"] ask ["edit_file", "write_file"]
    mode None read_only false isolation None
    turns Some(20) timeout None tokens None background None
    skills [] servers [] hooks false
    color Some("#38a3ee") offered true unknown ["reasoningSummary"]
    Note 10: `exec: allow` approves nothing here: the mode and policy decide
    Note 17: `top_p` has no meaning here
    Note 18: `reasoningSummary` is not known
    "##);
}

#[test]
fn gemini() {
    insta::assert_snapshot!(load("x.md", include_str!("fixtures/gemini.md")), @r#"
    security_auditor: Finds holes in code.
    prompt "You look for holes."
    model Inherit thinking None temperature Some(0.1)
    allow Some(["read_file", "grep", "mcp__scanner__*"]) deny [] ask []
    mode None read_only false isolation None
    turns Some(30) timeout Some(600s) tokens None background None
    skills [] servers [Inline { name: "scanner", config: Object {"command": String("scan")} }] hooks false
    color None offered true unknown []
    Note 4: `display_name` has no meaning here
    "#);
}

#[test]
fn gemini_remote() {
    insta::assert_snapshot!(load("x.md", include_str!("fixtures/remote.md")), @r#"
    refused  -  project/.claude/agents/x.md
             - line 2: a remote agent cannot be defined in a file
             - it has no text: the prompt contains only the task
    "#);
}

#[test]
fn qwen() {
    insta::assert_snapshot!(load("x.md", include_str!("fixtures/qwen.md")), @r#"
    测试员: 编写并运行测试
    prompt "你负责测试。"
    model Small thinking None temperature None
    allow Some(["read_file", "write_file", "exec"]) deny ["exec(rm *)"] ask []
    mode Some(AcceptEdits) read_only false isolation None
    turns Some(8) timeout Some(300s) tokens None background None
    skills [] servers [] hooks false
    color None offered true unknown []
    "#);
}

#[test]
fn kimi() {
    insta::assert_snapshot!(load("historian.md", include_str!("fixtures/kimi.md")), @r#"
    historian: For questions about the history of the repository
    prompt "You know git well."
    model Inherit thinking None temperature None
    allow Some(["exec", "grep"]) deny [] ask []
    mode None read_only false isolation None
    turns None timeout None tokens None background None
    skills [] servers [] hooks false
    color None offered true unknown []
    Note 4: `override` has no meaning here
    Note 5: `subagents` has no meaning here
    "#);
}

#[test]
fn an_untrusted_folder_loses_what_could_widen() {
    let text = include_str!("fixtures/claude.md")
        .replace("maxTurns: 12", "maxTurns: 500")
        .replace("isolation: worktree", "isolation: none")
        .replace("model: sonnet", "model: script:evil.json");
    let world = World::with(&[("project/.claude/agents/x.md", &text)]);
    let files = world.agents(false);
    insta::assert_snapshot!(render(&files.agents[0]), @r#"
    code-reviewer: Use this agent when code was written. Examples: <example>user: "review my change" assistant: "I'll send the code-reviewer"</example>
    prompt "You are a careful reviewer.\n\n- Read the diff first."
    model Inherit thinking Some("high") temperature None
    allow Some(["read_file", "grep", "glob", "exec(git diff:*, git log:*)", "mcp__github__*"]) deny ["web_fetch"] ask []
    mode Some(Default) read_only false isolation None
    turns Some(15) timeout None tokens None background Some(true)
    skills ["pdf"] servers [] hooks false
    color Some("purple") offered true unknown []
    Note 3: this is not valid YAML and was read as plain text; put the value in quotes
    Warning 4: there is no tool "NotebookEdit" here; it is left out
    Warning 6: the model "script:evil.json" is not configured, and the folder is not trusted; the parent's model is used
    Note 22: `memory` has no meaning here
    Warning 16: `hooks` are left out: the folder is not trusted
    Warning 11: `mcpServers` are left out: the folder is not trusted
    Warning 7: every change needs approval: the folder is not trusted
    Warning 25: `isolation: none` is left out: the folder is not trusted
    Warning 8: its limits are no higher than the configured ones: the folder is not trusted
    "#);
}

#[test]
fn fork_of_the_context_is_read_under_both_names_and_needs_trust() {
    let check = |key: &str, expected: Option<&str>| {
        let text = format!("---\ndescription: d\n{key}\n---\nbody");
        let world = World::with(&[("project/.sortie/agents/x.md", &text)]);
        let found = |trusted| world.agents(trusted).agents[0].fork;
        let read = found(true).map(|fork| fork.to_string());
        assert_eq!(read.as_deref(), expected, "{key}");
        assert_eq!(found(false), None, "{key}");
    };
    check("color: red", None);
    check("fork: last:20", Some("last:20"));
    check("fork: cached", Some("cached"));
    check("forkContext: true", Some("last:1000"));
    check("forkContext: false", Some("clean"));
    check("fork: everything", None);
}

#[test]
fn tools_fail_closed() {
    let check = |keys: &str, expected: &str| {
        let text = format!("---\ndescription: d\n{keys}\n---\nbody");
        let world = World::with(&[("home/.sortie/agents/x.md", &text)]);
        let files = world.agents(true);
        let found = match files.agents.as_slice() {
            [agent] => {
                let tools = &agent.definition.tools;
                let allow = tools.allow.as_ref().map(|allow| allow.join(" "));
                format!(
                    "{} / {}",
                    allow.unwrap_or("all".into()),
                    tools.deny.join(" ")
                )
            }
            _ => files.files[0].problems.last().unwrap().text.clone(),
        };
        assert_eq!(found, expected, "{keys}");
    };
    check("color: red", "all / ");
    check("tools: '*'", "all / ");
    check("tools: Read, Grep", "read_file grep / ");
    check("tools: Read, Unheard, Grep", "read_file grep / ");
    check(
        "tools: Unheard",
        "no tool of `tools` can be used here, so the agent would have none",
    );
    for empty in ["tools:", "tools: []", "tools: ''"] {
        check(
            empty,
            "`tools` names no tool; leave the key out for every tool that policy allows",
        );
    }
    check(
        "tools: [[Read]]",
        "`tools` must be a list of tools or text with commas",
    );
    check(
        "tools: Read\ndisallowedTools: Read",
        "every tool that it could have is denied, so it has none",
    );
    check(
        "disallowedTools: '*'",
        "every tool that it could have is denied, so it has none",
    );
    check(
        "tools: Read, Bash\ndisallowedTools: Bash",
        "read_file exec / exec",
    );
    check("disallowedTools: Bash(rm", "all / exec");
    check("disallowedTools: Read(/etc/**)", "all / read_file");
    check(
        "disallowedTools: Read(secrets/**)",
        "all / read_file(secrets/**)",
    );
    check(
        "disallowedTools: Bash(rm *, mv *)",
        "all / exec(rm *, mv *) exec(rm *) exec(mv *)",
    );
    check("disallowedTools: Agent(plan)", "all / task");
    check("tools: Read, Agent(plan)", "read_file / ");
    check(
        "disallowedTools: 'Foo Bar'",
        "there is no tool \"Foo Bar\" here",
    );
    check(
        "permission: {read: {'/etc/*': deny, '*.env': deny}}",
        "all / read_file(*.env) read_file",
    );
    check("disallowedTools: Later, mcp__*", "all / later mcp__*");
    check(
        "disallowedTools: {a: b}",
        "`disallowedTools` must be a list of tools or text with commas",
    );
    check(
        "disallowedTools: Bash\ndisallowed-tools: Read",
        "`disallowed-tools` and `disallowedTools` are two spellings of one key; keep one of them",
    );
    check("tools: {bash: false, write: true}", "all / exec");
    check("tools: {'*': false, read: true}", "read_file / ");
    check(
        "permission: {'*': deny, read: allow, grep: ask}",
        "grep read_file / ",
    );
    check(
        "permission: deny",
        "`permission` denies every tool, so the agent would have none",
    );
    check(
        "permission: {edit: deny, bash: {'*': deny, 'git *': allow}}",
        "all / exec edit_file write_file",
    );
    check("permission: {bash: perhaps}", "all / exec");
}

#[test]
fn files_that_are_no_agents_are_reported() {
    let check = |file: &str, text: &str, verdict: Verdict, reason: &str| {
        let world = World::with(&[(&format!("project/.claude/agents/{file}"), text)]);
        let files = world.agents(true);
        let check = &files.files[0];
        assert_eq!(check.verdict, verdict, "{text}");
        let reasons: Vec<&str> = check.problems.iter().map(|p| p.text.as_str()).collect();
        assert!(reasons.join(" ").contains(reason), "{reasons:?}");
    };
    check(
        "README.md",
        "# Our agents",
        Verdict::Skipped,
        "no front matter",
    );
    check(
        "x.md",
        "---\nname: x\n---\nb",
        Verdict::Refused,
        "`description` is missing",
    );
    check(
        "x.md",
        "---\nname: -x\ndescription: d\n---\nb",
        Verdict::Refused,
        "is not a valid agent name",
    );
    check(
        "x.md",
        "---\nname: a:b\ndescription: d\n---\nb",
        Verdict::Refused,
        "is not a valid agent name",
    );
    check(
        "a b.md",
        "---\ndescription: d\n---\nb",
        Verdict::Refused,
        "is not a valid agent name",
    );
    check("x.md", "---\nname: x\n", Verdict::Refused, "never closed");
    check(
        "x.md",
        "---\nname: [x\n---\n",
        Verdict::Refused,
        "cannot be read",
    );
    check(
        "x.md",
        "---\n- name: x\n---\n",
        Verdict::Refused,
        "cannot be read",
    );
    check(
        "x.md",
        "---\ndescription: d\ndisable: yes\n---\nb",
        Verdict::Skipped,
        "switched off",
    );
    check(
        "x.md",
        "---\ndescription: d\npermissionMode: plann\n---\nb",
        Verdict::Refused,
        "`permissionMode` cannot be \"plann\"",
    );
    check(
        "x.md",
        "---\ndescription: d\ndisable: perhaps\n---\nb",
        Verdict::Skipped,
        "switched off",
    );
    check(
        "x.md",
        "---\ndescription: d\nisolation: vm\n---\nb",
        Verdict::Refused,
        "`isolation`",
    );
    check(
        "x.md",
        "---\ndescription: d\nbudget: {tokens: many}\n---\nb",
        Verdict::Refused,
        "`budget.tokens` must be a number",
    );
    check(
        "x.md",
        "---\ndescription: d\nbudget: {usd: -1}\n---\nb",
        Verdict::Refused,
        "`budget.usd` must be a number",
    );
    check(
        "x.md",
        "---\ndescription: d\nmaxTurns: -1\n---\nb",
        Verdict::Changed,
        "left out",
    );
    check(
        "x.md",
        "---\ndescription: d\n---\n",
        Verdict::Changed,
        "no text",
    );
    check(
        "x.md",
        "---\ndescription: d\nfuture: 1\n---\nb",
        Verdict::Good,
        "`future` is not known",
    );
}

fn agent(description: &str) -> String {
    format!("---\nname: Helper\ndescription: {description}\n---\nbody\n")
}

#[test]
fn the_nearest_file_is_used_and_the_others_are_reported() {
    let places = [
        "project/app/.sortie/agents/a.md",
        "project/app/.claude/agents/deep/er/a.md",
        "project/.agents/agents/a.md",
        "home/.sortie/agents/a.md",
        "home/.claude/agents/a.md",
    ];
    for nearest in 0..places.len() {
        let world = World::new();
        for place in &places[nearest..] {
            world.write(place, &agent(place));
        }
        // Folders above the repository's root are not searched.
        world.write(".claude/agents/a.md", &agent("above"));
        let files = world.agents(true);
        let found: Vec<&str> = files
            .agents
            .iter()
            .map(|agent| agent.definition.when_to_use.as_str())
            .collect();
        assert_eq!(found, [places[nearest]]);
        let hidden = files
            .files
            .iter()
            .filter(|check| check.verdict == Verdict::Hidden);
        assert_eq!(hidden.count(), places.len() - nearest - 1);
    }
}

#[test]
fn a_trusted_file_takes_precedence_for_a_name() {
    let named = |name: &str| format!("---\nname: {name}\ndescription: from a file\n---\nb");
    let world = World::with(&[
        ("project/.claude/agents/1.md", &named("Explore")),
        ("project/.claude/agents/2.md", &named("mine")),
        ("project/.claude/agents/3.md", &named("fresh")),
        ("home/.claude/agents/2.md", &named("Mine")),
    ]);
    let sources = |trusted: bool| {
        let files = world.agents(trusted);
        let all = files.definitions(&[crate::support::built_in("explore")]);
        let mut lines: Vec<String> = all
            .iter()
            .map(|agent| format!("{} {:?}", agent.name, agent.source))
            .collect();
        lines.sort();
        lines.join(", ")
    };
    assert_eq!(
        sources(true),
        "Explore Project, fresh Project, mine Project"
    );
    assert_eq!(sources(false), "Mine User, explore BuiltIn, fresh Project");
    let files = world.agents(false);
    assert!(!files.is_good());
    insta::assert_snapshot!(world.shown(&files.report()), @r#"
    refused  Explore  project/.claude/agents/1.md
             - a built-in agent has this name, and the folder is not trusted
    refused  mine  project/.claude/agents/2.md
             - home/.claude/agents/2.md has this name, and the folder is not trusted
    ok       fresh  project/.claude/agents/3.md
    ok       Mine  home/.claude/agents/2.md
    "#);
    assert!(
        files
            .get("FRESH")
            .is_some_and(|agent| agent.definition.source == AgentSource::Project)
    );
}

#[test]
fn links_that_lead_out_are_refused_and_reported() {
    let world = World::with(&[
        ("outside/evil.md", &agent("evil")),
        ("project/shared/near.md", &agent("near")),
        ("project/.agents/agents/good.md", &agent("good")),
    ]);
    world.link(
        "project/.agents/agents/a-file.md",
        "../../../outside/evil.md",
    );
    world.link("project/.agents/agents/b-folder", "../../../outside");
    world.link("project/.agents/agents/c-loop", ".");
    world.link("project/app/.claude", "../../outside");
    world.link("project/.sortie", "shared-nothing");
    // A whole folder may be a link to elsewhere in the project.
    world.link("project/app/.agents/agents", "../../shared");
    let files = world.agents(true);
    insta::assert_snapshot!(world.shown(&files.report()), @r#"
    refused  -  project/app/.claude/agents
             - it leads out of project, which is not allowed
    ok       Helper  project/shared/near.md
    refused  -  project/.agents/agents/a-file.md
             - it leads out of project/.agents/agents, which is not allowed
    hidden   Helper  project/.agents/agents/good.md
             - project/shared/near.md has the same name and is nearer
    refused  -  project/.agents/agents/b-folder
             - it leads out of project/.agents/agents, which is not allowed
    "#);
    // The positive control: a reader that follows links reaches the file.
    let evil = world.path().join("project/.agents/agents/a-file.md");
    assert!(std::fs::read_to_string(evil).unwrap().contains("evil"));
}

#[test]
fn an_invalid_file_does_not_affect_others() {
    let world = World::with(&[
        ("home/.sortie/agents/a.md", "---\nname: [\n---\n"),
        ("home/.sortie/agents/b.md", &agent("b")),
        ("home/.sortie/agents/large.md", &"x".repeat(600_000)),
        ("home/.sortie/agents/notes.txt", "no agent"),
    ]);
    std::fs::write(world.path().join("home/.sortie/agents/c.md"), [0xff]).unwrap();
    let files = world.agents(true);
    assert_eq!(files.agents.len(), 1);
    insta::assert_snapshot!(world.shown(&files.report()), @r#"
    refused  -  home/.sortie/agents/a.md
             - line 2: the front matter cannot be read: unclosed bracket '['
    ok       Helper  home/.sortie/agents/b.md
    refused  -  home/.sortie/agents/c.md
             - it is not text in UTF-8
    refused  -  home/.sortie/agents/large.md
             - it is larger than 524288 bytes
    "#);
}

#[test]
fn the_digest_is_of_the_file() {
    let world = World::with(&[("home/.sortie/agents/b.md", &agent("b"))]);
    let first = world.agents(true).agents.remove(0).sha256;
    assert_eq!(first.len(), 64);
    world.write("home/.sortie/agents/b.md", &(agent("b") + "\n"));
    assert_ne!(world.agents(true).agents.remove(0).sha256, first);
}

#[test]
fn an_agent_that_only_plans_cannot_change_anything() {
    for (keys, expected) in [
        ("color: red", false),
        ("permissionMode: plan", true),
        ("readonly: true", true),
        ("readonly: off", false),
        ("readonly: perhaps", true),
    ] {
        let text = format!("---\ndescription: d\n{keys}\n---\nbody");
        let world = World::with(&[("home/.sortie/agents/x.md", &text)]);
        let agent = world.agents(true).agents.remove(0);
        assert_eq!(agent.definition.read_only, expected, "{keys}");
    }
}
