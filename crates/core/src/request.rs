//! What a run asks of a person or of its parent, and what it hears.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{EffectId, Layer, RunId, SessionKey, Tenant, Timestamp};

/// How many digits a request's id has: enough that nobody meets two alike, few enough to type.
const REQUEST_ID_DIGITS: usize = 12;

/// The id of a request. Made from its effect, so that a call which is replayed asks only once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(String);

impl RequestId {
    /// The id of the request that an effect makes.
    pub fn of(effect: &EffectId) -> Self {
        let digest = Sha256::digest(effect.to_string().as_bytes());
        let mut digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.truncate(REQUEST_ID_DIGITS);
        Self(digits)
    }

    /// What somebody typed or a store kept.
    pub fn from_text(text: &str) -> Self {
        Self(text.trim().to_lowercase())
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Something a run waits to hear about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its id.
    pub id: RequestId,
    /// When nobody will be waited for any more.
    pub expires_at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub kind: RequestKind,
}

/// What a run asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestKind {
    /// Whether a call may run.
    Approval(Box<ApprovalRequest>),
    /// A question in words.
    Question(Question),
}

impl RequestKind {
    /// Which of the two it is.
    pub const fn asked_for(&self) -> AskedFor {
        match self {
            Self::Approval(_) => AskedFor::Approval,
            Self::Question(_) => AskedFor::Question,
        }
    }

    /// The word for it: `approval` or `question`.
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

/// What a run hears about a request of its.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// The call may run.
    Approved {
        /// Who says so.
        by: String,
        /// What is allowed for the whole session from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasting: Option<String>,
    },
    /// The call may not run.
    Refused {
        /// Who says so.
        by: String,
        /// What to do instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// The answer to a question.
    Answered {
        /// Which of the two.
        by: Answerer,
        /// The person by name, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The words.
        text: String,
    },
    /// Nobody answered in time.
    Expired,
}

/// Who answered a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answerer {
    /// The run that sent the asking one out.
    Parent,
    /// A person.
    Person,
}

/// A request with the run that asks. [`RequestView`](crate::RequestView) is its JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRequest {
    /// What is asked.
    pub request: Request,
    /// The run that asks.
    pub task_id: RunId,
    /// The first run of its tree.
    pub root_id: RunId,
    /// The session that everything is for.
    pub session_id: SessionKey,
    /// The tenant of the run.
    pub tenant: Option<Tenant>,
    /// Its agent.
    pub agent: String,
    /// Its label.
    pub label: String,
    /// How far below the root.
    pub depth: u32,
    /// When it asked.
    pub asked_at: Timestamp,
    /// What was replied, once somebody has.
    pub reply: Option<Reply>,
    /// When.
    pub replied_at: Option<Timestamp>,
}

/// Something a person allowed for a whole session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionGrant {
    /// The session of the tree's root, with the folder for which it counts.
    pub session: SessionKey,
    /// Whose session that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// What is allowed, as a rule.
    pub rule: String,
    /// Who allowed it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// Which requests.
#[derive(Clone, Debug, Default)]
pub struct RequestFilter {
    /// Also those that have their reply. Then the newest are first: the old ones are many.
    pub replied: bool,
    /// Of this kind.
    pub kind: Option<AskedFor>,
    /// Of this run.
    pub run: Option<RunId>,
    /// Of this tree.
    pub root: Option<RunId>,
    /// Of trees that are for this session.
    pub session: Option<SessionKey>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// Those that come after this one.
    pub after: Option<RequestPlace>,
    /// At most so many; 0 is no limit.
    pub limit: u32,
}

/// A place among requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPlace {
    /// When it was asked.
    pub asked_at: Timestamp,
    /// Its id: several may be asked in the same millisecond.
    pub id: RequestId,
}

impl OpenRequest {
    /// Where it is among all.
    pub fn place(&self) -> RequestPlace {
        RequestPlace {
            asked_at: self.asked_at,
            id: self.request.id.clone(),
        }
    }
}
