//! What runs ask, and what they hear.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_base::truncate::truncate_in_place;
use sortie_core::{Addressee, Answerer, Layer, OpenRequest, Reply, RequestKind, RunId, SessionKey};
use utoipa::ToSchema;

use crate::{schema, time, time_of};

/// Characters of each text of a request in lists and live views. A preview of a usual change fits.
pub const REQUEST_CHARS: usize = 4_000;

/// Something a run waits to hear about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Request {
    /// Its id.
    pub id: String,
    /// Which of the two it is.
    pub kind: AskedFor,
    /// The run that asks.
    #[schema(value_type = String)]
    pub task_id: RunId,
    /// The first run of its tree.
    #[schema(value_type = String)]
    pub root_id: RunId,
    /// The session that everything is for.
    #[schema(value_type = String)]
    pub session_id: SessionKey,
    /// Its agent.
    pub agent: String,
    /// Its label.
    pub label: String,
    /// How far below the root.
    pub depth: u32,
    /// When it asked.
    pub asked_at: String,
    /// When nobody will be waited for any more.
    pub expires_at: String,
    /// Whether texts were cut here: `GET /api/approvals/{id}`, or `/api/questions/{id}`, has them
    /// whole. Arguments that were cut are the beginning of their JSON, as a text.
    pub cut: bool,
    /// What was replied, once somebody has.
    #[schema(required)]
    pub reply: Option<ReplyView>,
    /// When.
    #[schema(required)]
    pub replied_at: Option<String>,
    /// Whether a call may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// A question in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskedFor {
    /// Whether a call may run.
    Approval,
    /// An answer in words.
    Question,
}

/// Whether a call may run: all that a person needs to decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// The tool.
    pub tool: String,
    /// What would run, verbatim: the command, the path, the URL, or all arguments as JSON. Show it
    /// first, with hidden characters written out.
    pub exact: String,
    /// The exact arguments.
    pub arguments: Value,
    /// What is dangerous about it; empty for an ordinary call.
    pub dangers: Vec<Danger>,
    /// What would happen: a diff, or notes on the programs that would start. It never replaces
    /// `exact`.
    #[schema(required)]
    pub preview: Option<String>,
    /// Which layer wants a person to decide.
    #[schema(value_type = schema::Layer)]
    pub layer: Layer,
    /// Which of its rules.
    #[schema(required)]
    pub rule: Option<String>,
    /// Why, as a sentence.
    pub reason: String,
    /// The folder for which a lasting yes counts.
    pub folder: String,
    /// Rules that a lasting yes could have, the narrowest first.
    pub lasting: Vec<String>,
}

/// What is dangerous about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Danger {
    /// The part that is: one command of several, shortened.
    pub command: String,
    /// What it would do, as a sentence part.
    pub why: String,
    /// What could be done instead.
    pub instead: String,
}

impl From<&sortie_core::Danger> for Danger {
    fn from(danger: &sortie_core::Danger) -> Self {
        Self {
            command: danger.command.clone(),
            why: danger.why.clone(),
            instead: danger.instead.clone(),
        }
    }
}

/// A question in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Question {
    /// Whom it is for.
    pub to: QuestionTo,
    /// The words.
    pub text: String,
    /// Answers to choose from; others are welcome too.
    pub options: Vec<String>,
    /// What holds if nobody answers in time.
    #[schema(required)]
    pub default: Option<String>,
}

/// Who is to answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionTo {
    /// The run that sent the asking one out.
    Parent,
    /// A person.
    Person,
}

/// What was replied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplyView {
    /// Which reply.
    pub reply: ReplyKind,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What to do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// What is allowed for the whole session from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<String>,
}

/// Which reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// The call may run.
    Approved,
    /// The call may not run.
    Refused,
    /// The answer to a question.
    Answered,
    /// Nobody answered in time.
    Expired,
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

impl Request {
    /// The same with long texts cut to [`REQUEST_CHARS`] characters, and a mark if one was: what lists
    /// and live views have. Who decides reads the whole.
    #[must_use]
    pub fn summary(mut self) -> Self {
        let mut is_cut = false;
        let mut cut = |text: &mut String| is_cut |= truncate_in_place(text, REQUEST_CHARS);
        if let Some(approval) = &mut self.approval {
            let texts = [
                &mut approval.exact,
                &mut approval.reason,
                &mut approval.folder,
            ];
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

impl From<sortie_core::AskedFor> for AskedFor {
    fn from(asked_for: sortie_core::AskedFor) -> Self {
        match asked_for {
            sortie_core::AskedFor::Approval => Self::Approval,
            sortie_core::AskedFor::Question => Self::Question,
        }
    }
}

impl From<&OpenRequest> for Request {
    fn from(open: &OpenRequest) -> Self {
        let (approval, question) = match &open.request.kind {
            RequestKind::Approval(approval) => (Some(Approval::from(approval.as_ref())), None),
            RequestKind::Question(question) => (None, Some(Question::from(question))),
        };
        Self {
            id: open.request.id.to_string(),
            kind: open.request.kind.asked_for().into(),
            task_id: open.task_id,
            root_id: open.root_id,
            session_id: open.session_id.clone(),
            agent: open.agent.clone(),
            label: open.label.clone(),
            depth: open.depth,
            asked_at: time(open.asked_at),
            expires_at: time(open.request.expires_at),
            cut: false,
            reply: open.reply.as_ref().map(ReplyView::from),
            replied_at: time_of(open.replied_at),
            approval,
            question,
        }
    }
}

impl From<&sortie_core::ApprovalRequest> for Approval {
    fn from(approval: &sortie_core::ApprovalRequest) -> Self {
        Self {
            tool: approval.tool.clone(),
            exact: approval.exact.clone(),
            arguments: approval.arguments.clone(),
            dangers: approval.dangers.iter().map(Danger::from).collect(),
            preview: approval.preview.clone(),
            layer: approval.layer,
            rule: approval.rule.clone(),
            reason: approval.reason.clone(),
            folder: approval.folder.display().to_string(),
            lasting: approval.lasting.clone(),
        }
    }
}

impl From<&sortie_core::Question> for Question {
    fn from(question: &sortie_core::Question) -> Self {
        Self {
            to: match question.to {
                Addressee::Parent => QuestionTo::Parent,
                Addressee::Person => QuestionTo::Person,
            },
            text: question.text.clone(),
            options: question.options.clone(),
            default: question.default.clone(),
        }
    }
}

/// What came of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplyNoted {
    /// Whether the run hears it.
    pub noted: bool,
    /// What somebody had said before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<ReplyView>,
}
