//! The built-in model: rules over tool results, without network or understanding, and its reports
//! state that.
//!
//! Like any model it decides only from the request: it sees no file that a tool did not show it,
//! and it reports what a tool did not return as unknown.

mod docs;
mod evidence;
mod hot_spots;
mod layout;
mod lead;
mod look;
mod survey;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use sortie_core::event::StopReason;
use sortie_core::message::{Arguments, Usage};
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Model, ModelAnswer, ModelError, ModelRequest,
};
use sortie_text::{Lang, t};

use evidence::Evidence;

/// The name of the built-in model.
pub const OFFLINE_MODEL: &str = "offline";

/// The agent that makes surveys.
const EXPLORER: &str = "explore";

/// The built-in model that needs no network.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel {
    pace: Duration,
}

impl OfflineModel {
    /// Creates a model that waits this long before each reply, so that a person can follow it.
    pub const fn with_pace(pace: Duration) -> Self {
        Self { pace }
    }
}

#[async_trait]
impl Model for OfflineModel {
    async fn turn(
        &self,
        request: ModelRequest,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        if self.pace > Duration::ZERO {
            tokio::time::sleep(self.pace).await;
        }
        let answer = decide(&request);
        for part in &answer.parts {
            if let AnswerPart::Text(text) = part {
                deltas.text(text);
            }
        }
        Ok(answer)
    }
}

/// Returns the reply of the offline model to a request: a pure function of the request.
pub fn decide(request: &ModelRequest) -> ModelAnswer {
    let evidence = Evidence::of(request);
    let is_chinese = is_chinese(evidence.instruction) || is_chinese(&request.system);
    let lang = if is_chinese { Lang::Zh } else { Lang::En };
    step(request, &evidence, lang).into_answer()
}

fn step(request: &ModelRequest, evidence: &Evidence<'_>, lang: Lang) -> Step {
    let is_root = request.origin.depth == 0;
    // An explorer always surveys, whatever the wording of its instruction.
    let is_explorer = request.origin.agent.eq_ignore_ascii_case(EXPLORER);
    if is_root && !is_explorer && !survey::is_survey(evidence.instruction) {
        return Step::Answer(t!(lang, "survey-declined"));
    }
    if is_root && (evidence.offers(lead::TASK_TOOL) || evidence.has_called(lead::TASK_TOOL)) {
        return lead::next(evidence, lang);
    }
    survey::next(evidence, lang)
}

/// Returns whether a text is mostly Chinese. One Chinese character carries about as much as four
/// letters, so a few names and paths in Latin letters do not make a sentence English, nor does one
/// Chinese folder name make it Chinese.
fn is_chinese(text: &str) -> bool {
    let is_han = |c: &char| matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}');
    let han = text.chars().filter(is_han).count();
    let letters = text.chars().filter(char::is_ascii_alphabetic).count();
    han > 0 && han * 4 >= letters
}

/// The next step of the model.
#[derive(Debug, PartialEq)]
enum Step {
    /// Calls more tools before it reports.
    Look { text: String, calls: Vec<Call> },
    /// Returns the final answer.
    Answer(String),
}

/// A planned tool call. Its arguments identify its result in the history.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    tool: &'static str,
    arguments: Value,
}

impl Step {
    fn into_answer(self) -> ModelAnswer {
        let (parts, stop) = match self {
            Self::Answer(text) => (vec![AnswerPart::Text(text)], StopReason::EndTurn),
            Self::Look { text, calls } => {
                let calls = calls.into_iter().map(|call| AnswerPart::Call {
                    provider_id: None,
                    name: call.tool.to_owned(),
                    arguments: Arguments::Json(call.arguments),
                });
                let parts = std::iter::once(AnswerPart::Text(text))
                    .chain(calls)
                    .collect();
                (parts, StopReason::ToolUse)
            }
        };
        ModelAnswer {
            parts,
            stop,
            usage: Usage::default(),
            model: OFFLINE_MODEL.to_owned(),
            held_ms: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_that_of_most_words() {
        for (text, expected) in [
            ("survey this repository", false),
            ("探索这个项目", true),
            ("阅读 README 和 docs，给出概览", true),
            ("survey the folder 项目 in this workspace", false),
            ("", false),
        ] {
            assert_eq!(is_chinese(text), expected, "{text}");
        }
    }
}
