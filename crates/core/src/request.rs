//! What a run asks of a person or of its parent, and what it hears.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::id::{EffectId, RunId, SessionKey};
use crate::policy::Layer;
use crate::tenant::Tenant;
use crate::time::Timestamp;

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

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFor {
    /// Whether a call may run.
    Approval,
    /// An answer in words.
    Question,
}

impl AskedFor {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
        }
    }
}

/// Whether a call may run: all that a person needs to decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The tool.
    pub tool: String,
    /// What would run, verbatim: the command, the path, the URL, or all arguments as JSON. Shown
    /// first, with hidden characters written out.
    #[serde(default)]
    pub exact: String,
    /// The exact arguments.
    pub arguments: Value,
    /// What is dangerous about it. If there is anything, a plain yes is not enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dangers: Vec<Danger>,
    /// What would happen: a diff, or notes on the programs that would start. It is made from `exact`
    /// and never replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Which layer wants a person to decide.
    pub layer: Layer,
    /// Which of its rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, as a sentence.
    pub reason: String,
    /// The folder for which a lasting yes counts.
    #[serde(default)]
    pub folder: PathBuf,
    /// Rules that a lasting yes could have, the narrowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lasting: Vec<String>,
}

/// What is dangerous about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Danger {
    /// The part that is: one command of several, shortened.
    pub command: String,
    /// What it would do, as a sentence part.
    pub why: String,
    /// What could be done instead.
    pub instead: String,
}

/// A question in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Whom it is for.
    pub to: Addressee,
    /// The words.
    pub text: String,
    /// Answers to choose from; others are welcome too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What holds if nobody answers in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// Who is to answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Addressee {
    /// The run that sent the asking one out.
    Parent,
    /// A person.
    Person,
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

/// A request as people see it, with who asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
    /// The run that asks.
    pub task_id: RunId,
    /// The first run of its tree.
    pub root_id: RunId,
    /// The session that everything is for.
    pub session_id: SessionKey,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
