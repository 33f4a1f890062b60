//! What others say to a run, and what becomes of it.

use sortie_core::{ChildRef, InboxItem, Message, Outcome, ResultStatus, ToolResult};
use sortie_text::text;

use super::{Phase, RunState};
use crate::batch::CallStatus;
use crate::render;

impl RunState {
    pub(super) fn inbox_taken(&mut self, items: &[InboxItem]) {
        for item in items {
            match item {
                InboxItem::Announcement(_) => {
                    self.repeats.outdated();
                    if self.is_news(item)
                        && !self.answer_blocking_call(item)
                        && let Some(notice) = self.words_of(item)
                    {
                        self.push_notice(notice);
                    }
                }
                InboxItem::Reply {
                    request,
                    call,
                    reply,
                } => {
                    if let Phase::Acting(batch) = &mut self.phase {
                        batch.replied(call, request, reply);
                    }
                }
                InboxItem::Steer { .. } | InboxItem::Question { .. } => {
                    self.repeats.outdated();
                    if let Some(notice) = self.words_of(item) {
                        self.push_notice(notice);
                    }
                    self.go_on();
                }
            }
        }
        self.answer_waits_that_are_over();
    }

    /// What reached a run too late to be read is in its history for whoever goes on from there. It
    /// answers nothing and changes nothing else: the end was decided without it.
    pub(super) fn left_unread(&mut self, items: &[InboxItem]) {
        for item in items {
            if !self.is_news(item) {
                continue;
            }
            if let Some(text) = self.words_of(item) {
                match self.phase {
                    Phase::Acting(_) => self.held_notices.push(text),
                    Phase::Thinking | Phase::Resting | Phase::Concluding(_) | Phase::Ended(_) => {
                        self.push(Message::Notice { text });
                    }
                }
            }
        }
    }

    /// Whether nobody has said this before. A child reports once, and is not waited for then.
    fn is_news(&mut self, item: &InboxItem) -> bool {
        match item {
            InboxItem::Announcement(announcement) => {
                self.children.remove(&announcement.child);
                self.announced.insert(announcement.child)
            }
            InboxItem::Steer { .. } | InboxItem::Reply { .. } | InboxItem::Question { .. } => true,
        }
    }

    /// How the model reads a message; a reply is the answer of a call.
    fn words_of(&self, item: &InboxItem) -> Option<String> {
        let lang = self.spec.lang;
        match item {
            InboxItem::Announcement(announcement) => {
                let pending: Vec<&ChildRef> = self.children.values().collect();
                Some(render::announcement_notice(lang, announcement, &pending))
            }
            InboxItem::Steer { from, text: words } => {
                Some(render::steer_notice(lang, *from, words))
            }
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
        let Phase::Acting(batch) = &mut self.phase else {
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

    pub(super) fn answer_waits_that_are_over(&mut self) {
        let done = text(self.spec.lang, "manage-wait-done", &[]);
        let Phase::Acting(batch) = &mut self.phase else {
            return;
        };
        let children = &self.children;
        let over = batch.waits_that_are_over(|child| children.contains_key(child));
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
            Phase::Acting(_) => self.held_notices.push(notice),
            Phase::Thinking | Phase::Concluding(_) | Phase::Ended(_) => {
                self.push(Message::Notice { text: notice });
            }
            Phase::Resting => {
                self.push(Message::Notice { text: notice });
                self.phase = Phase::Thinking;
            }
        }
    }

    /// Whoever has said its last word while somebody spoke to it answers that too. A worktree that
    /// was collected cannot be worked in any more.
    fn go_on(&mut self) {
        if let Phase::Concluding(Outcome::Completed { .. }) = self.phase
            && self.collected.is_none()
            && self.went_on < self.spec.limits.max_iterations
        {
            self.went_on += 1;
            self.think_again();
        }
    }

    /// Asks the model once more, and keeps a result that there already is.
    pub(super) fn think_again(&mut self) {
        let before = std::mem::replace(&mut self.phase, Phase::Thinking);
        if let Phase::Concluding(result @ Outcome::Completed { .. }) = before {
            self.result = Some(result);
        }
    }
}
