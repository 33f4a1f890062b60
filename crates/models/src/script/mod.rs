//! A model that replies from a file, which defines the reply for each run and turn.
//!
//! The first matching rule determines the reply. Nothing is random and no state is kept between
//! requests, except how often a rule with `fault.times` has failed for a run.

mod error;
mod format;
mod rule;
mod seen;
mod template;

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use sortie_core::id::RunId;
use sortie_core::ports::model::{DeltaSink, Model, ModelAnswer, ModelError, ModelRequest};

use crate::price::Price;

pub use error::ScriptError;
use rule::{Rule, RuleResult};
use seen::ScriptRequest;

/// The largest script that is read: scenarios are written by hand.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;
/// The maximum number of (rule, run) pairs with counted faults; beyond it the model returns an
/// error.
const MAX_COUNTED: usize = 100_000;

/// A scenario: rules that define the model's replies.
#[derive(Debug)]
pub struct Script {
    name: String,
    rules: Vec<Rule>,
    price: Option<Price>,
}

impl Script {
    /// Reads a scenario file, YAML or JSON.
    pub fn from_path(path: &Path) -> Result<Self, ScriptError> {
        let unreadable = |source| ScriptError::Read {
            path: path.to_owned(),
            source,
        };
        let file = sortie_base::regular_file::open_followed(path).map_err(unreadable)?;
        let mut text = String::new();
        file.take(MAX_SCRIPT_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        Self::named(&path.display().to_string(), &text)
    }

    /// Parses the text of a scenario; errors and replies carry the name.
    pub fn named(name: &str, text: &str) -> Result<Self, ScriptError> {
        let bytes = text.len() as u64;
        if bytes > MAX_SCRIPT_BYTES {
            let name = name.to_owned();
            return Err(ScriptError::TooLong { name, bytes });
        }
        let options = serde_saphyr::options! { strict_booleans: true };
        let file: format::File = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| ScriptError::from_yaml(name, &error))?;
        Self::build(name, file)
    }

    fn build(name: &str, file: format::File) -> Result<Self, ScriptError> {
        let invalid = |line, column, problem| ScriptError::Invalid {
            name: name.to_owned(),
            line,
            column,
            problem,
        };
        if file.version != format::VERSION {
            let problem = format!(
                "this build understands version {} of the format, not {}",
                format::VERSION,
                file.version
            );
            return Err(invalid(1, 1, problem));
        }
        if file.rules.is_empty() {
            return Err(invalid(1, 1, "a script needs at least one rule".to_owned()));
        }
        let mut rules = Vec::with_capacity(file.rules.len());
        for (index, written) in file.rules.into_iter().enumerate() {
            let (line, column) = (written.referenced.line(), written.referenced.column());
            let rule = Rule::new(index + 1, line, written.value, &file.defaults)
                .map_err(|problem| invalid(line, column, problem))?;
            rules.push(rule);
        }
        Ok(Self {
            name: name.to_owned(),
            rules,
            price: file.defaults.price,
        })
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        Self::named("script", text)
    }
}

/// A model that follows a [`Script`].
#[derive(Debug)]
pub struct ScriptModel {
    script: Arc<Script>,
    /// How often a rule with a limited fault has failed for a run.
    failed: Mutex<HashMap<(usize, RunId), u32>>,
}

impl ScriptModel {
    /// Creates a model that follows the script.
    pub fn new(script: impl Into<Arc<Script>>) -> Self {
        Self {
            script: script.into(),
            failed: Mutex::default(),
        }
    }

    /// Returns the price of its tokens, if the script sets one.
    pub(crate) fn price(&self) -> Option<Price> {
        self.script.price
    }

    /// Returns the rule that applies, and whether it gives its reply or its fault.
    fn choose(&self, seen: ScriptRequest<'_>) -> Result<(&Rule, RuleResult), ModelError> {
        for rule in &self.script.rules {
            if !rule.fits(seen) {
                continue;
            }
            if self.fails(rule, seen.request.origin.run)? {
                return Ok((rule, RuleResult::Fault));
            }
            if rule.answers() {
                return Ok((rule, RuleResult::Answer));
            }
        }
        Err(ModelError::fatal(format!(
            "no rule of {} covers {}. The model saw:\n{}",
            self.script.name,
            seen.origin(),
            seen.shown()
        )))
    }

    /// Returns whether the rule's fault occurs now, and counts it if so.
    fn fails(&self, rule: &Rule, run: RunId) -> Result<bool, ModelError> {
        let Some(fault) = rule.fault() else {
            return Ok(false);
        };
        let Some(times) = fault.times else {
            return Ok(true);
        };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() >= MAX_COUNTED {
            return Err(ModelError::fatal(format!(
                "the script {} counts faults of {MAX_COUNTED} runs and stops here",
                self.script.name
            )));
        }
        let count = failed.entry((rule.number, run)).or_default();
        let now = *count < times;
        *count = count.saturating_add(u32::from(now));
        Ok(now)
    }
}

#[async_trait]
impl Model for ScriptModel {
    async fn turn(
        &self,
        request: ModelRequest,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        let seen = ScriptRequest::new(&request);
        let (rule, given) = self.choose(seen)?;
        let about = |problem: String| {
            ModelError::fatal(format!(
                "{}, {}, at {}: {problem}",
                self.script.name,
                rule.title(),
                seen.origin()
            ))
        };
        rule.check(seen).map_err(about)?;
        if rule.latency > Duration::ZERO {
            tokio::time::sleep(rule.latency).await;
        }
        let model = self.model_name();
        let answer = match (given, rule.fault()) {
            (RuleResult::Fault, Some(fault)) if rule::hangs(fault) => std::future::pending().await,
            (RuleResult::Fault, Some(fault)) => {
                rule.faulty(fault, seen, model).map_err(about)??
            }
            (RuleResult::Fault, None) | (RuleResult::Answer, _) => {
                rule.answer(seen, model).map_err(about)?
            }
        };
        for part in &answer.parts {
            if let sortie_core::ports::model::AnswerPart::Text(text) = part {
                deltas.text(text);
            }
        }
        Ok(answer)
    }
}

impl ScriptModel {
    fn model_name(&self) -> String {
        match self.script.name.as_str() {
            "script" => "script".to_owned(),
            name => format!("script:{name}"),
        }
    }
}
