//! Applies inbox messages to the state of a run.

use std::sync::Arc;

use sortie_core::inbox::{Announcement, InboxItem};
use sortie_core::message::{ChildRef, Message, ResultStatus, SharedMessage, ToolResult};
use sortie_core::run::Outcome;
use sortie_text::text;

use super::{PendingNotice, Phase, RunState};
use crate::batch::CallStatus;
use crate::render;

/// Announcements in one notice.
const MAX_GROUP: usize = 32;
/// The size of a notice, in bytes, after which no further announcement joins it.
const MAX_GROUP_BYTES: usize = 8_000;

impl RunState {
    pub(super) fn inbox_taken(&mut self, items: &[InboxItem]) {
        for (item, is_new) in self.recorded(items) {
            match item {
                InboxItem::Announcement(announcement) => {
                    self.repeats.invalidate();
                    if is_new && !self.answer_blocking_call(item) {
                        self.announce(announcement);
                    }
                }
                InboxItem::Reply {
                    request,
                    call,
                    reply,
                } => {
                    if let Phase::RunningCalls(batch) = &mut self.phase {
                        batch.replied(call, request, reply);
                    }
                }
                InboxItem::Steer { .. } | InboxItem::Question { .. } => {
                    self.repeats.invalidate();
                    if let Some(notice) = self.notice_text(item) {
                        self.push_notice(notice);
                    }
                    self.answer_before_ending();
                }
            }
        }
        self.answer_finished_waits();
    }

    /// Adds messages that arrived too late to the history, for a run that continues from it. They
    /// answer no call and change nothing else: the outcome was decided without them.
    pub(super) fn inbox_unread(&mut self, items: &[InboxItem]) {
        for (item, is_new) in self.recorded(items) {
            if !is_new {
                continue;
            }
            let notice = match item {
                InboxItem::Announcement(announcement) => {
                    Some(PendingNotice::Announced(announcement.clone()))
                }
                InboxItem::Steer { .. } | InboxItem::Reply { .. } | InboxItem::Question { .. } => {
                    self.notice_text(item).map(PendingNotice::Text)
                }
            };
            match (&self.phase, notice) {
                (_, None) => {}
                (Phase::RunningCalls(_), Some(notice)) => self.pending_notices.push(notice),
                (
                    Phase::AwaitingModel
                    | Phase::AwaitingChildren
                    | Phase::Checking(_)
                    | Phase::Concluding(_)
                    | Phase::Ended(_),
                    Some(notice),
                ) => self.push_pending(notice),
            }
        }
    }

    /// Records the announcements among these messages, and returns each message with whether it is
    /// new. All are recorded before the first is rendered: children that report together are not
    /// listed as running.
    fn recorded<'a>(&mut self, items: &'a [InboxItem]) -> Vec<(&'a InboxItem, bool)> {
        items.iter().map(|item| (item, self.is_new(item))).collect()
    }

    /// Returns whether this message is new. A child reports once, and is not waited for afterwards.
    fn is_new(&mut self, item: &InboxItem) -> bool {
        match item {
            InboxItem::Announcement(announcement) => {
                self.children.remove(&announcement.child);
                self.announced.insert(announcement.child)
            }
            InboxItem::Steer { .. } | InboxItem::Reply { .. } | InboxItem::Question { .. } => true,
        }
    }

    /// Adds the result of a background child to the history, behind the results of open calls.
    fn announce(&mut self, announcement: &Announcement) {
        match self.phase {
            Phase::RunningCalls(_) => self
                .pending_notices
                .push(PendingNotice::Announced(Box::new(announcement.clone()))),
            Phase::AwaitingModel | Phase::Checking(_) | Phase::Concluding(_) | Phase::Ended(_) => {
                self.push_announcement(announcement.clone());
                self.answer_before_ending();
            }
            Phase::AwaitingChildren => {
                self.push_announcement(announcement.clone());
                self.phase = Phase::AwaitingModel;
            }
        }
    }

    /// Appends an announcement. If the history ends with a notice about other children, which the
    /// model has not read yet, one notice with one list replaces it. A group is bounded: compaction
    /// shortens a notice as a whole, and each new member renders the group again.
    pub(super) fn push_announcement(&mut self, announcement: Announcement) {
        let mut group = match self.unread_notice.take() {
            Some((notice, group)) if has_room(&notice, &group) && self.ends_with(&notice) => {
                self.history.pop();
                group
            }
            Some(_) | None => Vec::new(),
        };
        group.push(announcement);
        let pending: Vec<&ChildRef> = self.children.values().collect();
        let text = render::announcement_notice(self.spec.lang, &group, &pending);
        let notice = Arc::new(Message::Notice { text });
        self.history.push(Arc::clone(&notice));
        self.unread_notice = Some((notice, group));
    }

    fn ends_with(&self, message: &SharedMessage) -> bool {
        let last = self.history.last();
        last.is_some_and(|last| Arc::ptr_eq(last, message))
    }

    pub(super) fn push_pending(&mut self, notice: PendingNotice) {
        match notice {
            PendingNotice::Text(text) => self.push(Message::Notice { text }),
            PendingNotice::Announced(announcement) => self.push_announcement(*announcement),
        }
    }

    /// Returns how the model reads a message. A reply is the result of a call instead, and an
    /// announcement is rendered when it enters the history.
    fn notice_text(&self, item: &InboxItem) -> Option<String> {
        let lang = self.spec.lang;
        match item {
            InboxItem::Steer { from, text } => Some(render::steer_notice(lang, *from, text)),
            InboxItem::Announcement(_) | InboxItem::Reply { .. } => None,
            InboxItem::Question {
                request,
                child,
                label,
                question,
            } => {
                let asker = render::Asker {
                    child: *child,
                    label,
                };
                Some(render::question_notice(lang, asker, request, question))
            }
        }
    }

    fn answer_blocking_call(&mut self, item: &InboxItem) -> bool {
        let Some((call, announcement)) = render::answered_call(item) else {
            return false;
        };
        if self.reported_to_fan_out(announcement) {
            return true;
        }
        let lang = self.spec.lang;
        let Phase::RunningCalls(batch) = &mut self.phase else {
            return false;
        };
        let Some(open) = batch.get_mut(call) else {
            return false;
        };
        if let CallStatus::Answered(_) = open.status {
            return false;
        }
        open.status = CallStatus::Answered(render::blocking_result(
            lang,
            call.clone(),
            open.call.provider_id.clone(),
            announcement,
        ));
        self.tool_calls += 1;
        self.close_batch_if_answered();
        true
    }

    pub(super) fn answer_finished_waits(&mut self) {
        let done = text(self.spec.lang, "manage-wait-done", &[]);
        let Phase::RunningCalls(batch) = &mut self.phase else {
            return;
        };
        let children = &self.children;
        let over = batch.finished_waits(|child| children.contains_key(child));
        for call in &over {
            if let Some(open) = batch.get_mut(&call.id) {
                open.status =
                    CallStatus::Answered(ToolResult::not_run(call, ResultStatus::Ok, done.clone()));
                self.tool_calls += 1;
            }
        }
        self.close_batch_if_answered();
    }

    pub(super) fn push_notice(&mut self, notice: String) {
        match self.phase {
            Phase::RunningCalls(_) => self.pending_notices.push(PendingNotice::Text(notice)),
            Phase::AwaitingModel | Phase::Checking(_) | Phase::Concluding(_) | Phase::Ended(_) => {
                self.push(Message::Notice { text: notice });
            }
            Phase::AwaitingChildren => {
                self.push(Message::Notice { text: notice });
                self.phase = Phase::AwaitingModel;
            }
        }
    }

    /// Lets a run that has given its final answer reply to a message that arrived meanwhile. Not if
    /// its worktree was collected: the run cannot work there any more.
    fn answer_before_ending(&mut self) {
        let has_answer = matches!(
            self.phase,
            Phase::Concluding(Outcome::Completed { .. }) | Phase::Checking(_)
        );
        if has_answer
            && self.collected.is_none()
            && self.continuations < self.spec.limits.max_iterations
        {
            self.continuations += 1;
            self.call_model_again();
        }
    }

    /// Calls the model once more, and keeps a result that exists.
    pub(super) fn call_model_again(&mut self) {
        let before = std::mem::replace(&mut self.phase, Phase::AwaitingModel);
        match before {
            Phase::Concluding(result @ Outcome::Completed { .. }) => self.result = Some(result),
            Phase::Checking(text) => self.result = Some(super::unchecked(text)),
            Phase::Concluding(_)
            | Phase::Ended(_)
            | Phase::AwaitingModel
            | Phase::RunningCalls(_)
            | Phase::AwaitingChildren => {}
        }
    }
}

/// Returns whether another announcement may join a notice.
fn has_room(notice: &Message, group: &[Announcement]) -> bool {
    let bytes = match notice {
        Message::Notice { text } => text.len(),
        Message::User { .. } | Message::Assistant { .. } | Message::Tools { .. } => 0,
    };
    group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES
}
