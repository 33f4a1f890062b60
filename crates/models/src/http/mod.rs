//! Models behind HTTP: sends requests that `sortie_wire` encodes, and decodes the responses with
//! it.

mod client;
mod exchange;
mod hold_back;
mod quiet;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sortie_core::event::StopReason;
use sortie_core::message::{Arguments, Message};
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Fault, Model, ModelAnswer, ModelError, ModelRequest, RateLimitWait,
    ToolSetting,
};
use sortie_wire::{Mode, ToolMode};
use tokio::sync::OnceCell;

use crate::discover::{Endpoint, parameter_count};
use crate::gate::{Gate, GateRequest, QueueEntry, Return};
use crate::price::{Price, price};
use crate::text::plain_name;
use crate::tool_mode::{Learned, Unsupported, after_refusal, after_text_call};
use crate::vendor::{ModelFacts, Provider};
use crate::warm::{Lead, SMALLEST_PREFIX_BYTES, Warm};

pub(crate) use client::client;
use exchange::Exchange;
use hold_back::HoldBack;
use quiet::Quiet;

/// About how many bytes of a request are one token.
const BYTES_PER_TOKEN: u64 = 4;
/// The estimate is rough: a request is refused only if it exceeds the window by a quarter.
const WINDOW_SLACK: u64 = 4;
/// Models with fewer parameters begin in schema mode: those that were tried wrote their tool calls
/// as text or answered without any.
const SMALL_MODEL_PARAMETERS: u64 = 4_000_000_000;
/// About how many tokens an image is.
const TOKENS_PER_IMAGE: u64 = 1_500;

/// A model of a provider.
#[derive(Debug)]
pub(crate) struct HttpModel {
    /// `vendor/model`, with the vendor's primary name.
    pub name: String,
    /// The vendor's own name of the model.
    pub model: String,
    pub provider: Arc<Provider>,
    pub facts: ModelFacts,
    /// The price that applies whichever model replies.
    pub own_price: Option<Price>,
    pub client: reqwest::Client,
    pub gate: Arc<Gate>,
    pub warm: Option<Arc<Warm>>,
    pub learned: Arc<Learned>,
    /// The size of the model that its local server reports; fetched at first use.
    pub parameter_count: OnceCell<Option<u64>>,
}

/// Why an exchange returned no reply.
#[derive(Debug)]
pub(crate) struct Failure {
    pub error: ModelError,
    /// The unsupported feature, if that is the reason.
    pub unsupported: Option<Unsupported>,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            unsupported: None,
        }
    }
}

#[async_trait]
impl Model for HttpModel {
    async fn turn(
        &self,
        request: ModelRequest,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        let known = self.known_mode().await;
        let mut mode = match request.options.after_text_call {
            true => after_text_call(known, self.facts.tools),
            false => known,
        };
        loop {
            let failure = match self.prompt(&request, mode, deltas).await {
                Ok(answer) => {
                    if calls_a_tool(&answer) {
                        self.learned.called(&self.name, known, mode);
                        self.prove(mode);
                    }
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let simpler = failure
                .unsupported
                .and_then(|what| after_refusal(mode, what));
            match simpler {
                Some(simpler) if self.facts.tools != ToolSetting::Native => {
                    // A mode on trial is learned once the model has called a tool in it.
                    if mode == known || known != ToolMode::Native {
                        self.learned.learn(&self.name, simpler);
                    }
                    mode = simpler;
                }
                Some(_) | None => return Err(failure.error),
            }
        }
    }
}

impl HttpModel {
    /// Sends one prompt in one tool mode, and retries while the provider is rate-limited.
    async fn prompt(
        &self,
        request: &ModelRequest,
        mode: ToolMode,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, Failure> {
        let asked = match mode {
            ToolMode::Native => Cow::Borrowed(request),
            ToolMode::Schema | ToolMode::Fenced => {
                Cow::Owned(sortie_wire::without_tools(request, mode))
            }
        };
        let exchange = self.exchange(&asked)?;
        let tokens = tokens(&asked, exchange.body_bytes());
        self.fits(tokens)?;
        let mut lead = self.lead(&asked).await;
        let mut place = self.gate.enter(GateRequest {
            has_fallback: request.options.has_fallback,
            tokens,
        });
        let is_unproven = mode == ToolMode::Native && self.is_unproven(request);
        let quiet = WaitsOnly(deltas);
        let hold_back = HoldBack::new(deltas);
        let sink: &dyn DeltaSink = match mode {
            // The turn may be repeated, and then this reply does not count.
            ToolMode::Native if is_unproven => &quiet,
            ToolMode::Native => &hold_back,
            // The reply is a step to be parsed, not text for the user.
            ToolMode::Schema | ToolMode::Fenced => &quiet,
        };
        let answer = self
            .send_in_turn(&exchange, &mut place, &mut lead, sink)
            .await?;
        // Without tools a fenced reply is the final answer, whatever blocks it contains.
        let steps = mode == ToolMode::Schema || !request.tools.is_empty();
        let answer = match mode {
            // A server that ignores the schema lets the model reply in plain text.
            ToolMode::Schema
                if request.options.after_text_call
                    && is_plain(&answer)
                    && !is_text_call(&answer, request, ToolMode::Native) =>
            {
                answer
            }
            ToolMode::Schema | ToolMode::Fenced if steps => sortie_wire::read_step(answer, mode),
            ToolMode::Native | ToolMode::Schema | ToolMode::Fenced => answer,
        };
        let answer = self.finished(answer, place.waited());
        if is_text_call(&answer, request, mode) {
            let shown = mode == ToolMode::Native && hold_back.has_shown();
            return Err(self.wrote_call(&answer, mode, shown).into());
        }
        if is_unproven && calls_nothing(&answer) {
            return Err(self.called_nothing(&answer).into());
        }
        match mode {
            ToolMode::Native if is_unproven => show(&answer, deltas),
            ToolMode::Native => hold_back.release(),
            ToolMode::Schema | ToolMode::Fenced => show(&answer, deltas),
        }
        Ok(answer)
    }

    /// Returns the tool mode in which a turn begins.
    async fn known_mode(&self) -> ToolMode {
        let known = self.learned.mode(&self.name, self.facts.tools);
        match known {
            ToolMode::Native if self.is_unknown() && self.is_small().await => ToolMode::Schema,
            ToolMode::Native | ToolMode::Schema | ToolMode::Fenced => known,
        }
    }

    /// Returns whether it is unknown if the model uses the wire's tool calls: local servers accept
    /// tools for models that were not trained for them.
    fn is_unknown(&self) -> bool {
        self.facts.local
            && self.facts.tools == ToolSetting::Auto
            && !self.learned.is_native(&self.name)
    }

    /// Returns whether the server reports a small model.
    async fn is_small(&self) -> bool {
        let asked = self.parameter_count.get_or_init(|| async {
            let endpoint = Endpoint {
                vendor: self.provider.name.clone(),
                base_url: self.provider.base_url.clone(),
            };
            parameter_count(&self.client, &endpoint, &self.model).await
        });
        asked
            .await
            .is_some_and(|count| count < SMALL_MODEL_PARAMETERS)
    }

    /// Returns whether a reply without a tool call may come from a model that cannot use the wire's
    /// tool calls: a local model that never used them, before the first call of a task. Small
    /// models then answer from nothing, or advise the user to call the tool.
    fn is_unproven(&self, request: &ModelRequest) -> bool {
        let begins = matches!(
            request.messages.last().map(|last| &**last),
            Some(Message::User { .. })
        );
        begins && !request.tools.is_empty() && self.is_unknown()
    }

    /// Stores that a local model uses the wire's tool calls.
    fn prove(&self, mode: ToolMode) {
        if self.facts.local && mode == ToolMode::Native && !self.learned.is_native(&self.name) {
            self.learned.learn(&self.name, mode);
        }
    }

    /// Returns the failure of a local model that called no tool at first contact.
    fn called_nothing(&self, answer: &ModelAnswer) -> ModelError {
        let usage = answer.usage;
        let message = format!(
            "{} called no tool, and is not known to support tool calls; trying schema mode (tools \
             described in the prompt)",
            self.name
        );
        ModelError::new(Fault::TextCall { usage }, message)
    }

    /// Returns the failure of a model that wrote its tool call as text.
    fn wrote_call(&self, answer: &ModelAnswer, mode: ToolMode, shown: bool) -> ModelError {
        let usage = answer.usage;
        let name = &self.name;
        let message = match (mode, self.facts.tools) {
            (ToolMode::Native, ToolSetting::Native) => format!(
                "{name} wrote its tool call as text and nothing ran; let Sortie choose another tool mode: set `tools = \"auto\"` under [models.\"{name}\"]"
            ),
            (ToolMode::Native, ToolSetting::Auto | ToolSetting::Schema | ToolSetting::Fenced) => {
                format!(
                    "{name} wrote its tool call as text and nothing ran; switched to schema mode \
                     (tools described in the prompt)"
                )
            }
            (ToolMode::Schema | ToolMode::Fenced, _) => format!(
                "{name} wrote a tool call as text although its tools were described in the prompt; nothing ran"
            ),
        };
        ModelError {
            shown,
            ..ModelError::new(Fault::TextCall { usage }, message)
        }
    }

    /// Waits for admission by the gate and sends, repeatedly while the provider is rate-limited.
    async fn send_in_turn(
        &self,
        exchange: &Exchange<'_>,
        place: &mut QueueEntry,
        lead: &mut Option<Lead>,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, Failure> {
        loop {
            place.wait_turn(deltas).await?;
            let quiet = Quiet::new(deltas, self.provider.redactor());
            let result = exchange.run(lead, &quiet).await;
            quiet.finish();
            place.returned(returned(&result));
            match result {
                Err(failure)
                    if matches!(failure.error.fault, Fault::RateLimited { .. })
                        && !failure.error.shown => {}
                result => return result,
            }
        }
    }

    /// Refuses a prompt that certainly exceeds the window: some servers would truncate it silently.
    fn fits(&self, tokens: u64) -> Result<(), ModelError> {
        match self.facts.context_window {
            Some(window) if tokens > window.saturating_add(window / WINDOW_SLACK) => {
                Err(ModelError::new(
                    Fault::ContextOverflow,
                    format!(
                        "the conversation is about {tokens} tokens long, and {} reads {window}",
                        self.name
                    ),
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn exchange(&self, request: &ModelRequest) -> Result<Exchange<'_>, ModelError> {
        let mode = if self.provider.streaming {
            Mode::Streaming
        } else {
            Mode::Whole
        };
        let encoded = sortie_wire::encode(&self.facts.dialect, &self.model, request, mode)?;
        Exchange::new(self, mode, encoded)
    }

    /// Leads, or waits for, requests with the same prefix.
    async fn lead(&self, request: &ModelRequest) -> Option<Lead> {
        let warm = self.warm.as_ref()?;
        let tools = request.tools.iter();
        let bytes = tools.fold(request.system.len(), |bytes, tool| {
            bytes + tool.description.len() + tool.parameters.to_string().len()
        });
        if bytes < SMALLEST_PREFIX_BYTES {
            return None;
        }
        let key = (self.name.clone(), sortie_wire::prefix_key(request));
        warm.wait(key).await
    }

    fn finished(&self, mut answer: ModelAnswer, waited: Duration) -> ModelAnswer {
        let model = match answer.model.as_str() {
            "" => &self.model,
            named => named,
        };
        answer.model = format!("{}/{}", self.provider.name, plain_name(model));
        // The replying model determines the price; an unknown name may be an alias of the requested
        // one.
        let price = self
            .own_price
            .or_else(|| price(&answer.model))
            .or_else(|| price(&self.name));
        answer.usage.cost_usd = price.and_then(|price| price.cost(&answer.usage));
        answer.held_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        answer
    }
}

/// Estimates the tokens of a request. Images cost by their dimensions, not by their bytes.
fn tokens(request: &ModelRequest, body_bytes: u64) -> u64 {
    let images = request.images.values();
    let encoded: usize = images.map(|bytes| bytes.len().div_ceil(3) * 4).sum();
    let text = body_bytes.saturating_sub(encoded as u64);
    text / BYTES_PER_TOKEN + request.images.len() as u64 * TOKENS_PER_IMAGE
}

/// Returns what the gate learns from the outcome of a request.
fn returned(result: &Result<ModelAnswer, Failure>) -> Return {
    let fault = match result {
        Ok(answer) => {
            return Return::Answered {
                tokens: answer.usage.total_tokens(),
            };
        }
        Err(failure) => failure.error.fault,
    };
    match fault {
        Fault::RateLimited { retry_after_ms } => Return::Refused {
            retry_after: retry_after_ms.map(Duration::from_millis),
        },
        Fault::Transient => Return::Failed,
        Fault::Auth
        | Fault::ContextOverflow
        | Fault::ContentFilter
        | Fault::BadRequest
        | Fault::TextCall { .. }
        | Fault::Cancelled => Return::Declined,
    }
}

/// Returns whether a reply is text that was not meant as a step.
fn is_plain(answer: &ModelAnswer) -> bool {
    let mut texts = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Text(text) => Some(text),
        AnswerPart::Reasoning { .. } | AnswerPart::Call { .. } => None,
    });
    texts
        .next()
        .is_some_and(|text| !sortie_wire::may_be_text_call(text))
}

/// Returns whether a reply contains a well-formed call.
fn calls_a_tool(answer: &ModelAnswer) -> bool {
    answer.parts.iter().any(|part| match part {
        AnswerPart::Call { arguments, .. } => matches!(arguments, Arguments::Json(_)),
        AnswerPart::Text(_) | AnswerPart::Reasoning { .. } => false,
    })
}

/// Returns whether a reply is complete and contains no call, not even a malformed one.
fn calls_nothing(answer: &ModelAnswer) -> bool {
    let has_call = answer
        .parts
        .iter()
        .any(|part| matches!(part, AnswerPart::Call { .. }));
    match answer.stop {
        StopReason::EndTurn | StopReason::ToolUse => !has_call,
        StopReason::MaxTokens | StopReason::Refusal | StopReason::ContentFilter => false,
    }
}

/// Returns whether the text of a reply is a tool call instead of an answer.
fn is_text_call(answer: &ModelAnswer, request: &ModelRequest, mode: ToolMode) -> bool {
    let mut text = String::new();
    for part in &answer.parts {
        match part {
            AnswerPart::Text(more) => text.push_str(more),
            AnswerPart::Reasoning { .. } => {}
            AnswerPart::Call { .. } => return false,
        }
    }
    match answer.stop {
        StopReason::EndTurn | StopReason::ToolUse => {}
        StopReason::MaxTokens | StopReason::Refusal | StopReason::ContentFilter => return false,
    }
    let schema = request.options.schema.as_deref();
    let call = sortie_wire::text_call(&text, &request.tools, schema);
    call.is_some_and(|call| match mode {
        ToolMode::Native | ToolMode::Fenced => true,
        // The model chose the answer branch, and JSON in an answer may be what the user wants. A
        // call that could run as it stands is not an answer.
        ToolMode::Schema => call.is_offered && call.fits && !call.has_lead,
    })
}

fn show(answer: &ModelAnswer, deltas: &dyn DeltaSink) {
    for part in &answer.parts {
        if let AnswerPart::Text(text) = part {
            deltas.text(text);
        }
    }
}

/// A sink that forwards waiting states and drops text.
struct WaitsOnly<'a>(&'a dyn DeltaSink);

impl DeltaSink for WaitsOnly<'_> {
    fn text(&self, _delta: &str) {}
    fn rate_limited(&self, wait: Option<RateLimitWait>) {
        self.0.rate_limited(wait);
    }
}
