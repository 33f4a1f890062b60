//! Classifies error responses, and thereby what may help. The decision is made here once, never by
//! parsing messages later.
//!
//! Vendors report the cause in a status, in a code of their own, or only in the message. [`VendorError`]
//! collects these; the tables below map them to a meaning; the status decides the rest.

use std::time::SystemTime;

use serde_json::Value;
use sortie_base::redact::Redactor;
use sortie_base::retry_after;
use sortie_base::truncate::truncate;
use sortie_core::ports::model::{Fault, ModelError};

use crate::{Dialect, bounds};

/// An error response as received.
#[derive(Clone, Copy, Debug)]
pub struct RefusedReply<'a> {
    pub status: u16,
    /// Value of the header `retry-after`.
    pub retry_after: Option<&'a str>,
    /// The header `date`: the provider's clock, to which a date in `retry-after` belongs.
    pub date: Option<&'a str>,
    /// When the response arrived.
    pub now: SystemTime,
    /// Value of the header `retry-after-ms`.
    pub retry_after_ms: Option<&'a str>,
    /// The body, or its beginning.
    pub body: &'a [u8],
}

/// Classifies an error response. The message of the error is the vendor's own, in one line, and
/// what to do next.
pub fn classify(dialect: &Dialect, refusal: &RefusedReply<'_>) -> ModelError {
    let body = &refusal.body[..refusal.body.len().min(bounds::ERROR_BODY_BYTES)];
    let vendor_error = match serde_json::from_slice(body) {
        Ok(value) => VendorError::from_json(&value),
        Err(_) => VendorError::from_text(&String::from_utf8_lossy(body)),
    };
    let wait_ms = header_wait_ms(refusal).or(vendor_error.wait_ms);
    judge(dialect, refusal.status, &vendor_error, wait_ms)
}

/// Fails if a response with a success status contains an error.
pub(crate) fn check(dialect: &Dialect, value: &Value, is_error: bool) -> Result<(), ModelError> {
    let is_refusal = is_error
        || is_something(&value["error"])
        || value["type"] == "error"
        || value["object"] == "error";
    if is_refusal {
        return Err(refused(dialect, value));
    }
    Ok(())
}

/// Classifies an error inside a reply.
pub(crate) fn refused(dialect: &Dialect, value: &Value) -> ModelError {
    let vendor_error = VendorError::from_json(value);
    let wait_ms = vendor_error.wait_ms;
    judge(
        dialect,
        vendor_error.status.unwrap_or(200),
        &vendor_error,
        wait_ms,
    )
}

/// The error information of a vendor, independent of its format.
#[derive(Debug, Default)]
struct VendorError {
    message: String,
    /// The vendor's codes and the message in lower case, for comparison with the tables.
    codes: Vec<String>,
    words: String,
    /// A status inside the body.
    status: Option<u16>,
    /// The retry delay, if the body contains one.
    wait_ms: Option<u64>,
}

/// Codes with the same meaning at every vendor. Compared whole.
const CODES: [(&str, Meaning); 37] = [
    ("insufficient_quota", Meaning::Empty),
    ("exceeded_current_quota_error", Meaning::Empty),
    ("billing_error", Meaning::Empty),
    ("billing_not_active", Meaning::Empty),
    ("arrearage", Meaning::Empty),
    ("1113", Meaning::Empty),
    ("authentication_error", Meaning::Key),
    ("invalid_authentication_error", Meaning::Key),
    ("invalid_api_key", Meaning::Key),
    ("api_key_invalid", Meaning::Key),
    ("permission_error", Meaning::Key),
    ("permission_denied", Meaning::Key),
    ("unauthenticated", Meaning::Key),
    ("context_length_exceeded", Meaning::Context),
    ("request_too_large", Meaning::Context),
    ("exceed_context_size_error", Meaning::Context),
    ("1261", Meaning::Context),
    ("content_filter", Meaning::Filter),
    ("content_policy_violation", Meaning::Filter),
    ("responsibleaipolicyviolation", Meaning::Filter),
    ("data_inspection_failed", Meaning::Filter),
    ("datainspectionfailed", Meaning::Filter),
    ("invalid_prompt", Meaning::Filter),
    ("1301", Meaning::Filter),
    ("rate_limit_error", Meaning::Rate),
    ("rate_limit_exceeded", Meaning::Rate),
    ("rate_limit_reached_error", Meaning::Rate),
    ("resource_exhausted", Meaning::Rate),
    ("1302", Meaning::Rate),
    ("1303", Meaning::Rate),
    ("1305", Meaning::Rate),
    ("overloaded_error", Meaning::Server),
    ("engine_overloaded_error", Meaning::Server),
    ("server_error", Meaning::Server),
    ("unavailable", Meaning::Server),
    ("model_not_found", Meaning::Model),
    ("not_found_error", Meaning::Model),
];

/// Phrases of vendors whose codes are not specific, in lower case.
const WORDS: [(&str, Meaning); 27] = [
    ("content filtering policy", Meaning::Filter),
    ("credit balance is too low", Meaning::Empty),
    ("insufficient balance", Meaning::Empty),
    ("insufficient credits", Meaning::Empty),
    ("insufficient account balance", Meaning::Empty),
    ("api key not valid", Meaning::Key),
    ("incorrect api key", Meaning::Key),
    ("prompt is too long", Meaning::Context),
    ("maximum context length", Meaning::Context),
    ("context length exceeded", Meaning::Context),
    ("context_length_exceeded", Meaning::Context),
    ("exceeds the available context size", Meaning::Context),
    ("exceeds the context window", Meaning::Context),
    ("exceed context limit", Meaning::Context),
    ("exceeds the maximum number of tokens", Meaning::Context),
    ("input token count", Meaning::Context),
    ("input length exceeds", Meaning::Context),
    ("range of input length should be", Meaning::Context),
    ("exceeded model token limit", Meaning::Context),
    ("maximum prompt length", Meaning::Context),
    ("too large for model with", Meaning::Context),
    ("please reduce the length", Meaning::Context),
    ("request too large", Meaning::Context),
    ("content management policy", Meaning::Filter),
    ("flagged by moderation", Meaning::Filter),
    ("input was flagged", Meaning::Filter),
    ("content exists risk", Meaning::Filter),
];

/// The meaning of a code or a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The account has no credit.
    Empty,
    /// The key is invalid.
    Key,
    /// The prompt exceeds the context window.
    Context,
    /// The content filter refused the prompt.
    Filter,
    /// The provider rate-limits requests.
    Rate,
    /// The provider's servers failed.
    Server,
    /// The model does not exist.
    Model,
    /// The request is invalid.
    Question,
}

fn judge(
    dialect: &Dialect,
    status: u16,
    vendor_error: &VendorError,
    wait_ms: Option<u64>,
) -> ModelError {
    let meaning = meaning(status, vendor_error);
    let (fault, advice) = match meaning {
        Meaning::Empty => (
            Fault::Auth,
            "top up the account of this provider, or choose another model",
        ),
        Meaning::Key => (
            Fault::Auth,
            "set a key of this provider that may use this model",
        ),
        Meaning::Context => (
            Fault::ContextOverflow,
            "the history exceeds the context window of this model",
        ),
        Meaning::Filter => (
            Fault::ContentFilter,
            "the provider's content filter rejected it; rephrase it or choose another model",
        ),
        Meaning::Rate => (
            Fault::RateLimited {
                retry_after_ms: wait_ms,
            },
            "the provider's rate limit is reached; retry later",
        ),
        Meaning::Server => (Fault::Transient, "a retry may help"),
        Meaning::Model => (
            Fault::BadRequest,
            "no such model or address; check the model's name and the base URL",
        ),
        Meaning::Question => (
            Fault::BadRequest,
            "the provider rejects this request; check the model's settings",
        ),
    };
    ModelError::new(
        fault,
        sentence(dialect, status, &vendor_error.message, advice),
    )
}

fn meaning(status: u16, vendor_error: &VendorError) -> Meaning {
    let by_code = CODES.iter().find(|(code, _)| {
        vendor_error
            .codes
            .iter()
            .any(|vendor_error| vendor_error == code)
    });
    let by_words = WORDS
        .iter()
        .find(|(words, _)| vendor_error.words.contains(words));
    match (by_code, by_words) {
        // Phrases about the length, the filter or the account are more specific than a general
        // code.
        (_, Some((_, meaning))) => *meaning,
        (Some((_, meaning)), None) => *meaning,
        (None, None) => by_status(status),
    }
}

fn by_status(status: u16) -> Meaning {
    match status {
        401 | 403 => Meaning::Key,
        402 => Meaning::Empty,
        404 => Meaning::Model,
        413 => Meaning::Context,
        429 => Meaning::Rate,
        // An error inside a successful response that gives no reason: the servers aborted.
        0..400 | 408 | 409 | 425 | 500.. => Meaning::Server,
        400..500 => Meaning::Question,
    }
}

fn sentence(dialect: &Dialect, status: u16, message: &str, advice: &str) -> String {
    let who = match dialect.vendor.as_str() {
        "" => "the provider",
        vendor => vendor,
    };
    let message = match one_line(message) {
        message if message.is_empty() => format!("no reason given, status {status}"),
        message => message,
    };
    let room =
        bounds::MESSAGE_CHARS.saturating_sub(who.chars().count() + advice.chars().count() + 6);
    let message = truncate(message.trim_end_matches(['.', ' ']), room);
    format!("{who}: {message} ({advice})")
}

impl VendorError {
    fn from_json(value: &Value) -> Self {
        // Gemini wraps its errors in a list if a stream was requested.
        let value = match value {
            Value::Array(items) => items.first().unwrap_or(value),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => value,
        };
        let inner = match &value["error"] {
            Value::Object(_) => &value["error"],
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => value,
        };
        let message = message_of(inner)
            .or_else(|| message_of(value))
            .unwrap_or_default();
        let mut codes = codes_of(inner);
        codes.extend(codes_of(value));
        codes.extend(inner["innererror"]["code"].as_str().map(str::to_lowercase));
        codes.extend(
            details(inner).filter_map(|detail| Some(detail["reason"].as_str()?.to_lowercase())),
        );
        Self {
            words: message.to_lowercase(),
            status: codes.iter().find_map(|code| status_of(code)),
            wait_ms: details(inner)
                .find_map(|detail| duration_ms(detail["retryDelay"].as_str()?))
                .or_else(|| wait_in_text(&message)),
            message,
            codes,
        }
    }

    fn from_text(text: &str) -> Self {
        let text = text.trim();
        let message = match text.starts_with('<') {
            true => "a web page instead of an error message",
            false => text,
        };
        Self {
            words: text.to_lowercase(),
            wait_ms: wait_in_text(text),
            message: message.to_owned(),
            ..Self::default()
        }
    }
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Returns the message: routers put the upstream provider's reason into `metadata.raw`.
fn message_of(value: &Value) -> Option<String> {
    let raw = value["metadata"]["raw"].as_str().unwrap_or_default();
    let plain = ["message", "msg", "detail", "error", "error_msg"]
        .iter()
        .find_map(|key| value[*key].as_str())
        .or_else(|| value["detail"][0]["msg"].as_str())?;
    let joined = match raw {
        "" => plain.to_owned(),
        raw => format!("{plain}: {raw}"),
    };
    Some(joined)
}

fn codes_of(value: &Value) -> Vec<String> {
    ["code", "type", "status", "statusCode"]
        .iter()
        .filter_map(|key| match &value[*key] {
            Value::String(text) => Some(text.to_lowercase()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        })
        .collect()
}

fn status_of(code: &str) -> Option<u16> {
    let status = match code {
        "overloaded_error" => 529,
        "api_error" | "internal" => 500,
        "invalid_request_error" | "invalid_argument" | "failed_precondition" => 400,
        code => code.parse().ok()?,
    };
    (400..600).contains(&status).then_some(status)
}

fn details(value: &Value) -> impl Iterator<Item = &Value> {
    value["details"].as_array().into_iter().flatten()
}

fn header_wait_ms(refusal: &RefusedReply<'_>) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let exact = refusal.retry_after_ms.and_then(number).and_then(whole_ms);
    exact.or_else(|| {
        let wait = retry_after::wait(refusal.retry_after?, refusal.date, refusal.now)?;
        whole_ms(wait.as_secs_f64() * 1000.0)
    })
}

/// Parses `Please try again in 1.2s`, `retry after 13 seconds`, `retry in 6m0s`.
fn wait_in_text(message: &str) -> Option<u64> {
    let message = message.to_ascii_lowercase();
    ["try again in ", "retry in ", "retry after "]
        .iter()
        .find_map(|words| duration_ms(message.split_once(words)?.1))
}

/// Parses `1m30.5s`, `350ms`, `13 seconds` at the beginning of a text.
fn duration_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim_start();
    let mut total = None;
    while let Some(end) = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.') {
        let Ok(number) = rest[..end].parse::<f64>() else {
            break;
        };
        let tail = rest[end..].trim_start();
        let unit_end = tail
            .find(|letter: char| !letter.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let Some(factor) = unit_ms(&tail[..unit_end]) else {
            break;
        };
        total = Some(total.unwrap_or(0.0) + number * factor);
        rest = &tail[unit_end..];
    }
    whole_ms(total?)
}

fn unit_ms(unit: &str) -> Option<f64> {
    match unit {
        "ms" | "milliseconds" => Some(1.0),
        "s" | "sec" | "second" | "seconds" => Some(1000.0),
        "m" | "min" | "minute" | "minutes" => Some(60_000.0),
        "h" | "hour" | "hours" => Some(3_600_000.0),
        _ => None,
    }
}

/// Returns milliseconds, rounded up; a negative delay becomes `None`, and one of more than a day
/// becomes a day.
fn whole_ms(ms: f64) -> Option<u64> {
    const MOST_MS: f64 = 86_400_000.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be between 0 and a day"
    )]
    (ms >= 0.0).then(|| ms.min(MOST_MS).ceil() as u64)
}

/// Returns the text on one line and without keys: some vendors repeat the key that they refuse.
fn one_line(text: &str) -> String {
    let line = text
        .split(|letter: char| letter.is_whitespace() || letter.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    Redactor::default().redact_error(&line)
}
