//! What the runs of the session do, as the conversation shows it.

use sortie_core::id::{RunId, Seq};
use sortie_core::notification::{Notification, NotificationKind};
use sortie_core::run::{Lane, RunRecord};
use sortie_text::{one_line, t, truncate_columns};

use super::super::board::dim;
use super::{Conversation, LONG_TURN_MS, Left, NOTIFICATION_COLUMNS};
use crate::engine::FeedItem;
use crate::ids::short_label;
use crate::problem::Problem;
use crate::report;

impl Conversation<'_> {
    /// Handles what a run did.
    pub(super) async fn receive(&mut self, item: FeedItem) {
        match item {
            FeedItem::Text { run, text } => self.board.text(run, &text),
            FeedItem::Event(notification) => self.event(&notification).await,
            FeedItem::Missed(_) => self.look().await,
            FeedItem::Closed => {
                self.say(&t!(self.lang(), "server-gone"));
                self.ended = Some(Left::Terminated);
            }
        }
    }

    async fn event(&mut self, notification: &Notification) {
        let is_turn = self
            .board
            .turn()
            .is_some_and(|turn| turn.run == notification.root_id);
        if notification.session_id != *self.session() && !is_turn {
            return;
        }
        self.board.event(notification);
        let run = notification.task_id;
        let result = if notification.parent_id.is_none() {
            self.turn_event(notification).await
        } else {
            self.child_event(run, &notification.kind).await
        };
        if let Err(problem) = result {
            self.report(&problem);
        }
        if let NotificationKind::Asked { .. } | NotificationKind::Replied { .. } = notification.kind
        {
            self.update_requests().await;
        }
    }

    /// Handles an event of a main run of the session.
    async fn turn_event(&mut self, notification: &Notification) -> Result<(), Problem> {
        let run = notification.task_id;
        let starts = matches!(
            notification.kind,
            NotificationKind::Queued { .. } | NotificationKind::Started { .. }
        );
        // A turn that starts by itself: a background task has reported, or another client has
        // written.
        if self.board.turn().is_none() && starts {
            let record = self.engine.get(run).await?;
            if record.lane == Lane::Main && !record.status.is_terminal() {
                self.board.begin(run, false, notification.at);
            }
        }
        self.read_turn().await
    }

    /// Shows new entries of the turn's journal.
    pub(in crate::chat) async fn read_turn(&mut self) -> Result<(), Problem> {
        let Some((run, seen)) = self.board.turn().map(|turn| (turn.run, turn.seen)) else {
            return Ok(());
        };
        let entries = self.engine.events(run, seen).await?;
        let lines = self.board.journal(&entries, self.canvas.width());
        self.print(lines);
        if self.board.turn().is_none() {
            let record = self.engine.get(run).await?;
            self.print_end(&record).await?;
        }
        Ok(())
    }

    /// Prints the time, the cost and what to do with the changes of an ended turn.
    async fn print_end(&mut self, record: &RunRecord) -> Result<(), Problem> {
        let lang = self.lang();
        let width = self.canvas.width();
        let mut words = vec![crate::table::elapsed(record, self.engine.now())];
        words.extend(report::spent(lang, record.total_usage()));
        let line = dim(&format!("  {}", words.join(" · ")), width);
        self.print([line]);
        if let Some(next) = report::next_step(lang, &self.engine, record).await? {
            self.say(&next);
        }
        // A short turn ends while the user still looks at it.
        if record.elapsed_ms(self.engine.now()) >= LONG_TURN_MS {
            self.notify(&t!(lang, "notify-done", label = short_label(&record.label)));
        }
        Ok(())
    }

    /// Tells the terminal that the user is needed, or that a long turn has ended.
    pub(super) fn notify(&mut self, words: &str) {
        let words = truncate_columns(&one_line(words), NOTIFICATION_COLUMNS);
        self.canvas.notify(&words);
    }

    async fn child_event(&mut self, run: RunId, kind: &NotificationKind) -> Result<(), Problem> {
        if kind.is_end() {
            let record = self.engine.get(run).await?;
            let line = self.board.record(&record);
            self.print(line);
        } else if matches!(kind, NotificationKind::Tool { .. }) {
            self.read_child(run).await?;
        }
        Ok(())
    }

    async fn read_child(&mut self, run: RunId) -> Result<(), Problem> {
        let seen = self
            .board
            .children()
            .find(|(child, _)| *child == run)
            .map_or(Seq(0), |(_, seen)| seen);
        let entries = self.engine.events(run, seen).await?;
        self.board.child_journal(run, &entries);
        Ok(())
    }

    /// Reads the store, in case an event was lost.
    pub(super) async fn look(&mut self) {
        let looked = async {
            self.read_turn().await?;
            let known: Vec<RunId> = self.board.children().map(|(run, _)| run).collect();
            let active = self.active().await?;
            let turn = active
                .iter()
                .find(|run| run.parent.is_none() && run.lane == Lane::Main);
            if let Some(turn) = turn.filter(|_| self.board.turn().is_none()) {
                self.board.begin(turn.run_id, false, turn.created_at);
                self.read_turn().await?;
            }
            for record in active.iter().filter(|run| run.parent.is_some()) {
                self.board.record(record);
            }
            for run in known {
                if active.iter().all(|record| record.run_id != run) {
                    let record = self.engine.get(run).await?;
                    let line = self.board.record(&record);
                    self.print(line);
                }
            }
            Ok(())
        };
        match looked.await {
            Ok(()) => self.update_requests().await,
            Err(problem) => self.report_once(&problem),
        }
    }
}
