//! Requests of a run: approval requests and questions, and the replies to them.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::id::{EffectId, RunId, SessionKey};
use crate::policy::Layer;
use crate::tenant::Tenant;
use crate::time::Timestamp;

/// The digits of a request's id: enough to avoid collisions, few enough to type.
const REQUEST_ID_DIGITS: usize = 12;

/// The id of a request. Derived from the effect, so a replayed call creates no second request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(String);

impl RequestId {
    pub fn of(effect: &EffectId) -> Self {
        let digest = Sha256::digest(effect.to_string().as_bytes());
        let mut digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.truncate(REQUEST_ID_DIGITS);
        Self(digits)
    }

    /// Reads an id that a person typed or a store kept.
    pub fn from_text(text: &str) -> Self {
        Self(text.trim().to_lowercase())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A request that a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub id: RequestId,
    /// When the call stops waiting for a reply.
    pub expires_at: Timestamp,
    #[serde(flatten)]
    pub kind: RequestKind,
}

/// The kinds of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestKind {
    /// Whether a call may run.
    Approval(Box<ApprovalRequest>),
    Question(Question),
}

impl RequestKind {
    pub const fn asked_for(&self) -> AskedFor {
        match self {
            Self::Approval(_) => AskedFor::Approval,
            Self::Question(_) => AskedFor::Question,
        }
    }

    /// Returns `approval` or `question`.
    pub const fn name(&self) -> &'static str {
        self.asked_for().as_str()
    }
}

words! {
    /// The kind of a request.
    AskedFor {
        /// Whether a tool call may run.
        Approval = "approval",
        /// A question that the `ask` tool puts.
        Question = "question",
    }
}

/// An approval request: everything that an approver needs to decide about a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Approval))]
pub struct ApprovalRequest {
    /// The name of the tool.
    pub tool: String,
    /// What would run, verbatim: the command, the path, the URL, or all arguments as JSON. Show it
    /// first, with hidden characters written out.
    pub exact: String,
    /// The exact arguments of the call.
    pub arguments: Value,
    /// Why the call is dangerous; empty for an ordinary call. A dangerous call needs more than a
    /// plain yes.
    pub dangers: Vec<Danger>,
    /// What would happen: a diff, or notes on the programs that would start. It is derived from
    /// `exact` and never replaces it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub preview: Option<String>,
    /// The policy layer that requires the decision.
    pub layer: Layer,
    /// The rule of that layer.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub rule: Option<String>,
    /// Why an approval is needed, as a sentence.
    pub reason: String,
    /// The folder for which a grant would apply.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub folder: PathBuf,
    /// Rules that a grant could have, the narrowest first.
    pub lasting: Vec<String>,
}

/// One reason why a tool call is dangerous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Danger {
    /// The dangerous part: one command of several, shortened.
    pub command: String,
    /// What it would do, as a part of a sentence.
    pub why: String,
    /// A safer alternative.
    pub instead: String,
}

/// A question that the `ask` tool puts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Question {
    /// Who is to answer.
    pub to: Addressee,
    /// The question.
    pub text: String,
    /// Suggested answers; any other answer is accepted too.
    pub options: Vec<String>,
    /// The answer that applies if none arrives in time.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub default: Option<String>,
}

words! {
    /// Who is to answer a question.
    Addressee {
        /// The run that started the one that asks.
        Parent = "parent",
        /// A person.
        Person = "person",
    }
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// The call may run.
    Approved {
        by: String,
        /// The rule of a grant for the whole session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasting: Option<String>,
    },
    /// The call may not run.
    Refused {
        by: String,
        /// What the model should do instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// The answer to a question.
    Answered {
        by: Answerer,
        /// The person's name, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        text: String,
    },
    /// No reply arrived in time.
    Expired,
}

/// Who answered a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answerer {
    /// The parent run.
    Parent,
    Person,
}

/// A request with the run that asks. [`RequestView`](crate::request_view::RequestView) is its JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRequest {
    /// What is asked.
    pub request: Request,
    pub task_id: RunId,
    /// The root run of its tree.
    pub root_id: RunId,
    /// The session of the root run.
    pub session_id: SessionKey,
    /// The tenant of the run.
    pub tenant: Option<Tenant>,
    pub agent: String,
    pub label: String,
    pub depth: u32,
    pub asked_at: Timestamp,
    /// `None` while the request is open.
    pub reply: Option<Reply>,
    pub replied_at: Option<Timestamp>,
}

/// A grant of an approver for a whole session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionGrant {
    /// The session of the tree's root, with the folder in which the grant applies.
    pub session: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    pub rule: String,
    /// The approver.
    pub by: String,
    pub at: Timestamp,
}

/// Selects requests.
#[derive(Clone, Debug, Default)]
pub struct RequestFilter {
    /// Also requests that have a reply. The newest then come first, because old ones are many.
    pub replied: bool,
    pub kind: Option<AskedFor>,
    pub run: Option<RunId>,
    pub root: Option<RunId>,
    /// Requests of trees whose root belongs to this session.
    pub session: Option<SessionKey>,
    pub tenant: Option<Tenant>,
    /// Requests that come after this position.
    pub after: Option<RequestPlace>,
    /// The page size; 0 is unlimited.
    pub limit: u32,
}

/// The position of a request in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPlace {
    pub asked_at: Timestamp,
    /// Needed because several requests may have the same millisecond.
    pub id: RequestId,
}

impl OpenRequest {
    /// Returns its position in a list.
    pub fn place(&self) -> RequestPlace {
        RequestPlace {
            asked_at: self.asked_at,
            id: self.request.id.clone(),
        }
    }
}
