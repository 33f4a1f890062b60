//! What a vendor's servers do differently, as data.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Mode;

/// The four wire formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions and all that copy it.
    #[default]
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Google Gemini `generateContent`.
    Gemini,
}

impl Format {
    /// Its name in data.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Gemini => "gemini",
        }
    }

    const fn path(self, mode: Mode) -> &'static str {
        match (self, mode) {
            (Self::Anthropic, _) => "/v1/messages",
            (Self::Chat, _) => "/chat/completions",
            (Self::Responses, _) => "/responses",
            (Self::Gemini, Mode::Streaming) => "/models/{model}:streamGenerateContent?alt=sse",
            (Self::Gemini, Mode::Whole) => "/models/{model}:generateContent",
        }
    }
}

/// A format and what one vendor's servers do differently. Every field has a default, so that a
/// vendor is a few lines of data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Dialect {
    /// The wire format.
    #[serde(alias = "wire")]
    pub format: Format,
    /// Who answers. Reasoning goes back only to the vendor it came from, so two vendors that share
    /// a format need different names here.
    pub vendor: String,
    /// The model, where what it signed or encrypted means nothing to other models of the vendor.
    pub signs_for: String,
    /// What follows the base URL, with `{model}` for the model's name; unset is the format's own.
    pub path: Option<String>,
    /// The same for answers in pieces, where it differs.
    pub streaming_path: Option<String>,
    /// Fields that the body always carries.
    pub extra: Map<String, Value>,

    /// How a thinking level is asked for.
    pub thinking: Thinking,
    /// Whether Responses are asked for a summary of their reasoning.
    pub reasoning_summary: bool,
    /// What happens to earlier reasoning in Chat histories.
    pub reasoning_back: ReasoningBack,
    /// Whether a temperature may be sent.
    pub temperature: bool,
    /// What Chat calls the limit of an answer.
    pub max_tokens_field: MaxTokensField,
    /// The limit of an answer where the request has none.
    pub default_max_tokens: Option<u64>,
    /// The most tokens the model can write; limits above it are lowered to it.
    pub output_limit: Option<u64>,

    /// How far answers can be bound to a JSON schema.
    pub schema: SchemaSupport,
    /// Whether the schema is sent as strict.
    pub strict_schema: bool,
    /// Whether a schema may be asked for while tools are offered.
    pub schema_with_tools: bool,

    /// Whether prompts are marked for Anthropic's cache.
    pub cache_marks: bool,
    /// Whether OpenAI's `prompt_cache_key` is sent.
    pub prompt_cache_key: bool,
    /// Whether a Chat stream is asked to report its usage.
    pub stream_usage: bool,

    /// Whether `tool_choice: "auto"` is said aloud.
    pub tool_choice: bool,
    /// What `parallel_tool_calls` is set to; unset sends nothing.
    pub parallel_tool_calls: Option<bool>,
    /// Which ids of calls the servers take.
    pub tool_ids: ToolIds,
    /// Whether results of tools carry the tool's name.
    pub tool_result_name: bool,
    /// Whether a user's message may follow results of tools; where not, a short word of the
    /// assistant stands between them.
    pub user_after_tools: bool,
    /// Whether Gemini refuses calls in a history that carry no signature.
    pub signed_calls: bool,

    /// In which role Chat is told who it is.
    pub system_role: SystemRole,
    /// What stands for the words of an assistant that only called tools.
    pub empty_content: EmptyContent,
    /// Whether the model can look at images; unset is what the format's models usually can.
    pub images: Option<bool>,
    /// Whether Gemini takes images inside a result (since 3) rather than after it.
    pub images_in_results: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            format: Format::default(),
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
    /// A format without any quirk.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            ..Self::default()
        }
    }

    /// Whether the model is shown images. Models that speak Chat often cannot look, and refuse a
    /// history with images in it, so they have to be known to be able to.
    pub fn shows_images(&self) -> bool {
        self.images.unwrap_or(match self.format {
            Format::Anthropic | Format::Responses | Format::Gemini => true,
            Format::Chat => false,
        })
    }

    /// What follows the base URL, with `{model}` for the model's name.
    pub(crate) fn path(&self, mode: Mode) -> &str {
        let own = match mode {
            Mode::Streaming => self.streaming_path.as_ref().or(self.path.as_ref()),
            Mode::Whole => self.path.as_ref(),
        };
        own.map_or(self.format.path(mode), String::as_str)
    }

    /// The name under which reasoning is kept: that of who can read it again.
    pub(crate) fn origin(&self) -> String {
        let format = self.format.name();
        [format, &self.vendor, &self.signs_for]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(":")
    }
}

/// How a thinking level becomes a request. `default` or none sends nothing, whatever the style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// There is no way.
    #[default]
    None,
    /// `thinking: {type: adaptive}` and `output_config.effort`.
    AnthropicAdaptive,
    /// `thinking: {type: enabled, budget_tokens}`.
    AnthropicBudget,
    /// `reasoning_effort` in Chat, `reasoning.effort` in Responses.
    OpenaiEffort,
    /// `thinkingConfig.thinkingLevel`.
    GeminiLevel,
    /// `thinkingConfig.thinkingBudget`.
    GeminiBudget,
    /// `thinking: {type: enabled | disabled}`, as GLM and DeepSeek have it.
    Toggle,
    /// `enable_thinking`.
    QwenToggle,
    /// `reasoning: {effort}`.
    OpenrouterReasoning,
    /// `reasoning_effort`, with `none` for off.
    OllamaThink,
}

/// What happens to earlier reasoning in a Chat history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningBack {
    /// It is left out.
    Never,
    /// It goes back in the field it came in.
    #[default]
    Same,
    /// As `Same`; and a message with calls that has none gets an empty one, because the servers
    /// refuse a history without.
    Always,
}

/// What Chat calls the limit of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// How far answers can be bound to a JSON schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaSupport {
    /// To any schema.
    #[default]
    Native,
    /// Only to being a JSON object.
    Object,
    /// Not at all.
    None,
}

/// Which ids of calls the servers take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolIds {
    /// As they gave them.
    #[default]
    AsGiven,
    /// Nine letters and digits.
    NineAlphanumeric,
}

/// In which role Chat is told who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`.
    #[default]
    System,
    /// `developer`.
    Developer,
}

/// What stands for the words of an assistant that only called tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyContent {
    /// `null`.
    #[default]
    Null,
    /// `""`.
    EmptyText,
    /// No field at all.
    Omit,
}
