//! The format of scenario files. Unknown keys are refused.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use sortie_core::event::StopReason;
use sortie_core::message::{ResultStatus, Usage};

use crate::price::Price;

/// The only version of the format so far.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub version: u32,
    #[serde(default)]
    pub defaults: Defaults,
    pub rules: Vec<serde_saphyr::Spanned<Rule>>,
}

/// Defaults for rules that do not override them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    #[serde(default)]
    pub latency_ms: u64,
    pub usage: Option<Tokens>,
    /// The price of tokens, for replies that do not specify a cost.
    pub price: Option<Price>,
}

/// One rule: its conditions, its assertions, its reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub name: Option<String>,
    #[serde(default)]
    pub when: When,
    #[serde(default)]
    pub expect: Expect,
    pub fault: Option<Fault>,
    pub think: Option<String>,
    pub say: Option<String>,
    #[serde(default)]
    pub calls: Vec<Call>,
    pub latency_ms: Option<u64>,
    pub usage: Option<Tokens>,
}

/// Conditions; all given ones must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    pub agent: Option<String>,
    pub label: Option<String>,
    pub task: Option<String>,
    pub depth: Option<Range>,
    pub turn: Option<Range>,
    pub no_tools: Option<bool>,
    pub last_result_status: Option<ResultStatus>,
    #[serde(default)]
    pub last_result_contains: Texts,
    #[serde(default)]
    pub notice_contains: Texts,
    #[serde(default)]
    pub history_contains: Texts,
}

/// Assertions; the first that fails ends the run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    pub tools: Option<Vec<String>>,
    #[serde(default)]
    pub tools_include: Vec<String>,
    #[serde(default)]
    pub tools_exclude: Vec<String>,
    pub no_tools: Option<bool>,
    pub messages: Option<Range>,
    pub last_result_status: Option<ResultStatus>,
    #[serde(default)]
    pub last_result_contains: Texts,
    #[serde(default)]
    pub notice_contains: Texts,
    #[serde(default)]
    pub history_contains: Texts,
    #[serde(default)]
    pub system_contains: Texts,
}

/// A tool call of the reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub tool: String,
    pub args: Option<Value>,
    pub raw_args: Option<String>,
}

/// A fault that replaces the reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub kind: FaultKind,
    pub message: Option<String>,
    pub reason: Option<StopReason>,
    pub times: Option<u32>,
    pub retry_after_ms: Option<u64>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FaultKind {
    /// A permanent error: a retry does not help.
    Error,
    /// A transient error: a retry may help.
    Retryable,
    /// The provider rate-limits requests.
    RateLimited,
    /// The key is invalid.
    Auth,
    /// The prompt exceeds the context window.
    ContextOverflow,
    /// The provider's content filter refused the prompt.
    ContentFilter,
    /// A call with truncated arguments.
    MalformedCall,
    /// A reply without content.
    Empty,
    /// The reply never arrives.
    Hang,
    /// The reply ends with another stop reason than a completed turn.
    Stop,
}

/// The usage of the reply. Fields that are not given are unknown.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    cost_usd: Option<f64>,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input_tokens: tokens.input_tokens,
            output_tokens: tokens.output_tokens,
            cache_read_tokens: tokens.cache_read_tokens,
            cache_write_tokens: tokens.cache_write_tokens,
            cost_usd: tokens.cost_usd,
        }
    }
}

/// A number or an inclusive range: `3`, `"2.."`, `"2..4"`, `"..4"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    first: u64,
    last: u64,
}

impl Range {
    pub(super) fn contains(self, number: u64) -> bool {
        (self.first..=self.last).contains(&number)
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str, missing| match text.trim() {
            "" => Some(missing),
            digits => digits.parse().ok(),
        };
        let range = match text.split_once("..") {
            Some((first, last)) => Self {
                first: number(first, 0)?,
                last: number(last, u64::MAX)?,
            },
            None => {
                let only = text.trim().parse().ok()?;
                Self {
                    first: only,
                    last: only,
                }
            }
        };
        (range.first <= range.last).then_some(range)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, u64::MAX) => write!(f, "{first} or more"),
            (first, last) => write!(f, "{first} to {last}"),
        }
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RangeVisitor;
        impl Visitor<'_> for RangeVisitor {
            type Value = Range;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a range such as \"2..\" or \"2..4\"")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Range, E> {
                Ok(Range {
                    first: number,
                    last: number,
                })
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Range, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Range, E> {
                Range::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(RangeVisitor)
    }
}

/// One text or a list of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts(pub Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text (quoted if it looks like a number) or a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = items.next_element()? {
                    texts.push(text);
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_any(TextsVisitor)
    }
}
