//! Applies inbox messages to the state of a run.

use sortie_core::inbox::InboxItem;
use sortie_core::message::{ChildRef, Message, ResultStatus, ToolResult};
use sortie_core::run::Outcome;
use sortie_text::text;

use super::{Phase, RunState};
use crate::batch::CallStatus;
use crate::render;

impl RunState {
    pub(super) fn inbox_taken(&mut self, items: &[InboxItem]) {
        for item in items {
            match item {
                InboxItem::Announcement(_) => {
                    self.repeats.invalidate();
                    if self.is_new(item)
                        && !self.answer_blocking_call(item)
                        && let Some(notice) = self.notice_text(item)
                    {
                        self.push_notice(notice);
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
        for item in items {
            if !self.is_new(item) {
                continue;
            }
            if let Some(text) = self.notice_text(item) {
                match self.phase {
                    Phase::RunningCalls(_) => self.pending_notices.push(text),
                    Phase::AwaitingModel
                    | Phase::AwaitingChildren
                    | Phase::Concluding(_)
                    | Phase::Ended(_) => {
                        self.push(Message::Notice { text });
                    }
                }
            }
        }
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

    /// Returns how the model reads a message; a reply is the result of a call instead.
    fn notice_text(&self, item: &InboxItem) -> Option<String> {
        let lang = self.spec.lang;
        match item {
            InboxItem::Announcement(announcement) => {
                let pending: Vec<&ChildRef> = self.children.values().collect();
                Some(render::announcement_notice(lang, announcement, &pending))
            }
            InboxItem::Steer { from, text } => Some(render::steer_notice(lang, *from, text)),
            InboxItem::Reply { .. } => None,
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
            Phase::RunningCalls(_) => self.pending_notices.push(notice),
            Phase::AwaitingModel | Phase::Concluding(_) | Phase::Ended(_) => {
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
        if let Phase::Concluding(Outcome::Completed { .. }) = self.phase
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
        if let Phase::Concluding(result @ Outcome::Completed { .. }) = before {
            self.result = Some(result);
        }
    }
}
