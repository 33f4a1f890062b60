//! `sortie approvals`: approval requests and questions of runs. Reading needs no lock; a reply
//! reaches the process that executes the task, whether that is a server or another command.

mod grants;
mod list;
mod reply;
mod show;

pub(crate) use reply::reply_to;

use clap::{Args, Subcommand};
use sortie_base::hidden::write_out_line;
use sortie_core::ports::store::StoreError;
use sortie_core::request::{OpenRequest, Reply, RequestKind};
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_text::{t, truncate_middle};

use crate::approval::shown;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// The most characters of a request in a line.
const WHAT_CHARS: usize = 4_000;

/// Lists approval requests and questions of tasks, and replies to them
///
/// All subcommands work while another process executes the tasks: that process reads the reply. If
/// no process executes the task, the reply is stored, and `sortie resume` continues the task.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    command: Option<ApprovalsCommand>,
    #[command(flatten)]
    list: list::List,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    List(list::List),
    Show(show::Show),
    Approve(reply::Approve),
    Deny(reply::Deny),
    Answer(reply::Answer),
    Grants(grants::Grants),
    Revoke(grants::Revoke),
}

impl Approvals {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        match self.command {
            None => self.list.run(settings).await,
            Some(ApprovalsCommand::List(list)) => list.run(settings).await,
            Some(ApprovalsCommand::Show(show)) => show.run(settings).await,
            Some(ApprovalsCommand::Approve(approve)) => approve.run(settings).await,
            Some(ApprovalsCommand::Deny(deny)) => deny.run(settings).await,
            Some(ApprovalsCommand::Answer(answer)) => answer.run(settings).await,
            Some(ApprovalsCommand::Grants(grants)) => grants.run(settings).await,
            Some(ApprovalsCommand::Revoke(revoke)) => revoke.run(settings).await,
        }
    }
}

/// Returns the request whose id begins with `id`.
async fn find(settings: &Settings, id: &str) -> Result<OpenRequest, Problem> {
    match settings.options.read_store()?.find_request(id).await {
        Ok(request) => Ok(request),
        Err(StoreError::NotFound(_)) => Err(Problem::Nothing(t!(
            settings.lang,
            "approvals-unknown",
            id = write_out_line(id)
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Returns the subject of a request on one line, with hidden characters written out.
pub(super) fn what(lang: Lang, request: &OpenRequest) -> String {
    match &request.request.kind {
        RequestKind::Approval(approval) => {
            let words = format!("{}: {}", approval.tool, approval.exact);
            let words = write_out_line(&truncate_middle(&words, WHAT_CHARS, " […] ").text);
            if approval.dangers.is_empty() {
                words
            } else {
                t!(lang, "approvals-danger", what = words)
            }
        }
        RequestKind::Question(question) => shown(&question.text),
    }
}

/// Returns the time until a request expires; a dash if it was decided.
fn time_left(request: &OpenRequest, now: Timestamp) -> String {
    match request.reply {
        Some(_) => "-".to_owned(),
        None => table::span(request.request.expires_at.ms_since(now)),
    }
}

/// Returns a reply as text.
fn reply_words(lang: Lang, reply: Option<&Reply>) -> String {
    match reply {
        None => t!(lang, "reply-open"),
        Some(Reply::Approved { by, lasting: None }) => {
            t!(lang, "reply-approved", by = shown(by))
        }
        Some(Reply::Approved {
            by,
            lasting: Some(rule),
        }) => t!(
            lang,
            "reply-approved-always",
            by = shown(by),
            rule = shown(rule)
        ),
        Some(Reply::Refused { by, words: None }) => t!(lang, "reply-refused", by = shown(by)),
        Some(Reply::Refused {
            by,
            words: Some(words),
        }) => t!(
            lang,
            "reply-refused-because",
            by = shown(by),
            words = shown(words)
        ),
        Some(Reply::Answered { text, .. }) => t!(lang, "reply-answered", text = shown(text)),
        Some(Reply::Expired) => t!(lang, "reply-expired"),
    }
}
