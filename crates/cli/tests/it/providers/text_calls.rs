//! Models that write their tool calls as text: the call runs in schema mode, and the text is never
//! the answer.

use serde_json::{Value, json};
use sortie_test_support::provider::{Provider, ReceivedPrompt, Reply, Settings, Wire};

use super::site::{Site, model, vendor};

const ANSWER: &str = "It says: the notes";

/// The ways to write a call that models are known for.
fn spellings() -> Vec<String> {
    let arguments = json!({"path": "notes.txt"});
    let call = json!({"name": "read_file", "arguments": arguments});
    vec![
        format!("```json\n{call:#}\n```"),
        call.to_string(),
        format!("<tool_call>\n{call}\n</tool_call>"),
        json!({"name": "read_file", "parameters": arguments}).to_string(),
        json!({"tool": "read_file", "arguments": arguments}).to_string(),
        json!({"function": {"name": "read_file", "arguments": arguments}}).to_string(),
        json!([call]).to_string(),
        format!("[TOOL_CALLS][{call}]"),
        format!("<|python_tag|>{call}"),
        json!({"type": "function", "name": "read_file", "parameters": arguments}).to_string(),
        format!("<function=read_file>{arguments}</function>"),
        format!("```tool_code\n{call}\n```"),
        "```tool_code\nprint(default_api.read_file(path=\"notes.txt\"))\n```".to_owned(),
        format!("I will read the file first.\n\n```json\n{call}\n```"),
        "{'name': 'read_file', 'arguments': {'path': 'notes.txt'}}".to_owned(),
        json!({"read_file": arguments}).to_string(),
    ]
}

fn step() -> String {
    json!({"thought": "", "tool": "read_file", "tool_arguments": {"path": "notes.txt"}}).to_string()
}

fn answer(words: &str) -> String {
    json!({"answer": words}).to_string()
}

/// A small model: it writes calls as text where tools are offered by the wire, and follows the
/// prompt where they are described in it.
fn small_model(spelling: &str) -> impl Fn(&ReceivedPrompt) -> Reply + Send + Sync + 'static {
    let spelling = spelling.to_owned();
    move |prompt| {
        if !prompt.tools.is_empty() {
            Reply::text(&spelling)
        } else if prompt.last.contains("the notes") {
            Reply::text(&answer(ANSWER))
        } else {
            Reply::text(&step())
        }
    }
}

fn site(config: &str, script: impl Fn(&ReceivedPrompt) -> Reply + Send + Sync + 'static) -> Site {
    let site = Site::new(Provider::start(Settings::default(), script), config);
    site.world.write("notes.txt", "the notes\n");
    site
}

fn failures(site: &Site, task: &Value) -> Vec<Value> {
    let events = site.events(task).into_iter();
    events
        .filter(|event| event["event"] == "model_failed")
        .collect()
}

/// Every spelling is tried, and every wire in pieces and whole.
#[test]
fn a_call_written_as_text_runs_in_schema_mode() {
    let ways: Vec<(Wire, bool)> = Wire::ALL
        .iter()
        .copied()
        .flat_map(|wire| [(wire, true), (wire, false)])
        .collect();
    for (index, spelling) in spellings().into_iter().enumerate() {
        let (wire, streaming) = ways[index % ways.len()];
        let shown = format!("{wire:?}, streaming {streaming}: {spelling}");
        let config = format!("[providers.{}]\nstreaming = {streaming}\n", vendor(wire));
        let site = site(&config, small_model(&spelling));
        let (output, task) = site.run(&model(wire), &[]);
        assert_eq!(task["status"], "completed", "{shown}: {task:#} {output:#?}");
        assert_eq!(task["result"], ANSWER, "{shown}");
        assert_eq!(task["tool_calls"], 1, "{shown}: {:#?}", site.summary());
        let failed = failures(&site, &task);
        assert_eq!(failed.len(), 1, "the switch is journaled: {shown}");
        let message = failed[0].to_string();
        assert!(message.contains("text_call"), "{shown}: {message}");
        assert!(message.contains("switched to schema mode"), "{shown}");
        assert!(
            output.err.contains("schema mode"),
            "{shown}: {}",
            output.err
        );
        // What the wasted reply cost is part of what the task cost.
        let paid: u64 = site
            .provider
            .requests()
            .iter()
            .filter_map(|request| Some(request.tokens?.output))
            .sum();
        assert_eq!(task["usage"]["output_tokens"], paid, "{shown}: {task:#}");
        let requests = site.provider.requests().into_iter();
        let with_tools = requests.filter(|request| !request.prompt.tools.is_empty());
        assert_eq!(with_tools.count(), 1, "{shown}");
    }
}

#[test]
fn the_next_process_begins_in_schema_mode() {
    let spelling = &spellings()[0];
    let site = site("", small_model(spelling));
    let name = model(Wire::Chat);
    site.run(&name, &[]);
    let before = site.provider.requests().len();
    let (_, task) = site.run(&name, &[]);
    assert_eq!(task["result"], ANSWER);
    assert!(failures(&site, &task).is_empty());
    let requests = &site.provider.requests()[before..];
    assert!(
        requests
            .iter()
            .all(|request| request.prompt.tools.is_empty())
    );
}

#[test]
fn raw_calls_do_not_reach_the_terminal() {
    for (name, words, hidden) in [
        (model(Wire::Chat), spellings().swap_remove(0), "arguments"),
        (LOCAL.to_owned(), "They are empty.".to_owned(), "empty"),
    ] {
        let site = site("", small_model(&words));
        let output = site
            .world
            .sortie(&["run", "Do it.", "--yes", "--model", &name]);
        assert!(output.out.contains(ANSWER), "{output:#?}");
        assert!(!output.out.contains(hidden), "{output:#?}");
    }
}

/// The main agent calls by the wire; its child writes text.
#[test]
fn children_are_retried_in_schema_mode() {
    let text = spellings().swap_remove(0);
    let site = site("", move |prompt| {
        let is_main = prompt.system.contains("main agent");
        match (is_main, prompt.tools.is_empty()) {
            (true, _) if prompt.last.contains(ANSWER) => Reply::text("The child has read it."),
            (true, _) => Reply::call(
                "task",
                json!({"subagent_type": "explore", "description": "read", "prompt": "Read notes.txt."}),
            ),
            (false, false) if prompt.turn == 1 => Reply::text(&text),
            (false, false) => Reply::text(ANSWER),
            (false, true) if prompt.last.contains("the notes") => Reply::text(&answer(ANSWER)),
            (false, true) => Reply::text(&step()),
        }
    });
    let (output, task) = site.run(&model(Wire::Chat), &[]);
    assert_eq!(task["status"], "completed", "{task:#} {output:#?}");
    assert_eq!(task["result"], "The child has read it.");
    let tasks = site.world.json(&["tasks", "list", "--all", "--json"]);
    let child = tasks
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["agent"] == "explore")
        .unwrap_or_else(|| panic!("{tasks:#}"));
    assert_eq!(child["status"], "completed", "{child:#}");
    assert_eq!(child["tool_calls"], 1, "{child:#}");
    // A model with native tool calls continues to use them.
    let last = site.provider.requests().pop().unwrap();
    assert!(!last.prompt.tools.is_empty(), "{:#?}", site.summary());
}

#[test]
fn an_answer_with_json_stays_the_answer() {
    for words in [
        "Here is one:\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n```",
        "{\"port\": 8137}",
        "The model wrote `{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}`, which did not run.",
    ] {
        let site = site("", move |_| Reply::text(words));
        let (output, task) = site.run(&model(Wire::Chat), &[]);
        assert_eq!(task["status"], "completed", "{task:#} {output:#?}");
        assert_eq!(task["result"], words);
        assert_eq!(site.provider.requests().len(), 1, "{words}");
    }
}

/// JSON that looks like a call of something else may be what the user wants: the model is asked
/// again, and what it calls its answer then is the answer.
#[test]
fn an_example_of_a_call_is_an_answer_if_the_model_confirms_it() {
    let example = r#"{"name": "get_weather", "arguments": {"city": "Rome"}}"#;
    let site = site("", move |prompt| match prompt.tools.is_empty() {
        false => Reply::text(example),
        true => Reply::text(&answer(example)),
    });
    let (output, task) = site.run(&model(Wire::Chat), &[]);
    assert_eq!(task["status"], "completed", "{task:#} {output:#?}");
    assert_eq!(task["result"], example);
    assert_eq!(task["tool_calls"], 0);
    // The model called no tool in schema mode: the next run is asked by the wire again.
    let before = site.provider.requests().len();
    site.run(&model(Wire::Chat), &[]);
    let requests = site.provider.requests();
    assert!(!requests[before].prompt.tools.is_empty());
}

/// Neither a model that keeps writing calls as its answer, nor one whose steps cannot be parsed,
/// nor one without another tool mode, ends with raw JSON as its answer.
#[test]
fn a_model_that_fails_in_schema_mode_fails_the_run() {
    let call = json!({"name": "read_file", "arguments": {"path": "notes.txt"}}).to_string();
    let native = format!("[models.{:?}]\ntools = \"native\"\n", model(Wire::Chat));
    let in_answer = answer(&call);
    for (config, in_words, expected) in [
        ("", in_answer, "wrote a tool call as text"),
        ("", call.clone(), "malformed tool calls"),
        (&native, call.clone(), "tools = \"auto\""),
    ] {
        let text = call.clone();
        let site = site(config, move |prompt| match prompt.tools.is_empty() {
            false => Reply::text(&text),
            true => Reply::text(&in_words),
        });
        let (output, task) = site.run(&model(Wire::Chat), &[]);
        assert_eq!(task["status"], "failed", "{task:#} {output:#?}");
        let error = task["error"].as_str().unwrap_or_default();
        assert!(error.contains(expected), "{task:#}");
        let prompt = site.provider.requests().len();
        assert!(prompt <= 6, "{prompt} requests: {:#?}", site.summary());
        let ok = site
            .events(&task)
            .into_iter()
            .filter(|event| event["event"] == "tool_finished" && event["result"]["status"] == "ok");
        assert_eq!(ok.count(), 0, "nothing ran");
    }
}

/// A model that has what it needs and reads it again is pointed to the result and asked to answer.
#[test]
fn a_repeated_read_is_answered_with_a_request_for_the_answer() {
    let site = site("", move |prompt| {
        if !prompt.tools.is_empty() {
            Reply::text(&spellings()[0])
        } else if prompt.last.contains("Give your final answer now") {
            Reply::text(&answer(ANSWER))
        } else {
            Reply::text(&step())
        }
    });
    let (output, task) = site.run(&model(Wire::Chat), &[]);
    assert_eq!(task["status"], "completed", "{task:#} {output:#?}");
    assert_eq!(task["result"], ANSWER);
    assert_eq!(task["tool_calls"], 2);
    let last = site.provider.requests().pop().unwrap().prompt.last;
    assert!(last.contains("You already have this result"), "{last}");
    assert!(!last.contains("something else"), "{last}");
    assert!(last.ends_with("Task: Do it."), "{last}");
}

/// A model of a vendor whose servers are local.
const LOCAL: &str = "llamacpp/some-model";

/// A local model that does not call tools by the wire: it answers from nothing, or advises its user.
/// In schema mode it reads the file.
#[test]
fn local_model_that_calls_no_tool_is_retried_in_schema_mode() {
    let long_lead = "You can use the read_file function for that. ".repeat(20);
    for words in [
        "The notes are empty.".to_owned(),
        format!("{long_lead}\n{}", spellings()[0]),
    ] {
        let site = site("", small_model(&words));
        let (output, task) = site.run(LOCAL, &[]);
        assert_eq!(task["status"], "completed", "{words}: {task:#} {output:#?}");
        assert_eq!(task["result"], ANSWER, "{words}");
        assert_eq!(task["tool_calls"], 1, "{words}: {:#?}", site.summary());
        let failed = failures(&site, &task);
        assert_eq!(failed.len(), 1, "{words}: {failed:#?}");
        let message = failed[0].to_string();
        assert!(message.contains("trying schema mode"), "{message}");
        // It was learned: the next process begins in schema mode.
        let before = site.provider.requests().len();
        let (_, task) = site.run(LOCAL, &[]);
        assert_eq!(task["result"], ANSWER, "{words}");
        let requests = &site.provider.requests()[before..];
        let with_tools = requests.iter().filter(|one| !one.prompt.tools.is_empty());
        assert_eq!(with_tools.count(), 0, "{words}");
    }
}

#[test]
fn local_model_that_needs_no_tool_answers_in_schema_mode() {
    let site = site("", |prompt| match prompt.tools.is_empty() {
        false => Reply::text("Hello."),
        true => Reply::text(&answer("Hello!")),
    });
    let (output, task) = site.run(LOCAL, &[]);
    assert_eq!(task["status"], "completed", "{task:#} {output:#?}");
    assert_eq!(task["result"], "Hello!");
    assert_eq!(task["tool_calls"], 0);
    assert_eq!(site.provider.requests().len(), 2, "{:#?}", site.summary());
}

/// A server may ignore the schema: the second reply in plain text is the answer, as it would have
/// been without the second prompt.
#[test]
fn local_model_that_ignores_the_schema_answers_in_plain_text() {
    let site = site("", |_| Reply::text("Hello."));
    let (output, task) = site.run(LOCAL, &[]);
    assert_eq!(task["status"], "completed", "{task:#} {output:#?}");
    assert_eq!(task["result"], "Hello.");
    assert_eq!(site.provider.requests().len(), 2, "{:#?}", site.summary());
}

/// A local model that calls tools by the wire keeps them, in later processes too, and is then not
/// asked twice.
#[test]
fn local_model_that_calls_tools_by_the_wire_keeps_them() {
    let site = site("", |prompt| match prompt.last.contains("the notes") {
        true => Reply::text(ANSWER),
        false if prompt.nth == 1 => Reply::call("read_file", json!({"path": "notes.txt"})),
        false => Reply::text("Hello."),
    });
    for (expected, requests) in [(ANSWER, 2), ("Hello.", 3)] {
        let (output, task) = site.run(LOCAL, &[]);
        assert_eq!(task["result"], expected, "{task:#} {output:#?}");
        assert!(failures(&site, &task).is_empty());
        assert_eq!(
            site.provider.requests().len(),
            requests,
            "{:#?}",
            site.summary()
        );
        let all = site.provider.requests();
        assert!(all.iter().all(|one| !one.prompt.tools.is_empty()));
    }
}

/// A small model asked about a file answers from nothing if it may: its first step has to read.
#[test]
fn first_step_of_a_task_that_names_a_file_offers_no_answer() {
    let site = site("", small_model(&spellings()[0]));
    for (task, offers_answer) in [("What is in notes.txt?", false), ("Hello.", true)] {
        let before = site.provider.requests().len();
        let output = site.world.sortie(&["run", task, "--yes", "--model", LOCAL]);
        assert!(output.out.contains(ANSWER), "{task}: {output:#?}");
        let requests = site.provider.requests().split_off(before);
        let step = requests.iter().find(|one| one.prompt.tools.is_empty());
        let body: Value = serde_json::from_slice(&step.unwrap().raw).unwrap();
        let schema = body["response_format"]["json_schema"]["schema"].to_string();
        assert!(schema.contains("read_file"), "{task}: {schema}");
        assert_eq!(schema.contains("\"answer\""), offers_answer, "{task}");
        assert_eq!(schema.contains("write_file"), offers_answer, "{task}");
    }
}
