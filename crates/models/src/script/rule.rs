//! One rule: whether it matches a request, its assertions, and its reply.

use std::time::Duration;

use sortie_base::truncate::truncate;
use sortie_base::wildcard;
use sortie_core::event::StopReason;
use sortie_core::message::{Arguments, Usage};
use sortie_core::ports::model::{AnswerPart, ModelAnswer, ModelError};

use super::format::{self, Call, Defaults, Expect, Fault, FaultKind, Texts, When};
use super::seen::ScriptRequest;
use super::template::{check, check_value, expand, expand_value};
use crate::price::Price;

/// The maximum length of a text in the message of a failed assertion.
const SHOWN_CHARS: usize = 300;

/// What a chosen rule returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleResult {
    Fault,
    Answer,
}

/// A rule that was validated when the script was loaded.
#[derive(Debug)]
pub(super) struct Rule {
    /// The position in the file, starting at 1.
    pub number: usize,
    /// The delay of the reply.
    pub latency: Duration,
    line: u64,
    usage: Usage,
    written: format::Rule,
}

fn priced(usage: Usage, price: Option<Price>) -> Usage {
    Usage {
        cost_usd: usage.cost_usd.or_else(|| price?.cost(&usage)),
        ..usage
    }
}

impl Rule {
    /// Validates a rule; returns the problem if it is invalid.
    pub(super) fn new(
        number: usize,
        line: u64,
        written: format::Rule,
        defaults: &Defaults,
    ) -> Result<Self, String> {
        let rule = Self {
            number,
            latency: Duration::from_millis(written.latency_ms.unwrap_or(defaults.latency_ms)),
            line,
            usage: priced(
                written.usage.or(defaults.usage).unwrap_or_default().into(),
                defaults.price,
            ),
            written,
        };
        rule.validate()
            .map_err(|problem| format!("{}: {problem}", rule.title()))?;
        Ok(rule)
    }

    /// Returns the name of the rule for messages.
    pub(super) fn title(&self) -> String {
        match &self.written.name {
            Some(name) => format!("rule {} ({name:?}, line {})", self.number, self.line),
            None => format!("rule {} (line {})", self.number, self.line),
        }
    }

    /// Returns the fault of the rule, if it has one.
    pub(super) const fn fault(&self) -> Option<&Fault> {
        self.written.fault.as_ref()
    }

    /// Returns whether the rule has a reply in addition to a fault.
    pub(super) fn answers(&self) -> bool {
        let rule = &self.written;
        rule.say.is_some() || rule.think.is_some() || !rule.calls.is_empty()
    }

    /// Returns whether all conditions hold.
    pub(super) fn fits(&self, seen: ScriptRequest<'_>) -> bool {
        let When {
            agent,
            label,
            task,
            depth,
            turn,
            no_tools,
            last_result_status,
            last_result_contains,
            notice_contains,
            history_contains,
        } = &self.written.when;
        let origin = &seen.request.origin;
        let same = |pattern: &Option<String>, text: &str| {
            pattern
                .as_ref()
                .is_none_or(|pattern| wildcard::matches(pattern, text))
        };
        let lower = agent.as_ref().map(|agent| agent.to_lowercase());
        same(&lower, &origin.agent.to_lowercase())
            && same(label, &origin.label)
            && same(task, &origin.task)
            && depth.is_none_or(|range| range.contains(origin.depth.into()))
            && turn.is_none_or(|range| range.contains(origin.turn.into()))
            && no_tools.is_none_or(|none| none == seen.request.tools.is_empty())
            && last_result_status
                .is_none_or(|status| seen.last_results().iter().any(|r| r.status == status))
            && missing(
                last_result_contains,
                &seen.last_result().unwrap_or_default(),
            )
            .is_none()
            && missing(notice_contains, &seen.notices().join("\n")).is_none()
            && history_contains
                .0
                .iter()
                .all(|text| seen.history_contains(text))
    }

    /// Checks the assertions; returns the first that fails, as a sentence.
    pub(super) fn check(&self, seen: ScriptRequest<'_>) -> Result<(), String> {
        let expect = &self.written.expect;
        check_tools(expect, &seen.tools())?;
        if let Some(range) = expect.messages {
            let found = seen.request.messages.len();
            if !range.contains(found as u64) {
                return Err(format!("expected {range} messages, found {found}"));
            }
        }
        if let Some(status) = expect.last_result_status
            && !seen.last_results().iter().any(|r| r.status == status)
        {
            let found: Vec<_> = seen.last_results().iter().map(|r| r.status).collect();
            return Err(format!(
                "expected a last result with status {status:?}, found {found:?}"
            ));
        }
        let last_result = seen.last_result().unwrap_or_default();
        contains(
            "the last result",
            &expect.last_result_contains,
            &last_result,
        )?;
        contains(
            "a notice",
            &expect.notice_contains,
            &seen.notices().join("\n"),
        )?;
        contains(
            "the system prompt",
            &expect.system_contains,
            &seen.request.system,
        )?;
        let unseen = expect
            .history_contains
            .0
            .iter()
            .find(|text| !seen.history_contains(text));
        unseen.map_or(Ok(()), |text| {
            Err(format!(
                "expected the history to contain {text:?}; the model saw:\n{}",
                seen.shown()
            ))
        })
    }

    /// Returns the reply, or why its templates cannot be expanded.
    pub(super) fn answer(
        &self,
        seen: ScriptRequest<'_>,
        model: String,
    ) -> Result<ModelAnswer, String> {
        let mut parts = self.text_parts(seen)?;
        for call in &self.written.calls {
            parts.push(AnswerPart::Call {
                provider_id: None,
                name: expand(&call.tool, seen)?,
                arguments: arguments(call, seen)?,
            });
        }
        let stop = if self.written.calls.is_empty() {
            StopReason::EndTurn
        } else {
            StopReason::ToolUse
        };
        Ok(self.finished(parts, stop, model))
    }

    /// Returns the outcome of the fault: an error, or a bad reply.
    pub(super) fn faulty(
        &self,
        fault: &Fault,
        seen: ScriptRequest<'_>,
        model: String,
    ) -> Result<Result<ModelAnswer, ModelError>, String> {
        let message = fault.message.as_deref().unwrap_or("scripted fault");
        let message = expand(message, seen)?;
        Ok(match fault.kind {
            FaultKind::Error | FaultKind::Hang => Err(ModelError::fatal(message)),
            FaultKind::Retryable => Err(ModelError::retryable(message)),
            FaultKind::RateLimited => {
                let retry_after_ms = fault.retry_after_ms;
                let fault = sortie_core::ports::model::Fault::RateLimited { retry_after_ms };
                Err(ModelError::new(fault, message))
            }
            FaultKind::Auth => Err(ModelError::new(
                sortie_core::ports::model::Fault::Auth,
                message,
            )),
            FaultKind::ContextOverflow => Err(ModelError::new(
                sortie_core::ports::model::Fault::ContextOverflow,
                message,
            )),
            FaultKind::ContentFilter => Err(ModelError::new(
                sortie_core::ports::model::Fault::ContentFilter,
                message,
            )),
            FaultKind::Empty => Ok(self.finished(Vec::new(), StopReason::EndTurn, model)),
            FaultKind::Stop => {
                let reason = fault.reason.unwrap_or(StopReason::MaxTokens);
                Ok(self.finished(self.text_parts(seen)?, reason, model))
            }
            FaultKind::MalformedCall => {
                let mut parts = self.text_parts(seen)?;
                parts.push(self.broken_call(seen)?);
                Ok(self.finished(parts, StopReason::ToolUse, model))
            }
        })
    }

    fn text_parts(&self, seen: ScriptRequest<'_>) -> Result<Vec<AnswerPart>, String> {
        let mut parts = Vec::new();
        if let Some(think) = &self.written.think {
            parts.push(AnswerPart::Reasoning {
                text: expand(think, seen)?,
                native: None,
            });
        }
        if let Some(say) = &self.written.say {
            parts.push(AnswerPart::Text(expand(say, seen)?));
        }
        Ok(parts)
    }

    /// Returns the rule's first call with truncated arguments.
    fn broken_call(&self, seen: ScriptRequest<'_>) -> Result<AnswerPart, String> {
        let call = self.written.calls.first();
        let name = match (call, seen.tools().first()) {
            (Some(call), _) => expand(&call.tool, seen)?,
            (None, Some(tool)) => (*tool).to_owned(),
            (None, None) => return Err("`malformed_call` needs a tool to call".to_owned()),
        };
        let mut raw = match call.and_then(|call| call.args.as_ref()) {
            Some(args) => expand_value(args, seen)?.to_string(),
            None => "{}".to_owned(),
        };
        raw.pop();
        Ok(AnswerPart::Call {
            provider_id: None,
            name,
            arguments: parsed(raw),
        })
    }

    fn finished(&self, parts: Vec<AnswerPart>, stop: StopReason, model: String) -> ModelAnswer {
        ModelAnswer {
            parts,
            stop,
            usage: self.usage,
            model,
            held_ms: 0,
        }
    }

    fn validate(&self) -> Result<(), String> {
        let rule = &self.written;
        if !self.answers() && rule.fault.is_none() {
            return Err("it has no completion; add `say`, `calls`, `think` or `fault`".to_owned());
        }
        let message = rule.fault.as_ref().and_then(|fault| fault.message.as_ref());
        for text in [&rule.say, &rule.think]
            .into_iter()
            .flatten()
            .chain(message)
        {
            check(text)?;
        }
        rule.calls.iter().try_for_each(validate_call)?;
        rule.fault.as_ref().map_or(Ok(()), validate_fault)
    }
}

/// Returns whether the fault is a reply that never arrives.
pub(super) fn hangs(fault: &Fault) -> bool {
    fault.kind == FaultKind::Hang
}

fn validate_call(call: &Call) -> Result<(), String> {
    if call.args.is_some() && call.raw_args.is_some() {
        return Err(format!(
            "the call of `{}` has both `args` and `raw_args`; keep one",
            call.tool
        ));
    }
    check(&call.tool)?;
    call.raw_args.as_deref().map_or(Ok(()), check)?;
    call.args.as_ref().map_or(Ok(()), check_value)
}

fn validate_fault(fault: &Fault) -> Result<(), String> {
    if fault.times == Some(0) {
        return Err(
            "`fault.times` must be at least 1; omit it for a fault that does not end".to_owned(),
        );
    }
    if fault.reason.is_some() && fault.kind != FaultKind::Stop {
        return Err("`fault.reason` belongs to `kind: stop`".to_owned());
    }
    Ok(())
}

fn arguments(call: &Call, seen: ScriptRequest<'_>) -> Result<Arguments, String> {
    if let Some(raw) = &call.raw_args {
        return Ok(parsed(expand(raw, seen)?));
    }
    match &call.args {
        Some(args) => Ok(Arguments::Json(expand_value(args, seen)?)),
        None => Ok(Arguments::Json(serde_json::json!({}))),
    }
}

/// Parses the arguments as a vendor's adapter would.
fn parsed(raw: String) -> Arguments {
    match serde_json::from_str(&raw) {
        Ok(value) => Arguments::Json(value),
        Err(error) => Arguments::Malformed {
            error: error.to_string(),
            raw,
        },
    }
}

fn missing<'a>(wanted: &'a Texts, found: &str) -> Option<&'a str> {
    let absent = wanted.0.iter().find(|text| !found.contains(text.as_str()));
    absent.map(String::as_str)
}

fn contains(what: &str, wanted: &Texts, found: &str) -> Result<(), String> {
    missing(wanted, found).map_or(Ok(()), |text| {
        let found = truncate(found, SHOWN_CHARS);
        Err(format!(
            "expected {what} to contain {text:?}, found {found:?}"
        ))
    })
}

fn check_tools(expect: &Expect, offered: &[&str]) -> Result<(), String> {
    if let Some(wanted) = &expect.tools {
        let mut wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let mut found = offered.to_vec();
        wanted.sort_unstable();
        found.sort_unstable();
        if wanted != found {
            let (wanted, found) = (wanted.join(", "), found.join(", "));
            return Err(format!("expected the tools [{wanted}], found [{found}]"));
        }
    }
    let all = offered.join(", ");
    if let Some(absent) = expect
        .tools_include
        .iter()
        .find(|tool| !offered.contains(&tool.as_str()))
    {
        return Err(format!(
            "expected the tool {absent:?} to be offered, found [{all}]"
        ));
    }
    if let Some(present) = expect
        .tools_exclude
        .iter()
        .find(|tool| offered.contains(&tool.as_str()))
    {
        return Err(format!(
            "expected the tool {present:?} not to be offered, found [{all}]"
        ));
    }
    match expect.no_tools {
        Some(true) if !offered.is_empty() => Err(format!("expected no tools, found [{all}]")),
        Some(false) if offered.is_empty() => Err("expected tools, found none".to_owned()),
        Some(_) | None => Ok(()),
    }
}
