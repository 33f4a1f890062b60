//! `sortie approvals approve`, `deny` and `answer`.

use clap::Args;
use serde_json::json;
use sortie_base::hidden::write_out_line;
use sortie_core::ports::store::{Replied, ReplyTo, Requests as _, StoreError};
use sortie_core::request::{OpenRequest, Reply, RequestKind};
use sortie_core::time::Clock;
use sortie_core::words::Lang;
use sortie_policy::Rule;
use sortie_runtime::ProcessClock;
use sortie_text::t;

use super::{find, reply_words};
use crate::approval::{self, replied_elsewhere};
use crate::engine::{Engine, Place};
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Approves a tool call
#[derive(Debug, Args)]
pub(super) struct Approve {
    /// Id of the request, or at least its first 4 characters
    id: String,
    /// Grants a rule for the whole session, so that matching calls need no approval [default: the
    /// narrowest suggestion]
    #[arg(long, value_name = "RULE", num_args = 0..=1, require_equals = true)]
    always: Option<Option<String>>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Denies a tool call
#[derive(Debug, Args)]
pub(super) struct Deny {
    /// Id of the request, or at least its first 4 characters
    id: String,
    /// Reason or alternative, which the agent reads
    #[arg(long, value_name = "WORDS")]
    because: Option<String>,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// Answers a question of a task
#[derive(Debug, Args)]
pub(super) struct Answer {
    /// Id of the request, or at least its first 4 characters
    id: String,
    /// Answer in words, or the number of an option
    text: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Approve {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let open = find(settings, &self.id).await?;
        let lang = settings.lang;
        let suggestions = match &open.request.kind {
            RequestKind::Approval(approval) => &approval.lasting,
            RequestKind::Question(_) => return Err(is_question(lang, &open)),
        };
        let lasting = match self.always {
            None => None,
            Some(None) => match suggestions.first() {
                Some(rule) => Some(rule.clone()),
                None => return Err(Problem::Refused(t!(lang, "approvals-no-rule"))),
            },
            Some(Some(rule)) => Some(checked(lang, rule)?),
        };
        let by = settings.person.clone();
        send(settings, &open, Reply::Approved { by, lasting }, self.json).await
    }
}

impl Deny {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let open = find(settings, &self.id).await?;
        match &open.request.kind {
            RequestKind::Approval(_) => {}
            RequestKind::Question(_) => return Err(is_question(settings.lang, &open)),
        }
        let reply = Reply::Refused {
            by: settings.person.clone(),
            words: self.because.filter(|words| !words.trim().is_empty()),
        };
        send(settings, &open, reply, self.json).await
    }
}

impl Answer {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let open = find(settings, &self.id).await?;
        let id = open.request.id.as_str();
        let reply = match &open.request.kind {
            RequestKind::Approval(_) => {
                let words = t!(settings.lang, "approvals-not-a-question", id = id);
                return Err(Problem::Refused(words));
            }
            kind @ RequestKind::Question(_) => approval::reply(kind, &self.text, &settings.person),
        };
        let Some(reply) = reply else {
            return Err(Problem::Typed(t!(settings.lang, "approvals-empty-answer")));
        };
        send(settings, &open, reply, self.json).await
    }
}

fn is_question(lang: Lang, open: &OpenRequest) -> Problem {
    let id = open.request.id.as_str();
    Problem::Refused(t!(lang, "approvals-is-question", id = id))
}

/// Rejects a rule that policy cannot parse: it would silently allow nothing.
fn checked(lang: Lang, rule: String) -> Result<String, Problem> {
    match rule.parse::<Rule>() {
        Ok(_) => Ok(rule),
        Err(error) => Err(Problem::Typed(t!(
            lang,
            "approvals-bad-rule",
            rule = write_out_line(&rule),
            problem = error.to_string()
        ))),
    }
}

/// The destination of a reply.
enum Sent {
    /// The store: no process executes the task.
    Noted,
    /// The mailbox of the process that executes the task.
    Left { owner: String },
}

async fn send(
    settings: &Settings,
    open: &OpenRequest,
    reply: Reply,
    json: bool,
) -> Result<Exit, Problem> {
    let lang = settings.lang;
    let (replied, sent) = deliver(settings, open, reply.clone()).await?;
    match replied {
        Replied::Accepted { run } => {
            if json {
                output::json(&json!({
                    "request": open.request.id,
                    "task_id": run,
                    "reply": reply,
                    "picked_up_by": match &sent {
                        Sent::Noted => None,
                        Sent::Left { owner } => Some(owner),
                    },
                }))?;
            } else {
                let words = reply_words(lang, Some(&reply));
                let id = open.request.id.as_str();
                output::text(&match sent {
                    Sent::Noted => t!(lang, "approvals-noted", id = id, words = words),
                    Sent::Left { owner } => t!(
                        lang,
                        "approvals-left",
                        id = id,
                        words = words,
                        owner = write_out_line(&owner)
                    ),
                })?;
            }
            Ok(Exit::Ok)
        }
        Replied::TooLate { earlier } => Err(Problem::Refused(match earlier {
            Some(earlier) => {
                let at = find(settings, open.request.id.as_str()).await?.replied_at;
                let reason = replied_elsewhere(lang, Some(&earlier), at);
                t!(lang, "answer-late", reason = reason)
            }
            None => t!(lang, "approvals-run-ended"),
        })),
    }
}

/// Sends a reply from another part of this program.
pub(crate) async fn reply_to(
    settings: &Settings,
    open: &OpenRequest,
    reply: Reply,
) -> Result<Replied, Problem> {
    let (replied, _) = deliver(settings, open, reply).await?;
    Ok(replied)
}

/// Sends the reply to the server, writes it to the store, or leaves it in the mailbox of the
/// process that holds the store.
async fn deliver(
    settings: &Settings,
    open: &OpenRequest,
    reply: Reply,
) -> Result<(Replied, Sent), Problem> {
    if let Place::There(client) = Place::find(settings).await? {
        let owner = t!(
            settings.lang,
            "server-name",
            address = client.address().to_string()
        );
        let place = Place::There(client);
        let engine = Engine::start(settings, place, settings.builder()).await?;
        let replied = engine.reply(&open.request.id, reply).await?;
        return Ok((replied, Sent::Left { owner }));
    }
    let request = open.request.id.clone();
    match settings.options.open_store() {
        Ok(opened) => {
            let at = opened.clock.now();
            let replied = opened.store.reply(ReplyTo { request, reply, at }).await?;
            Ok((replied, Sent::Noted))
        }
        Err(StoreError::Locked { owner }) => {
            let at = ProcessClock::start().now();
            let replied = settings.options.leave_reply(&request, reply, at)?;
            Ok((replied, Sent::Left { owner }))
        }
        Err(error) => Err(error.into()),
    }
}
