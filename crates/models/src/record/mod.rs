//! Records the exchanges with models, and plays them back.
//!
//! A recording is a folder with `exchanges.jsonl`, one exchange per line. Run ids differ in every
//! execution, so an exchange stores the ids it mentions in the order of their first appearance; at
//! playback each is replaced by the id at the same position of the current request.

mod ids;
mod replay;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_base::private_files::FILE_MODE;
use sortie_base::redact::Redactor;
use sortie_core::event::StopReason;
use sortie_core::id::RunId;
use sortie_core::message::{Arguments, SharedMessage, Usage};
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Fault, Model, ModelAnswer, ModelError, ModelRequest, PromptOrigin,
};
use sortie_core::ports::tool::ToolSpec;

use ids::{ids_of, without_ids};
pub use replay::ReplayModel;

const FILE: &str = "exchanges.jsonl";
/// The format version of the lines.
const VERSION: u32 = 1;
/// The longest line: beyond it the request is omitted, which only serves human readers.
const MAX_LINE_BYTES: usize = 16 << 20;
/// The largest file that is written or read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// One line of a recording.
#[derive(Debug, Deserialize, Serialize)]
struct Exchange {
    version: u32,
    run: RunId,
    agent: String,
    /// The task, with each id replaced by `{id}`.
    task: String,
    turn: u32,
    /// The ids in the request, in the order of their first appearance.
    ids: Vec<String>,
    #[serde(flatten)]
    result: Outcome,
}

/// The request, for people who read the recording.
#[derive(Serialize)]
struct RecordedRequest<'a> {
    model: &'a str,
    label: &'a str,
    depth: u32,
    system: &'a str,
    tools: &'a [ToolSpec],
    messages: &'a [SharedMessage],
    thinking: Option<&'a str>,
    schema: Option<&'a Value>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    exchange: &'a Exchange,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<RecordedRequest<'a>>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Answer(Answer),
    Error(Failure),
}

#[derive(Debug, Deserialize, Serialize)]
struct Answer {
    parts: Vec<Part>,
    stop: StopReason,
    usage: Usage,
    model: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text {
        text: String,
    },
    Reasoning {
        text: String,
        native: Option<Value>,
    },
    Call {
        provider_id: Option<String>,
        name: String,
        arguments: Arguments,
    },
}

#[derive(Debug, Deserialize, Serialize)]
struct Failure {
    fault: Fault,
    message: String,
    shown: bool,
}

/// A model whose exchanges are recorded.
#[derive(Debug)]
pub struct RecordModel {
    inner: Arc<dyn Model>,
    recorder: Arc<Recorder>,
}

impl RecordModel {
    pub(crate) fn new(inner: Arc<dyn Model>, recorder: Arc<Recorder>) -> Self {
        Self { inner, recorder }
    }
}

#[async_trait]
impl Model for RecordModel {
    async fn turn(
        &self,
        request: ModelRequest,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        let result = self.inner.turn(request.clone(), deltas).await;
        if let Err(error) = self.recorder.write(&request, &result) {
            // The run continues: its journal is authoritative, a recording only serves tests.
            tracing::warn!(%error, "an exchange could not be recorded");
        }
        result
    }
}

/// Writes the exchanges of all models to one file.
#[derive(Debug)]
pub(crate) struct Recorder {
    file: Mutex<File>,
    redactor: Redactor,
}

/// Returns whether a recording ends in the middle of a line.
fn is_torn(path: &Path) -> bool {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let last = File::open(path).and_then(|mut file| {
        let mut last = [b'\n'];
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(last)
    });
    // A missing file is not torn.
    last.is_ok_and(|[last]| last != b'\n')
}

impl Recorder {
    /// Opens the recording in this folder for appending.
    pub(crate) fn open(folder: &Path, redactor: Redactor) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(FILE_MODE);
        let path = folder.join(FILE);
        let torn = is_torn(&path);
        let mut file = options.open(path)?;
        if torn {
            // The previous writer crashed in the middle of a line.
            file.write_all(b"\n")?;
        }
        Ok(Self {
            file: Mutex::new(file),
            redactor,
        })
    }

    fn write(
        &self,
        request: &ModelRequest,
        result: &Result<ModelAnswer, ModelError>,
    ) -> std::io::Result<()> {
        let exchange = Exchange::new(request, result);
        let mut line = self.line(&exchange, Some(recorded_request(request)))?;
        if line.len() > MAX_LINE_BYTES {
            line = self.line(&exchange, None)?;
        }
        if line.len() > MAX_LINE_BYTES {
            return Err(std::io::Error::other("the answer is too long"));
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.metadata()?.len() + line.len() as u64 > MAX_FILE_BYTES {
            return Err(std::io::Error::other("the recording is full"));
        }
        file.write_all(line.as_bytes())
    }

    fn line(
        &self,
        exchange: &Exchange,
        request: Option<RecordedRequest<'_>>,
    ) -> std::io::Result<String> {
        let line = serde_json::to_value(Line { exchange, request })?;
        let line = serde_json::to_string(&self.redactor.redact_json(&line))?;
        Ok(line + "\n")
    }
}

impl Exchange {
    fn new(request: &ModelRequest, result: &Result<ModelAnswer, ModelError>) -> Self {
        let PromptOrigin {
            run,
            agent,
            task,
            turn,
            ..
        } = &request.origin;
        Self {
            version: VERSION,
            run: *run,
            agent: agent.clone(),
            task: without_ids(task),
            turn: *turn,
            ids: ids_of(request),
            result: match result {
                Ok(answer) => Outcome::Answer(Answer::from(answer)),
                Err(error) => Outcome::Error(Failure {
                    fault: error.fault,
                    message: error.message.clone(),
                    shown: error.shown,
                }),
            },
        }
    }
}

fn recorded_request(request: &ModelRequest) -> RecordedRequest<'_> {
    RecordedRequest {
        model: &request.model,
        label: &request.origin.label,
        depth: request.origin.depth,
        system: &request.system,
        tools: &request.tools,
        messages: &request.messages,
        thinking: request.options.thinking.as_deref(),
        schema: request.options.schema.as_deref(),
    }
}

impl From<&ModelAnswer> for Answer {
    fn from(answer: &ModelAnswer) -> Self {
        let part = |part: &AnswerPart| match part.clone() {
            AnswerPart::Text(text) => Part::Text { text },
            AnswerPart::Reasoning { text, native } => Part::Reasoning { text, native },
            AnswerPart::Call {
                provider_id,
                name,
                arguments,
            } => Part::Call {
                provider_id,
                name,
                arguments,
            },
        };
        Self {
            parts: answer.parts.iter().map(part).collect(),
            stop: answer.stop,
            usage: answer.usage,
            model: answer.model.clone(),
        }
    }
}

impl From<Answer> for ModelAnswer {
    fn from(answer: Answer) -> Self {
        let part = |part| match part {
            Part::Text { text } => AnswerPart::Text(text),
            Part::Reasoning { text, native } => AnswerPart::Reasoning { text, native },
            Part::Call {
                provider_id,
                name,
                arguments,
            } => AnswerPart::Call {
                provider_id,
                name,
                arguments,
            },
        };
        Self {
            parts: answer.parts.into_iter().map(part).collect(),
            stop: answer.stop,
            usage: answer.usage,
            model: answer.model,
            held_ms: 0,
        }
    }
}
