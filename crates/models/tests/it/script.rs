use std::time::Duration;

use serde_json::json;
use sortie_core::event::StopReason;
use sortie_core::ports::model::{DeltaSink, Model as _, ModelRequest, NoDeltas};
use sortie_models::{Script, ScriptModel};

use crate::support::{request, run_id, shown, with_notice, with_results};

fn model(text: &str) -> ScriptModel {
    ScriptModel::new(
        text.parse::<Script>()
            .unwrap_or_else(|error| panic!("{error}\n{text}")),
    )
}

/// Returns the reply of the script, or `error:` / `retryable:` and the message.
async fn prompt(model: &ScriptModel, request: &ModelRequest) -> String {
    match model.turn(request.clone(), &NoDeltas).await {
        Ok(answer) => shown(&answer),
        Err(error) if error.fault.is_retryable() => format!("retryable: {}", error.message),
        Err(error) => format!("error: {}", error.message),
    }
}

fn child() -> ModelRequest {
    request(
        "explore",
        "find auth",
        "find the auth files",
        &["read_file", "grep"],
    )
}

/// Returns a request with two results, followed by a notice.
fn busy_child() -> ModelRequest {
    let mut request = child();
    with_results(&mut request, &["src/auth.rs:12\nsrc/user.rs:3", "second"]);
    with_notice(&mut request, "a steer from your parent");
    request
}

#[tokio::test]
async fn conditions() {
    let first = child();
    let busy = busy_child();
    for (when, fits_first, fits_busy) in [
        ("{}", true, true),
        ("{ agent: explore }", true, true),
        ("{ agent: EXP* }", true, true),
        ("{ agent: main }", false, false),
        ("{ label: 'find*' }", true, true),
        ("{ label: find }", false, false),
        ("{ task: '*auth*' }", true, true),
        ("{ depth: 1 }", true, true),
        ("{ depth: 0 }", false, false),
        ("{ turn: 1 }", true, false),
        ("{ turn: '2..' }", false, true),
        ("{ turn: '2..4' }", false, true),
        ("{ turn: '..1' }", true, false),
        ("{ turn: '1' }", true, false),
        ("{ no_tools: false }", true, true),
        ("{ no_tools: true }", false, false),
        ("{ last_result_contains: user.rs }", false, true),
        ("{ last_result_contains: [user.rs, second] }", false, true),
        ("{ last_result_contains: [user.rs, third] }", false, false),
        ("{ last_result_status: ok }", false, true),
        ("{ last_result_status: denied }", false, false),
        ("{ notice_contains: steer }", false, true),
        ("{ history_contains: auth files }", true, true),
        ("{ history_contains: nowhere }", false, false),
        ("{ turn: 1, agent: main }", false, false),
    ] {
        let text = format!("version: 1\nrules:\n- when: {when}\n  say: 'yes'\n- say: 'no'\n");
        let model = model(&text);
        for (request, fits) in [(&first, fits_first), (&busy, fits_busy)] {
            let expected = if fits { "say yes" } else { "say no" };
            assert_eq!(
                prompt(&model, request).await,
                expected,
                "{when} on turn {}",
                request.origin.turn
            );
        }
    }
}

#[tokio::test]
async fn an_old_notice_is_history() {
    let model =
        model("version: 1\nrules: [{when: {notice_contains: steer}, say: heard}, {say: old}]");
    let mut request = busy_child();
    assert_eq!(prompt(&model, &request).await, "say heard");
    with_results(&mut request, &["more"]);
    assert_eq!(prompt(&model, &request).await, "say old");
}

#[tokio::test]
async fn answers_in_yaml_and_json() {
    let yaml = r#"
version: 1
rules:
  - name: sends one out
    think: "who could do it?"
    say: "I send one out."
    calls:
      - tool: task
        args: { description: a, prompt: "look at a", nested: { list: [1, true, null, no, "{{label}}"] } }
      - tool: exec
        raw_args: '{"command": "ls'
      - tool: list_dir
      - tool: grep
        raw_args: '{"pattern": "x"}'
    usage: { input_tokens: 100, output_tokens: 10, cost_usd: 0.5 }
"#;
    let json = json!({"version": 1, "rules": [{
        "name": "sends one out",
        "think": "who could do it?",
        "say": "I send one out.",
        "calls": [
            {"tool": "task", "args": {"description": "a", "prompt": "look at a",
                "nested": {"list": [1, true, null, "no", "{{label}}"]}}},
            {"tool": "exec", "raw_args": "{\"command\": \"ls"},
            {"tool": "list_dir"},
            {"tool": "grep", "raw_args": "{\"pattern\": \"x\"}"},
        ],
        "usage": {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.5},
    }]});
    let expected = r#"think who could do it?
say I send one out.
call task {"description":"a","nested":{"list":[1,true,null,"no","find auth"]},"prompt":"look at a"}
call exec malformed {"command": "ls (EOF while parsing a string at line 1 column 15)
call list_dir {}
call grep {"pattern":"x"}"#;
    for text in [yaml, &json.to_string(), &format!("{json:#}")] {
        let answer = model(text).turn(child(), &NoDeltas).await.unwrap();
        assert_eq!(shown(&answer), expected);
        assert_eq!(answer.stop, StopReason::ToolUse);
        let usage = answer.usage;
        assert_eq!(
            (
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                usage.cost_usd
            ),
            (Some(100), Some(10), None, Some(0.5))
        );
        assert_eq!(answer.model, "script");
    }
}

#[tokio::test]
async fn expectations() {
    let where_ = "script, rule 1 (line 3), at turn 2 of run 00000000-0000-0000-0000-000000000007 (agent explore, label \"find auth\", depth 1): ";
    for (expect, expected) in [
        ("{}", ""),
        ("{ tools: [grep, read_file] }", ""),
        (
            "{ tools: [grep] }",
            "expected the tools [grep], found [grep, read_file]",
        ),
        ("{ tools_include: [grep] }", ""),
        (
            "{ tools_include: [exec] }",
            "expected the tool \"exec\" to be offered, found [read_file, grep]",
        ),
        ("{ tools_exclude: [exec] }", ""),
        (
            "{ tools_exclude: [grep] }",
            "expected the tool \"grep\" not to be offered, found [read_file, grep]",
        ),
        ("{ no_tools: false }", ""),
        (
            "{ no_tools: true }",
            "expected no tools, found [read_file, grep]",
        ),
        ("{ messages: 4 }", ""),
        ("{ messages: '2..4' }", ""),
        ("{ messages: 3 }", "expected 3 messages, found 4"),
        ("{ last_result_contains: user.rs }", ""),
        (
            "{ last_result_contains: [user.rs, admin.rs] }",
            "expected the last result to contain \"admin.rs\", found \"src/auth.rs:12\\nsrc/user.rs:3\\nsecond\"",
        ),
        ("{ last_result_status: ok }", ""),
        (
            "{ last_result_status: denied }",
            "expected a last result with status Denied, found [Ok, Ok]",
        ),
        ("{ notice_contains: steer }", ""),
        (
            "{ notice_contains: limit }",
            "expected a notice to contain \"limit\", found \"a steer from your parent\"",
        ),
        ("{ system_contains: folder }", ""),
        (
            "{ system_contains: Chinese }",
            "expected the system prompt to contain \"Chinese\", found \"You work in a folder.\"",
        ),
        ("{ history_contains: auth files }", ""),
        (
            "{ history_contains: nowhere }",
            "expected the history to contain \"nowhere\"; the model saw:
  tools: [read_file, grep]
  user: find the auth files
  assistant: grep({\"pattern\":\"x\"}) | grep({\"pattern\":\"x\"})
  tools: src/auth.rs:12⏎src/user.rs:3 | second
  notice: a steer from your parent",
        ),
    ] {
        let model = model(&format!(
            "version: 1\nrules:\n- expect: {expect}\n  say: fine\n"
        ));
        let found = prompt(&model, &busy_child()).await;
        if expected.is_empty() {
            assert_eq!(found, "say fine", "{expect}");
        } else {
            assert_eq!(found, format!("error: {where_}{expected}"), "{expect}");
        }
    }
}

#[tokio::test]
async fn a_request_that_no_rule_covers() {
    let model = model("version: 1\nrules: [{when: {agent: main}, say: x}]");
    let mut request = child();
    for round in 0..4 {
        with_results(
            &mut request,
            &[&format!("round {round} {}", "分析".repeat(300))],
        );
    }
    let message = prompt(&model, &request).await;
    let first: Vec<&str> = message.lines().take(3).collect();
    assert_eq!(
        first,
        [
            "error: no rule of script covers turn 5 of run 00000000-0000-0000-0000-000000000007 (agent explore, label \"find auth\", depth 1). The model saw:",
            "  tools: [read_file, grep]",
            "  … 3 earlier messages",
        ]
    );
    assert!(message.chars().count() < 2000, "bounded");
    assert!(message.contains("tools: round 3 分析"), "{message}");
}

#[tokio::test]
async fn faults() {
    for (fault, expected) in [
        (
            "{ kind: error, message: 'no credit for {{label}}' }",
            "error: no credit for find auth",
        ),
        ("{ kind: retryable }", "retryable: scripted fault"),
        (
            "{ kind: rate_limited, retry_after_ms: 5 }",
            "retryable: scripted fault",
        ),
        ("{ kind: auth }", "error: scripted fault"),
        ("{ kind: context_overflow }", "error: scripted fault"),
        ("{ kind: content_filter }", "error: scripted fault"),
        ("{ kind: empty }", ""),
        ("{ kind: stop }", "say half"),
        (
            "{ kind: malformed_call }",
            "say half\ncall grep malformed {\"pattern\":\"x\" (EOF while parsing an object at line 1 column 14)",
        ),
    ] {
        let text = format!(
            "version: 1\nrules:\n- fault: {fault}\n  say: half\n  calls: [{{ tool: grep, args: {{ pattern: x }} }}]\n"
        );
        assert_eq!(prompt(&model(&text), &child()).await, expected, "{fault}");
    }
}

#[tokio::test]
async fn an_answer_may_stop_for_other_reasons() {
    for (fault, expected) in [
        ("{ kind: stop }", StopReason::MaxTokens),
        ("{ kind: stop, reason: refusal }", StopReason::Refusal),
        (
            "{ kind: stop, reason: content_filter }",
            StopReason::ContentFilter,
        ),
        ("{ kind: empty }", StopReason::EndTurn),
        ("{ kind: malformed_call }", StopReason::ToolUse),
    ] {
        let text = format!("version: 1\nrules: [{{ fault: {fault}, say: half }}]");
        let answer = model(&text).turn(child(), &NoDeltas).await.unwrap();
        assert_eq!(answer.stop, expected, "{fault}");
    }
}

#[tokio::test]
async fn a_fault_may_happen_a_number_of_times_for_each_run() {
    let model = model(
        "version: 1
rules:
- fault: { kind: retryable, message: busy, times: 2 }
  say: there
- say: never
",
    );
    let (first, mut second) = (child(), child());
    second.origin.run = run_id(8);
    for (request, expected) in [
        (&first, "retryable: busy"),
        (&second, "retryable: busy"),
        (&first, "retryable: busy"),
        (&first, "say there"),
        (&second, "retryable: busy"),
        (&second, "say there"),
    ] {
        assert_eq!(prompt(&model, request).await, expected);
    }
}

#[tokio::test]
async fn a_used_up_fault_without_an_answer_lets_the_next_rule_answer() {
    let text = "version: 1\nrules: [{ fault: { kind: retryable, times: 1 } }, { say: next }]";
    let model = model(text);
    assert_eq!(prompt(&model, &child()).await, "retryable: scripted fault");
    assert_eq!(prompt(&model, &child()).await, "say next");
}

#[tokio::test]
async fn templates() {
    let request = busy_child();
    let mut again = child();
    again.origin.turn = 2;
    for (template, expected) in [
        (
            "{{task}} / {{label}} / {{agent}} / {{turn}}",
            "find the auth files / find auth / explore / 2",
        ),
        ("{{run_id}}", "00000000-0000-0000-0000-000000000007"),
        ("{{ last_result }}", "src/auth.rs:12\nsrc/user.rs:3\nsecond"),
        (
            "{{last_result_line:2}} {{last_result_line:-1}}",
            "src/user.rs:3 second",
        ),
        ("{{result:1}}", "src/auth.rs:12\nsrc/user.rs:3"),
        ("{{notices}}", "a steer from your parent"),
        ("a {{{{turn}} b", "a {{turn}} b"),
        ("plain } { }}", "plain } { }}"),
    ] {
        let text = json!({"version": 1, "rules": [{"say": template}]}).to_string();
        assert_eq!(
            prompt(&model(&text), &request).await,
            format!("say {expected}"),
            "{template}"
        );
    }
    for (template, problem) in [
        (
            "{{last_result}}",
            "`{{last_result}}`: no tool has answered yet",
        ),
        (
            "{{result:3}}",
            "there is no result 3: the last answer has 0",
        ),
    ] {
        let text = json!({"version": 1, "rules": [{"say": template}]}).to_string();
        let found = prompt(&model(&text), &again).await;
        assert!(found.ends_with(&format!("depth 1): {problem}")), "{found}");
    }
}

#[tokio::test]
async fn a_tool_result_is_not_expanded_as_a_template() {
    let mut request = child();
    with_results(&mut request, &["{{task}}"]);
    let model = model("version: 1\nrules: [{ say: 'got {{last_result}}' }]");
    assert_eq!(prompt(&model, &request).await, "say got {{task}}");
}

#[test]
fn mistakes_in_a_file() {
    for (text, expected) in [
        (
            "version: 1\nrules:\n- wen: {}\n  say: x\n",
            "script:3:3: unknown key `wen`; did you mean `when`? (known: name, when, expect, fault, think, say, calls, latency_ms, usage)",
        ),
        (
            "version: 1\nrules:\n- when: { agnet: main }\n  say: x\n",
            "script:3:11: unknown key `agnet`; did you mean `agent`? (known: agent, label, task, depth, turn, no_tools, last_result_status, last_result_contains, notice_contains, history_contains)",
        ),
        (
            "{\"version\": 1, \"rules\": [{\"say\": \"x\", \"usages\": {}}]}",
            "script:1:39: unknown key `usages`; did you mean `usage`? (known: name, when, expect, fault, think, say, calls, latency_ms, usage)",
        ),
        (
            "version: 1\nrules:\n- say: x\n  calls: [{ tool: a, argumentos: {} }]\n",
            "script:4:22: unknown key `argumentos` (known: tool, args, raw_args)",
        ),
        (
            "version: 1\nrules:\n- fault: { kind: explode }\n",
            "script:3:18: unknown word `explode` (known: error, retryable, rate_limited, auth, context_overflow, content_filter, malformed_call, empty, hang, stop)",
        ),
        (
            "rules: [{say: x}]\n",
            "script:1:1: the key `version` is missing",
        ),
        (
            "version: 2\nrules: [{say: x}]\n",
            "script:1:1: this build understands version 1 of the format, not 2",
        ),
        (
            "version: 1\nrules: []\n",
            "script:1:1: a script needs at least one rule",
        ),
        (
            "version: 1\nrules:\n- name: mute\n  when: {}\n",
            "script:3:3: rule 1 (\"mute\", line 3): it has no completion; add `say`, `calls`, `think` or `fault`",
        ),
        (
            "version: 1\nrules:\n- say: 'a {{taks}}'\n",
            "script:3:3: rule 1 (line 3): unknown placeholder `{{taks}}`; did you mean `{{task}}`? (known: agent, label, last_result, last_result_line, notices, result, run_id, task, turn; write `{{{{` for two braces as they are)",
        ),
        (
            "version: 1\nrules:\n- say: 'a {{task'\n",
            "script:3:3: rule 1 (line 3): `{{` is not closed; write `{{{{` for two braces as they are",
        ),
        (
            "version: 1\nrules:\n- say: '{{result}}'\n",
            "script:3:3: rule 1 (line 3): `{{result}}` needs a number from 1, or from -1 to count from the end: `{{result:1}}`",
        ),
        (
            "version: 1\nrules:\n- say: '{{turn:1}}'\n",
            "script:3:3: rule 1 (line 3): `{{turn}}` takes no number",
        ),
        (
            "version: 1\nrules:\n- calls: [{ tool: a, args: { b: ['{{x}}'] } }]\n",
            "script:3:3: rule 1 (line 3): unknown placeholder `{{x}}` (known: agent, label, last_result, last_result_line, notices, result, run_id, task, turn; write `{{{{` for two braces as they are)",
        ),
        (
            "version: 1\nrules:\n- calls: [{ tool: a, args: {}, raw_args: x }]\n",
            "script:3:3: rule 1 (line 3): the call of `a` has both `args` and `raw_args`; keep one",
        ),
        (
            "version: 1\nrules:\n- fault: { kind: error, times: 0 }\n",
            "script:3:3: rule 1 (line 3): `fault.times` must be at least 1; omit it for a fault that does not end",
        ),
        (
            "version: 1\nrules:\n- fault: { kind: error, reason: refusal }\n",
            "script:3:3: rule 1 (line 3): `fault.reason` belongs to `kind: stop`",
        ),
    ] {
        let found = text
            .parse::<Script>()
            .map(|_| String::new())
            .unwrap_or_else(|error| error.to_string());
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn mistakes_of_the_format_have_a_place() {
    for (text, expected) in [
        (
            "version: 1\nrules:\n- say: [\n",
            "script:3:8: expected string scalar",
        ),
        (
            "version: 1\nrules:\n- when: { turn: '4..2' }\n  say: x\n",
            "script:3:11: invalid value: string \"4..2\", expected a number or a range such as \"2..\" or \"2..4\"",
        ),
        (
            "version: 1\nrules:\n- when: { turn: -1 }\n  say: x\n",
            "script:3:11: invalid value: integer `-1`, expected a number or a range such as \"2..\" or \"2..4\"",
        ),
        (
            "version: 1\nrules:\n- say: x\n  say: y\n",
            "script:4:3: the key `say` is given twice",
        ),
        (
            "version: 1\nrules: [{ say: x, usage: { input_tokens: many } }]\n",
            "script:2:42: invalid u64",
        ),
    ] {
        let error = text.parse::<Script>().unwrap_err().to_string();
        assert_eq!(error, expected, "{text}");
    }
}

#[test]
fn a_script_has_a_bound() {
    let text = format!("version: 1\nrules: [{{ say: '{}' }}]", "x".repeat(1 << 20));
    let error = text.parse::<Script>().unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "script is {} bytes long; a script has at most 1048576",
            text.len()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn latency_passes_on_the_runtimes_clock() {
    let model = model(
        "version: 1
defaults: { latency_ms: 2000 }
rules: [{ when: { turn: 1 }, say: slow }, { say: quick, latency_ms: 0 }]",
    );
    let before = tokio::time::Instant::now();
    assert_eq!(prompt(&model, &child()).await, "say slow");
    assert_eq!(before.elapsed(), Duration::from_secs(2));
    assert_eq!(prompt(&model, &busy_child()).await, "say quick");
    assert_eq!(before.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_hang_lasts_until_it_is_dropped() {
    let model = model("version: 1\nrules: [{ fault: { kind: hang } }]");
    let turn = model.turn(child(), &NoDeltas);
    let waited = tokio::time::timeout(Duration::from_secs(3600), turn).await;
    assert!(waited.is_err());
}

#[derive(Default)]
struct Recorder(std::sync::Mutex<String>);

impl DeltaSink for Recorder {
    fn text(&self, delta: &str) {
        self.0.lock().unwrap().push_str(delta);
    }
    fn rate_limited(&self, _wait: Option<sortie_core::ports::model::RateLimitWait>) {}
}

#[tokio::test]
async fn text_is_streamed_to_the_sink() {
    let recorder = Recorder::default();
    let model = model("version: 1\nrules: [{ say: 'hello {{label}}' }]");
    model.turn(child(), &recorder).await.unwrap();
    assert_eq!(*recorder.0.lock().unwrap(), "hello find auth");
}

/// Returns the examples of the documentation, by language of their fence.
fn documented(fence: &str) -> Vec<String> {
    let text = include_str!("../../../../docs/scripted-model.md");
    let fence = format!("```{fence}\n");
    let blocks = text.split(&fence).skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_documented_script_is_one() {
    let scripts: Vec<String> = ["yaml", "json"].into_iter().flat_map(documented).collect();
    assert_eq!(scripts.len(), 4);
    for text in scripts {
        model(&text);
    }
}

#[tokio::test]
async fn the_first_documented_scenario() {
    let model = model(&documented("yaml")[0]);
    let mut main = request("main", "main", "who logs in?", &["task"]);
    assert_eq!(prompt(&model, &main).await.lines().count(), 3);
    with_results(
        &mut main,
        &["auth files: src/auth.rs", "user files: src/user.rs"],
    );
    assert_eq!(
        prompt(&model, &main).await,
        "say First: auth files: src/auth.rs Second: user files: src/user.rs"
    );
    let mut explorer = child();
    assert_eq!(
        prompt(&model, &explorer).await,
        "call grep {\"output\":\"files\",\"pattern\":\"fn login|struct User\"}"
    );
    with_results(&mut explorer, &["src/auth.rs\nsrc/user.rs"]);
    assert_eq!(
        prompt(&model, &explorer).await,
        "say find auth: src/auth.rs"
    );
}
