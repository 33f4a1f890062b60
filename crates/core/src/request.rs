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

/// The kind of a request, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFor {
    Approval,
    Question,
}

impl AskedFor {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
        }
    }
}

/// An approval request: everything an approver needs to decide whether a call may run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    pub tool: String,
    /// What would run, verbatim: the command, the path, the URL, or all arguments as JSON. Shown
    /// first, with hidden characters escaped.
    #[serde(default)]
    pub exact: String,
    pub arguments: Value,
    /// The dangers of the call. If there are any, a plain approval is not enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dangers: Vec<Danger>,
    /// What would happen: a diff, or notes on the programs that would start. Derived from `exact`,
    /// never a replacement for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// The layer that requires an approval.
    pub layer: Layer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// A sentence.
    pub reason: String,
    /// The folder in which a grant applies.
    #[serde(default)]
    pub folder: PathBuf,
    /// Rules that a grant could have, the narrowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lasting: Vec<String>,
}

/// Why a call is dangerous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Danger {
    /// The dangerous part: one command of several, shortened.
    pub command: String,
    /// What it would do, as a part of a sentence.
    pub why: String,
    pub instead: String,
}

/// A question that a child asks with the `ask` tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub to: Addressee,
    pub text: String,
    /// Suggested answers; other answers are accepted too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The answer that is used if none arrives in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// The addressee of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Addressee {
    /// The parent run.
    Parent,
    Person,
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

/// A request with the run that made it, for interfaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenRequest {
    #[serde(flatten)]
    pub request: Request,
    pub task_id: RunId,
    /// The root run of its tree.
    pub root_id: RunId,
    /// The session of the root run.
    pub session_id: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
