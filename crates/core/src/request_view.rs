//! Requests as JSON: the shape that the API, `--json` and live events show.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_base::truncate::truncate_in_place;

use crate::id::{RunId, SessionKey};
use crate::request::{
    Answerer, ApprovalRequest, AskedFor, OpenRequest, Question, Reply, RequestId, RequestKind,
};
use crate::time::Timestamp;

/// Maximum number of characters that each text of a request has in lists and live events. A preview
/// of a usual change fits.
pub const REQUEST_CHARS: usize = 4_000;

/// An approval request or a question that a run waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Request))]
pub struct RequestView {
    /// The id of the request.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: RequestId,
    /// Whether it is an approval request or a question.
    pub kind: AskedFor,
    /// The run that asks.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub task_id: RunId,
    /// The root of its tree.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub root_id: RunId,
    /// The session of the tree.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub session_id: SessionKey,
    /// The agent of the run.
    pub agent: String,
    /// The label of the run.
    pub label: String,
    /// The depth of the run below the root.
    pub depth: u32,
    /// When the run asked.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub asked_at: Timestamp,
    /// When the request expires.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub expires_at: Timestamp,
    /// Whether texts are truncated here: `GET /api/approvals/{id}`, or `/api/questions/{id}`, has
    /// them whole. Truncated arguments are the beginning of their JSON, as a string.
    pub cut: bool,
    /// The decision or answer, once there is one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reply: Option<ReplyView>,
    /// When the reply was given.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, required))]
    pub replied_at: Option<Timestamp>,
    /// The approval request, for `approval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<ApprovalRequest>>,
    /// The question, for `question`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReplyView {
    /// The kind of the reply.
    pub reply: ReplyKind,
    /// Who replied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The answer, for `answered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the run is to do instead, for `refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The rule of the grant for the session, for `approved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<String>,
}

words! {
    /// The kind of a reply.
    ReplyKind {
        /// The call may run.
        Approved = "approved",
        /// The call may not run.
        Refused = "refused",
        /// The answer to a question.
        Answered = "answered",
        /// The request expired without a reply.
        Expired = "expired",
    }
}

impl From<&Reply> for ReplyView {
    fn from(reply: &Reply) -> Self {
        let bare = |reply| Self {
            reply,
            by: None,
            text: None,
            words: None,
            lasting: None,
        };
        match reply {
            Reply::Approved { by, lasting } => Self {
                by: Some(by.clone()),
                lasting: lasting.clone(),
                ..bare(ReplyKind::Approved)
            },
            Reply::Refused { by, words } => Self {
                by: Some(by.clone()),
                words: words.clone(),
                ..bare(ReplyKind::Refused)
            },
            Reply::Answered { by, name, text } => Self {
                by: Some(match (by, name) {
                    (Answerer::Parent, _) => "parent".to_owned(),
                    (Answerer::Person, None) => "person".to_owned(),
                    (Answerer::Person, Some(name)) => name.clone(),
                }),
                text: Some(text.clone()),
                ..bare(ReplyKind::Answered)
            },
            Reply::Expired => bare(ReplyKind::Expired),
        }
    }
}

impl From<&OpenRequest> for RequestView {
    fn from(open: &OpenRequest) -> Self {
        let (approval, question) = match &open.request.kind {
            RequestKind::Approval(approval) => (Some(approval.clone()), None),
            RequestKind::Question(question) => (None, Some(question.clone())),
        };
        Self {
            id: open.request.id.clone(),
            kind: open.request.kind.asked_for(),
            task_id: open.task_id,
            root_id: open.root_id,
            session_id: open.session_id.clone(),
            agent: open.agent.clone(),
            label: open.label.clone(),
            depth: open.depth,
            asked_at: open.asked_at,
            expires_at: open.request.expires_at,
            cut: false,
            reply: open.reply.as_ref().map(ReplyView::from),
            replied_at: open.replied_at,
            approval,
            question,
        }
    }
}

impl RequestView {
    /// Truncates each text to [`REQUEST_CHARS`] characters and marks the request if one was longer:
    /// the shape in lists and live events. An approver reads the whole request.
    #[must_use]
    pub fn summary(mut self) -> Self {
        let mut is_cut = false;
        let mut cut = |text: &mut String| is_cut |= truncate_in_place(text, REQUEST_CHARS);
        if let Some(approval) = &mut self.approval {
            let texts = [&mut approval.exact, &mut approval.reason];
            let texts = texts.into_iter().chain(&mut approval.preview);
            texts.chain(&mut approval.lasting).for_each(&mut cut);
        }
        if let Some(question) = &mut self.question {
            cut(&mut question.text);
            question.default.iter_mut().for_each(&mut cut);
        }
        if let Some(reply) = &mut self.reply {
            let texts = [&mut reply.text, &mut reply.words, &mut reply.lasting];
            texts.into_iter().flatten().for_each(&mut cut);
        }
        if let Some(approval) = &mut self.approval {
            let mut written = approval.arguments.to_string();
            if truncate_in_place(&mut written, REQUEST_CHARS) {
                approval.arguments = Value::String(written);
                is_cut = true;
            }
        }
        self.cut = is_cut;
        self
    }
}
