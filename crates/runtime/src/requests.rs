//! Approval requests and questions of runs, and what the model reads of the reply.

use std::time::Duration;

use sortie_core::id::{EffectId, Fence};
use sortie_core::message::ResultStatus;
use sortie_core::request::{
    Addressee, Answerer, ApprovalRequest, OpenRequest, Question, Reply, Request, RequestId,
    RequestKind,
};
use sortie_core::run::{EdgeMode, RunSpec};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{t, truncate_middle};

use crate::engine::millis;

/// Characters of a question.
const MAX_QUESTION_CHARS: usize = 4_000;
/// Characters of an answer that a model reads.
const MAX_ANSWER_CHARS: usize = 24_000;

/// Makes an approval request.
pub(crate) fn approval(
    effect: &EffectId,
    approval: ApprovalRequest,
    expires_at: Timestamp,
) -> Request {
    Request {
        id: RequestId::of(effect),
        expires_at,
        kind: RequestKind::Approval(Box::new(approval)),
    }
}

/// Makes a question. A run without a parent can only ask a person, and so can one whose parent
/// waits for it.
pub(crate) fn question(
    effect: &EffectId,
    spec: &RunSpec,
    mut question: Question,
    expires_at: Timestamp,
) -> Request {
    let parent_can_answer = spec
        .parent
        .as_ref()
        .is_some_and(|parent| parent.mode == EdgeMode::Background);
    if !parent_can_answer {
        question.to = Addressee::Person;
    }
    question.text = truncate_middle(&question.text, MAX_QUESTION_CHARS, " […] ").text;
    Request {
        id: RequestId::of(effect),
        expires_at,
        kind: RequestKind::Question(question),
    }
}

/// Returns a request as approvers see it.
pub(crate) fn open(
    fence: Fence,
    spec: &RunSpec,
    request: Request,
    asked_at: Timestamp,
) -> OpenRequest {
    OpenRequest {
        request,
        task_id: fence.run,
        root_id: spec.root,
        session_id: spec.session.clone(),
        tenant: spec.tenant.clone(),
        agent: spec.agent.name.clone(),
        label: spec.label.clone(),
        depth: spec.depth,
        asked_at,
        reply: None,
        replied_at: None,
    }
}

/// Returns when a request that is made now expires.
pub(crate) fn expiry(now: Timestamp, wait: Duration) -> Timestamp {
    now.plus_ms(millis(wait))
}

/// Returns what the model reads of a reply that does not approve.
pub(crate) fn reply_text(
    lang: Lang,
    tool: &str,
    request: &Request,
    reply: &Reply,
) -> (ResultStatus, String) {
    match (&request.kind, reply) {
        (_, Reply::Approved { .. }) => (ResultStatus::Ok, String::new()),
        (_, Reply::Refused { words: None, .. }) => (
            ResultStatus::Denied,
            t!(lang, "approval-refused", tool = tool),
        ),
        (
            _,
            Reply::Refused {
                words: Some(words), ..
            },
        ) => (
            ResultStatus::Denied,
            t!(
                lang,
                "approval-refused-words",
                tool = tool,
                words = bounded(words)
            ),
        ),
        (_, Reply::Answered { by, text, .. }) => {
            let text = bounded(text);
            let words = match by {
                Answerer::Parent => t!(lang, "question-answer-parent", text = text),
                Answerer::Person => t!(lang, "question-answer-person", text = text),
            };
            (ResultStatus::Ok, words)
        }
        (RequestKind::Approval(_), Reply::Expired) => (
            ResultStatus::Denied,
            t!(lang, "approval-expired", tool = tool),
        ),
        (RequestKind::Question(question), Reply::Expired) => unanswered(lang, question),
    }
}

/// Returns the result of a question that was not answered.
pub(crate) fn unanswered(lang: Lang, question: &Question) -> (ResultStatus, String) {
    match &question.default {
        Some(default) => (
            ResultStatus::Ok,
            t!(lang, "question-default", text = bounded(default)),
        ),
        None => (ResultStatus::Error, t!(lang, "question-none")),
    }
}

fn bounded(text: &str) -> String {
    truncate_middle(text, MAX_ANSWER_CHARS, "\n…\n").text
}
