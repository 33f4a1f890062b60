//! The conversation on a terminal: reads keys, events and signals, and draws.

mod events;

use std::io::{self, Stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use console::Style;
use sortie_base::hidden::write_out_line;
use sortie_core::id::{RunId, SessionKey};
use sortie_core::ports::store::{ListFilter, Replied};
use sortie_core::request::{OpenRequest, Reply, RequestFilter, RequestId, RequestKind};
use sortie_core::run::{Lane, RunRecord, Status};
use sortie_core::words::Lang;
use sortie_runtime::NewRun;
use sortie_text::{columns, one_line, t, truncate_columns};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::Instant;

use super::Start;
use super::board::{Board, dim, message_lines};
use super::canvas::{Canvas, Frame};
use super::complete;
use super::editor::{Edited, Editor};
use super::history::History;
use super::keys::{Decoder, Key};
use super::markdown;
use super::prompts::{Pressed, Prompts, Submitted};
use crate::approval;
use crate::colors::Colors;
use crate::engine::{Engine, Feed};
use crate::exit::Exit;
use crate::follow::replied;
use crate::ids::short_label;
use crate::keyboard::Keyboard;
use crate::output;
use crate::problem::Problem;
use crate::report;
use crate::screen::{Pause, Screen};
use crate::settings::Settings;
use crate::signals::{Signal, Signals};
use crate::theme::Themed as _;

/// How often the screen is drawn at most.
const DRAW_INTERVAL: Duration = Duration::from_millis(40);
/// How often the store is read in case an event was lost.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long an escape character may be the beginning of a sequence.
const ESCAPE_DELAY: Duration = Duration::from_millis(60);
/// How long a second Ctrl-C leaves the conversation.
const LEAVE_WINDOW: Duration = Duration::from_secs(3);
/// The end of a turn that took longer is notified.
const LONG_TURN_MS: u64 = 10_000;
/// Columns of a notification.
const NOTIFICATION_COLUMNS: usize = 120;
/// Rows of the input that are shown at most.
const MAX_INPUT_ROWS: usize = 10;
/// Earlier turns that are shown when a conversation is continued.
const SHOWN_TURNS: u32 = 3;

/// The conversation on a terminal.
pub(super) struct Conversation<'a> {
    pub(super) settings: &'a Settings,
    pub(super) engine: Engine,
    pub(super) template: NewRun,
    /// The run that the first message of a new session continues.
    pub(super) branch: Option<RunId>,
    pub(super) board: Board,
    pub(super) canvas: Canvas<Stdout>,
    screen: &'a Arc<Screen>,
    _pause: Pause,
    signals: Signals,
    resized: Stream,
    feed: Feed,
    keyboard: Keyboard,
    decoder: Decoder,
    editor: Editor,
    history: History,
    pub(super) prompts: Prompts,
    /// The last Ctrl-C that stopped nothing.
    warned_at: Option<Instant>,
    /// Whether the user is asked what to do with running tasks.
    leaving: bool,
    /// What the last look at the store failed with, so that an outage is reported once.
    last_problem: Option<String>,
    /// A remark below the input, until the next key.
    remark: Option<String>,
    ended: Option<Left>,
}

/// How the conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The user left; tasks that run are kept.
    Kept,
    /// The process has to exit.
    Terminated,
}

impl<'a> Conversation<'a> {
    /// Takes over the terminal.
    pub(super) async fn open(start: Start<'a>) -> Result<Self, Problem> {
        let Start {
            settings,
            screen,
            engine,
            signals,
            template,
            is_new,
        } = start;
        let prepared = async {
            let feed = engine.listen_with_text().await?;
            let resized = signal(SignalKind::window_change()).map_err(Problem::Process)?;
            Ok((feed, resized))
        };
        let (feed, resized) = match prepared.await {
            Ok(prepared) => prepared,
            Err(problem) => {
                engine.shut_down().await;
                return Err(problem);
            }
        };
        let history = History::of(&settings.options.home);
        let pause = screen.pause();
        let keyboard = Keyboard::open_for_editing();
        let mut conversation = Self {
            board: Board::new(settings.lang, Colors::of(engine.agents())),
            canvas: Canvas::new(io::stdout(), size()),
            editor: Editor::new(history.read()),
            prompts: Prompts::new(settings.lang),
            settings,
            engine,
            template,
            branch: None,
            screen,
            _pause: pause,
            signals,
            resized,
            feed,
            keyboard,
            decoder: Decoder::default(),
            history,
            warned_at: None,
            leaving: false,
            last_problem: None,
            remark: None,
            ended: None,
        };
        conversation.greet();
        if !is_new {
            conversation.show_earlier().await;
        }
        Ok(conversation)
    }

    pub(super) fn lang(&self) -> Lang {
        self.settings.lang
    }

    pub(super) fn session(&self) -> &SessionKey {
        &self.template.session
    }

    pub(super) fn folder(&self) -> &PathBuf {
        &self.template.workspace
    }

    /// Runs until the user leaves or the process has to exit.
    pub(super) async fn run(mut self) -> Result<Exit, Problem> {
        let mut next_look = Instant::now();
        let mut next_draw = Instant::now();
        let mut escape_at: Option<Instant> = None;
        while self.ended.is_none() {
            if Instant::now() >= next_look {
                self.look().await;
                next_look = Instant::now() + LOOK_INTERVAL;
            }
            self.print_deferred();
            if Instant::now() >= next_draw {
                self.draw();
                next_draw = Instant::now() + DRAW_INTERVAL;
            }
            let wake = escape_at.map_or(next_look.min(next_draw), |at| at.min(next_draw));
            let wake = match self.is_idle() {
                true => escape_at.unwrap_or(next_look),
                false => wake,
            };
            tokio::select! {
                biased;
                signal = self.signals.next() => self.signalled(signal).await,
                keys = self.keyboard.keys() => {
                    match keys {
                        Some(bytes) => {
                            for key in self.decoder.push(&bytes) {
                                self.press(key).await;
                            }
                        }
                        // The terminal was closed.
                        None => self.ended = Some(Left::Terminated),
                    }
                    next_draw = Instant::now();
                }
                _ = self.resized.recv() => {
                    self.canvas.resize(size());
                    next_draw = Instant::now();
                }
                item = self.feed.next() => self.receive(item).await,
                () = tokio::time::sleep_until(wake) => {}
            }
            escape_at = match (self.decoder.has_pending_escape(), escape_at) {
                (false, _) => None,
                (true, None) => Some(Instant::now() + ESCAPE_DELAY),
                (true, Some(at)) if Instant::now() >= at => {
                    if let Some(key) = self.decoder.resolve_escape() {
                        self.press(key).await;
                    }
                    None
                }
                (true, waiting) => waiting,
            };
        }
        Ok(self.leave().await)
    }

    /// Whether nothing on the screen changes with time.
    fn is_idle(&self) -> bool {
        self.board.turn().is_none() && self.board.children().next().is_none()
    }

    /// Prints lines that stay.
    pub(super) fn print(&mut self, lines: impl IntoIterator<Item = String>) {
        self.canvas.print(lines);
    }

    /// Prints one sentence that stays.
    pub(super) fn say(&mut self, words: &str) {
        let lines: Vec<String> = words.lines().map(str::to_owned).collect();
        self.canvas.print(lines);
    }

    pub(super) fn report(&mut self, problem: &Problem) {
        let red = Style::new().bad();
        let lines: Vec<String> = problem
            .lines(self.lang())
            .into_iter()
            .enumerate()
            .map(|(index, line)| match index {
                0 => red.apply_to(output::for_terminal(&line)).to_string(),
                _ => output::for_terminal(&line),
            })
            .collect();
        self.canvas.print(lines);
    }

    /// Reports a problem of reading the store, unless it is the same as before.
    fn report_once(&mut self, problem: &Problem) {
        let words = problem.lines(self.lang()).join("\n");
        if self.last_problem.as_ref() != Some(&words) {
            self.report(problem);
            self.last_problem = Some(words);
        }
    }

    fn greet(&mut self) {
        let lang = self.lang();
        let model = match (&self.template.model, self.template.default_model.as_str()) {
            (Some(model), _) => model.clone(),
            (None, "") => t!(lang, "chat-server-model"),
            (None, model) => model.to_owned(),
        };
        let width = self.canvas.width();
        let name = Style::new().bold().apply_to("Sortie").to_string();
        let words = truncate_columns(&model, width.saturating_sub(10));
        let folder = self.folder().display().to_string();
        let lines = vec![
            format!("{name} · {words}"),
            dim(&folder, width),
            dim(&t!(lang, "chat-greeting"), width),
        ];
        self.print(lines);
    }

    /// Shows the last turns of a session that is continued.
    pub(super) async fn show_earlier(&mut self) {
        let filter = ListFilter {
            session: Some(self.session().clone()),
            roots_only: true,
            limit: SHOWN_TURNS,
            ..ListFilter::default()
        };
        let turns = match self.engine.list(filter).await {
            Ok(turns) => turns,
            Err(problem) => return self.report(&problem),
        };
        let width = self.canvas.width();
        for record in turns.iter().rev().filter(|run| run.lane == Lane::Main) {
            if record.status.is_terminal() {
                let mut lines = message_lines(&record.task, width);
                lines.push(String::new());
                match record.outcome.as_ref().and_then(|outcome| outcome.text()) {
                    Some(text) => lines.extend(markdown::render(text, width)),
                    None => {
                        let why = report::why(self.lang(), record).unwrap_or_default();
                        lines.push(dim(&one_line(&why), width));
                    }
                }
                self.print(lines);
            } else {
                let now = self.engine.now();
                self.board.begin(record.run_id, false, now);
            }
        }
    }

    /// Prints log lines and notices that other parts of the program wrote.
    fn print_deferred(&mut self) {
        let lines = self.screen.take_deferred();
        if !lines.is_empty() {
            let lines: Vec<String> = lines
                .iter()
                .map(|line| output::for_terminal(line))
                .collect();
            self.canvas.print(lines);
        }
    }

    /// Returns the active runs of the session, oldest first.
    pub(super) async fn active(&self) -> Result<Vec<RunRecord>, Problem> {
        let filter = ListFilter {
            session: Some(self.session().clone()),
            statuses: vec![Status::Running, Status::Pending],
            oldest_first: true,
            ..ListFilter::default()
        };
        self.engine.list(filter).await
    }

    /// Prints new requests, and says which were answered elsewhere.
    pub(super) async fn update_requests(&mut self) {
        let filter = RequestFilter {
            session: Some(self.session().clone()),
            ..RequestFilter::default()
        };
        let open = match self.engine.requests(filter).await {
            Ok(open) => open,
            Err(problem) => return self.report_once(&problem),
        };
        self.last_problem = None;
        for request in self.prompts.update(open) {
            let reason = replied(
                &self.engine,
                self.lang(),
                &request.request.id,
                request.task_id,
            );
            let words = match reason.await {
                Ok(reason) => t!(self.lang(), "withdrawn", reason = reason),
                Err(problem) => return self.report(&problem),
            };
            self.print([Style::new().warning().apply_to(words).to_string()]);
        }
        self.show_request();
    }

    fn show_request(&mut self) {
        let lang = self.settings.lang;
        let Some(open) = self.prompts.show_next() else {
            return;
        };
        let words = request_lines(lang, open);
        let needed = t!(lang, "notify-needed", label = short_label(&open.label));
        self.print(words);
        self.notify(&needed);
    }

    pub(super) async fn reply(&mut self, id: RequestId, reply: Reply) {
        let words = match &reply {
            Reply::Approved {
                lasting: Some(rule),
                ..
            } => {
                t!(self.lang(), "replied-approved-always", rule = rule)
            }
            Reply::Approved { lasting: None, .. } => t!(self.lang(), "replied-approved"),
            Reply::Refused {
                words: Some(words), ..
            } => {
                t!(
                    self.lang(),
                    "replied-denied-because",
                    words = one_line(words)
                )
            }
            Reply::Refused { words: None, .. } => t!(self.lang(), "replied-denied"),
            Reply::Answered { text, .. } => one_line(text),
            Reply::Expired => return,
        };
        match self.engine.reply(&id, reply).await {
            Ok(Replied::Accepted { .. }) => {
                self.prompts.answered(&id);
                let line = dim(&format!("  → {words}"), self.canvas.width());
                self.print([line]);
            }
            Ok(Replied::TooLate { earlier }) => {
                self.prompts.answered(&id);
                let reason = approval::replied_elsewhere(self.lang(), earlier.as_ref(), None);
                let words = t!(self.lang(), "answer-late", reason = reason);
                self.print([Style::new().warning().apply_to(words).to_string()]);
            }
            Err(problem) => self.report(&problem),
        }
        self.update_requests().await;
    }

    async fn press(&mut self, key: Key) {
        self.remark = None;
        if self.leaving {
            return self.press_while_leaving(&key).await;
        }
        let key = match self.editor.is_empty() {
            false => key,
            true => match self.prompts.press(key, &self.settings.person) {
                Pressed::Reply(id, reply) => return self.reply(id, reply).await,
                Pressed::Answers(None) => return,
                Pressed::Answers(Some(key)) | Pressed::Unused(key) => key,
            },
        };
        match self.editor.press(key) {
            Edited::Changed => {}
            Edited::Submitted(text) => self.submit(text).await,
            Edited::WantsCompletion => self.complete().await,
            Edited::Unused(Key::Escape) => self.escape().await,
            Edited::Unused(Key::Ctrl('d')) => self.ask_to_leave(),
            Edited::Unused(Key::Ctrl('l')) => self.canvas.clear(),
            Edited::Unused(_) => {}
        }
    }

    async fn complete(&mut self) {
        let (start, word) = self.editor.word();
        let (word, is_first) = (word.to_owned(), start == 0);
        let before = self
            .editor
            .text()
            .get(..start)
            .unwrap_or_default()
            .to_owned();
        let candidates = match word.strip_prefix('@') {
            Some(path) => complete::files(self.folder(), path),
            None if is_first => complete::commands(&word),
            None => self.arguments(&before, &word).await,
        };
        self.editor.complete(start, candidates);
    }

    async fn submit(&mut self, text: String) {
        match self.prompts.submit(&text, &self.settings.person) {
            Submitted::Reply(id, reply) => return self.reply(id, reply).await,
            Submitted::TooLate => {
                self.editor.set(&text);
                let reason = t!(self.lang(), "withdrawn-ended");
                self.say(&t!(self.lang(), "answer-late", reason = reason));
                return;
            }
            Submitted::Message => {}
        }
        let message = text.trim();
        if message.is_empty() {
            return self.continue_paused().await;
        }
        self.editor.remember(message);
        self.history.add(message);
        match message.strip_prefix('/') {
            Some(command) if !command.contains('/') || command.contains(' ') => {
                let command = command.to_owned();
                let echo = dim(&format!("> {message}"), self.canvas.width());
                self.print([String::new(), echo]);
                self.command(&command).await;
            }
            Some(_) | None => self.send(message.to_owned()).await,
        }
    }

    /// Sends a message: to the turn that runs, or as the next turn.
    async fn send(&mut self, message: String) {
        let lines = message_lines(&message, self.canvas.width());
        self.print(lines);
        let new = NewRun {
            task: message.clone(),
            ..self.template.clone()
        };
        let sent = match self.branch {
            Some(earlier) => {
                let new = NewRun {
                    continues: Some(earlier),
                    ..new
                };
                self.engine.create(new).await.map(|run| (run, false))
            }
            None => {
                let sent = self.engine.send_message(new).await;
                sent.map(|receipt| (receipt.run, receipt.steered))
            }
        };
        match sent {
            Ok((run, steered)) => {
                self.branch = None;
                if steered {
                    self.board.steered(&message);
                    self.continue_paused().await;
                }
                let now = self.engine.now();
                self.board.begin(run, !steered, now);
                if let Err(problem) = self.read_turn().await {
                    self.report(&problem);
                }
            }
            Err(problem) => {
                self.report(&problem);
                self.editor.set(&message);
            }
        }
    }

    /// Esc: drops an answer, interrupts the turn, or continues it.
    async fn escape(&mut self) {
        if self.prompts.is_answering() || !self.editor.is_empty() {
            self.prompts.stop_answering();
            self.editor.clear();
            return;
        }
        let Some((run, paused)) = self.board.turn().map(|turn| (turn.run, turn.paused)) else {
            return;
        };
        if paused {
            return self.continue_paused().await;
        }
        match self.engine.pause(run).await {
            Ok(()) => {
                if let Some(turn) = self.board.turn_mut() {
                    turn.paused = true;
                }
            }
            Err(problem) => self.report(&problem),
        }
    }

    async fn continue_paused(&mut self) {
        let Some(run) = self
            .board
            .turn()
            .filter(|turn| turn.paused)
            .map(|turn| turn.run)
        else {
            return;
        };
        match self.engine.unpause(run).await {
            Ok(()) => {
                if let Some(turn) = self.board.turn_mut() {
                    turn.paused = false;
                }
            }
            Err(problem) => self.report(&problem),
        }
    }

    async fn signalled(&mut self, signal: Signal) {
        match signal {
            Signal::Terminate => self.ended = Some(Left::Terminated),
            Signal::Interrupt => self.interrupted().await,
        }
    }

    /// Ctrl-C: stops the turn, clears the input, or leaves.
    async fn interrupted(&mut self) {
        let now = Instant::now();
        if self.leaving || self.warned_at.is_some_and(|at| now - at < LEAVE_WINDOW) {
            self.ended = Some(Left::Kept);
            return;
        }
        self.prompts.stop_answering();
        if let Some(run) = self.board.turn().map(|turn| turn.run) {
            self.warned_at = Some(now);
            if let Some(turn) = self.board.turn_mut() {
                turn.stopping = true;
            }
            let reason = t!(self.lang(), "cancel-reason-interrupt");
            if let Err(problem) = self.engine.cancel(run, &reason).await {
                self.report(&problem);
            }
            return;
        }
        if self.editor.is_empty() {
            self.warned_at = Some(now);
            self.remark = Some(t!(self.lang(), "chat-leave-hint"));
        }
        self.editor.clear();
    }

    /// Leaves, or asks first what to do with running tasks.
    pub(super) fn ask_to_leave(&mut self) {
        if self.is_idle() {
            self.ended = Some(Left::Kept);
        } else {
            self.leaving = true;
        }
    }

    async fn press_while_leaving(&mut self, key: &Key) {
        match key {
            Key::Char('k' | 'K') => self.ended = Some(Left::Kept),
            Key::Char('c' | 'C') => {
                self.cancel_all().await;
                self.ended = Some(Left::Kept);
            }
            Key::Escape => self.leaving = false,
            Key::Char(_)
            | Key::Paste(_)
            | Key::Enter
            | Key::Newline
            | Key::Tab
            | Key::BackTab
            | Key::Backspace
            | Key::Delete
            | Key::Left
            | Key::Right
            | Key::WordLeft
            | Key::WordRight
            | Key::Up
            | Key::Down
            | Key::Home
            | Key::End
            | Key::PageUp
            | Key::PageDown
            | Key::Ctrl(_) => {}
        }
    }

    async fn cancel_all(&mut self) {
        let reason = t!(self.lang(), "cancel-reason-interrupt");
        let active = match self.active().await {
            Ok(active) => active,
            Err(problem) => return self.report(&problem),
        };
        for record in active {
            if let Err(problem) = self.engine.cancel(record.run_id, &reason).await {
                self.report(&problem);
            }
        }
    }

    /// Restores the terminal, and says how to return.
    async fn leave(mut self) -> Exit {
        self.print_deferred();
        let lang = self.lang();
        let left = self.ended.unwrap_or(Left::Terminated);
        let active = self.active().await.map_or(0, |active| active.len());
        let turns = self
            .engine
            .sessions(sortie_core::session::SessionFilter {
                session: Some(self.session().clone()),
                ..Default::default()
            })
            .await
            .map_or(0, |found| found.len());
        self.canvas.finish();
        let Self {
            engine,
            keyboard,
            _pause: pause,
            template,
            ..
        } = self;
        drop(keyboard);
        drop(pause);
        let is_server = engine.is_server();
        engine.shut_down().await;
        if active > 0 {
            output::note(&match is_server {
                true => t!(lang, "chat-left-in-server", count = active),
                false => t!(lang, "chat-left-queued", count = active),
            });
        }
        if turns > 0 {
            let id = template.session.to_string();
            output::note(&t!(lang, "chat-return", id = id));
        }
        match left {
            Left::Kept => Exit::Ok,
            Left::Terminated => Exit::Terminated,
        }
    }

    fn draw(&mut self) {
        let width = self.canvas.width();
        let lang = self.lang();
        let mark = match self.prompts.is_answering() {
            true => t!(lang, "chat-answer-mark"),
            false => "> ".to_owned(),
        };
        let indent = columns(&mark);
        let (rows, cursor) = self.editor.rows(width.saturating_sub(indent));
        let first = (cursor.0 + 1).saturating_sub(MAX_INPUT_ROWS);
        let mut input: Vec<String> = rows
            .iter()
            .enumerate()
            .skip(first)
            .take(MAX_INPUT_ROWS)
            .map(|(index, row)| match index {
                0 => format!("{}{row}", Style::new().bold().apply_to(&mark)),
                _ => format!("{}{row}", " ".repeat(indent)),
            })
            .collect();
        let footer = self.footer(width);
        let hint = match self.leaving {
            true => Some(t!(lang, "chat-leave-question")),
            false => self.prompts.hint(),
        };
        let hint = hint.map(|hint| {
            let hint = truncate_columns(&hint, width);
            Style::new().warning().bold().apply_to(hint).to_string()
        });
        let taken = input.len() + 3;
        let room = self.canvas.height().saturating_sub(taken);
        let mut lines = self.board.live(self.engine.now(), width, room);
        lines.extend(hint);
        let above = lines.len();
        lines.append(&mut input);
        lines.push(footer);
        let frame = Frame {
            lines,
            cursor: (above + cursor.0 - first, indent + cursor.1),
        };
        self.canvas.draw(frame);
    }

    /// Returns the line below the input: candidates, a remark, or where the conversation stands.
    fn footer(&self, width: usize) -> String {
        if let Some((candidates, chosen)) = self.editor.candidates() {
            let words: Vec<String> = candidates
                .iter()
                .skip(chosen)
                .chain(candidates.iter().take(chosen))
                .cloned()
                .collect();
            return dim(&words.join("  "), width);
        }
        if let Some(remark) = &self.remark {
            return truncate_columns(remark, width);
        }
        let mode = self.template.mode.as_str();
        let words = format!("  {} · {mode} · /help", self.session());
        dim(&words, width)
    }
}

/// Returns the lines of a request: everything that a decision needs, without the prompt at its end,
/// which names keys of another input.
fn request_lines(lang: Lang, open: &OpenRequest) -> Vec<String> {
    let words = approval::question(lang, open);
    let mut lines: Vec<String> = words
        .lines()
        .map(|line| {
            let bare = line.trim_start_matches([' ', '|']);
            let is_diff = line.starts_with("  | ") && bare.starts_with(['+', '-']);
            match is_diff {
                true => super::highlight::diff_style(bare)
                    .apply_to(line)
                    .to_string(),
                false => output::for_terminal(line),
            }
        })
        .collect();
    lines.pop();
    if let RequestKind::Question(_) = &open.request.kind {
        lines.insert(
            0,
            t!(
                lang,
                "chat-asks",
                agent = write_out_line(&open.agent),
                label = short_label(&open.label)
            ),
        );
    }
    lines.insert(0, String::new());
    lines
}

/// Returns the rows and columns of the terminal.
fn size() -> (u16, u16) {
    console::Term::stdout().size()
}
