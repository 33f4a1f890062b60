//! Hooks: consults the commands that decide, and delivers the letters of those that observe.
//!
//! A deciding hook can restrict only: it denies a call, requires an approval, adds to a result, or
//! sends a run back to work. An observing hook never delays a run: its letter is written in the
//! transaction of the fact, and delivered by a loop of its own, at least once and with a key.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sortie_base::redact::Redactor;
use sortie_core::hook::{
    Hook, HookEvent, HookInput, HookSubject, HookVerdict, Letter, NewLetter, bounded, hook_receiver,
};
use sortie_core::id::RunId;
use sortie_core::message::{Arguments, Block, ToolCall, ToolResult};
use sortie_core::ports::store::DeliveryAttempt;
use sortie_core::run::RunSpec;
use sortie_core::time::Timestamp;
use sortie_text::truncate_middle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, store_failed};

/// Characters of what a hook adds to a text for a model.
const MAX_REASON_CHARS: usize = 4_000;
/// Letters for one receiver, and for all, that are sent at once.
const MAX_PER_RECEIVER: usize = 4;
const MAX_SENDING: usize = 32;
/// The wait after the first failed delivery; it doubles with each further one.
const FIRST_RETRY_MS: i64 = 1_000;
/// The longest wait between two deliveries.
const LONGEST_RETRY_MS: i64 = 60 * 60 * 1_000;
/// How long the end of the process waits for letters that were never sent.
const LAST_DELIVERIES: Duration = Duration::from_secs(3);

/// What the deciding hooks of an event say together.
#[derive(Debug, Default)]
pub(crate) struct Consulted {
    /// The hook that denies, and its reason.
    pub(crate) block: Option<(String, String)>,
    /// The hook that requires an approval, and its reason.
    pub(crate) ask: Option<(String, String)>,
    /// Additions for the model, with their hooks.
    pub(crate) context: Vec<(String, String)>,
}

impl Engine {
    /// Returns the commands that decide at this event about a run of this agent.
    pub(crate) fn deciding_hooks(
        &self,
        event: HookEvent,
        agent: &str,
        tool: Option<&str>,
    ) -> Vec<&Hook> {
        let hooks = self.settings().hooks.iter();
        hooks
            .filter(|hook| hook.decides(event, agent, tool))
            .collect()
    }

    /// Runs these hooks one after the other, until one denies.
    pub(crate) async fn consult_hooks(
        &self,
        hooks: &[&Hook],
        input: &HookInput,
        folder: &Path,
    ) -> Consulted {
        let mut consulted = Consulted::default();
        for hook in hooks {
            let verdict = self.consult_hook(hook, input, folder).await;
            let bound = |text: String| {
                let text = self.redactor.redact(&text).into_owned();
                truncate_middle(text.trim(), MAX_REASON_CHARS, "\n…\n").text
            };
            let name = hook.name.clone();
            match verdict {
                HookVerdict::Pass { context } => {
                    consulted
                        .context
                        .extend(context.map(|text| (name, bound(text))));
                }
                HookVerdict::Ask { reason } => consulted.ask = Some((name, bound(reason))),
                HookVerdict::Block { reason } => {
                    consulted.block = Some((name, bound(reason)));
                    break;
                }
                HookVerdict::Failed { why } if hook.required => {
                    consulted.block = Some((name, bound(format!("it has failed: {why}"))));
                    break;
                }
                HookVerdict::Failed { why } => {
                    tracing::warn!(hook = name, why = bound(why), "a hook has failed");
                }
            }
        }
        consulted
    }

    /// Runs one hook.
    pub(crate) async fn consult_hook(
        &self,
        hook: &Hook,
        input: &HookInput,
        folder: &Path,
    ) -> HookVerdict {
        let text = if hook.claude_names {
            input.clone().with_claude_names().to_json()
        } else {
            input.to_json()
        };
        let running = self.hooks.run(&hook.name, &text, folder);
        match timeout(hook.timeout, running).await {
            Ok(Ok(output)) => output.verdict(),
            Ok(Err(why)) => HookVerdict::Failed { why },
            Err(_) => HookVerdict::Failed {
                why: format!("no answer after {} s", hook.timeout.as_secs()),
            },
        }
    }
}

/// Returns the input of a hook about a run.
pub(crate) fn input_of(event: HookEvent, run: RunId, spec: &RunSpec, folder: &Path) -> HookInput {
    let subject = HookSubject {
        run,
        parent: spec.parent.as_ref().map(|link| link.run),
        root: spec.root,
        session: &spec.session,
        agent: &spec.agent.name,
        label: &spec.label,
        cwd: folder,
    };
    HookInput::new(event, subject).with_mode(spec.policy.mode)
}

/// Returns the letters about the calls that a model has just requested.
pub(crate) fn letters_of_requests(
    engine: &Engine,
    (run, spec, folder): (RunId, &RunSpec, &Path),
    blocks: &[Block],
) -> Vec<NewLetter> {
    if spec.hooks.is_empty() {
        return Vec::new();
    }
    let calls = blocks.iter().filter_map(|block| match block {
        Block::Call(call) => Some(call),
        Block::Text { .. } | Block::Reasoning { .. } => None,
    });
    calls
        .flat_map(|call| {
            let event = HookEvent::ToolBefore;
            let input = || call_input(engine, event, (run, spec, folder), call);
            letters(spec, event, run, &tool_name(engine, call), call, input)
        })
        .collect()
}

/// Returns the letters about the result of a call.
pub(crate) fn letters_of_result(
    engine: &Engine,
    (run, spec, folder): (RunId, &RunSpec, &Path),
    call: &ToolCall,
    result: &ToolResult,
) -> Vec<NewLetter> {
    if spec.hooks.is_empty() {
        return Vec::new();
    }
    let event = HookEvent::ToolAfter;
    let input = || {
        let mut input = call_input(engine, event, (run, spec, folder), call);
        input.tool_response = Some(response(result));
        input
    };
    letters(spec, event, run, &tool_name(engine, call), call, input)
}

/// Returns a result in the form that hooks read.
pub(crate) fn response(result: &ToolResult) -> serde_json::Value {
    json!({ "status": result.status, "text": bounded(&result.text) })
}

fn letters(
    spec: &RunSpec,
    event: HookEvent,
    run: RunId,
    tool: &str,
    call: &ToolCall,
    input: impl Fn() -> HookInput,
) -> Vec<NewLetter> {
    let hooks = spec.hooks.iter();
    hooks
        .filter(|hook| hook.observes(event, Some(tool)))
        .map(|hook| NewLetter::of_hook(&hook.hook, event, run, call.id.as_str(), &input()))
        .collect()
}

/// Returns Sortie's own name of the tool of a call.
fn tool_name(engine: &Engine, call: &ToolCall) -> String {
    let found = match &call.arguments {
        Arguments::Json(arguments) => engine.planner.toolbox.find(&call.name, arguments),
        Arguments::Malformed { .. } => None,
    };
    found.map_or_else(|| call.name.clone(), |found| found.facts.name.clone())
}

/// Returns the input about a call for a letter, without secrets.
fn call_input(
    engine: &Engine,
    event: HookEvent,
    (run, spec, folder): (RunId, &RunSpec, &Path),
    call: &ToolCall,
) -> HookInput {
    let arguments = arguments_of(&engine.redactor, call);
    input_of(event, run, spec, folder).with_call(&tool_name(engine, call), &call.id, arguments)
}

fn arguments_of(redactor: &Redactor, call: &ToolCall) -> serde_json::Value {
    match &call.arguments {
        Arguments::Json(arguments) => {
            let text = redactor.redact_json(arguments).to_string();
            if text.chars().count() > sortie_core::hook::MAX_HOOK_TEXT_CHARS {
                return json!({ "truncated": bounded(&text) });
            }
            redactor.redact_json(arguments)
        }
        Arguments::Malformed { .. } => serde_json::Value::Null,
    }
}

/// Delivers letters until `stop`.
pub(crate) async fn deliver(engine: Arc<Engine>, stop: CancellationToken) {
    let hooks: BTreeMap<String, Hook> = engine
        .settings()
        .hooks
        .iter()
        .map(|hook| (hook_receiver(&hook.name), hook.clone()))
        .collect();
    if hooks.is_empty() {
        return;
    }
    let mut sending = Sending::default();
    loop {
        if let Err(error) = sending.begin(&engine, &hooks, |_| true).await {
            store_failed("deliver letters", &error);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(done) = sending.tasks.join_next() => sending.ended(done),
            () = engine.wakeups.letters.notified() => {}
            () = tokio::time::sleep(engine.settings().poll_interval) => {}
        }
    }
    // Letters about the end of a short command, for example. The rest is delivered by the next process.
    let last = async {
        let begun = sending.begin(&engine, &hooks, |letter| letter.attempts == 0);
        if let Err(error) = begun.await {
            store_failed("deliver letters", &error);
        }
        while let Some(done) = sending.tasks.join_next().await {
            sending.ended(done);
        }
    };
    if timeout(LAST_DELIVERIES, last).await.is_err() {
        tracing::warn!("some letters of hooks were not delivered; the next process delivers them");
    }
}

/// The letters on their way.
#[derive(Default)]
struct Sending {
    tasks: JoinSet<i64>,
    /// The receivers by the id of the letter.
    receivers: BTreeMap<i64, String>,
}

impl Sending {
    /// Starts to send due letters for receivers that have room for more.
    async fn begin(
        &mut self,
        engine: &Arc<Engine>,
        hooks: &BTreeMap<String, Hook>,
        wanted: impl Fn(&Letter) -> bool,
    ) -> sortie_core::ports::store::StoreResult<()> {
        let open: Vec<String> = hooks
            .keys()
            .filter(|receiver| self.room(receiver) > 0)
            .cloned()
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let now = engine.clock.now();
        for letter in engine.store.due_letters(open, now).await? {
            let is_new = !self.receivers.contains_key(&letter.id);
            let Some(hook) = hooks.get(&letter.receiver) else {
                continue;
            };
            if is_new && wanted(&letter) && self.room(&letter.receiver) > 0 {
                self.receivers.insert(letter.id, letter.receiver.clone());
                self.tasks
                    .spawn(send(Arc::clone(engine), hook.clone(), letter));
            }
        }
        Ok(())
    }

    fn room(&self, receiver: &str) -> usize {
        let same = self.receivers.values().filter(|other| *other == receiver);
        let own = MAX_PER_RECEIVER.saturating_sub(same.count());
        own.min(MAX_SENDING.saturating_sub(self.receivers.len()))
    }

    fn ended(&mut self, done: Result<i64, tokio::task::JoinError>) {
        match done {
            Ok(id) => {
                self.receivers.remove(&id);
            }
            Err(panic) => {
                tracing::error!(%panic, "the delivery of a letter panicked");
                // Which one is unknown: those that are still on their way may be sent twice.
                if self.tasks.is_empty() {
                    self.receivers.clear();
                }
            }
        }
    }
}

/// Sends one letter and records the attempt; returns its id.
async fn send(engine: Arc<Engine>, hook: Hook, letter: Letter) -> i64 {
    let delivering = engine
        .hooks
        .deliver(&hook.name, &letter, engine.clock.now());
    let sent = match timeout(hook.timeout, delivering).await {
        Ok(sent) => sent,
        Err(_) => Err(format!("no answer after {} s", hook.timeout.as_secs())),
    };
    crate::crash::point(crate::crash::Point::AfterLetter);
    let attempt = match sent {
        Ok(()) => DeliveryAttempt::Delivered,
        Err(error) => {
            let error = engine.redactor.redact(&error);
            let error = truncate_middle(&error, MAX_REASON_CHARS, "…").text;
            if letter.attempts + 1 >= hook.max_attempts {
                tracing::warn!(hook = hook.name, id = letter.id, error, "a letter is dead");
                DeliveryAttempt::Blocked { error }
            } else {
                let at = retry_at(engine.clock.now(), &letter);
                DeliveryAttempt::Retry { at, error }
            }
        }
    };
    if let Err(error) = engine.store.record_letter(letter.id, attempt).await {
        store_failed("record the delivery of a letter", &error);
    }
    letter.id
}

/// Returns the time of the next attempt. Letters that failed together do not return together.
fn retry_at(now: Timestamp, letter: &Letter) -> Timestamp {
    let wait = FIRST_RETRY_MS
        .saturating_mul(1 << letter.attempts.min(20))
        .min(LONGEST_RETRY_MS);
    let seed = letter
        .key
        .bytes()
        .fold(i64::from(letter.attempts), |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(i64::from(byte))
        });
    let jitter = seed.rem_euclid(wait / 4 + 1);
    now.plus_ms(wait - wait / 8 + jitter)
}

#[cfg(test)]
mod tests {
    use sortie_core::hook::LetterState;

    use super::*;

    #[test]
    fn retries_back_off_and_letters_do_not_return_together() {
        let letter = |attempts, key: &str| Letter {
            id: 1,
            key: key.to_owned(),
            receiver: "hook:x".to_owned(),
            run: None,
            kind: "finish".to_owned(),
            body: String::new(),
            state: LetterState::Pending,
            attempts,
            at: Timestamp(0),
            next_at: Timestamp(0),
            error: None,
        };
        let wait = |attempts, key: &str| retry_at(Timestamp(0), &letter(attempts, key)).0;
        for (attempts, middle) in [(0, 1_000), (1, 2_000), (5, 32_000), (30, LONGEST_RETRY_MS)] {
            let waited = wait(attempts, "msg_a");
            assert!(
                (middle * 7 / 8..=middle * 9 / 8 + 1).contains(&waited),
                "{attempts}: {waited}"
            );
        }
        assert_ne!(wait(5, "msg_a"), wait(5, "msg_b"));
    }
}
