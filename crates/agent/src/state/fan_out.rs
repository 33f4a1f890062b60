//! Applies what calls start, and what the children of fan-outs report.

use sortie_core::event::{ChildWait, JournalEntry};
use sortie_core::fan_out::{FanOutMember, FanOutPlan};
use sortie_core::id::CallId;
use sortie_core::inbox::Announcement;

use super::{IllegalEvent, Phase, RunState};
use crate::batch::CallStatus;
use crate::fan_out::FanOut;
use crate::render;

impl RunState {
    /// Records that a call waits for children.
    pub(super) fn delegated(
        &mut self,
        entry: &JournalEntry,
        call: &CallId,
        wait: &ChildWait,
    ) -> Result<(), IllegalEvent> {
        if let ChildWait::FanOut {
            plan,
            members,
            stopped,
        } = wait
        {
            return self.fanned_out(entry, call, (*plan, members, *stopped));
        }
        self.open_call(entry, call)?.status = CallStatus::Waiting(wait.clone());
        match wait {
            ChildWait::FanOut { .. } => {}
            ChildWait::Result { child } => self.expect_child(child),
            ChildWait::Finished { .. } => self.answer_finished_waits(),
        }
        Ok(())
    }

    /// Records what a fan-out has started.
    pub(super) fn fanned_out(
        &mut self,
        entry: &JournalEntry,
        call: &CallId,
        (plan, members, stopped): (FanOutPlan, &[FanOutMember], bool),
    ) -> Result<(), IllegalEvent> {
        let open = self.open_call(entry, call)?;
        let mut fan_out = match &mut open.status {
            CallStatus::FanningOut(fan_out) => std::mem::take(&mut **fan_out),
            CallStatus::Requested
            | CallStatus::Intended { .. }
            | CallStatus::Interrupted { .. }
            | CallStatus::AwaitingReply(_)
            | CallStatus::Replied { .. }
            | CallStatus::Waiting(_)
            | CallStatus::Answered(_) => FanOut::default(),
        };
        fan_out.started(plan, members, stopped);
        let running: Vec<_> = fan_out.running().cloned().collect();
        open.status = CallStatus::FanningOut(Box::new(fan_out));
        for child in &running {
            self.expect_child(child);
        }
        self.answer_fan_out(call);
        Ok(())
    }

    /// Records the result of a child of a fan-out. Returns whether it was one.
    pub(super) fn reported_to_fan_out(&mut self, announcement: &Announcement) -> bool {
        let item = announcement.call.as_ref().and_then(CallId::item);
        let (Some((call, item, attempt)), Phase::RunningCalls(batch)) = (item, &mut self.phase)
        else {
            return false;
        };
        let Some(open) = batch.get_mut(&call) else {
            return false;
        };
        match &mut open.status {
            CallStatus::Answered(_) => return false,
            CallStatus::FanningOut(fan_out) => {
                fan_out.reported((item, attempt), announcement.clone());
            }
            // The parent died before it journaled what it had started.
            CallStatus::Requested
            | CallStatus::Intended { .. }
            | CallStatus::Interrupted { .. }
            | CallStatus::AwaitingReply(_)
            | CallStatus::Replied { .. }
            | CallStatus::Waiting(_) => {
                let mut fan_out = FanOut::default();
                fan_out.reported((item, attempt), announcement.clone());
                open.status = CallStatus::FanningOut(Box::new(fan_out));
            }
        }
        self.answer_fan_out(&call);
        true
    }

    /// Answers a fan-out whose items all have a result.
    fn answer_fan_out(&mut self, call: &CallId) {
        let lang = self.spec.lang;
        let Phase::RunningCalls(batch) = &mut self.phase else {
            return;
        };
        let Some(open) = batch.get_mut(call) else {
            return;
        };
        let CallStatus::FanningOut(fan_out) = &open.status else {
            return;
        };
        if !fan_out.is_over() {
            return;
        }
        open.status = CallStatus::Answered(render::fan_out_result(lang, &open.call, fan_out));
        self.tool_calls += 1;
        self.close_batch_if_answered();
    }

    /// Returns the progress of a fan-out whose call is open.
    pub fn find_fan_out(&self, call: &CallId) -> Option<&FanOut> {
        let Phase::RunningCalls(batch) = &self.phase else {
            return None;
        };
        batch.fan_out(call)
    }
}
