//! Tests that export real runs of the runtime to a real collector.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use sortie_core::event::StopReason;
use sortie_core::id::{RunId, hex};
use sortie_core::message::{Arguments, Usage};
use sortie_core::policy::Mode;
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Model, ModelAnswer, ModelDirectory, ModelError, ModelRequest, Terms,
};
use sortie_core::run::{Confinement, SandboxMode};
use sortie_core::time::Timestamp;
use sortie_runtime::{NewRun, Parts, Runtime, Settings};
use sortie_store::{DurableStore, Owner};
use sortie_telemetry::{Capture, Endpoint, Exported, Telemetry, TelemetryConfig};
use sortie_tools::{ToolSettings, standard_tools};
use tempfile::TempDir;

use crate::collector::{Collector, Mood};
use crate::journal::PRIVATE;

/// The value of a header, which must appear nowhere but in that header.
const KEY: &str = "key-7f3a91";
/// The most time that a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// A main agent that spawns one child; the child reads a file.
#[derive(Clone, Debug)]
struct Voice;

impl ModelDirectory for Voice {
    fn find(&self, _name: &str) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(self.clone()))
    }

    fn terms(&self, _name: &str) -> Terms {
        Terms::default()
    }
}

#[async_trait]
impl Model for Voice {
    async fn turn(
        &self,
        request: ModelRequest,
        _deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        let (name, arguments) = if request.origin.depth == 0 {
            (
                "task",
                json!({"description": "look", "prompt": PRIVATE, "subagent_type": "explore"}),
            )
        } else {
            ("read_file", json!({"path": "note.txt"}))
        };
        let (parts, stop) = if request.origin.turn == 1 {
            let call = AnswerPart::Call {
                provider_id: None,
                name: name.to_owned(),
                arguments: Arguments::Json(arguments),
            };
            (vec![call], StopReason::ToolUse)
        } else {
            let words = AnswerPart::Text(format!("answer {PRIVATE}"));
            (vec![words], StopReason::EndTurn)
        };
        Ok(ModelAnswer {
            parts,
            stop,
            usage: Usage {
                input_tokens: Some(7),
                output_tokens: Some(3),
                ..Usage::default()
            },
            model: "voice".to_owned(),
            held_ms: 0,
        })
    }
}

/// A runtime whose runs are exported.
struct World {
    runtime: Runtime,
    store: Arc<DurableStore>,
    telemetry: Telemetry,
    folder: TempDir,
}

impl World {
    async fn new(endpoint: String, capture_content: bool) -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("note.txt"), PRIVATE).expect("a note");
        let owner = Owner {
            pid: std::process::id(),
            command: "a test".to_owned(),
            since: Timestamp(0),
        };
        let store = DurableStore::open(&folder.path().join("home"), &owner).expect("a store");
        let store = Arc::new(store);
        let tools = standard_tools(ToolSettings::default());
        let parts = Parts::new(Arc::clone(&store) as _, Arc::new(Voice), tools);
        let settings = Settings {
            confinement: Confinement {
                sandbox: SandboxMode::Off,
                network: false,
            },
            ..Settings::default()
        };
        let runtime = Runtime::start(parts, settings).await.expect("a runtime");
        let config = TelemetryConfig {
            endpoint: Endpoint::Base(endpoint),
            headers: vec![("x-api-key".to_owned(), KEY.to_owned())],
            capture_content,
            service_version: "1.2.3".to_owned(),
        };
        let journals = Arc::clone(&store) as Arc<dyn sortie_core::ports::store::Journal>;
        let telemetry = Telemetry::start(&config, runtime.subscribe(), journals).expect("started");
        Self {
            runtime,
            store,
            telemetry,
            folder,
        }
    }

    /// Executes a main run and its child until both have ended.
    async fn play(&self) -> RunId {
        let new = NewRun {
            mode: Mode::Yolo,
            ..NewRun::new(PRIVATE, self.folder.path(), "voice")
        };
        let run = self.runtime.create(new).await.expect("a run");
        let ended = tokio::time::timeout(PATIENCE, self.runtime.wait_for(run)).await;
        let record = ended.expect("in time").expect("a record");
        assert_eq!(record.status, sortie_core::run::Status::Completed);
        run
    }

    async fn end(self) -> (Exported, Arc<DurableStore>, TempDir) {
        self.runtime.shut_down().await;
        (self.telemetry.stop(PATIENCE).await, self.store, self.folder)
    }
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span {name}"));
    assert!(found.next().is_none(), "more than one span {name}");
    span
}

fn attribute(span: &Span, name: &str) -> Option<Value> {
    let mut pairs = span.attributes.iter();
    pairs.find(|pair| pair.key == name)?.value.clone()?.value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_runs_arrives_as_one_trace() {
    let collector = Collector::start(&[]).await;
    let world = World::new(format!("http://{}", collector.address), false).await;
    let run = world.play().await;
    let (exported, store, _folder) = world.end().await;

    let spans = collector.spans();
    let whole = exported.spans;
    assert_eq!((spans.len(), whole), (8, 8), "{exported:?}");
    assert_eq!(exported.dropped_spans + exported.dropped_runs, 0);
    let trace = hex(&run.as_u128().to_be_bytes());
    assert!(spans.iter().all(|span| hex(&span.trace_id) == trace));

    let main = named(&spans, "invoke_agent main");
    let call = named(&spans, "execute_tool task");
    let child = named(&spans, "invoke_agent explore");
    let look = named(&spans, "execute_tool read_file");
    assert!(main.parent_span_id.is_empty());
    assert_eq!(call.parent_span_id, main.span_id);
    assert_eq!(child.parent_span_id, call.span_id);
    assert_eq!(look.parent_span_id, child.span_id);
    for (outer, inner) in [(main, call), (call, child), (child, look)] {
        assert!(outer.start_time_unix_nano <= inner.start_time_unix_nano);
        assert!(inner.end_time_unix_nano <= outer.end_time_unix_nano);
    }
    let tokens = attribute(child, "gen_ai.usage.input_tokens");
    assert_eq!(tokens, Some(Value::IntValue(14)));

    // A second export, by a process that has only the store, produces the same spans.
    let entries =
        sortie_core::ports::store::Journal::read(&*store, run, sortie_core::id::Seq(0)).await;
    let again = sortie_telemetry::spans(&entries.expect("a journal"), Capture::Facts);
    let ids: Vec<String> = again.iter().map(|span| hex(&span.id.0)).collect();
    let sent = spans.iter().map(|span| hex(&span.span_id));
    let sent: Vec<String> = sent.filter(|id| ids.contains(id)).collect();
    assert_eq!(sent.len(), ids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn content_and_keys_are_not_sent() {
    let collector = Collector::start(&[]).await;
    let world = World::new(format!("http://{}", collector.address), false).await;
    let shown = format!("{:?}", world.telemetry);
    assert!(!shown.contains(KEY), "{shown}");
    world.play().await;
    world.end().await;
    collector.look(|received| {
        let text = String::from_utf8_lossy(&received.bytes);
        assert!(text.contains("invoke_agent"), "nothing was sent");
        assert!(!text.contains(PRIVATE), "content left the machine");
        assert!(!text.contains(KEY), "the key is in the body");
        for headers in &received.headers {
            assert_eq!(headers["x-api-key"], KEY);
            assert_eq!(headers["content-type"], "application/x-protobuf");
        }
        let resource = received.requests[0].resource_spans[0].resource.clone();
        let attributes = resource.expect("a resource").attributes;
        let version = attributes.iter().find(|pair| pair.key == "service.version");
        let version = version.and_then(|pair| pair.value.clone()?.value);
        assert_eq!(version, Some(Value::StringValue("1.2.3".to_owned())));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_sent_if_the_operator_enables_it() {
    let collector = Collector::start(&[]).await;
    let world = World::new(format!("http://{}", collector.address), true).await;
    world.play().await;
    world.end().await;
    let spans = collector.spans();
    let result = attribute(
        named(&spans, "execute_tool read_file"),
        "gen_ai.tool.call.result",
    );
    let Some(Value::StringValue(result)) = result else {
        panic!("no result");
    };
    assert!(result.contains(PRIVATE), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_collector_is_retried() {
    let busy = [
        Mood::Answers(StatusCode::SERVICE_UNAVAILABLE),
        Mood::Answers(StatusCode::TOO_MANY_REQUESTS),
    ];
    let collector = Collector::start(&busy).await;
    let world = World::new(format!("http://{}", collector.address), false).await;
    world.play().await;
    let sent = async {
        while world.telemetry.exported().spans < 8 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, sent)
        .await
        .expect("sent in the end");
    let (exported, ..) = world.end().await;
    assert_eq!(exported.dropped_spans, 0);
    assert_eq!(collector.spans().len(), 8);
    assert!(collector.look(|received| received.headers.len()) >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_spans_are_counted() {
    for (mood, spans) in [
        (Mood::Answers(StatusCode::BAD_REQUEST), 0),
        (Mood::Redirects, 0),
        (Mood::Rejects(2), 6),
    ] {
        // Runs may arrive in two requests; the collector treats both the same.
        let collector = Collector::start(&[mood, mood]).await;
        let world = World::new(format!("http://{}", collector.address), false).await;
        world.play().await;
        let (exported, ..) = world.end().await;
        let lost = exported.dropped_spans;
        assert_eq!(exported.spans + lost, 8, "{mood:?}: {exported:?}");
        assert!(
            exported.spans <= spans && lost >= 2,
            "{mood:?}: {exported:?}"
        );
        // The key is sent only to the configured host.
        assert_eq!(collector.look(|received| received.elsewhere), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_collector_blocks_nothing() {
    // A port without a listener: it was free a moment ago.
    let free = {
        let collector = Collector::start(&[]).await;
        collector.address
    };
    let world = World::new(format!("http://{free}"), false).await;
    for _ in 0..3 {
        world.play().await;
    }
    world.runtime.shut_down().await;
    let exported = world.telemetry.stop(PATIENCE).await;
    assert_eq!(exported.spans, 0);
    assert!(exported.dropped_spans >= 8, "{exported:?}");
}
