//! Requests over real connections to servers that misbehave.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sortie_core::config::{ModelConfig, Price, ProviderConfig};
use sortie_core::ports::model::Wire;
use sortie_core::ports::model::{
    DeltaSink, Fault, ModelAnswer, ModelDirectory as _, ModelError, ModelRequest, RateLimitWait,
};
use sortie_models::{Directory, DirectorySettings, Secret, ToolSetting};

use crate::server::{Server, Step, chat_stream, good, open_head, reply};
use crate::support::{request, shown};

const KEY: &str = "very-secret-key-123";

fn settings(url: &str) -> ProviderConfig {
    ProviderConfig {
        wire: Some(Wire::Chat),
        base_url: Some(format!("{url}/v1")),
        api_key: Some(Secret::new(KEY)),
        ..ProviderConfig::default()
    }
}

fn directory(provider: ProviderConfig) -> Directory {
    let price = Price {
        input: Some(1.0),
        output: Some(10.0),
        ..Price::default()
    };
    let model = ModelConfig {
        price: Some(price),
        // The server is on loopback: with `auto` a reply without a tool call is not final.
        tools: Some(ToolSetting::Native),
        ..ModelConfig::default()
    };
    Directory::new(DirectorySettings {
        providers: BTreeMap::from([("test".to_owned(), provider)]),
        models: BTreeMap::from([("test/*".to_owned(), model)]),
        ..DirectorySettings::default()
    })
}

#[derive(Debug, Default)]
struct Recorder {
    text: Mutex<String>,
    waits: Mutex<Vec<Option<RateLimitWait>>>,
}

impl DeltaSink for Recorder {
    fn text(&self, delta: &str) {
        self.text.lock().unwrap().push_str(delta);
    }
    fn rate_limited(&self, wait: Option<RateLimitWait>) {
        self.waits.lock().unwrap().push(wait);
    }
}

async fn prompt(directory: &Directory, request: ModelRequest) -> Result<ModelAnswer, ModelError> {
    let model = directory.find("test/m").unwrap();
    model.turn(request, &Recorder::default()).await
}

/// Returns a response that sends a byte now and then and never a line. It takes longer than any
/// timeout of these tests, and is a valid reply for a client that waits for its end.
fn trickle() -> Vec<Step> {
    let byte = || {
        vec![
            Step::After(Duration::from_millis(20)),
            Step::Send(":".to_owned()),
        ]
    };
    let mut steps: Vec<Step> = std::iter::repeat_with(byte).take(100).flatten().collect();
    steps.push(Step::Send(format!("\n\n{}", chat_stream("too late"))));
    steps
}

fn question() -> ModelRequest {
    request("main", "l", "hello", &["read"])
}

/// Renders the outcome of a server's response: the reply, or the fault, whether text was shown, and
/// why.
async fn outcome(reply: Vec<Step>) -> String {
    let hangs = reply.iter().any(|step| matches!(step, Step::Hang));
    let short = hangs.then_some(1);
    let server = Server::start(vec![reply]).await;
    let directory = directory(ProviderConfig {
        first_byte_timeout_seconds: short,
        idle_timeout_seconds: short,
        ..settings(&server.url)
    });
    let text = match prompt(&directory, question()).await {
        Ok(answer) => shown(&answer),
        Err(error) => {
            let seen = if error.shown { " shown" } else { "" };
            format!("{}{seen}: {error}", error.fault.name())
        }
    };
    let host = server.url.trim_start_matches("http://");
    text.replace(host, "HOST")
}

#[tokio::test]
async fn replies_of_all_kinds_become_an_answer_or_a_typed_error() {
    let send = |text: String| Step::Send(text);
    let stream = || open_head("text/event-stream");
    let half = chat_stream("hello");
    let half = half.split_once("\n\n").unwrap().0.to_owned() + "\n\n";
    let whole = "{\"model\":\"m-1\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"whole\"},\"finish_reason\":\"stop\"}]}";
    let error = "{\"error\":{\"message\":\"something broke\"}}";
    for (name, reply, expected) in [
        ("a good stream", good("hello"), "say hello"),
        (
            "an odd content type",
            vec![send(open_head("text/plain") + &chat_stream("plain"))],
            "say plain",
        ),
        (
            "whole though pieces were asked for",
            reply("200 OK", "content-type: application/json\r\n", whole),
            "say whole",
        ),
        (
            "a broken server",
            reply("500 Internal Server Error", "", error),
            "transient: test: something broke",
        ),
        (
            "a bad key",
            reply(
                "401 Unauthorized",
                "",
                &format!("{{\"error\":{{\"message\":\"bad key {KEY}\"}}}}"),
            ),
            "auth: test: bad key [redacted]",
        ),
        (
            "a redirect",
            reply(
                "307 Temporary Redirect",
                "location: https://elsewhere.example/x?key=1\r\n",
                "",
            ),
            "bad_request: HOST redirects to elsewhere.example (307); this is not followed",
        ),
        (
            "no answer at all",
            vec![Step::Hang],
            "transient: HOST sent no data for 1 s",
        ),
        (
            "a head and then nothing",
            vec![send(stream()), Step::Hang],
            "transient: HOST sent no data for 1 s",
        ),
        (
            "silence in the middle",
            vec![send(stream() + &half), Step::Hang],
            "transient shown: HOST sent no data for 1 s",
        ),
        (
            "half a line that never ends",
            [vec![send(stream() + &half)], trickle(), vec![Step::Hang]].concat(),
            "transient shown: HOST sent no data for 1 s",
        ),
        (
            "a reset at once",
            vec![Step::Reset],
            "transient: HOST could not be reached",
        ),
        (
            "a stream cut off",
            vec![send(stream() + &half)],
            "transient shown: ",
        ),
        (
            "a body shorter than promised",
            vec![send(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n{half}"
            ))],
            "transient shown: HOST closed the connection in the middle of the completion",
        ),
        (
            "a page of a proxy",
            vec![send(
                open_head("text/html") + "<!doctype html><html><body>sign in</body></html>",
            )],
            "transient: ",
        ),
        (
            "an endless stream of nothing",
            vec![
                send(stream()),
                Step::Endless(": still here, please wait a little\n\n"),
            ],
            "transient: ",
        ),
    ] {
        let outcome = outcome(reply).await;
        assert!(outcome.starts_with(expected), "{name}: {outcome}");
        assert!(!outcome.contains(KEY), "{name}: {outcome}");
    }
}

#[tokio::test]
async fn connection_failure_is_a_transient_error_with_the_host() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut settings = settings(&format!("http://{host}"));
    settings.query = BTreeMap::from([("code".to_owned(), Secret::new("hidden"))]);
    let error = prompt(&directory(settings), question()).await.unwrap_err();
    assert_eq!(error.fault, Fault::Transient);
    assert!(
        error
            .message
            .starts_with(&format!("{host} could not be reached: ")),
        "{error}"
    );
    assert!(error.message.contains("refused"), "{error}");
    assert!(!error.message.contains("hidden"), "{error}");
}

#[tokio::test]
async fn a_prompt_carries_its_key_headers_and_query() {
    let server = Server::start(vec![good("hi")]).await;
    let mut settings = settings(&server.url);
    settings.headers = BTreeMap::from([("X-Team".to_owned(), Secret::new("blue"))]);
    settings.query = BTreeMap::from([("api-version".to_owned(), Secret::new("1 a"))]);
    let answer = prompt(&directory(settings), question()).await.unwrap();
    assert_eq!(answer.model, "test/m-1");
    assert_eq!(answer.usage.cost_usd, Some(0.002));
    assert_eq!(answer.held_ms, 0);
    let seen = &server.seen()[0];
    for expected in [
        "POST /v1/chat/completions?api-version=1+a HTTP/1.1",
        "authorization: Bearer very-secret-key-123",
        "x-team: blue",
        "content-type: application/json",
        "\"stream\":true",
        "\"model\":\"m\"",
    ] {
        assert!(seen.contains(expected), "{expected} in {seen}");
    }
}

#[tokio::test]
async fn an_answer_may_come_whole() {
    let whole = "{\"model\":\"m-1\",\"choices\":[{\"message\":{\"content\":\"all of it\"},\"finish_reason\":\"stop\"}]}";
    let server = Server::start(vec![reply("200 OK", "", whole)]).await;
    let mut settings = settings(&server.url);
    settings.streaming = Some(false);
    let answer = prompt(&directory(settings), question()).await.unwrap();
    assert_eq!(shown(&answer), "say all of it");
    assert!(!server.seen()[0].contains("\"stream\":true"));
}

#[tokio::test]
async fn a_rate_limit_is_a_wait_and_not_a_failure() {
    let too_many = reply("429 Too Many Requests", "retry-after-ms: 30\r\n", "{}");
    let server = Server::start(vec![too_many.clone(), too_many, good("at last")]).await;
    let directory = directory(settings(&server.url));
    let recorder = Recorder::default();
    let model = directory.find("test/m").unwrap();
    let answer = model.turn(question(), &recorder).await.unwrap();
    assert_eq!(shown(&answer), "say at last");
    assert!(answer.held_ms >= 60, "{}", answer.held_ms);
    assert_eq!(server.seen().len(), 3);
    let waits = recorder.waits.lock().unwrap().clone();
    assert_eq!(waits.len(), 4, "{waits:?}");
    assert!(waits[0].is_some_and(|wait| wait.position == 1 && wait.resumes_in_ms.is_some()));
    assert_eq!(waits[3], None);
    let states = directory.governor().states();
    assert_eq!((states[0].in_flight, states[0].queued), (0, 0));
}

#[tokio::test]
async fn without_retry_after_the_wait_is_about_a_second_and_can_be_dropped() {
    let server = Server::start(vec![reply("429 Too Many Requests", "", "{}")]).await;
    let directory = directory(settings(&server.url));
    let recorder = Recorder::default();
    let model = directory.find("test/m").unwrap();
    let waits = async {
        while recorder.waits.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        answer = model.turn(question(), &recorder) => panic!("{answer:?}"),
        () = waits => {}
    }
    let wait = recorder.waits.lock().unwrap()[0].unwrap();
    let resumes = wait.resumes_in_ms.unwrap();
    assert!((900..=1250).contains(&resumes), "{resumes}");
    let states = directory.governor().states();
    assert_eq!((states[0].in_flight, states[0].queued), (0, 0));
}

#[tokio::test]
async fn a_prompt_with_a_fallback_does_not_wait_long() {
    let server = Server::start(vec![reply(
        "429 Too Many Requests",
        "retry-after: 60\r\n",
        "{}",
    )])
    .await;
    let mut question = question();
    question.options.has_fallback = true;
    let error = prompt(&directory(settings(&server.url)), question)
        .await
        .unwrap_err();
    let Fault::RateLimited {
        retry_after_ms: Some(ms),
    } = error.fault
    else {
        panic!("{error:?}");
    };
    assert!((59_000..=60_000).contains(&ms), "{ms}");
}

#[tokio::test]
async fn a_model_without_tool_support_gets_tools_in_the_prompt_from_then_on() {
    let no_tools = reply(
        "400 Bad Request",
        "",
        "{\"error\":{\"message\":\"m does not support tools\"}}",
    );
    let no_schema = reply(
        "400 Bad Request",
        "",
        "{\"error\":{\"message\":\"response_format json_schema is not supported\"}}",
    );
    let step = good("{\"tool\":\"read\",\"tool_arguments\":{\"path\":\"a\"}}");
    let fenced =
        good("I look.\n```tool\n{\"tool\":\"read\",\"arguments\":{\"path\":\"a\"}}\n```\n");
    let folder = tempfile::tempdir().unwrap();
    let no_list = reply("404 Not Found", "", "{}");
    let server = Server::start(vec![no_list, no_tools, step, no_schema, fenced]).await;
    let directory = Directory::new(DirectorySettings {
        providers: BTreeMap::from([("test".to_owned(), settings(&server.url))]),
        learned: Some(folder.path().join("learned.json")),
        ..DirectorySettings::default()
    });
    let answer = prompt(&directory, question()).await.unwrap();
    assert!(
        shown(&answer).ends_with("call read {\"path\":\"a\"}"),
        "{}",
        shown(&answer)
    );
    let seen = &server.seen()[1..];
    assert!(seen[0].contains("\"tools\":["), "{}", seen[0]);
    assert!(!seen[1].contains("\"tools\":["), "{}", seen[1]);
    assert!(seen[1].contains("json_schema"), "{}", seen[1]);

    let answer = prompt(&directory, question()).await.unwrap();
    assert!(shown(&answer).contains("I look."), "{}", shown(&answer));
    let seen = &server.seen()[1..];
    assert!(
        !seen[2].contains("\"tools\":["),
        "it was learned: {}",
        seen[2]
    );
    assert!(!seen[3].contains("json_schema"), "{}", seen[3]);
    let learned = std::fs::read_to_string(folder.path().join("learned.json")).unwrap();
    assert!(learned.contains("\"test/m\": \"fenced\""), "{learned}");
}

/// Starts a local server that describes its model like this; returns whether the first request
/// contains tools.
async fn begins_with_tools(description: &str) -> bool {
    let description = description.to_owned();
    let server =
        Server::answering(
            move |_, request| match request.starts_with("GET /v1/models ") {
                true => reply("200 OK", "content-type: application/json\r\n", &description),
                false => good("{\"answer\":\"hi\"}"),
            },
        )
        .await;
    let directory = Directory::new(DirectorySettings {
        providers: BTreeMap::from([("test".to_owned(), settings(&server.url))]),
        ..DirectorySettings::default()
    });
    // Whether the reply is accepted does not matter here.
    prompt(&directory, question()).await.ok();
    let seen = server.seen();
    assert!(seen[0].starts_with("GET "), "{}", seen[0]);
    assert!(!seen[0].contains(KEY), "{}", seen[0]);
    assert_eq!(seen.len(), 2, "{seen:?}");
    seen[1].contains("\"tools\":[")
}

#[tokio::test]
async fn small_local_models_begin_in_schema_mode() {
    let one = |id: &str, count: &str| {
        format!(r#"{{"data":[{{"id":"{id}","meta":{{"n_params":{count}}}}}]}}"#)
    };
    assert!(!begins_with_tools(&one("m", "1777088000")).await);
    assert!(!begins_with_tools(&one("another", "1777088000")).await);
    assert!(begins_with_tools(&one("m", "7615616512")).await);
    assert!(begins_with_tools(r#"{"data":[{"id":"m"}]}"#).await);
    assert!(begins_with_tools("not found").await);
}

#[tokio::test]
async fn schema_mode_steps_are_not_streamed_as_text() {
    let server = Server::start(vec![good("{\"answer\":\"forty-two\"}")]).await;
    let schema = ModelConfig {
        tools: Some(ToolSetting::Schema),
        ..ModelConfig::default()
    };
    let directory = Directory::new(DirectorySettings {
        providers: BTreeMap::from([("test".to_owned(), settings(&server.url))]),
        models: BTreeMap::from([("test/m".to_owned(), schema)]),
        ..DirectorySettings::default()
    });
    let recorder = Recorder::default();
    let model = directory.find("test/m").unwrap();
    let answer = model.turn(question(), &recorder).await.unwrap();
    assert_eq!(shown(&answer), "say forty-two");
    assert_eq!(*recorder.text.lock().unwrap(), "forty-two");
}

#[tokio::test]
async fn siblings_with_one_prompt_let_the_first_go_ahead() {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&arrived);
    let server = Server::answering(move |_, _| {
        noted.lock().unwrap().push(Instant::now());
        let mut steps = vec![Step::After(Duration::from_millis(40))];
        steps.extend(good("hi"));
        steps
    })
    .await;
    let mut settings = settings(&server.url);
    settings.warm_cache = Some(true);
    let directory = Arc::new(directory(settings));
    let mut question = question();
    question.system = "You are thorough. ".repeat(400).into();
    let mut siblings = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (directory, question) = (Arc::clone(&directory), question.clone());
        siblings.spawn(async move { prompt(&directory, question).await.unwrap() });
    }
    siblings.join_all().await;
    let arrived = arrived.lock().unwrap();
    let after: Vec<Duration> = arrived.iter().map(|at| *at - arrived[0]).collect();
    assert_eq!(after.len(), 4);
    assert!(
        after[1] >= Duration::from_millis(35),
        "the first goes ahead: {after:?}"
    );
}

#[test]
fn keys_are_in_no_debug_output() {
    let directory = directory(settings("http://127.0.0.1:1"));
    let model = directory.find("test/m").unwrap();
    let text = format!(
        "{directory:?} {model:?} {:?}",
        settings("http://127.0.0.1:1")
    );
    assert!(text.contains("[redacted]"));
    assert!(!text.contains(KEY));
}

#[tokio::test]
async fn price_is_that_of_the_replying_model() {
    let check = async |requested: &str,
                       answered: &str,
                       own: Option<Price>,
                       expected: Option<f64>| {
        let document = format!(
            r#"{{"type":"message","model":"{answered}","content":[{{"type":"text","text":"hi"}}],"stop_reason":"end_turn","usage":{{"input_tokens":1000000,"output_tokens":0}}}}"#
        );
        let answer = reply("200 OK", "content-type: application/json\r\n", &document);
        let server = Server::start(vec![answer]).await;
        let directory = Directory::new(DirectorySettings {
            providers: [("anthropic".to_owned(), settings_of(&server.url))].into(),
            models: [(
                format!("anthropic/{requested}"),
                ModelConfig {
                    price: own,
                    ..ModelConfig::default()
                },
            )]
            .into(),
            ..DirectorySettings::default()
        });
        let model = directory.find(&format!("anthropic/{requested}")).unwrap();
        let answer = model.turn(question(), &Recorder::default()).await.unwrap();
        assert_eq!(answer.usage.cost_usd, expected, "{requested} {answered}");
    };
    let own = Price {
        input: Some(7.0),
        output: Some(7.0),
        ..Price::default()
    };
    check("claude-sonnet-5-5", "claude-sonnet-5-5", None, Some(2.0)).await;
    check("claude-sonnet-5-5", "claude-sonnet-4-5", None, Some(3.0)).await;
    check("claude-sonnet-5-5", "claude-nobody", None, Some(2.0)).await;
    check("claude-nobody", "claude-nobody", None, None).await;
    check(
        "claude-sonnet-5-5",
        "claude-sonnet-4-5",
        Some(own),
        Some(7.0),
    )
    .await;
}

fn settings_of(url: &str) -> ProviderConfig {
    ProviderConfig {
        wire: None,
        ..settings(url)
    }
}
