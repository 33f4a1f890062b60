//! The slash commands of the conversation.

use std::time::Duration;

use sortie_core::budget::Budget;
use sortie_core::config::usd_micros;
use sortie_core::id::RunId;
use sortie_core::message::Usage;
use sortie_core::policy::Mode;
use sortie_core::ports::store::ListFilter;
use sortie_core::request::{Reply, RequestFilter, RequestKind};
use sortie_core::run::{Lane, RunRecord};
use sortie_core::session::SessionFilter;
use sortie_text::{one_line, t, truncate_columns};

use super::board::dim;
use super::complete;
use super::conversation::Conversation;
use super::highlight::diff_style;
use super::markdown;
use super::sessions::{find_session, new_session};
use crate::delegation;
use crate::output;
use crate::problem::Problem;
use crate::report;
use crate::table::{self, TableOptions};

/// Tasks and sessions in a list.
const LISTED: u32 = 15;
/// Lines of a diff that are printed; `sortie tasks diff` prints all of it.
const DIFF_LINES: usize = 400;

impl Conversation<'_> {
    /// Executes a command, given without its slash.
    pub(super) async fn command(&mut self, line: &str) {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let done = match name {
            "help" | "?" => {
                self.say(&t!(self.lang(), "chat-help"));
                Ok(())
            }
            "tasks" => self.list_tasks().await,
            "task" => self.show_task(rest).await,
            "cancel" => self.cancel_task(rest).await,
            "steer" => self.steer_task(rest).await,
            "approve" => self.decide(rest, true).await,
            "deny" => self.decide(rest, false).await,
            "agents" => self.list_agents(),
            "model" => self.set_model(rest),
            "mode" => self.set_mode(rest),
            "budget" => self.set_budget(rest),
            "fork" => self.fork(rest).await,
            "new" => self.start_new().await,
            "resume" => self.resume(rest).await,
            "result" => self.show_result(rest).await,
            "report" => self.show_report(rest).await,
            "diff" => self.show_diff(rest).await,
            "apply" => self.apply(rest).await,
            "usage" => self.show_usage().await,
            "clear" => {
                self.canvas.clear();
                Ok(())
            }
            "quit" | "exit" | "q" => {
                self.ask_to_leave();
                Ok(())
            }
            name => {
                let near = sortie_base::nearest::nearest(
                    &format!("/{name}"),
                    complete::COMMANDS.iter().copied(),
                );
                let words = match near {
                    Some(near) => t!(self.lang(), "chat-unknown-near", name = name, near = near),
                    None => t!(self.lang(), "chat-unknown", name = name),
                };
                Err(Problem::Typed(words))
            }
        };
        if let Err(problem) = done {
            self.report(&problem);
        }
    }

    /// Returns the candidates for an argument of a command.
    pub(super) async fn arguments(&self, before: &str, word: &str) -> Vec<String> {
        let Some(command) = before.strip_prefix('/') else {
            return Vec::new();
        };
        let mut words = command.split_whitespace();
        let name = words.next().unwrap_or_default();
        if words.next().is_some() {
            return Vec::new();
        }
        match name {
            "task" | "cancel" | "steer" | "report" | "result" | "diff" | "apply" | "fork" => {
                complete::matching(self.task_ids().await.into_iter(), word)
            }
            "model" => complete::matching(self.models().into_iter(), word),
            "mode" => {
                complete::matching(Mode::ALL.iter().map(|mode| mode.as_str().to_owned()), word)
            }
            "agents" => {
                let agents = self.engine.agents().children().iter();
                complete::matching(agents.map(|agent| agent.name.clone()), word)
            }
            "resume" => complete::matching(self.session_keys().await.into_iter(), word),
            _ => Vec::new(),
        }
    }

    async fn task_ids(&self) -> Vec<String> {
        let listed = self.recent().await.unwrap_or_default();
        listed.into_iter().map(|run| run.handle).collect()
    }

    async fn session_keys(&self) -> Vec<String> {
        let filter = SessionFilter {
            limit: LISTED,
            ..SessionFilter::default()
        };
        let found = self.engine.sessions(filter).await.unwrap_or_default();
        found
            .iter()
            .map(|found| found.session.to_string())
            .collect()
    }

    fn models(&self) -> Vec<String> {
        let directory = self.settings.options.model_directory(Duration::ZERO, None);
        let usable = directory
            .vendors()
            .into_iter()
            .filter(|vendor| vendor.key_present || !vendor.key_needed);
        let mut names: Vec<String> = usable
            .flat_map(|vendor| [vendor.default_model, vendor.small_model])
            .flatten()
            .collect();
        names.extend(self.settings.options.configured_model());
        names.push(sortie_models::OFFLINE_MODEL.to_owned());
        names
    }

    async fn recent(&self) -> Result<Vec<RunRecord>, Problem> {
        let filter = ListFilter {
            session: Some(self.session().clone()),
            limit: LISTED,
            ..ListFilter::default()
        };
        self.engine.list(filter).await
    }

    /// Returns the newest turns of the session, also archived ones; 0 is no limit.
    async fn turns(&self, limit: u32) -> Result<Vec<RunRecord>, Problem> {
        let filter = ListFilter {
            session: Some(self.session().clone()),
            roots_only: true,
            archived: true,
            limit,
            ..ListFilter::default()
        };
        self.engine.list(filter).await
    }

    /// Returns the task that a user names; without a name, the last turn.
    async fn task(&self, id: &str) -> Result<RunId, Problem> {
        if !id.is_empty() {
            return self.engine.resolve(id).await;
        }
        // Tasks that were created for the session may be between its turns.
        let turns = self.turns(0).await?;
        turns
            .iter()
            .find(|run| run.lane == Lane::Main)
            .map(|run| run.run_id)
            .ok_or_else(|| Problem::Nothing(t!(self.lang(), "chat-no-turn")))
    }

    async fn list_tasks(&mut self) -> Result<(), Problem> {
        let listed = self.recent().await?;
        if listed.is_empty() {
            self.say(&t!(self.lang(), "no-tasks"));
            return Ok(());
        }
        let requests = self.engine.requests(RequestFilter::default()).await?;
        let look = TableOptions {
            lang: self.lang(),
            columns: u16::try_from(self.canvas.width()).ok(),
            now: self.engine.now(),
            needs_person: table::needs_person(&requests),
            folder: Some(self.folder().to_owned()),
        };
        let words = table::tasks(&listed, &look);
        self.say(&words);
        Ok(())
    }

    async fn show_task(&mut self, id: &str) -> Result<(), Problem> {
        let record = self.engine.get(self.task(id).await?).await?;
        let lang = self.lang();
        let now = self.engine.now();
        let waits = record.summary.waiting_on;
        let waits = waits.map(|waits| table::waiting_word(waits, lang));
        let rows = [
            (t!(lang, "field-id"), record.run_id.to_string()),
            (t!(lang, "field-label"), one_line(&record.label)),
            (
                t!(lang, "field-status"),
                table::status_word(record.status, lang),
            ),
            (
                t!(lang, "field-waiting"),
                waits.unwrap_or_else(|| "-".to_owned()),
            ),
            (t!(lang, "field-agent"), one_line(&record.agent)),
            (
                t!(lang, "field-tools"),
                record.summary.tool_calls.to_string(),
            ),
            (t!(lang, "field-elapsed"), table::elapsed(&record, now)),
        ];
        let width = self.canvas.width();
        let lines: Vec<String> = table::pairs(&rows)
            .lines()
            .map(|line| truncate_columns(line, width))
            .collect();
        self.print(lines);
        if let Some(why) = report::why(lang, &record) {
            self.say(&t!(lang, "error-line", message = one_line(&why)));
        }
        Ok(())
    }

    async fn cancel_task(&mut self, id: &str) -> Result<(), Problem> {
        let run = match (id, self.board.turn()) {
            ("", Some(turn)) => turn.run,
            (id, _) => self.task(id).await?,
        };
        let reason = t!(self.lang(), "cancel-reason-command");
        let stopped = self.engine.cancel(run, &reason).await?;
        let id = run.to_string();
        self.say(&match stopped.already_ended {
            Some(status) => t!(
                self.lang(),
                "cancel-already-ended",
                id = id,
                status = status.to_string()
            ),
            None => t!(
                self.lang(),
                "cancel-done",
                count = stopped.ended.len(),
                id = id
            ),
        });
        Ok(())
    }

    async fn steer_task(&mut self, rest: &str) -> Result<(), Problem> {
        let Some((id, text)) = rest.split_once(char::is_whitespace) else {
            return Err(Problem::Typed(t!(self.lang(), "chat-usage-steer")));
        };
        let run = self.engine.resolve(id).await?;
        self.engine.steer(run, text.trim()).await?;
        self.say(&t!(self.lang(), "steer-done", id = run.to_string()));
        Ok(())
    }

    /// Decides the request on the screen, or the one whose id begins with this text.
    async fn decide(&mut self, rest: &str, approve: bool) -> Result<(), Problem> {
        let (id, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let Some(open) = self.prompts.find(id) else {
            return Err(Problem::Nothing(t!(self.lang(), "chat-no-request")));
        };
        if let RequestKind::Approval(approval) = &open.request.kind
            && approve
            && !approval.dangers.is_empty()
        {
            // A dangerous call needs the whole word, typed under its prompt.
            return Err(Problem::Refused(t!(self.lang(), "chat-keys-danger")));
        }
        let line = match approve {
            true => "y".to_owned(),
            false => format!("n {words}"),
        };
        let id = open.request.id.clone();
        let kind = open.request.kind.clone();
        match crate::approval::reply(&kind, &line, &self.settings.person) {
            Some(reply @ (Reply::Approved { .. } | Reply::Refused { .. })) => {
                self.reply(id, reply).await;
                Ok(())
            }
            Some(Reply::Answered { .. } | Reply::Expired) | None => {
                Err(Problem::Typed(t!(self.lang(), "chat-not-approval")))
            }
        }
    }

    fn list_agents(&mut self) -> Result<(), Problem> {
        let width = self.canvas.width();
        let agents = self.engine.agents().children();
        let lines: Vec<String> = agents
            .iter()
            .map(|agent| {
                let words = format!("  {:<10} {}", agent.name, one_line(&agent.when_to_use));
                truncate_columns(&words, width)
            })
            .collect();
        self.print(lines);
        Ok(())
    }

    fn set_model(&mut self, name: &str) -> Result<(), Problem> {
        if name.is_empty() {
            let model = self
                .template
                .model
                .as_ref()
                .unwrap_or(&self.template.default_model);
            let words = t!(self.lang(), "chat-model", model = model.as_str());
            self.say(&words);
            return Ok(());
        }
        let name = self.settings.options.absolute_model(name);
        if !self.engine.is_server() {
            use sortie_core::ports::model::ModelDirectory as _;
            let directory = self.settings.options.model_directory(Duration::ZERO, None);
            directory.find(&name)?;
        }
        self.say(&t!(self.lang(), "chat-model-set", model = name.as_str()));
        self.template.model = Some(name);
        Ok(())
    }

    fn set_mode(&mut self, word: &str) -> Result<(), Problem> {
        let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.as_str()).collect();
        let known = known.join(", ");
        if word.is_empty() {
            let mode = self.template.mode.as_str();
            self.say(&t!(self.lang(), "chat-mode", mode = mode, known = known));
            return Ok(());
        }
        let Ok(mode) = word.parse::<Mode>() else {
            let words = t!(self.lang(), "chat-bad-mode", word = word, known = known);
            return Err(Problem::Typed(words));
        };
        self.template.mode = mode;
        self.say(&t!(self.lang(), "chat-mode-set", mode = mode.as_str()));
        Ok(())
    }

    fn set_budget(&mut self, words: &str) -> Result<(), Problem> {
        let amount = words.trim_start_matches('$');
        if amount.is_empty() {
            let shown = match self.template.budget.usd_micros {
                Some(micros) => t!(
                    self.lang(),
                    "chat-budget",
                    usd = format!("{:.2}", micros as f64 / 1e6)
                ),
                None => t!(self.lang(), "chat-budget-none"),
            };
            self.say(&shown);
            return Ok(());
        }
        let usd = amount
            .parse::<f64>()
            .ok()
            .filter(|usd| usd.is_finite() && *usd >= 0.0);
        let Some(usd) = usd else {
            return Err(Problem::Typed(t!(
                self.lang(),
                "chat-bad-budget",
                word = words
            )));
        };
        self.template.budget = Budget {
            usd_micros: Some(usd_micros(usd)),
            ..self.template.budget
        };
        let usd = format!("{usd:.2}");
        self.say(&t!(self.lang(), "chat-budget", usd = usd));
        Ok(())
    }

    /// Branches off: the next message starts another session with the history of this one.
    async fn fork(&mut self, id: &str) -> Result<(), Problem> {
        let run = self.task(id).await?;
        let record = self.engine.get(run).await?;
        if !record.status.is_terminal() {
            return Err(Problem::Refused(t!(self.lang(), "chat-fork-running")));
        }
        let before = self.session().to_string();
        self.switch(new_session(&self.engine).await?);
        self.branch = Some(run);
        let now = self.session().to_string();
        self.say(&t!(self.lang(), "chat-forked", before = before, now = now));
        Ok(())
    }

    async fn start_new(&mut self) -> Result<(), Problem> {
        self.switch(new_session(&self.engine).await?);
        let now = self.session().to_string();
        self.say(&t!(self.lang(), "chat-new", now = now));
        Ok(())
    }

    async fn resume(&mut self, id: &str) -> Result<(), Problem> {
        if !id.is_empty() {
            let session = find_session(&self.engine, self.lang(), id).await?;
            self.switch(session);
            self.show_earlier().await;
            return Ok(());
        }
        let filter = SessionFilter {
            limit: LISTED,
            ..SessionFilter::default()
        };
        let found = self.engine.sessions(filter).await?;
        let now = self.engine.now();
        let width = self.canvas.width();
        let lines: Vec<String> = found
            .iter()
            .map(|found| {
                let age = table::span(now.ms_since(found.last_at));
                let words = format!(
                    "  {:<14} {age:>7}  {}",
                    found.session.as_str(),
                    one_line(&found.title)
                );
                truncate_columns(&words, width)
            })
            .collect();
        self.print(lines);
        let hint = dim(&t!(self.lang(), "chat-resume-hint"), width);
        self.print([hint]);
        Ok(())
    }

    fn switch(&mut self, session: sortie_core::id::SessionKey) {
        self.template.session = session;
        self.branch = None;
        self.board.reset();
    }

    /// Shows how the tree of a task was delegated.
    async fn show_report(&mut self, id: &str) -> Result<(), Problem> {
        let record = self.engine.get(self.task(id).await?).await?;
        let store = self.settings.options.read_store()?;
        let report = delegation::load(&store, &record).await?;
        let columns = u16::try_from(self.canvas.width()).ok();
        let text = delegation::document(self.lang(), &report).text(columns);
        self.print(text.lines().map(str::to_owned));
        Ok(())
    }

    async fn show_result(&mut self, id: &str) -> Result<(), Problem> {
        let record = self.engine.get(self.task(id).await?).await?;
        match record.outcome.as_ref().and_then(|outcome| outcome.text()) {
            Some(text) => {
                let lines = markdown::render(text, self.canvas.width());
                self.print(lines);
            }
            None => {
                let words = t!(
                    self.lang(),
                    "result-not-yet",
                    id = record.run_id.to_string(),
                    status = record.status.to_string()
                );
                self.say(&words);
            }
        }
        Ok(())
    }

    async fn show_diff(&mut self, id: &str) -> Result<(), Problem> {
        let run = self.task(id).await?;
        let diff = self.engine.diff(run).await?;
        let all = diff.lines().count();
        let lines: Vec<String> = diff
            .lines()
            .take(DIFF_LINES)
            .map(|line| {
                let text = output::for_terminal(line);
                diff_style(line).apply_to(text).to_string()
            })
            .collect();
        self.print(lines);
        if all > DIFF_LINES {
            let more = t!(self.lang(), "approval-more", count = all - DIFF_LINES);
            self.say(&format!("{more}: sortie tasks diff {run}"));
        }
        Ok(())
    }

    async fn apply(&mut self, id: &str) -> Result<(), Problem> {
        let run = self.task(id).await?;
        let files = self.engine.apply(run).await?;
        let words = t!(self.lang(), "chat-applied", count = files.len());
        self.say(&words);
        self.print(
            files
                .into_iter()
                .map(|file| format!("  {}", one_line(&file))),
        );
        Ok(())
    }

    async fn show_usage(&mut self) -> Result<(), Problem> {
        let turns = self.turns(0).await?;
        let total = turns
            .iter()
            .fold(Usage::default(), |sum, run| sum.plus(run.total_usage()));
        let words =
            report::spent(self.lang(), total).unwrap_or_else(|| t!(self.lang(), "spent-unknown"));
        self.say(&words);
        Ok(())
    }
}
