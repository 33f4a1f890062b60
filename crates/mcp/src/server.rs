//! One configured server: started on first use, shared by all runs, restarted with limits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{CallToolResponse, CallToolResult, JsonObject};
use rmcp::service::ServiceError;
use sortie_base::redact::Redactor;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::Fingerprint;
use crate::announced::check;
use crate::config::ServerConfig;
use crate::connection::Connection;
use crate::judge::{Offers, judge};
use crate::name::check_server_name;
use crate::pool::PoolSettings;
use crate::resolved::{Resolved, Surroundings};
use crate::restarts::Restarts;
use crate::trouble::{Trouble, reason};

/// How long a call waits for a server that may not be restarted yet.
const MAX_PATIENCE: Duration = Duration::from_secs(3);
/// Consecutive timeouts after which a server counts as stuck.
const MAX_TIMEOUTS: u32 = 3;

pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    settings: Arc<PoolSettings>,
    /// The resolved endpoint, or the error in the settings.
    resolved: Result<Resolved, String>,
    /// Serializes starting and listing: a hundred runs that need the server start it once.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: Option<Arc<Connection>>,
    restarts: Restarts,
    /// The tools as last listed; kept while the server is down, so that a call can restart it.
    offers: Option<Arc<Offers>>,
    is_shut: bool,
    /// Number of failed starts and listings, and the reason of the last one.
    troubles: u64,
    last_trouble: Option<Trouble>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(name: String, config: ServerConfig, settings: Arc<PoolSettings>) -> Self {
        let around = Surroundings {
            variables: &settings.variables,
            environment: &settings.environment,
            workspace: &settings.workspace,
            supervisor: &settings.supervisor,
        };
        let resolved =
            check_server_name(&name).and_then(|()| Resolved::new(&config.endpoint, around));
        Self {
            name,
            config,
            settings,
            resolved,
            turn: tokio::sync::Mutex::new(()),
            state: Mutex::default(),
        }
    }

    /// Returns the tools as last listed.
    pub(crate) fn offers(&self) -> Option<Arc<Offers>> {
        self.state().offers.clone()
    }

    /// Returns the redactor for the secrets of its settings.
    pub(crate) fn redactor(&self) -> Redactor {
        let redactor = self
            .resolved
            .as_ref()
            .map(|resolved| resolved.redactor.clone());
        redactor.unwrap_or_default()
    }

    /// Calls a tool in the form that the model was shown.
    pub(crate) async fn call(
        &self,
        tool: &str,
        shown: &Fingerprint,
        arguments: JsonObject,
    ) -> Result<CallToolResult, Trouble> {
        let connection = self.ready().await?;
        self.permit(&connection, tool, shown).await?;
        match timeout(self.config.timeout, connection.call(tool, arguments)).await {
            Err(_) => Err(self.unanswered(&connection).await),
            Ok(Err(error)) => Err(self.failed(&connection, error).await),
            Ok(Ok(response)) => {
                self.state().restarts.worked();
                complete(response)
            }
        }
    }

    /// Starts the server and lists its tools if needed.
    pub(crate) async fn ready(&self) -> Result<Arc<Connection>, Trouble> {
        if let Some(connection) = self.listed() {
            return Ok(connection);
        }
        let troubles = self.state().troubles;
        let turn = self.turn.lock().await;
        if let Some(connection) = self.listed() {
            return Ok(connection);
        }
        // Callers that waited for a failed start share its error instead of retrying one after the other.
        if let Some(trouble) = self.trouble_since(troubles) {
            return Err(trouble);
        }
        let ready = self.make_ready().await;
        if let Err(trouble) = &ready {
            let mut state = self.state();
            state.troubles += 1;
            state.last_trouble = Some(trouble.clone());
        }
        drop(turn);
        ready
    }

    async fn make_ready(&self) -> Result<Arc<Connection>, Trouble> {
        let resolved = self
            .resolved
            .as_ref()
            .map_err(|why| Trouble::new(why.clone()))?;
        let running = self.live();
        if running.is_none() {
            self.wait_for_start().await?;
        }
        let deadline = Instant::now() + self.config.startup_timeout;
        let connection = match running {
            Some(connection) => connection,
            None => self.start(resolved, deadline).await?,
        };
        self.list(resolved, &connection, deadline).await?;
        Ok(connection)
    }

    /// Marks the tools to be listed and compared again before the next use.
    pub(crate) fn look_again(&self) {
        if let Some(connection) = self.live() {
            connection.set_stale();
        }
    }

    /// Kills the server without closing the protocol.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        state.is_shut = true;
        if let Some(connection) = state.live.take() {
            connection.kill();
        }
    }

    /// Shuts the server down and prevents another start.
    pub(crate) async fn shut_down(&self) {
        let live = {
            let mut state = self.state();
            state.is_shut = true;
            state.live.take()
        };
        if let Some(connection) = live {
            connection.close().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble_since(&self, troubles: u64) -> Option<Trouble> {
        let state = self.state();
        let is_new = state.troubles > troubles;
        state.last_trouble.clone().filter(|_| is_new)
    }

    fn live(&self) -> Option<Arc<Connection>> {
        self.state()
            .live
            .clone()
            .filter(|connection| connection.is_open())
    }

    fn listed(&self) -> Option<Arc<Connection>> {
        self.live().filter(|connection| !connection.is_stale())
    }

    /// Waits until the server may be started; fails if that takes too long.
    async fn wait_for_start(&self) -> Result<(), Trouble> {
        let wait = {
            let mut state = self.state();
            let now = Instant::now();
            if state.is_shut {
                return Err(Trouble::new("the MCP servers were shut down"));
            }
            // It stopped since the last use.
            if state.live.take().is_some() {
                state.restarts.failed(now);
            }
            state.restarts.wait(now)
        };
        if wait > MAX_PATIENCE {
            let seconds = wait.as_secs() + 1;
            return Err(Trouble::new(format!(
                "it failed too often and is unavailable for {seconds} more seconds: continue without it until then"
            )));
        }
        sleep(wait).await;
        Ok(())
    }

    async fn start(
        &self,
        resolved: &Resolved,
        deadline: Instant,
    ) -> Result<Arc<Connection>, Trouble> {
        // Recorded first: a start that is abandoned counts too.
        self.state().restarts.started(Instant::now());
        match Connection::open(resolved, self.settings.guard.as_ref(), deadline).await {
            Ok(connection) => self.adopt(connection),
            Err(trouble) => {
                self.state().restarts.failed(Instant::now());
                Err(trouble)
            }
        }
    }

    fn adopt(&self, connection: Connection) -> Result<Arc<Connection>, Trouble> {
        let connection = Arc::new(connection);
        let mut state = self.state();
        if state.is_shut {
            return Err(Trouble::new("the MCP servers were shut down"));
        }
        state.live = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Lists its tools and compares them with the approved ones.
    async fn list(
        &self,
        resolved: &Resolved,
        connection: &Arc<Connection>,
        deadline: Instant,
    ) -> Result<(), Trouble> {
        let changes = connection.changes();
        let why = match timeout_at(deadline, connection.list()).await {
            Ok(Ok(tools)) => {
                let listing = check(&self.name, &self.config.tools, &tools);
                let approvals = Arc::clone(&self.settings.approvals);
                let offers = judge(&self.name, listing, approvals).await;
                self.state().offers = Some(Arc::new(offers));
                connection.set_listed(changes);
                return Ok(());
            }
            Ok(Err(ServiceError::TransportClosed)) => {
                "it ended while its tools were being listed".to_owned()
            }
            Ok(Err(error)) => format!(
                "its tools cannot be listed: {}",
                reason(&error, &resolved.redactor)
            ),
            Err(_) => "its tools were not listed in time".to_owned(),
        };
        let words = self.lose(connection).await.1;
        Err(Trouble::new(why).with_words(&words, &resolved.redactor))
    }

    /// Checks that the tool is still the one that the model was shown.
    async fn permit(
        &self,
        connection: &Arc<Connection>,
        tool: &str,
        shown: &Fingerprint,
    ) -> Result<(), Trouble> {
        let mut offers = self.offers().unwrap_or_default();
        if offers.changes.iter().any(|change| change.tool == tool) {
            // It may have been approved since, also by another process.
            connection.set_stale();
            self.ready().await?;
            offers = self.offers().unwrap_or_default();
        }
        let current = offers.tools.iter().find(|current| current.name == tool);
        if current.is_some_and(|current| current.fingerprint == *shown) {
            return Ok(());
        }
        let name = &self.name;
        let sentence = if current.is_some() {
            "this tool changed since this run began: its new form is offered to new runs".to_owned()
        } else if offers.changes.iter().any(|change| change.tool == tool) {
            format!(
                "this tool is withdrawn because its description or schema changed since it was approved: \
                 a person has to check it and run `sortie mcp approve {name}`. Continue without it"
            )
        } else {
            "it no longer offers this tool: continue without it".to_owned()
        };
        Err(Trouble::new(sentence))
    }

    /// Builds the error of a call that timed out.
    async fn unanswered(&self, connection: &Arc<Connection>) -> Trouble {
        let seconds = self.config.timeout.as_secs_f64();
        let mut sentence = format!(
            "it did not answer within {seconds} s and the call was cancelled. Whether it took effect is unknown: \
             verify before you repeat it"
        );
        if connection.timed_out() >= MAX_TIMEOUTS {
            self.lose(connection).await;
            sentence.push_str(". It seems stuck and is restarted at the next call");
        }
        Trouble::new(sentence)
    }

    /// Builds the error of a call that failed.
    async fn failed(&self, connection: &Arc<Connection>, error: ServiceError) -> Trouble {
        let redactor = self.redactor();
        let is_lost = match &error {
            ServiceError::McpError(error) => {
                let trouble = Trouble::new("it refused the call; its message has the reason");
                return trouble.with_words(&error.message, &redactor);
            }
            ServiceError::UnexpectedResponse => {
                return Trouble::new(
                    "its response does not follow the protocol. The call may have taken effect: verify before you repeat it",
                );
            }
            ServiceError::TransportClosed => true,
            ServiceError::TransportSend(_) | _ => connection.is_program() || !connection.is_open(),
        };
        if !is_lost {
            let why = reason(&error, &redactor);
            return Trouble::new(format!(
                "the call could not be sent: {why}. Try again later, or continue without it"
            ));
        }
        let too_much = connection.sent_too_much();
        let (ending, words) = self.lose(connection).await;
        let what = match (too_much, ending) {
            (true, _) => "its message exceeds the size limit, so it was stopped".to_owned(),
            (false, Some(ending)) => format!("it stopped during the call ({ending})"),
            (false, None) => "the connection to it was lost during the call".to_owned(),
        };
        let sentence = format!(
            "{what}. Whether the call took effect is unknown: verify before you repeat it. The server is restarted at the next call"
        );
        Trouble::new(sentence).with_words(&words, &redactor)
    }

    /// Drops a connection; the first caller records the failure.
    async fn lose(&self, connection: &Arc<Connection>) -> (Option<String>, String) {
        {
            let mut state = self.state();
            let is_live = state
                .live
                .as_ref()
                .is_some_and(|live| Arc::ptr_eq(live, connection));
            if is_live {
                state.live = None;
                state.restarts.failed(Instant::now());
            }
        }
        connection.post_mortem().await
    }
}

fn complete(response: CallToolResponse) -> Result<CallToolResult, Trouble> {
    match response {
        CallToolResponse::Complete(result) => Ok(result),
        CallToolResponse::InputRequired(_) => Err(Trouble::new(
            "it requested user input or a model, which is not supported: call the tool with all arguments it needs, or continue without it",
        )),
        // A task to poll, or a result of a later protocol: neither was requested.
        CallToolResponse::Task(_) | _ => Err(Trouble::new(
            "it returned an unexpected kind of result: continue without it",
        )),
    }
}
