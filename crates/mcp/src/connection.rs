//! One live connection to a server: initialize, list tools, call, close.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ClientRequest,
    ErrorCode, Implementation, JsonObject, ListToolsRequest, PaginatedRequestParams,
    ProtocolVersion, ServerResult, Tool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RunningService, ServiceError,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use rmcp::{ClientHandler, ClientLifecycleMode, Peer, RoleClient, serve_client_with_lifecycle};
use serde::Deserialize as _;
use serde_json::Value;
use sortie_fetch::Guard;
use tokio::time::{Instant, timeout, timeout_at};

use crate::http::GuardedClient;
use crate::process::{Bounded, Launch, MAX_MESSAGE_BYTES, Process};
use crate::resolved::{Resolved, Target};
use crate::trouble::{Trouble, reason};

/// Limit of pages of a tool list.
const MAX_PAGES: usize = 64;
/// Limit of tools that are read; far fewer are offered.
const MAX_LISTED: usize = 2_000;
/// Timeout of closing the protocol.
const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// Limit of reconnects of an event stream.
const MAX_STREAM_RETRIES: usize = 5;
/// Upper limit of the wait before a reconnect.
const MAX_STREAM_DELAY: Duration = Duration::from_secs(30);

/// A page of tools, and the cursor of the next one.
type Page = (Vec<Tool>, Option<String>);
type Service = RunningService<RoleClient, Handler>;

/// A live connection. Dropping it ends the server's whole process group.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<Service>>,
    process: Option<Process>,
    /// Number of required listings: the first one, and one for each change notification.
    changes: Arc<AtomicU64>,
    /// How many of those are done.
    listed: AtomicU64,
    /// Whether the server sent a message that is too long.
    exceeded: Arc<AtomicBool>,
    timeouts: AtomicU32,
}

/// Reason why connecting failed.
enum ConnectRefusal {
    /// The server does not support this handshake.
    Lifecycle(Trouble),
    /// Another handshake would not help.
    Final(Trouble),
}

impl Connection {
    /// Starts or connects to a server and performs the handshake.
    pub(crate) async fn open(
        resolved: &Resolved,
        guard: Option<&Guard>,
        deadline: Instant,
    ) -> Result<Self, Trouble> {
        let classic = ClientLifecycleMode::Initialize;
        match Self::begin(resolved, guard, deadline, classic).await {
            Ok(connection) => Ok(connection),
            Err(ConnectRefusal::Final(trouble)) => Err(trouble),
            // Servers of the newest protocol may not support `initialize`.
            Err(ConnectRefusal::Lifecycle(first)) => {
                let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
                let discover = ClientLifecycleMode::Discover { preferred_versions };
                let second = Self::begin(resolved, guard, deadline, discover).await;
                second.map_err(|_| first)
            }
        }
    }

    async fn begin(
        resolved: &Resolved,
        guard: Option<&Guard>,
        deadline: Instant,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectRefusal> {
        match &resolved.target {
            Target::Stdio {
                command,
                args,
                environment,
                folder,
                supervisor,
            } => {
                let launch = Launch {
                    supervisor,
                    command,
                    args,
                    environment,
                    folder,
                };
                Self::begin_stdio(resolved, launch, deadline, lifecycle).await
            }
            Target::Http { .. } => Self::begin_http(resolved, guard, deadline, lifecycle).await,
        }
    }

    async fn begin_stdio(
        resolved: &Resolved,
        launch: Launch<'_>,
        deadline: Instant,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectRefusal> {
        let (process, output, input) = Process::start(launch).map_err(|error| {
            let why = reason(&error, &resolved.redactor);
            ConnectRefusal::Final(Trouble::new(format!(
                "its program cannot be started: {why}"
            )))
        })?;
        let exceeded = Arc::new(AtomicBool::new(false));
        let output = Bounded::new(output, Arc::clone(&exceeded));
        // The limit above applies first; this one would drop a message and leave its caller waiting.
        let transport =
            AsyncRwTransport::new(output, input).with_max_line_length(2 * MAX_MESSAGE_BYTES);
        let handler = Handler::default();
        let changes = Arc::clone(&handler.changes);
        let greeting = serve_client_with_lifecycle(handler, transport, lifecycle);
        match timeout_at(deadline, greeting).await {
            Ok(Ok(service)) => Ok(Self::new(service, Some(process), changes, exceeded)),
            Ok(Err(error)) => Err(failed_program(resolved, &process, error).await),
            Err(_) => {
                process.kill();
                let trouble = Trouble::new("it did not complete the handshake in time");
                let words = process.last_words().await;
                Err(ConnectRefusal::Final(
                    trouble.with_words(&words, &resolved.redactor),
                ))
            }
        }
    }

    async fn begin_http(
        resolved: &Resolved,
        guard: Option<&Guard>,
        deadline: Instant,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectRefusal> {
        let (Target::Http { url, headers }, Some(guard)) = (&resolved.target, guard) else {
            let trouble = Trouble::new("it is on the network, and network access is disabled here");
            return Err(ConnectRefusal::Final(trouble));
        };
        let mut retries = ExponentialBackoff::default();
        retries.max_times = Some(MAX_STREAM_RETRIES);
        retries.max_delay = Some(MAX_STREAM_DELAY);
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
            .custom_headers(headers.clone())
            .max_sse_event_size(MAX_MESSAGE_BYTES);
        config.retry_config = Arc::new(retries);
        let client = GuardedClient::new(guard.clone());
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let handler = Handler::default();
        let changes = Arc::clone(&handler.changes);
        let greeting = serve_client_with_lifecycle(handler, transport, lifecycle);
        match timeout_at(deadline, greeting).await {
            Ok(Ok(service)) => Ok(Self::new(service, None, changes, Arc::default())),
            Ok(Err(error)) => Err(refusal(
                &error,
                Trouble::new(reason(&error, &resolved.redactor)),
            )),
            Err(_) => Err(ConnectRefusal::Final(Trouble::new(
                "it did not complete the handshake in time",
            ))),
        }
    }

    fn new(
        service: Service,
        process: Option<Process>,
        changes: Arc<AtomicU64>,
        exceeded: Arc<AtomicBool>,
    ) -> Self {
        Self {
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            process,
            changes,
            listed: AtomicU64::new(0),
            exceeded,
            timeouts: AtomicU32::new(0),
        }
    }

    /// Returns whether the connection is alive.
    pub(crate) fn is_open(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    /// Returns whether the server is a child process.
    pub(crate) fn is_program(&self) -> bool {
        self.process.is_some()
    }

    /// Returns whether the server announced a change of its tools since the last listing.
    pub(crate) fn is_stale(&self) -> bool {
        self.changes() != self.listed.load(Ordering::Acquire)
    }

    /// Requests another listing of the tools.
    pub(crate) fn set_stale(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of changes so far; read it before a listing.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Records a completed listing that began after so many changes. Later changes are still to
    /// be handled, and so are all of them if the listing was abandoned.
    pub(crate) fn set_listed(&self, changes: u64) {
        self.listed.store(changes, Ordering::Release);
    }

    /// Lists the tools: a bounded number of pages and tools.
    pub(crate) async fn list(&self) -> Result<Vec<Tool>, ServiceError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let Some(page) = self.list_page(params).await? else {
                break;
            };
            tools.extend(page.0);
            cursor = page.1;
            if cursor.is_none() || tools.len() >= MAX_LISTED {
                break;
            }
        }
        tools.truncate(MAX_LISTED);
        Ok(tools)
    }

    /// Returns one page and the cursor of the next one; `None` from a server without tools. Sent by hand,
    /// because the SDK's own method answers from a cache for as long as the server likes.
    async fn list_page(
        &self,
        params: PaginatedRequestParams,
    ) -> Result<Option<Page>, ServiceError> {
        let request = ListToolsRequest {
            method: Default::default(),
            params: Some(params),
            extensions: Default::default(),
        };
        let request = ClientRequest::ListToolsRequest(request);
        let options = PeerRequestOptions::no_options();
        let answer = self.peer.send_request_with_option(request, options).await?;
        match answer.await_response().await {
            Ok(ServerResult::ListToolsResult(page)) => Ok(Some((page.tools, page.next_cursor))),
            Ok(ServerResult::CustomResult(page)) => page_of(&page.0).map(Some),
            Ok(_) => Err(ServiceError::UnexpectedResponse),
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Calls a tool. Dropping the future sends the server a cancellation.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResponse, ServiceError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let response = self.peer.call_tool_once(params).await;
        if response.is_ok() {
            self.timeouts.store(0, Ordering::Relaxed);
        }
        response
    }

    /// Records a timeout; returns the number of consecutive ones.
    pub(crate) fn timed_out(&self) -> u32 {
        self.timeouts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns whether the server sent a message that is too long; nothing more is read from it.
    pub(crate) fn sent_too_much(&self) -> bool {
        self.exceeded.load(Ordering::Acquire)
    }

    /// Kills the server's process group at once.
    pub(crate) fn kill(&self) {
        if let Some(process) = &self.process {
            process.kill();
        }
    }

    /// Closes the connection, and ends the server if it is a child process.
    pub(crate) async fn close(&self) {
        let service = self
            .service
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut service) = service {
            let closed = timeout(2 * CLOSE_GRACE, service.close_with_timeout(CLOSE_GRACE)).await;
            if !matches!(closed, Ok(Ok(Some(_)))) {
                tracing::debug!("an MCP connection was aborted because it did not close in time");
            }
        }
        if let Some(process) = &self.process {
            process.end().await;
        }
    }

    /// Ends a program that stopped answering; returns how it ended and what it last wrote.
    pub(crate) async fn post_mortem(&self) -> (Option<String>, String) {
        let Some(process) = &self.process else {
            return (None, String::new());
        };
        if self.sent_too_much() {
            process.kill();
        }
        process.end().await;
        (process.ending(), process.last_words().await)
    }
}

/// Parses a page that violates the protocol as far as it is readable.
fn page_of(page: &Value) -> Result<Page, ServiceError> {
    let tools = page["tools"]
        .as_array()
        .ok_or(ServiceError::UnexpectedResponse)?
        .iter();
    let tools = tools
        .take(MAX_LISTED)
        .filter_map(|tool| Tool::deserialize(tool).ok());
    Ok((
        tools.collect(),
        page["nextCursor"].as_str().map(str::to_owned),
    ))
}

/// Builds the error of a program that failed during the handshake.
async fn failed_program(
    resolved: &Resolved,
    process: &Process,
    error: ClientInitializeError,
) -> ConnectRefusal {
    process.end().await;
    let why = match (&error, process.ending()) {
        // A program that ends before it is written to breaks the pipe; after that it closes it.
        (
            ClientInitializeError::ConnectionClosed(_)
            | ClientInitializeError::TransportError { .. },
            Some(ending),
        ) => {
            format!("its program ended during the handshake ({ending})")
        }
        _ => reason(&error, &resolved.redactor),
    };
    let words = process.last_words().await;
    refusal(
        &error,
        Trouble::new(why).with_words(&words, &resolved.redactor),
    )
}

fn refusal(error: &ClientInitializeError, trouble: Trouble) -> ConnectRefusal {
    if matches!(error, ClientInitializeError::JsonRpcError(_)) {
        ConnectRefusal::Lifecycle(trouble)
    } else {
        ConnectRefusal::Final(trouble)
    }
}

/// Handles requests of a server: none is served. The SDK's defaults refuse sampling, decline elicitation and
/// list no roots; only the notification of changed tools is used.
#[derive(Clone, Debug)]
struct Handler {
    changes: Arc<AtomicU64>,
}

impl Default for Handler {
    fn default() -> Self {
        Self {
            changes: Arc::new(AtomicU64::new(1)),
        }
    }
}

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn get_info(&self) -> ClientConfig {
        let sortie = Implementation::new("sortie", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), sortie)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
