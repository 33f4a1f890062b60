//! Error messages for models when a request fails.

use std::error::Error as _;

use crate::{NetError, Response};
use reqwest::StatusCode;
use reqwest::header::{DATE, RETRY_AFTER};
use sortie_base::retry_after;
use sortie_core::ports::tool::ToolFailure;

use crate::tools::clean::one_line;

/// Limit for foreign error text inside a message.
const MAX_REASON_CHARS: usize = 120;

/// Builds the failure of a request without a response.
pub(crate) fn unreachable(error: &NetError) -> ToolFailure {
    let sentence = match root(error) {
        Some(reason) => format!("{error} ({reason}). Check the URL, or use another source"),
        None => error.to_string(),
    };
    ToolFailure::new(format!("{}.", sentence.trim_end_matches('.')))
}

/// Returns the root cause: a refused connection, a bad certificate.
fn root(error: &NetError) -> Option<String> {
    let NetError::Transport { source, .. } = error else {
        return None;
    };
    let mut cause = source.source()?;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Some(one_line(&cause.to_string(), MAX_REASON_CHARS))
}

/// Builds the failure of a response with an error status.
pub(crate) fn status_failure(response: &Response) -> ToolFailure {
    let status = response.status();
    let advice = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            "Check the URL, or search for where the page is now".to_owned()
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PAYMENT_REQUIRED => {
            "The page requires a login; use another source".to_owned()
        }
        StatusCode::TOO_MANY_REQUESTS => match retry_after(response) {
            Some(seconds) => format!("Try again in {seconds} seconds, or use another source"),
            None => "Wait a while, or use another source".to_owned(),
        },
        _ if status.is_server_error() => "Try again later, or use another source".to_owned(),
        _ if status.is_redirection() => {
            "The redirect has no target; fetch the final URL itself".to_owned()
        }
        _ => "Check the URL, or use another source".to_owned(),
    };
    let reason = status.canonical_reason().unwrap_or("no reason given");
    ToolFailure::new(format!(
        "{} answered {} ({reason}). {advice}.",
        response.host(),
        status.as_u16()
    ))
}

/// Returns the value of `Retry-After` in seconds.
pub(crate) fn retry_after(response: &Response) -> Option<u64> {
    let header = |name| response.headers().get(name)?.to_str().ok();
    let wait = retry_after::wait(
        header(RETRY_AFTER)?,
        header(DATE),
        retry_after::wall_clock(),
    )?;
    // Rounded up, so that the advice is never too early.
    Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}
