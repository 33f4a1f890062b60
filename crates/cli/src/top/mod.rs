//! `sortie top`: all tasks on one screen, live.
//!
//! It reads the store, beside whichever process writes it. A key that changes something goes the way
//! of the command of the same name: to the server, into the store, or into the mailbox of the process
//! that executes the task.

mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sortie_core::event::JournalEntry;
use sortie_core::id::{RunId, Seq};
use sortie_core::ports::store::{ListFilter, Replied};
use sortie_core::request::{OpenRequest, Reply, RequestFilter, RequestId, RequestKind};
use sortie_core::run::{RunRecord, Status};
use sortie_core::time::Clock as _;
use sortie_runtime::ProcessClock;
use sortie_store::ReadStore;
use sortie_text::t;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::approval;
use crate::chat::canvas::FullScreen;
use crate::chat::keys::{Decoder, Key};
use crate::commands::approvals::reply_to;
use crate::engine::Controller;
use crate::exit::Exit;
use crate::ids::short_label;
use crate::keyboard::Keyboard;
use crate::lock::{Holder, holder};
use crate::problem::Problem;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::table::needs_person;
use view::{Pane, Shown};

/// How often the store is read.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long an escape character may be the beginning of a sequence.
const ESCAPE_DELAY: Duration = Duration::from_millis(60);
/// Trees that have ended and are shown.
const RECENT_TREES: u32 = 20;
/// The most active tasks that are read; a screen shows fewer.
const ACTIVE_TASKS: u32 = 500;
/// Entries of the journal that the log shows.
const LOG_ENTRIES: i64 = 200;
/// The longest line that is typed, in characters.
const MAX_INPUT_CHARS: usize = 2_000;

/// Shows all tasks on the whole screen, live; approves, steers, pauses and cancels by key
///
/// Works beside a server and beside a plain `sortie run`. Press `?` for the keys, `q` to leave.
#[derive(Debug, Args)]
pub(crate) struct Top {}

impl Top {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        let terminal = settings.terminal;
        let name = settings.options.environment.text("TERM");
        let moves_cursor = name.is_some_and(|name| !name.is_empty() && name != "dumb");
        if !(terminal.input && terminal.output && moves_cursor) {
            return Err(Problem::Refused(t!(settings.lang, "top-no-terminal")));
        }
        let store = settings.options.read_store()?;
        let _pause = screen.pause();
        Dashboard::new(settings, store).show().await
    }
}

/// What a typed line is for.
#[derive(Clone, Debug)]
enum Asks {
    /// A message for a task.
    Steer(RunId),
    /// The reply to a request.
    Reply(Box<OpenRequest>),
    /// Whether to cancel a task.
    Cancel(RunId),
}

/// A line that is being typed at the bottom.
#[derive(Clone, Debug)]
struct Input {
    asks: Asks,
    prompt: String,
    text: String,
}

struct Dashboard<'a> {
    settings: &'a Settings,
    store: ReadStore,
    clock: ProcessClock,
    /// The tasks of each tree, by its root.
    trees: BTreeMap<RunId, Vec<RunRecord>>,
    requests: Vec<OpenRequest>,
    /// Requests that the user was told about.
    notified: Option<BTreeSet<RequestId>>,
    journal: Vec<JournalEntry>,
    holder: String,
    selected: Option<RunId>,
    pane: Pane,
    /// Lines that the lower pane is scrolled down.
    scroll: usize,
    input: Option<Input>,
    remark: Option<String>,
    help: bool,
    leaves: bool,
}

impl<'a> Dashboard<'a> {
    fn new(settings: &'a Settings, store: ReadStore) -> Self {
        Self {
            settings,
            store,
            clock: ProcessClock::start(),
            trees: BTreeMap::new(),
            requests: Vec::new(),
            notified: None,
            journal: Vec::new(),
            holder: String::new(),
            selected: None,
            pane: Pane::Detail,
            scroll: 0,
            input: None,
            remark: None,
            help: false,
            leaves: false,
        }
    }

    /// Draws and reads keys until the user leaves.
    async fn show(mut self) -> Result<Exit, Problem> {
        // Read once before the screen is taken over, so that a broken store is an ordinary error.
        self.look().await?;
        let mut signals = Signals::listen().map_err(Problem::Process)?;
        let mut resized = signal(SignalKind::window_change()).map_err(Problem::Process)?;
        let mut keyboard = Keyboard::open_for_editing();
        let mut decoder = Decoder::default();
        let mut screen = FullScreen::new(io::stdout(), size());
        let mut next_look = Instant::now() + LOOK_INTERVAL;
        while !self.leaves {
            if Instant::now() >= next_look {
                if let Err(problem) = self.look().await {
                    self.remark = Some(problem.text(self.settings.lang));
                }
                next_look = Instant::now() + LOOK_INTERVAL;
            }
            if let Some(words) = self.news() {
                screen.notify(&words);
            }
            let (rows, columns) = screen.room();
            screen.draw(self.lines(rows, columns));
            let wake = match decoder.has_pending_escape() {
                true => Instant::now() + ESCAPE_DELAY,
                false => next_look,
            };
            tokio::select! {
                biased;
                _ = signals.next() => self.leaves = true,
                keys = keyboard.keys() => match keys {
                    Some(bytes) => {
                        for key in decoder.push(&bytes) {
                            self.press(key).await;
                        }
                    }
                    None => self.leaves = true,
                },
                _ = resized.recv() => screen.resize(size()),
                () = tokio::time::sleep_until(wake) => {
                    if let Some(key) = decoder.resolve_escape() {
                        self.press(key).await;
                    }
                }
            }
        }
        Ok(Exit::Ok)
    }

    /// Reads the store: active trees, the latest ended ones, requests, and the selected journal.
    async fn look(&mut self) -> Result<(), Problem> {
        let recent = ListFilter {
            roots_only: true,
            limit: RECENT_TREES,
            ..ListFilter::default()
        };
        let active = ListFilter {
            statuses: vec![Status::Pending, Status::Running],
            limit: ACTIVE_TASKS,
            ..ListFilter::default()
        };
        let recent = self.store.list(recent).await?;
        let active = self.store.list(active).await?;
        let live: BTreeSet<RunId> = active.iter().map(|record| record.root).collect();
        let mut roots: BTreeSet<RunId> = recent.iter().map(|record| record.run_id).collect();
        roots.extend(&live);
        self.trees.retain(|root, _| roots.contains(root));
        for root in roots {
            let has_ended =
                |tree: &Vec<RunRecord>| tree.iter().all(|record| record.status.is_terminal());
            // A tree that has ended does not change.
            if live.contains(&root) || !self.trees.get(&root).is_some_and(has_ended) {
                let filter = ListFilter {
                    root: Some(root),
                    ..ListFilter::default()
                };
                self.trees.insert(root, self.store.list(filter).await?);
            }
        }
        self.requests = self.store.requests(RequestFilter::default()).await?;
        self.holder = self.holder_words();
        let selection = self.order();
        if self.selected.is_none_or(|run| !selection.contains(&run)) {
            self.selected = selection.first().copied();
        }
        self.read_journal().await
    }

    async fn read_journal(&mut self) -> Result<(), Problem> {
        let record = self.selected().map(|record| (record.run_id, record.head));
        self.journal = match record {
            Some((run, head)) => {
                let after = Seq(head.0.saturating_sub(LOG_ENTRIES));
                self.store.read(run, after).await?
            }
            None => Vec::new(),
        };
        Ok(())
    }

    /// Returns all records, newest first.
    fn records(&self) -> Vec<RunRecord> {
        let mut records: Vec<RunRecord> = self.trees.values().flatten().cloned().collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.run_id));
        records
    }

    /// Returns the tasks in the order of the rows.
    fn order(&self) -> Vec<RunId> {
        let look = self.look_of_table(None);
        let table = crate::table::task_table(&self.records(), &look);
        table.rows.into_iter().filter_map(|(run, _)| run).collect()
    }

    fn look_of_table(&self, columns: Option<u16>) -> crate::table::TableOptions {
        crate::table::TableOptions {
            lang: self.settings.lang,
            // The rows of large trees depend on whether there is a terminal.
            columns: columns.or(Some(u16::MAX)),
            now: self.clock.now(),
            needs_person: needs_person(&self.requests),
            folder: self.settings.workspace(None).ok(),
        }
    }

    fn selected(&self) -> Option<&RunRecord> {
        let run = self.selected?;
        let mut records = self.trees.values().flatten();
        records.find(|record| record.run_id == run)
    }

    /// Returns the open request of the selected task that a person has to answer.
    fn request(&self) -> Option<&OpenRequest> {
        let run = self.selected?;
        if !needs_person(&self.requests).contains(&run) {
            return None;
        }
        self.requests.iter().find(|open| open.task_id == run)
    }

    /// Returns the notification about requests that are new since the last look.
    fn news(&mut self) -> Option<String> {
        let people = needs_person(&self.requests);
        let open = self
            .requests
            .iter()
            .filter(|open| people.contains(&open.task_id));
        let ids: BTreeSet<RequestId> = open.clone().map(|open| open.request.id.clone()).collect();
        let known = self.notified.replace(ids)?;
        let new = open
            .clone()
            .find(|open| !known.contains(&open.request.id))?;
        let label = short_label(&new.label);
        Some(t!(self.settings.lang, "notify-needed", label = label))
    }

    fn holder_words(&self) -> String {
        let lang = self.settings.lang;
        match holder(&self.settings.options.home) {
            Ok(Holder::Unlocked) => t!(lang, "top-no-process"),
            Ok(Holder::Locked(Some(owner))) => owner.to_string(),
            Ok(Holder::Locked(None)) | Err(_) => String::new(),
        }
    }

    fn lines(&self, rows: usize, columns: usize) -> Vec<String> {
        let records = self.records();
        let table = self.look_of_table(u16::try_from(columns).ok());
        let shown = Shown {
            lang: self.settings.lang,
            now: self.clock.now(),
            records: &records,
            table: &table,
            selected: self.selected(),
            request: self.request(),
            journal: &self.journal,
            holder: &self.holder,
            pane: self.pane,
            scroll: self.scroll,
            help: self.help,
            bottom: self.bottom(),
        };
        shown.lines(rows, columns)
    }

    /// Returns the last line: the input, a remark, or nothing.
    fn bottom(&self) -> Option<String> {
        match (&self.input, &self.remark) {
            (Some(input), _) => Some(format!("{} {}▏", input.prompt, input.text)),
            (None, Some(remark)) => Some(remark.clone()),
            (None, None) => None,
        }
    }

    async fn press(&mut self, key: Key) {
        self.remark = None;
        if self.input.is_some() {
            return self.type_key(key).await;
        }
        match key {
            Key::Char('q') | Key::Escape | Key::Ctrl('c' | 'd') if !self.help => self.leaves = true,
            Key::Char('?') | Key::Escape | Key::Char('q') => self.help = !self.help,
            Key::Up | Key::Char('k') => self.step(-1).await,
            Key::Down | Key::Char('j') => self.step(1).await,
            Key::Home | Key::Char('g') => self.step(isize::MIN).await,
            Key::End | Key::Char('G') => self.step(isize::MAX).await,
            Key::PageUp => self.scroll = self.scroll.saturating_sub(5),
            Key::PageDown => self.scroll = self.scroll.saturating_add(5),
            Key::Tab => self.turn_to(self.pane.next()),
            Key::Char('1') => self.turn_to(Pane::Detail),
            Key::Char('2') => self.turn_to(Pane::Timeline),
            Key::Char('3') => self.turn_to(Pane::Log),
            Key::Char('a') | Key::Enter => self.approve().await,
            Key::Char('d') => self.begin_reply("n "),
            Key::Char('c') => self.begin_cancel(),
            Key::Char('p') => self.pause().await,
            Key::Char('s') => self.begin_steer(),
            Key::Char(_)
            | Key::Paste(_)
            | Key::Newline
            | Key::BackTab
            | Key::Backspace
            | Key::Delete
            | Key::Left
            | Key::Right
            | Key::WordLeft
            | Key::WordRight
            | Key::Ctrl(_) => {}
        }
    }

    fn turn_to(&mut self, pane: Pane) {
        self.pane = pane;
        self.scroll = 0;
    }

    async fn step(&mut self, by: isize) {
        let order = self.order();
        let at = self
            .selected
            .and_then(|run| order.iter().position(|other| *other == run))
            .unwrap_or(0);
        let last = order.len().saturating_sub(1);
        let next = at.saturating_add_signed(by).min(last);
        self.selected = order.get(next).copied();
        self.scroll = 0;
        if let Err(problem) = self.read_journal().await {
            self.remark = Some(problem.text(self.settings.lang));
        }
    }

    /// Approves the call of the selected task. A dangerous one, and a question, need words.
    async fn approve(&mut self) {
        let Some(open) = self.request().cloned() else {
            self.remark = Some(t!(self.settings.lang, "top-no-request"));
            return;
        };
        match &open.request.kind {
            RequestKind::Approval(approval) if approval.dangers.is_empty() => {
                let by = self.settings.person.clone();
                let reply = Reply::Approved { by, lasting: None };
                self.reply(&open, reply).await;
            }
            RequestKind::Approval(_) | RequestKind::Question(_) => self.begin_reply(""),
        }
    }

    fn begin_reply(&mut self, text: &str) {
        let lang = self.settings.lang;
        let Some(open) = self.request().cloned() else {
            self.remark = Some(t!(lang, "top-no-request"));
            return;
        };
        let (prompt, text) = match &open.request.kind {
            RequestKind::Question(_) => (t!(lang, "top-answer"), ""),
            RequestKind::Approval(_) if !text.is_empty() => (t!(lang, "top-deny"), text),
            RequestKind::Approval(_) => (t!(lang, "top-danger"), text),
        };
        self.input = Some(Input {
            asks: Asks::Reply(Box::new(open)),
            prompt,
            text: text.to_owned(),
        });
    }

    fn begin_cancel(&mut self) {
        let lang = self.settings.lang;
        let Some(record) = self.selected() else {
            return;
        };
        if record.status.is_terminal() {
            self.remark = Some(t!(lang, "top-has-ended"));
            return;
        }
        let prompt = t!(lang, "top-cancel", id = &record.handle);
        self.input = Some(Input {
            asks: Asks::Cancel(record.run_id),
            prompt,
            text: String::new(),
        });
    }

    fn begin_steer(&mut self) {
        let lang = self.settings.lang;
        let Some(record) = self.selected() else {
            return;
        };
        if record.status.is_terminal() {
            self.remark = Some(t!(lang, "top-has-ended"));
            return;
        }
        let prompt = t!(lang, "top-steer", id = &record.handle);
        self.input = Some(Input {
            asks: Asks::Steer(record.run_id),
            prompt,
            text: String::new(),
        });
    }

    /// Adds a key to the line that is being typed.
    async fn type_key(&mut self, key: Key) {
        let Some(input) = &mut self.input else {
            return;
        };
        match key {
            Key::Escape | Key::Ctrl('c') => self.input = None,
            Key::Backspace => {
                input.text.pop();
            }
            Key::Char(character) if input.text.chars().count() < MAX_INPUT_CHARS => {
                input.text.push(character);
            }
            Key::Paste(text) => {
                let room = MAX_INPUT_CHARS.saturating_sub(input.text.chars().count());
                let pasted = text.replace('\n', " ");
                input.text.extend(pasted.chars().take(room));
            }
            Key::Enter => {
                if let Some(input) = self.input.take() {
                    self.submit(input).await;
                }
            }
            Key::Char(_)
            | Key::Newline
            | Key::Tab
            | Key::BackTab
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

    async fn submit(&mut self, input: Input) {
        let lang = self.settings.lang;
        let text = input.text.trim();
        match input.asks {
            Asks::Cancel(run) => {
                if !matches!(text.to_lowercase().as_str(), "y" | "yes" | "是") {
                    self.remark = Some(t!(lang, "top-nothing-done"));
                    return;
                }
                let reason = t!(lang, "cancel-reason-command");
                self.act(async |controller| {
                    controller.cancel(run, &reason).await?;
                    Ok(t!(lang, "top-cancelled"))
                })
                .await;
            }
            Asks::Steer(run) => {
                if text.is_empty() {
                    return;
                }
                self.act(async |controller| {
                    controller.steer(run, text).await?;
                    Ok(t!(lang, "top-steered"))
                })
                .await;
            }
            Asks::Reply(open) => {
                let reply = approval::reply(&open.request.kind, text, &self.settings.person);
                match reply {
                    Some(reply) => self.reply(&open, reply).await,
                    None => self.remark = Some(t!(lang, "approvals-empty-answer")),
                }
            }
        }
    }

    async fn pause(&mut self) {
        let lang = self.settings.lang;
        let Some(record) = self.selected() else {
            return;
        };
        if record.status.is_terminal() {
            self.remark = Some(t!(lang, "top-has-ended"));
            return;
        }
        let (run, paused) = (record.run_id, record.paused);
        self.act(async |controller| {
            if paused {
                controller.unpause(run).await?;
                Ok(t!(lang, "top-unpaused"))
            } else {
                controller.pause(run).await?;
                Ok(t!(lang, "top-paused"))
            }
        })
        .await;
    }

    /// Replies to a request, whichever process executes its task.
    async fn reply(&mut self, open: &OpenRequest, reply: Reply) {
        let lang = self.settings.lang;
        let approved = matches!(reply, Reply::Approved { .. });
        let refused = matches!(reply, Reply::Refused { .. });
        let words = match reply_to(self.settings, open, reply).await {
            Ok(Replied::Accepted { .. }) if approved => t!(lang, "top-approved"),
            Ok(Replied::Accepted { .. }) if refused => t!(lang, "top-denied"),
            Ok(Replied::Accepted { .. }) => t!(lang, "top-answered"),
            Ok(Replied::TooLate { .. }) => t!(lang, "top-too-late"),
            Err(problem) => problem.text(lang),
        };
        self.refresh(words).await;
    }

    /// Runs an operation, whichever process executes the task.
    async fn act(
        &mut self,
        operation: impl AsyncFnOnce(&Controller<'_>) -> Result<String, Problem>,
    ) {
        let done = async {
            let controller = Controller::find(self.settings).await?;
            let done = operation(&controller).await;
            controller.shut_down().await;
            done
        };
        let words = match done.await {
            Ok(words) => words,
            Err(problem) => problem.text(self.settings.lang),
        };
        self.refresh(words).await;
    }

    async fn refresh(&mut self, words: String) {
        let words = match self.look().await {
            Ok(()) => words,
            Err(problem) => problem.text(self.settings.lang),
        };
        self.remark = Some(words);
    }
}

/// Returns the rows and columns of the terminal.
fn size() -> (u16, u16) {
    console::Term::stdout().size()
}
