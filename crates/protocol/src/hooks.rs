//! Hooks and their letters.

use serde::{Deserialize, Serialize};
use sortie_core::hook::{HookEvent, HookKind, Letter, LetterState, hook_receiver};
use sortie_core::ports::store::LetterCount;
use utoipa::ToSchema;

use crate::{DeliveryAction, time};

/// A hook of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hook {
    pub name: String,
    /// `command` or `webhook`.
    pub kind: String,
    pub events: Vec<HookEvent>,
    /// The agents whose runs it is for; empty is all.
    pub agents: Vec<String>,
    /// The tools whose calls it is for; empty is all.
    pub tools: Vec<String>,
    /// The command, or the address without its query.
    pub target: String,
    /// Whether a call is denied if the hook fails.
    pub required: bool,
    /// Letters that are due or will be retried.
    pub pending: u64,
    /// Letters that were given up.
    pub dead: u64,
}

impl Hook {
    /// Returns a hook with the numbers of its letters.
    pub fn new(hook: &sortie_core::hook::Hook, counts: &[LetterCount]) -> Self {
        let receiver = hook_receiver(&hook.name);
        let count = |state: LetterState| {
            let of_hook = |count: &&LetterCount| count.receiver == receiver && count.state == state;
            counts.iter().find(of_hook).map_or(0, |count| count.letters)
        };
        Self {
            name: hook.name.clone(),
            kind: match hook.kind {
                HookKind::Command => "command",
                HookKind::Webhook => "webhook",
            }
            .to_owned(),
            events: hook.events.clone(),
            agents: hook.agents.clone(),
            tools: hook.tools.clone(),
            target: hook.target.clone(),
            required: hook.required,
            pending: count(LetterState::Pending),
            dead: count(LetterState::Dead),
        }
    }
}

/// A letter that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetter {
    pub id: i64,
    /// The header `webhook-id` of every attempt.
    pub key: String,
    /// `hook:` and the name.
    pub receiver: String,
    /// The event that it reports.
    pub event: String,
    /// The task that it is about; the task may have been deleted.
    pub task_id: Option<String>,
    pub attempts: u32,
    pub at: String,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

impl From<&Letter> for DeadLetter {
    fn from(letter: &Letter) -> Self {
        Self {
            id: letter.id,
            key: letter.key.clone(),
            receiver: letter.receiver.clone(),
            event: letter.kind.clone(),
            task_id: letter.run.map(|run| run.to_string()),
            attempts: letter.attempts,
            at: time(letter.at),
            error: letter.error.clone(),
        }
    }
}

/// What to do with dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LettersBody {
    pub action: DeliveryAction,
    /// Only this letter; all if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LettersChanged {
    /// How many letters were retried or dropped.
    pub changed: u64,
}
