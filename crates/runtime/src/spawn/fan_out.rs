//! Fan-outs: starts the children that are next, or cancels the rest.

use futures::future::join_all;
use sortie_agent::{Attempt, FanOut, FanOutStep};
use sortie_core::event::ChildWait;
use sortie_core::fan_out::{
    FanOutMember, FanOutPlan, FanOutRequest, MAX_FAN_OUT_CONCURRENCY, MemberStart,
};
use sortie_core::ports::store::StoreError;
use sortie_core::ports::tool::{ToolFailure, ToolOutcome, ToolReply};
use sortie_core::run::{Cancellation, CancelledBy, EdgeMode, SpawnRequest};

use super::RunSpawner;

/// The part of a template that an item replaces.
const ITEM: &str = "{item}";

impl RunSpawner<'_> {
    /// Does what is next of a fan-out. What was started is a fact of the store before the event that
    /// names it: each attempt has its own idempotency key, so a repeated call finds the same children.
    pub(super) async fn continue_fan_out(&self, request: FanOutRequest) -> ToolReply {
        let new = FanOut::default();
        let fan_out = self.fan_out.unwrap_or(&new);
        let plan = fan_out.plan().unwrap_or_else(|| self.plan_of(&request));
        let FanOutStep { start, cancel } = fan_out.next(plan);
        for run in &cancel {
            let cancellation = Cancellation {
                by: CancelledBy::Parent,
                reason: "another item of the same fan-out failed".to_owned(),
            };
            match self.engine.cancel(*run, cancellation).await {
                Ok(_) | Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(ToolFailure::new(error.to_string())),
            }
        }
        let mut starting = Vec::with_capacity(start.len());
        for attempt in start {
            starting.push(self.start_item(&request, attempt));
        }
        // In the order of the items, also in the queue: each is admitted before it first waits.
        let members = join_all(starting).await;
        let refusals: Vec<&str> = members.iter().filter_map(refusal).collect();
        if let Some(first) = refusals.first()
            && fan_out.is_new()
            && refusals.len() == members.len()
        {
            // Nothing has started: the call itself has failed.
            return Err(ToolFailure::new(*first));
        }
        Ok(ToolOutcome::Waits(ChildWait::FanOut {
            plan,
            members,
            stopped: !cancel.is_empty(),
        }))
    }

    fn plan_of(&self, request: &FanOutRequest) -> FanOutPlan {
        let default = self.engine.settings().lanes.per_parent;
        FanOutPlan {
            items: u32::try_from(request.items.len()).unwrap_or(u32::MAX),
            concurrency: request
                .concurrency
                .unwrap_or(default)
                .clamp(1, MAX_FAN_OUT_CONCURRENCY),
            on_failure: request.on_failure,
        }
    }

    async fn start_item(&self, request: &FanOutRequest, (item, attempt): Attempt) -> FanOutMember {
        let index = usize::try_from(item).unwrap_or(usize::MAX);
        let text = request.items.get(index).map_or("", String::as_str);
        let child = SpawnRequest {
            label: Some(text.to_owned()),
            agent: request.agent.clone(),
            ..SpawnRequest::new(request.template.replace(ITEM, text), EdgeMode::Blocking)
        };
        let call = self.call.of_item(item, attempt);
        FanOutMember {
            item,
            attempt,
            started: match self.spawn_under(&call, child).await {
                Ok(spawned) => MemberStart::Child(spawned.child),
                Err(refused) => MemberStart::Refused(refused.to_string()),
            },
        }
    }
}

fn refusal(member: &FanOutMember) -> Option<&str> {
    match &member.started {
        MemberStart::Refused(why) => Some(why),
        MemberStart::Child(_) => None,
    }
}
