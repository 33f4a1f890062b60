//! The differences between vendors' servers, as data.

use serde::Deserialize;
use serde_json::{Map, Value};
use sortie_core::ports::model::Wire;

use crate::Mode;

/// Returns the usual path of a wire format.
const fn usual_path(wire: Wire, mode: Mode) -> &'static str {
    match (wire, mode) {
        (Wire::Anthropic, _) => "/v1/messages",
        (Wire::Chat, _) => "/chat/completions",
        (Wire::Responses, _) => "/responses",
        (Wire::Gemini, Mode::Streaming) => "/models/{model}:streamGenerateContent?alt=sse",
        (Wire::Gemini, Mode::Whole) => "/models/{model}:generateContent",
    }
}

/// A wire format and how one vendor's servers deviate from it. Every field has a default, so that a
/// vendor is a few lines of data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Dialect {
    #[serde(alias = "wire")]
    pub format: Wire,
    /// The vendor that replies. Reasoning is sent back only to the vendor it came from, so two
    /// vendors that share a format need different names here.
    pub vendor: String,
    /// The model, if other models of the vendor cannot use what it signed or encrypted.
    pub signs_for: String,
    /// The path after the base URL, with `{model}` for the model's name; defaults to that of the
    /// format.
    pub path: Option<String>,
    /// The path for streamed responses, if it differs.
    pub streaming_path: Option<String>,
    /// Fields that are added to every body.
    pub extra: Map<String, Value>,

    /// How a thinking level is encoded.
    pub thinking: Thinking,
    /// Whether Responses requests ask for a summary of the reasoning.
    pub reasoning_summary: bool,
    /// How earlier reasoning is sent in Chat histories.
    pub reasoning_back: ReasoningBack,
    /// Whether a temperature may be sent.
    pub temperature: bool,
    /// The Chat field for the output limit.
    pub max_tokens_field: MaxTokensField,
    /// The output limit if the request has none.
    pub default_max_tokens: Option<u64>,
    /// The maximum number of output tokens of the model; higher limits are lowered to it.
    pub output_limit: Option<u64>,

    /// How far replies can be constrained to a JSON schema.
    pub schema: SchemaSupport,
    /// Whether the schema is sent as strict.
    pub strict_schema: bool,
    /// Whether a schema may be sent together with tools.
    pub schema_with_tools: bool,

    /// Whether prompts carry marks for Anthropic's cache.
    pub cache_marks: bool,
    /// Whether OpenAI's `prompt_cache_key` is sent.
    pub prompt_cache_key: bool,
    /// Whether a Chat stream is requested to report its usage.
    pub stream_usage: bool,

    /// Whether `tool_choice: "auto"` is sent explicitly.
    pub tool_choice: bool,
    /// The value of `parallel_tool_calls`; unset sends nothing.
    pub parallel_tool_calls: Option<bool>,
    /// Which call ids the servers accept.
    pub tool_ids: ToolIds,
    /// Whether tool results carry the tool's name.
    pub tool_result_name: bool,
    /// Whether a user message may follow tool results; if not, a short assistant message is
    /// inserted between them.
    pub user_after_tools: bool,
    /// Whether Gemini refuses calls in a history that carry no signature.
    pub signed_calls: bool,

    /// The role of the system prompt in Chat.
    pub system_role: SystemRole,
    /// The content of an assistant message that only calls tools.
    pub empty_content: EmptyContent,
    /// Whether the model supports images; defaults to what is usual for models of the format.
    pub images: Option<bool>,
    /// Whether Gemini accepts images inside a result (since 3) rather than after it.
    pub images_in_results: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            format: Wire::Chat,
            vendor: String::new(),
            signs_for: String::new(),
            path: None,
            streaming_path: None,
            extra: Map::new(),
            thinking: Thinking::None,
            reasoning_summary: true,
            reasoning_back: ReasoningBack::Same,
            temperature: true,
            max_tokens_field: MaxTokensField::MaxTokens,
            default_max_tokens: None,
            output_limit: None,
            schema: SchemaSupport::Native,
            strict_schema: false,
            schema_with_tools: true,
            cache_marks: true,
            prompt_cache_key: false,
            stream_usage: true,
            tool_choice: false,
            parallel_tool_calls: None,
            tool_ids: ToolIds::AsGiven,
            tool_result_name: false,
            user_after_tools: true,
            signed_calls: false,
            system_role: SystemRole::System,
            empty_content: EmptyContent::Null,
            images: None,
            images_in_results: false,
        }
    }
}

impl Dialect {
    /// Creates a dialect of a format without deviations.
    pub fn new(format: Wire) -> Self {
        Self {
            format,
            ..Self::default()
        }
    }

    /// Returns whether images are sent to the model. Many Chat models do not support images and
    /// refuse a history that contains them, so support must be configured explicitly.
    pub fn shows_images(&self) -> bool {
        self.images.unwrap_or(match self.format {
            Wire::Anthropic | Wire::Responses | Wire::Gemini => true,
            Wire::Chat => false,
        })
    }

    /// Returns the path after the base URL, with `{model}` for the model's name.
    pub(crate) fn path(&self, mode: Mode) -> &str {
        let own = match mode {
            Mode::Streaming => self.streaming_path.as_ref().or(self.path.as_ref()),
            Mode::Whole => self.path.as_ref(),
        };
        own.map_or(usual_path(self.format, mode), String::as_str)
    }

    /// Returns the origin under which reasoning is stored: the vendor or model that can read it
    /// again.
    pub(crate) fn origin(&self) -> String {
        let format = self.format.as_str();
        [format, &self.vendor, &self.signs_for]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(":")
    }
}

/// How a thinking level is encoded in a request. `default` or no level sends nothing, whatever the
/// style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// Thinking levels are not supported.
    #[default]
    None,
    /// `thinking: {type: adaptive}` and `output_config.effort`.
    AnthropicAdaptive,
    /// `thinking: {type: enabled, budget_tokens}`.
    AnthropicBudget,
    /// `reasoning_effort` in Chat, `reasoning.effort` in Responses.
    OpenaiEffort,
    /// Sets the field `thinkingConfig.thinkingLevel`.
    GeminiLevel,
    /// Sets the field `thinkingConfig.thinkingBudget`.
    GeminiBudget,
    /// `thinking: {type: enabled | disabled}`, as used by GLM and DeepSeek.
    Toggle,
    /// Sets the field `enable_thinking`.
    QwenToggle,
    /// Sets the field `reasoning.effort`.
    OpenrouterReasoning,
    /// `reasoning_effort`, with `none` for off.
    OllamaThink,
}

/// How earlier reasoning is sent in a Chat history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningBack {
    /// The field is omitted.
    Never,
    /// It is sent in the field in which it arrived.
    #[default]
    Same,
    /// Like `Same`, but a message with calls and no reasoning gets an empty one, because the
    /// servers refuse a history without it.
    Always,
}

/// The Chat field for the output limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// Sets the field `max_tokens`.
    #[default]
    MaxTokens,
    /// Sets the field `max_completion_tokens`.
    MaxCompletionTokens,
}

/// How far replies can be constrained to a JSON schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaSupport {
    /// Any schema is supported.
    #[default]
    Native,
    /// Only JSON objects in general are supported.
    Object,
    /// No constraint is supported.
    None,
}

/// Which call ids the servers accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolIds {
    /// The ids that the server assigned.
    #[default]
    AsGiven,
    /// Nine letters and digits.
    NineAlphanumeric,
}

/// The role of the system prompt in Chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// Uses the role `system`.
    #[default]
    System,
    /// Uses the role `developer`.
    Developer,
}

/// The content of an assistant message that only calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyContent {
    /// Sends `null` as the content.
    #[default]
    Null,
    /// Sends an empty text.
    EmptyText,
    /// The field is omitted.
    Omit,
}
