//! Plays a recording back.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use sortie_base::truncate::truncate;
use sortie_core::id::RunId;
use sortie_core::ports::model::{
    AnswerPart, DeltaSink, Model, ModelAnswer, ModelError, ModelRequest,
};

use super::ids::{ids_of, with_ids, without_ids};
use super::{Exchange, FILE, MAX_FILE_BYTES, MAX_LINE_BYTES, Outcome, VERSION};

/// The maximum length of a task in an error.
const SHOWN_TASK_CHARS: usize = 120;

/// A model that replies from a recording.
///
/// A run is matched to one recorded run: the first with the same agent and task that no other run
/// is matched to. Within it, the n-th request of a turn gets the n-th recorded reply of that turn.
#[derive(Debug)]
pub struct ReplayModel {
    name: String,
    /// Recorded runs in the order of their first exchange.
    runs: Vec<(RunId, String, String)>,
    exchanges: HashMap<(RunId, u32), Vec<Exchange>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    follows: HashMap<RunId, RunId>,
    followed: HashSet<RunId>,
    played: HashMap<(RunId, u32), usize>,
}

impl ReplayModel {
    /// Opens the recording in this folder.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join(FILE);
        let wrong = |what: String| {
            ModelError::fatal(format!(
                "the recording {} cannot be played back: {what}",
                path.display()
            ))
        };
        let file = File::open(&path).map_err(|error| wrong(error.to_string()))?;
        let mut lines = BufReader::new(file.take(MAX_FILE_BYTES));
        let mut replay = Self {
            name: folder.display().to_string(),
            runs: Vec::new(),
            exchanges: HashMap::new(),
            state: Mutex::default(),
        };
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = (&mut lines)
                .take(MAX_LINE_BYTES as u64 + 1)
                .read_until(b'\n', &mut line)
                .map_err(|error| wrong(error.to_string()))?;
            if read == 0 {
                break;
            }
            let exchange: Exchange = match serde_json::from_slice(&line) {
                Ok(exchange) => exchange,
                // A process that crashed while recording leaves half a line: at the end, or where
                // the next process continued.
                Err(error) if error.is_eof() => {
                    tracing::warn!(
                        line = number,
                        "the incomplete last line of the recording is ignored"
                    );
                    continue;
                }
                Err(error) => return Err(wrong(format!("line {number}: {error}"))),
            };
            if exchange.version != VERSION {
                return Err(wrong(format!(
                    "line {number} has version {}, this build understands {VERSION}",
                    exchange.version
                )));
            }
            replay.add(exchange);
        }
        Ok(replay)
    }

    fn add(&mut self, exchange: Exchange) {
        let run = exchange.run;
        if !self.runs.iter().any(|(known, ..)| *known == run) {
            let (agent, task) = (exchange.agent.clone(), exchange.task.clone());
            self.runs.push((run, agent, task));
        }
        let turn = self.exchanges.entry((run, exchange.turn)).or_default();
        turn.push(exchange);
    }

    /// Returns the recorded exchange for a request.
    fn exchange(&self, request: &ModelRequest) -> Result<&Exchange, ModelError> {
        let origin = &request.origin;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = self.recorded_run(&mut state, request);
        let played = recorded.map(|run| state.played.entry((run, origin.turn)).or_default());
        let occurrence = played.map_or(0, |played| {
            *played += 1;
            *played - 1
        });
        recorded
            .and_then(|run| self.exchanges.get(&(run, origin.turn)))
            .and_then(|turn| turn.get(occurrence))
            .ok_or_else(|| {
                ModelError::fatal(format!(
                    "the recording {} has no exchange for agent {}, task {:?}, turn {}, time {}",
                    self.name,
                    origin.agent,
                    truncate(&without_ids(&origin.task), SHOWN_TASK_CHARS),
                    origin.turn,
                    occurrence + 1
                ))
            })
    }

    fn recorded_run(&self, state: &mut State, request: &ModelRequest) -> Option<RunId> {
        let origin = &request.origin;
        if let Some(recorded) = state.follows.get(&origin.run) {
            return Some(*recorded);
        }
        let task = without_ids(&origin.task);
        let fits = |(run, agent, recorded_task): &&(RunId, String, String)| {
            !state.followed.contains(run) && *agent == origin.agent && *recorded_task == task
        };
        let recorded = self.runs.iter().find(fits).map(|(run, ..)| *run)?;
        state.followed.insert(recorded);
        state.follows.insert(origin.run, recorded);
        Some(recorded)
    }
}

#[async_trait]
impl Model for ReplayModel {
    async fn turn(
        &self,
        request: ModelRequest,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        let exchange = self.exchange(&request)?;
        let answer = match &exchange.result {
            Outcome::Answer(answer) => answer,
            Outcome::Error(failure) => {
                return Err(ModelError {
                    fault: failure.fault,
                    message: failure.message.clone(),
                    shown: failure.shown,
                });
            }
        };
        let today = ids_of(&request);
        let ids = exchange.ids.iter().map(String::as_str);
        let others: HashMap<&str, &str> = ids.zip(today.iter().map(String::as_str)).collect();
        let text = serde_json::to_string(answer).map_err(unreadable)?;
        let answer: super::Answer =
            serde_json::from_str(&with_ids(&text, &others)).map_err(unreadable)?;
        let answer = ModelAnswer::from(answer);
        for part in &answer.parts {
            if let AnswerPart::Text(text) = part {
                deltas.text(text);
            }
        }
        Ok(answer)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn unreadable(error: serde_json::Error) -> ModelError {
    ModelError::fatal(format!("a recorded answer cannot be read: {error}"))
}
