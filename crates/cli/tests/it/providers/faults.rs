//! Each fault of a provider, on each wire where it can happen: no run hangs, no tool runs with
//! guessed arguments, and the user gets a message.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sortie_test_support::provider::{Call, Ending, Provider, Recorded, Reply, Wire};

use super::site::{KEY, Site, model, vendor};
use crate::world::CommandOutput;

/// No fault may hold a run for longer, whatever the machine is busy with.
const PATIENCE: Duration = Duration::from_secs(45);

/// How a run ends.
#[derive(Clone, Copy)]
enum Ends {
    /// With the words `All is done.`
    Done,
    /// With this reason, and these words in its error.
    Failed(&'static str, &'static str),
}

/// A fault, and what has to come of it on every wire.
#[derive(Clone)]
struct Fault {
    replies: Vec<Reply>,
    wires: Vec<Wire>,
    streaming: bool,
    ends: Ends,
    requests: usize,
    stderr: &'static str,
    sees: fn(&Seen),
}

/// What came of a run.
struct Seen {
    wire: Wire,
    site: Site,
    output: CommandOutput,
    task: Value,
    requests: Vec<Recorded>,
}

impl Fault {
    /// Replies after which the run continues to its end, with one request for each.
    fn then_done(mut replies: Vec<Reply>) -> Self {
        replies.push(Reply::text("All is done."));
        Self {
            requests: replies.len(),
            replies,
            wires: Wire::ALL.to_vec(),
            streaming: true,
            ends: Ends::Done,
            stderr: "",
            sees: |_| {},
        }
    }

    /// Replies that end the run, with one request for each.
    fn fatal(replies: Vec<Reply>, reason: &'static str, words: &'static str) -> Self {
        Self {
            requests: replies.len(),
            ends: Ends::Failed(reason, words),
            replies,
            ..Self::then_done(Vec::new())
        }
    }

    fn replies(self, replies: Vec<Reply>) -> Self {
        Self { replies, ..self }
    }

    fn on(self, wires: &[Wire]) -> Self {
        Self {
            wires: wires.to_vec(),
            ..self
        }
    }

    fn requests(self, requests: usize) -> Self {
        Self { requests, ..self }
    }

    fn stderr(self, stderr: &'static str) -> Self {
        Self { stderr, ..self }
    }

    fn sees(self, sees: fn(&Seen)) -> Self {
        Self { sees, ..self }
    }

    /// Runs it streaming on all its wires at once.
    fn check(self) {
        std::thread::scope(|scope| {
            for wire in &self.wires {
                scope.spawn(|| self.check_on(*wire));
            }
        });
    }

    /// The same, and once more with answers that come whole.
    fn check_both(self) {
        self.clone().check();
        Self {
            streaming: false,
            ..self
        }
        .check();
    }

    fn check_on(&self, wire: Wire) {
        let provider = Provider::in_turn(self.replies.clone());
        let site = Site::new(provider, "");
        site.world.write("notes.txt", "the first notes\n");
        site.world.write("more.txt", "and more notes\n");
        let streaming = format!("providers.{}.streaming={}", vendor(wire), self.streaming);
        let begun = Instant::now();
        let (output, task) = site.run(&model(wire), &["-c", &streaming]);
        let requests = site.provider.requests();
        let shown = || {
            let (streaming, summary) = (self.streaming, site.summary());
            format!("{wire:?} streaming={streaming} {summary:#?} {task:#} {output:#?}")
        };
        assert!(begun.elapsed() < PATIENCE, "{}", shown());
        match self.ends {
            Ends::Done => {
                assert_eq!(task["status"], "completed", "{}", shown());
                assert_eq!(task["result"], "All is done.", "{}", shown());
                assert_eq!(output.code, Some(0), "{}", shown());
            }
            Ends::Failed(reason, words) => {
                assert_eq!(task["status"], "failed", "{}", shown());
                assert_eq!(task["reason"], reason, "{}", shown());
                let error = task["error"].as_str().unwrap();
                assert!(error.contains(words), "{words:?}: {}", shown());
                assert_eq!(output.code, Some(1), "{}", shown());
            }
        }
        assert_eq!(requests.len(), self.requests, "{}", shown());
        assert!(
            output.err.contains(self.stderr),
            "{}: {}",
            self.stderr,
            shown()
        );
        assert!(!format!("{output:?}").contains(KEY), "{}", shown());
        (self.sees)(&Seen {
            wire,
            site,
            output,
            task,
            requests,
        });
    }
}

impl Seen {
    /// Whether a file came to be in the workspace.
    fn has(&self, name: &str) -> bool {
        self.site.world.workspace().join(name).exists()
    }

    /// What is in the journal, in order.
    fn kinds(&self) -> Vec<String> {
        let events = self.site.events(&self.task);
        let kind = |event: &Value| event["event"].as_str().unwrap().to_owned();
        events.iter().map(kind).collect()
    }

    /// How often this is in the journal.
    fn count(&self, kind: &str) -> usize {
        self.kinds().iter().filter(|found| *found == kind).count()
    }

    /// What the model was told last.
    fn last_message(&self) -> &str {
        &self.requests.last().unwrap().prompt.last
    }
}

fn write_file(name: &str) -> Reply {
    Reply::call("write_file", json!({"path": name, "content": "written\n"}))
}

fn read_both() -> Vec<Call> {
    ["notes.txt", "more.txt"]
        .iter()
        .map(|name| Call::new("read_file", json!({"path": name})))
        .collect()
}

/// The control: without a fault everything goes through, on every wire, and with the key.
#[test]
fn without_a_fault_tools_run_and_answers_arrive() {
    Fault::then_done(vec![Reply::Thinking(
        "I should write it down.".to_owned(),
        Box::new(write_file("plain.txt")),
    )])
    .sees(|seen| {
        assert!(seen.has("plain.txt"), "{:?}", seen.wire);
        assert_eq!(seen.task["model"], model(seen.wire));
        assert_eq!(seen.task["tool_calls"], 1);
        let header = match seen.wire {
            Wire::Anthropic => "x-api-key",
            Wire::Chat | Wire::Responses => "authorization",
            Wire::Gemini => "x-goog-api-key",
        };
        let tokens = |pick: fn(&Recorded) -> u64| seen.requests.iter().map(pick).sum::<u64>();
        let usage = &seen.task["usage"];
        assert_eq!(
            usage["input_tokens"],
            tokens(|one| one.tokens.unwrap().input())
        );
        assert_eq!(
            usage["output_tokens"],
            tokens(|one| one.tokens.unwrap().output)
        );
        for request in &seen.requests {
            assert!(request.headers[header].ends_with(KEY), "{:?}", seen.wire);
        }
        let thought = match seen.wire {
            Wire::Anthropic | Wire::Gemini => "signed-",
            Wire::Responses => "sealed-",
            Wire::Chat => "I should write it down.",
        };
        let again = seen.requests[1].prompt.body.to_string();
        assert!(
            again.contains(thought),
            "what was thought goes back: {again}"
        );
    })
    .check_both();
}

/// Chunks of one byte, so that every event and character is cut everywhere.
#[test]
fn answers_in_single_bytes_are_the_same_answers() {
    let slowly = |reply| Reply::InPieces(1, Box::new(reply));
    let mut fault = Fault::then_done(vec![slowly(write_file("pieces.txt"))]);
    fault.replies = fault.replies.into_iter().map(slowly).collect();
    fault
        .sees(|seen| assert!(seen.has("pieces.txt"), "{:?}", seen.wire))
        .check();
}

#[test]
fn a_limit_is_a_wait_and_no_failure() {
    Fault::then_done(vec![Reply::Status(429, None)])
        .stderr("rate limit")
        .sees(|seen| {
            assert_eq!(seen.count("model_failed"), 0, "{:?}", seen.kinds());
            let held_ms = |event: &Value| event["held_ms"].as_u64().unwrap_or(0);
            let held_ms: u64 = seen.site.events(&seen.task).iter().map(held_ms).sum();
            assert!(held_ms >= 900, "{held_ms} {:?}", seen.wire);
        })
        .check();
    Fault::then_done(vec![Reply::Status(429, Some(2))])
        .stderr("rate limit")
        .sees(|seen| {
            let gap = seen.requests[1].at - seen.requests[0].at;
            assert!(gap >= Duration::from_secs(2), "{gap:?} {:?}", seen.wire);
            assert!(gap < Duration::from_secs(6), "{gap:?} {:?}", seen.wire);
        })
        .check();
}

#[test]
fn a_wait_ends_with_the_deadline_of_its_run() {
    let site = Site::new(Provider::in_turn(vec![Reply::Status(429, Some(600))]), "");
    let begun = Instant::now();
    let (output, task) = site.run(&model(Wire::Chat), &["--timeout", "2"]);
    assert_eq!(task["status"], "timeout", "{task:#}");
    assert_eq!(output.code, Some(5), "{output:#?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{output:#?}");
    assert_eq!(site.provider.requests().len(), 1);
}

#[test]
fn server_errors_are_retried() {
    Fault::then_done(vec![Reply::Status(500, None), Reply::Status(529, None)])
        .sees(|seen| assert_eq!(seen.count("model_failed"), 2))
        .check();
    Fault::then_done(vec![Reply::Html(502)]).check();
    Fault::then_done(vec![Reply::Html(200)]).check_both();
}

#[test]
fn servers_that_stay_in_trouble_end_the_run() {
    Fault::fatal(
        vec![Reply::Status(503, None)],
        "error",
        "The model call failed",
    )
    .on(&[Wire::Anthropic, Wire::Responses])
    .requests(5)
    .check();
}

#[test]
fn a_bad_key_ends_the_run_at_once() {
    Fault::fatal(vec![Reply::Status(401, None)], "error", "key").check();
}

#[test]
fn connection_resets_are_retried() {
    Fault::then_done(vec![Reply::Reset]).check();
    Fault::then_done(vec![Reply::ResetMidway]).check();
}

#[test]
fn silence_has_an_end() {
    let late = Duration::from_secs(120);
    Fault::then_done(vec![Reply::SlowFirstByte(
        late,
        Box::new(Reply::text("late")),
    )])
    .stderr("sent no data for 2 s")
    .check();
    Fault::then_done(vec![Reply::Stall])
        .stderr("sent no data for 2 s")
        .check();
}

#[test]
fn an_endless_answer_has_an_end() {
    Fault::then_done(vec![Reply::Endless])
        .sees(|seen| assert_eq!(seen.count("model_failed"), 1))
        .check();
}

#[test]
fn an_answer_that_is_cut_in_a_call_runs_nothing() {
    for ending in [Ending::Abrupt, Ending::Clean] {
        Fault::then_done(vec![Reply::CutInCall(ending)])
            .sees(|seen| {
                assert!(!seen.has("cut.txt"), "{:?}", seen.wire);
                assert_eq!(seen.task["tool_calls"], 0);
                let [first, second] = seen.requests.as_slice() else {
                    panic!("{:?}", seen.wire);
                };
                assert_eq!(
                    first.prompt.body, second.prompt.body,
                    "nothing of it is kept"
                );
            })
            .check_both();
    }
}

#[test]
fn malformed_arguments_run_nothing_and_are_reported_to_the_model() {
    let raw = r#"{"path": "guessed.txt", "content": "half"#;
    Fault::then_done(vec![Reply::MalformedArguments(
        "write_file".to_owned(),
        raw.to_owned(),
    )])
    .sees(|seen| {
        assert!(!seen.has("guessed.txt"), "{:?}", seen.wire);
        assert!(
            seen.last_message().contains("nothing ran"),
            "{}",
            seen.last_message()
        );
    })
    .check_both();
    Fault::then_done(vec![Reply::TokenLimitInCall])
        .on(&[Wire::Anthropic, Wire::Chat, Wire::Responses])
        .sees(|seen| {
            assert!(!seen.has("cut.txt"), "{:?}", seen.wire);
            assert!(
                seen.last_message().contains("[Cut off]"),
                "{}",
                seen.last_message()
            );
        })
        .check();
}

#[test]
fn an_unknown_tool_is_an_answer_for_the_model() {
    Fault::then_done(vec![Reply::call("teleport", json!({"to": "moon"}))])
        .sees(|seen| {
            assert!(
                seen.last_message().contains("teleport"),
                "{}",
                seen.last_message()
            );
        })
        .check();
}

#[test]
fn calls_without_ids_of_their_own_each_get_their_answer() {
    let check = |reply: Reply| {
        Fault::then_done(vec![reply])
            .sees(|seen| {
                let body = &seen.requests[1].prompt.body;
                let (called, answered) = ids(seen.wire, body);
                assert_eq!(called, answered, "{:?} {body:#}", seen.wire);
                // Only one wire knows calls by their order, where they came without ids.
                let by_order = seen.wire == Wire::Gemini && called[0].is_null();
                assert!(
                    called.len() == 2 && (by_order || called[0] != called[1]),
                    "{called:?}"
                );
                for words in ["the first notes", "and more notes"] {
                    assert!(
                        seen.last_message().contains(words),
                        "{}",
                        seen.last_message()
                    );
                }
            })
            .check_both();
    };
    check(Reply::DuplicateIds(read_both()));
    check(Reply::MissingIds(read_both()));
}

/// The ids of the calls of a history, and those of their results.
fn ids(wire: Wire, body: &Value) -> (Vec<Value>, Vec<Value>) {
    let (calls, results) = match wire {
        Wire::Anthropic => (("tool_use", "id"), ("tool_result", "tool_use_id")),
        Wire::Responses => (
            ("function_call", "call_id"),
            ("function_call_output", "call_id"),
        ),
        Wire::Chat => (("function", "id"), ("tool", "tool_call_id")),
        Wire::Gemini => (("functionCall", "id"), ("functionResponse", "id")),
    };
    let mut found = (Vec::new(), Vec::new());
    walk(body, &mut |value| {
        for (kind, list) in [(calls, &mut found.0), (results, &mut found.1)] {
            let is_it = value["type"] == kind.0 || value["role"] == kind.0;
            match value.get(kind.0) {
                Some(inner) if wire == Wire::Gemini => {
                    // Calls that came without an id are known by their order.
                    list.push(inner.get("id").cloned().unwrap_or_default());
                }
                _ if is_it && value.get(kind.1).is_some() => list.push(value[kind.1].clone()),
                Some(_) | None => {}
            }
        }
    });
    found
}

fn walk(value: &Value, see: &mut impl FnMut(&Value)) {
    see(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, see)),
        Value::Object(fields) => fields.values().for_each(|item| walk(item, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn an_empty_completion_is_prompted_once_more() {
    Fault::then_done(vec![Reply::Empty]).check_both();
    Fault::fatal(vec![Reply::Empty, Reply::Empty], "empty_result", "no text").check();
}

#[test]
fn bytes_that_are_no_characters_are_no_answer() {
    Fault::then_done(vec![Reply::InvalidUtf8]).check_both();
}

#[test]
fn a_history_that_is_too_long_is_made_shorter() {
    let lines: String = (0..400)
        .map(|line| format!("line {line} of the file\n"))
        .collect();
    let check = |wire: Wire| {
        let read = || Reply::call("read_file", json!({"path": "long.txt"}));
        let replies = vec![
            read(),
            read(),
            Reply::ContextOverflow,
            Reply::text("All is done."),
        ];
        let site = Site::new(Provider::in_turn(replies), "");
        site.world.write("long.txt", &lines);
        let (output, task) = site.run(&model(wire), &[]);
        let shown = format!("{wire:?} {:#?} {output:#?}", site.summary());
        assert_eq!(task["result"], "All is done.", "{shown}");
        let requests = site.provider.requests();
        assert_eq!(requests.len(), 4, "{shown}");
        let (refused, shorter) = (requests[2].raw.len(), requests[3].raw.len());
        assert!(shorter + 4000 < refused, "{shorter} {refused} {shown}");
        let events = site.events(&task);
        assert!(
            events.iter().any(|event| event["event"] == "compacted"),
            "{shown}"
        );
    };
    std::thread::scope(|scope| {
        for &wire in Wire::ALL {
            scope.spawn(move || check(wire));
        }
    });
    Fault::fatal(
        vec![Reply::ContextOverflow],
        "error",
        "exceeds the model's context window",
    )
    .check();
}

#[test]
fn a_refusal_is_reported_as_a_refusal() {
    Fault::fatal(vec![Reply::Refusal], "error", "declined")
        .on(&[Wire::Anthropic, Wire::Chat, Wire::Responses])
        .check_both();
    Fault::fatal(vec![Reply::Refusal], "error", "filter")
        .on(&[Wire::Gemini])
        .check_both();
}

#[test]
fn a_content_filter_is_reported_as_one() {
    Fault::fatal(
        vec![Reply::ContentFilter],
        "error",
        "The provider's content filter",
    )
    .check_both();
}

#[test]
fn arguments_over_the_limit_are_no_call() {
    Fault::then_done(vec![Reply::HugeArguments(5 << 20)])
        .sees(|seen| {
            assert!(!seen.has("huge.txt"), "{:?}", seen.wire);
            assert_eq!(seen.count("model_failed"), 1);
        })
        .check();
}

#[test]
fn a_missing_end_marker_fails_only_on_wires_that_require_it() {
    let answer = || Reply::NoDone(Box::new(Reply::text("All is done.")));
    Fault::then_done(Vec::new())
        .on(&[Wire::Anthropic, Wire::Chat, Wire::Gemini])
        .replies(vec![answer()])
        .check();
    // Here the last word is the answer, so that without it there is none.
    Fault::then_done(Vec::new())
        .on(&[Wire::Responses])
        .replies(vec![answer(), Reply::text("All is done.")])
        .requests(2)
        .check();
}

#[test]
fn an_error_inside_a_stream_is_retried() {
    Fault::then_done(vec![Reply::ErrorInStream])
        .sees(|seen| assert_eq!(seen.count("model_failed"), 1))
        .check_both();
}

#[test]
fn the_model_that_really_answered_is_reported() {
    let answer = Reply::text("All is done.");
    Fault::then_done(Vec::new())
        .replies(vec![Reply::OtherModelName(
            "surprise-1".to_owned(),
            Box::new(answer),
        )])
        .sees(|seen| {
            assert_eq!(
                seen.task["model"],
                format!("{}/surprise-1", vendor(seen.wire))
            );
            assert_eq!(seen.output.code, Some(0));
        })
        .check_both();
}

#[test]
fn arguments_that_no_journal_can_store_are_dropped() {
    let deep = format!(
        r#"{{"path":"notes.txt","x":{}{}}}"#,
        "[".repeat(124),
        "]".repeat(124)
    );
    Fault::then_done(vec![Reply::MalformedArguments(
        "read_file".to_owned(),
        deep,
    )])
    // Gemini's arguments are a part of its document, which is rejected as a whole.
    .on(&[Wire::Anthropic, Wire::Chat, Wire::Responses])
    .sees(|seen| {
        // Whatever was written can be read back, and decided again.
        let id = seen.task["task_id"].as_str().unwrap();
        seen.site.world.ok(&["tasks", "transcript", id]);
        let again = seen.site.world.json(&["replay", id, "--json"]);
        assert_eq!(again["identical"], true);
    })
    .check();
}

#[test]
fn a_provider_that_repeats_the_key_does_not_get_it_kept() {
    let call = Reply::call("read_file", json!({"path": KEY}));
    let thought = Reply::Thinking(format!("your key is {KEY}"), Box::new(call));
    Fault::then_done(vec![thought])
        .sees(|seen| {
            let kept = std::fs::read(seen.site.world.home().join("sortie.db")).unwrap();
            let log =
                std::fs::read(seen.site.world.home().join("sortie.db-wal")).unwrap_or_default();
            for bytes in [kept, log] {
                let found = bytes
                    .windows(KEY.len())
                    .any(|window| window == KEY.as_bytes());
                assert!(!found, "{:?}", seen.wire);
            }
        })
        .check();
}

#[test]
fn retry_after_shown_text_is_reported() {
    let replies = vec![Reply::ResetMidway, Reply::text("All is done.")];
    let site = Site::new(Provider::in_turn(replies), "");
    let run = ["run", "Do it.", "--stream-json", "--model"];
    let output = site
        .world
        .ok(&[&run[..], &[&model(Wire::Anthropic)]].concat());
    let last_message: Vec<Value> = output
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &Value| event["type"] == "retrying")
        .collect();
    let [retrying] = last_message.as_slice() else {
        panic!("{output:#?}");
    };
    assert_eq!(retrying["shown"], true, "{retrying}");
    assert!(
        output.err.contains("retrying with anthropic/"),
        "{}",
        output.err
    );
}
