//! A collector on loopback that records requests, and misbehaves on demand.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The collector's behaviour for the next request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mood {
    Takes,
    Answers(StatusCode),
    Rejects(i64),
    Redirects,
}

/// The requests that the collector received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) requests: Vec<ExportTraceServiceRequest>,
    pub(crate) headers: Vec<HeaderMap>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) elsewhere: u32,
    moods: VecDeque<Mood>,
}

#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Received>>,
    task: JoinHandle<()>,
}

impl Collector {
    /// Starts a collector with these behaviours for the first requests; it accepts all later ones.
    pub(crate) async fn start(moods: &[Mood]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Received {
            moods: moods.iter().copied().collect(),
            ..Received::default()
        }));
        let router = Router::new()
            .route("/v1/traces", post(take))
            .route("/elsewhere", post(elsewhere))
            .with_state(Arc::clone(&received));
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("a server");
        });
        Self {
            address,
            received,
            task,
        }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Received) -> T) -> T {
        look(&self.received.lock().expect("nobody died"))
    }

    /// Returns all accepted spans, in order.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let spans = |request: &ExportTraceServiceRequest| -> Vec<Span> {
            let resources = request.resource_spans.iter();
            let scopes = resources.flat_map(|resource| &resource.scope_spans);
            scopes.flat_map(|scope| scope.spans.clone()).collect()
        };
        self.look(|received| received.requests.iter().flat_map(spans).collect())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(
    State(received): State<Arc<Mutex<Received>>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, [(&'static str, &'static str); 1], Vec<u8>) {
    let mut received = received.lock().expect("nobody died");
    received.headers.push(headers);
    received.bytes.extend_from_slice(&body);
    let mood = received.moods.pop_front().unwrap_or(Mood::Takes);
    let rejected_spans = match mood {
        Mood::Takes => 0,
        Mood::Rejects(count) => count,
        Mood::Answers(status) => return (status, [("x-mood", "bad")], Vec::new()),
        Mood::Redirects => {
            let elsewhere = [("location", "/elsewhere")];
            return (StatusCode::TEMPORARY_REDIRECT, elsewhere, Vec::new());
        }
    };
    let request = ExportTraceServiceRequest::decode(body).expect("OTLP");
    received.requests.push(request);
    let answer = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans,
            error_message: String::new(),
        }),
    };
    (StatusCode::OK, [("x-mood", "good")], answer.encode_to_vec())
}

async fn elsewhere(State(received): State<Arc<Mutex<Received>>>) -> StatusCode {
    received.lock().expect("nobody died").elsewhere += 1;
    StatusCode::OK
}
