//! Context forks: what a new run knows of the conversation that asked for it.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sortie_agent::{
    MAX_CONTEXT_BYTES, RunState, Separator, cached_context, copied_context, with_workspace,
};
use sortie_core::agent::AgentDefinition;
use sortie_core::config::AgentConfig;
use sortie_core::id::RunId;
use sortie_core::message::{Arguments, SharedMessage, ToolCall};
use sortie_core::run::{ContextFork, ForkedContext, ForkedPrompt, Isolation, RunSpec};
use sortie_core::words::Lang;
use sortie_text::t;

use super::{INHERIT, Planner, Requester, RunRequest};
use crate::refusal::{Refusal, RefusalReason};

/// A conversation that a new run can be forked from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation<'a> {
    pub(crate) run: RunId,
    pub(crate) spec: &'a RunSpec,
    /// The folder that the run works in.
    pub(crate) workspace: &'a Path,
    pub(crate) messages: &'a [SharedMessage],
    /// The model that its next prompt goes to.
    pub(crate) model: &'a str,
}

impl<'a> Conversation<'a> {
    /// Returns the conversation of a run, without a completion whose calls are open.
    pub(crate) fn of(state: &'a RunState) -> Self {
        let spec = state.spec();
        Self {
            run: state.run(),
            spec,
            workspace: state
                .worktree()
                .map_or(&spec.workspace, |worktree| &worktree.workspace),
            messages: state.messages(),
            model: state.next_model(),
        }
    }
}

/// Returns the part of a prompt that a run took from another.
pub(crate) fn forked_prompt(spec: &RunSpec) -> Option<&ForkedPrompt> {
    spec.context.as_ref()?.prompt.as_ref()
}

/// Returns the system prompt of a run that works in this folder.
pub(crate) fn system_of(spec: &RunSpec, workspace: &Path) -> String {
    match forked_prompt(spec) {
        Some(prompt) => prompt.system.clone(),
        None => with_workspace(&spec.agent.prompt, spec.lang, workspace),
    }
}

/// Returns the tools that are described to a run.
pub(crate) fn offered_of(spec: &RunSpec) -> &[String] {
    forked_prompt(spec).map_or(&spec.tools, |prompt| &prompt.tools)
}

/// Returns the name of the group of prompts that share a cache with those of a run.
pub(crate) fn cache_key_of(spec: &RunSpec) -> String {
    match forked_prompt(spec) {
        Some(prompt) => prompt.cache_key.clone(),
        None => format!("{}/{}", spec.root, spec.agent.name),
    }
}

/// Returns the conversation whose prompt a run continues unchanged.
pub(super) fn shared_prompt<'a>(request: &RunRequest<'a>) -> Option<Conversation<'a>> {
    match request.fork {
        Some((ContextFork::Cached, conversation)) => Some(conversation),
        Some((ContextFork::Clean | ContextFork::Last(_), _)) | None => None,
    }
}

/// Returns the fork that a caller names, with its conversation.
pub(super) fn requested_fork(
    lang: Lang,
    fork: Option<ContextFork>,
    continues: Option<RunId>,
    conversation: Option<Conversation<'_>>,
) -> Result<Option<(ContextFork, Conversation<'_>)>, Refusal> {
    let Some(fork @ (ContextFork::Last(_) | ContextFork::Cached)) = fork else {
        return Ok(None);
    };
    if continues.is_some() {
        return Err(refused(t!(lang, "spawn-fork-and-resume")));
    }
    match conversation {
        Some(conversation) => Ok(Some((fork, conversation))),
        None => Err(refused(t!(lang, "spawn-fork-no-history"))),
    }
}

/// Returns the fork of a child: the caller's, else that of its agent.
pub(super) fn child_fork<'a>(
    requester: Requester<'a>,
    fork: Option<ContextFork>,
    continues: Option<RunId>,
    settings: &AgentConfig,
) -> Result<Option<(ContextFork, Conversation<'a>)>, Refusal> {
    // A resumed child and a preview have no context but their own.
    let applies = continues.is_none() && requester.conversation.is_some();
    let of_agent = settings.fork.filter(|_| applies);
    let (lang, conversation) = (requester.spec.lang, requester.conversation);
    requested_fork(lang, fork.or(of_agent), continues, conversation)
}

impl Planner {
    /// Chooses the model: that of the conversation whose prompt is continued, else as for every run.
    pub(super) fn forked_model(&self, request: &RunRequest<'_>) -> Result<String, Refusal> {
        let Some(shared) = shared_prompt(request) else {
            return Ok(self.model_for(request));
        };
        let model = request.model.as_deref();
        let other_model = model.is_some_and(|model| model != shared.model && model != INHERIT);
        let other_thinking = request.thinking.is_some() && request.thinking != shared.spec.thinking;
        if other_model || other_thinking {
            let message = t!(request.lang, "spawn-fork-model", model = shared.model);
            return Err(refused(message));
        }
        if request.isolation == Isolation::Worktree {
            return Err(refused(t!(request.lang, "spawn-fork-worktree")));
        }
        Ok(shared.model.to_owned())
    }

    /// Returns the conversation that a run starts with. `agent` has its complete prompt, and `tools`
    /// are those that it may call.
    pub(super) fn context_of(
        &self,
        request: &RunRequest<'_>,
        agent: &AgentDefinition,
        tools: &[String],
    ) -> Result<Option<Arc<ForkedContext>>, Refusal> {
        let Some((fork, conversation)) = request.fork else {
            return Ok(None);
        };
        let mut separator = Separator {
            lang: request.lang,
            agent: &agent.name,
            tools,
            instructions: None,
        };
        let (messages, prompt) = match fork {
            ContextFork::Clean => return Ok(None),
            ContextFork::Last(count) => {
                let last = usize::try_from(count).unwrap_or(usize::MAX);
                let can_call = |call: &ToolCall| self.has_tool(tools, call);
                let messages = copied_context(conversation.messages, last, can_call, &separator);
                (messages, None)
            }
            ContextFork::Cached => {
                separator.instructions = Some(&agent.prompt);
                let messages = cached_context(conversation.messages, &separator);
                let too_long = || {
                    refused(t!(
                        request.lang,
                        "spawn-fork-too-long",
                        max = MAX_CONTEXT_BYTES
                    ))
                };
                let prompt = ForkedPrompt {
                    system: system_of(conversation.spec, conversation.workspace),
                    tools: offered_of(conversation.spec).to_vec(),
                    cache_key: cache_key_of(conversation.spec),
                };
                (messages.ok_or_else(too_long)?, Some(prompt))
            }
        };
        Ok(Some(Arc::new(ForkedContext {
            fork,
            run: conversation.run,
            messages,
            prompt,
        })))
    }

    /// Returns whether a call, under any name of its tool, is one of a tool among `tools`.
    fn has_tool(&self, tools: &[String], call: &ToolCall) -> bool {
        let arguments = match &call.arguments {
            Arguments::Json(arguments) => arguments,
            Arguments::Malformed { .. } => &Value::Null,
        };
        let found = self.toolbox.find(&call.name, arguments);
        found.is_some_and(|found| tools.contains(&found.facts.name))
    }
}

fn refused(message: String) -> Refusal {
    Refusal::new(RefusalReason::InvalidFork, message)
}
