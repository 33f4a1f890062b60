//! Consults the hooks of the operator about calls and results.

use serde_json::Value;
use sortie_core::check::CheckStatus;
use sortie_core::event::Event;
use sortie_core::hook::{HookEvent, HookInput, NewLetter};
use sortie_core::message::{Arguments, ResultStatus, ToolCall, ToolResult};
use sortie_core::policy::{Decision, Layer, Mode, Ruling};
use sortie_text::t;

use super::{Answer, CallRecord, CheckedCall, Dispatch, Prepared, Runnable};
use crate::hooks;

impl<'a> Dispatch<'a> {
    /// Consults the hooks about a call that policy does not deny: before an approver is asked, so that
    /// no person decides a call that a hook denies anyway.
    pub(crate) async fn consult_before(self, prepared: Prepared<'a>) -> Prepared<'a> {
        let mut call = match prepared {
            Prepared::Resolved(_) => return prepared,
            Prepared::NeedsApproval(call)
            | Prepared::Run(Runnable::Concurrent(call) | Runnable::Exclusive(call)) => call,
        };
        let event = HookEvent::ToolBefore;
        let agent = &self.spec.agent.name;
        let deciding = self
            .engine
            .deciding_hooks(event, agent, Some(&call.facts.name));
        if deciding.is_empty() || call.was_started() {
            return call.settled();
        }
        let input = self.call_input(event, &call);
        let consulted = self
            .engine
            .consult_hooks(&deciding, &input, self.workspace())
            .await;
        let approved = call.ruling.approved.clone();
        let ruling = |decision, (hook, reason): (String, String)| Ruling {
            approved: approved.clone(),
            ..Ruling::new(decision, Layer::Hook, Some(hook), reason)
        };
        // A mode that denies what needs an approval denies this too.
        let denies_asking = self.spec.policy.mode == Mode::DontAsk;
        let block = consulted.block.or_else(|| {
            let asks = consulted.ask.clone();
            asks.filter(|_| denies_asking)
        });
        if let Some((hook, reason)) = block {
            let message = t!(
                self.spec.lang,
                "hook-denied",
                tool = call.call.name.as_str(),
                hook = hook.as_str(),
                reason = reason.as_str()
            );
            call.ruling = ruling(Decision::Deny, (hook, reason));
            let record = self.refused(&call, ResultStatus::Denied, &message);
            return Prepared::Resolved(Box::new(record));
        }
        if let Some(asks) = consulted.ask {
            call.ruling = ruling(Decision::Ask, asks);
        }
        call.settled()
    }

    /// Consults the hooks about a result; what they say follows it.
    pub(super) async fn consult_after(
        self,
        checked: &CheckedCall<'a>,
        mut record: CallRecord,
    ) -> CallRecord {
        let Event::ToolFinished { result, .. } = &mut record.event else {
            return record;
        };
        let event = HookEvent::ToolAfter;
        let agent = &self.spec.agent.name;
        let deciding = self
            .engine
            .deciding_hooks(event, agent, Some(&checked.facts.name));
        if deciding.is_empty() {
            return record;
        }
        let mut input = self.call_input(event, checked);
        input.tool_response = Some(hooks::response(result));
        let consulted = self
            .engine
            .consult_hooks(&deciding, &input, self.workspace())
            .await;
        for (hook, text) in consulted.context.into_iter().chain(consulted.block) {
            let added = t!(
                self.spec.lang,
                "hook-after",
                hook = hook.as_str(),
                text = text.as_str()
            );
            result.text.push_str("\n\n");
            result.text.push_str(&added);
        }
        record
    }

    /// Runs a stop hook on the final answer.
    pub(super) async fn stop_hook(self, name: &str, answer: &Answer) -> (CheckStatus, String) {
        let event = HookEvent::Stop;
        let agent = &self.spec.agent.name;
        let deciding = self.engine.deciding_hooks(event, agent, None);
        let Some(hook) = deciding.into_iter().find(|hook| hook.name == name) else {
            return (
                CheckStatus::NotRun,
                "it is not configured any more".to_owned(),
            );
        };
        let mut input = hooks::input_of(event, self.fence.run, self.spec, self.workspace());
        input.last_assistant_message = Some(sortie_core::hook::bounded(&answer.text));
        input.stop_hook_active = Some(answer.was_sent_back);
        let consulted = self
            .engine
            .consult_hooks(&[hook], &input, self.workspace())
            .await;
        match consulted.block {
            Some((_, reason)) => (CheckStatus::Failed, reason),
            None => (CheckStatus::Passed, String::new()),
        }
    }

    /// Returns the letters about the result of a call.
    pub(super) fn letters_of_result(self, call: &ToolCall, result: &ToolResult) -> Vec<NewLetter> {
        let about = (self.fence.run, self.spec, self.workspace());
        hooks::letters_of_result(self.engine, about, call, result)
    }

    fn call_input(self, event: HookEvent, checked: &CheckedCall<'a>) -> HookInput {
        let arguments = match &checked.call.arguments {
            Arguments::Json(_) => Value::clone(&checked.arguments),
            Arguments::Malformed { .. } => Value::Null,
        };
        hooks::input_of(event, self.fence.run, self.spec, self.workspace()).with_call(
            &checked.facts.name,
            &checked.call.id,
            arguments,
        )
    }
}
