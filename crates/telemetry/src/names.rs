//! The names of attributes, in one place: OpenTelemetry's for generative AI, and our own.
//!
//! The conventions are still being written, and the crate with their names marks all of those for
//! generative AI as moved elsewhere: so they are spelled out here, and a test compares them with it.
//! When they change, this is the file that changes.

/// Which kind of failure.
pub(crate) const ERROR_TYPE: &str = "error.type";
/// Who sends the spans.
pub(crate) const SERVICE_NAME: &str = "service.name";
/// Which version of it.
pub(crate) const SERVICE_VERSION: &str = "service.version";
/// What a span is: see below.
pub(crate) const OPERATION_NAME: &str = "gen_ai.operation.name";
/// The vendor of the model.
pub(crate) const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The agent.
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
/// The session.
pub(crate) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The model that was asked.
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
/// How freely it chooses its words.
pub(crate) const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
/// The most tokens of one answer.
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// The model that really answered.
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Why it stopped.
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Tokens sent.
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens received.
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Tokens read from the provider's cache.
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// Tokens written to the provider's cache.
pub(crate) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
/// The tool, as the model spelled it.
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
/// What kind of tool.
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The call within its run.
pub(crate) const CALL_ID: &str = "gen_ai.tool.call.id";
/// Content: what the tool was called with.
pub(crate) const CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// Content: what it answered.
pub(crate) const CALL_RESULT: &str = "gen_ai.tool.call.result";
/// Content: what the agent is told.
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// Content: the task.
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// Content: what the model said.
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";

/// `gen_ai.operation.name` of a run.
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
/// `gen_ai.operation.name` of a question to a model.
pub(crate) const CHAT: &str = "chat";
/// `gen_ai.operation.name` of a call.
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

/// The run.
pub(crate) const TASK_ID: &str = "sortie.task.id";
/// The first run of its tree.
pub(crate) const ROOT_ID: &str = "sortie.root.id";
/// What people call it: content, as it may be the beginning of the task.
pub(crate) const LABEL: &str = "sortie.task.label";
/// How it ended.
pub(crate) const STATUS: &str = "sortie.task.status";
/// Why it failed.
pub(crate) const REASON: &str = "sortie.task.reason";
/// How far below the root.
pub(crate) const DEPTH: &str = "sortie.task.depth";
/// The run whose history it goes on from.
pub(crate) const CONTINUES: &str = "sortie.task.continues";
/// Whose it is.
pub(crate) const TENANT: &str = "sortie.tenant";
/// The hash of its policy.
pub(crate) const POLICY: &str = "sortie.policy.hash";
/// How often an executor took it, the first time included.
pub(crate) const CLAIMS: &str = "sortie.task.claims";
/// How long it waited for its first slot.
pub(crate) const QUEUED_MS: &str = "sortie.task.queued_ms";
/// How many calls it made.
pub(crate) const TOOL_CALLS: &str = "sortie.task.tool_calls";
/// Money, estimated.
pub(crate) const COST_USD: &str = "sortie.usage.cost_usd";
/// Which turn of the run a question was.
pub(crate) const TURN: &str = "sortie.chat.turn";
/// How long a question waited for the provider's rate limit.
pub(crate) const HELD_MS: &str = "sortie.chat.held_ms";
/// How a call went.
pub(crate) const CALL_STATUS: &str = "sortie.tool.status";
/// What policy said about a call.
pub(crate) const DECISION: &str = "sortie.policy.decision";
/// Which layer said it.
pub(crate) const LAYER: &str = "sortie.policy.layer";
/// How long the tool itself took, without waiting for anybody.
pub(crate) const ELAPSED_MS: &str = "sortie.tool.elapsed_ms";
/// What a call waited for: `approval`, `question` or `children`.
pub(crate) const WAITED_FOR: &str = "sortie.tool.waited_for";
/// The child that a call started.
pub(crate) const CHILD: &str = "sortie.tool.child";

/// The event of an executor that takes the run.
pub(crate) const EVENT_CLAIMED: &str = "sortie.claimed";
/// Whether the one before it died.
pub(crate) const RECOVERED: &str = "sortie.claimed.recovered";
/// The event of a history that became shorter.
pub(crate) const EVENT_COMPACTED: &str = "sortie.compacted";
/// The event of somebody who wants the run to rest.
pub(crate) const EVENT_PAUSED: &str = "sortie.paused";
/// The event of somebody who lets it go on.
pub(crate) const EVENT_RESUMED: &str = "sortie.resumed";
/// The event of a budget that is nearly spent.
pub(crate) const EVENT_BUDGET_LOW: &str = "sortie.budget_low";

/// The name by which the conventions know a vendor of ours.
pub(crate) fn provider(model: &str) -> &str {
    let vendor = model.split_once('/').map_or(model, |(vendor, _)| vendor);
    match vendor {
        "openai-chat" => "openai",
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        "kimi" => "moonshot_ai",
        "azure" => "azure.ai.openai",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        deprecated,
        reason = "they moved to a repository of their own, which has no crate yet"
    )]
    fn the_names_are_those_of_the_conventions() {
        use opentelemetry_semantic_conventions::attribute as theirs;
        for (ours, theirs) in [
            (ERROR_TYPE, theirs::ERROR_TYPE),
            (SERVICE_NAME, theirs::SERVICE_NAME),
            (SERVICE_VERSION, theirs::SERVICE_VERSION),
            (OPERATION_NAME, theirs::GEN_AI_OPERATION_NAME),
            (PROVIDER_NAME, theirs::GEN_AI_PROVIDER_NAME),
            (AGENT_NAME, theirs::GEN_AI_AGENT_NAME),
            (CONVERSATION_ID, theirs::GEN_AI_CONVERSATION_ID),
            (REQUEST_MODEL, theirs::GEN_AI_REQUEST_MODEL),
            (REQUEST_TEMPERATURE, theirs::GEN_AI_REQUEST_TEMPERATURE),
            (REQUEST_MAX_TOKENS, theirs::GEN_AI_REQUEST_MAX_TOKENS),
            (RESPONSE_MODEL, theirs::GEN_AI_RESPONSE_MODEL),
            (FINISH_REASONS, theirs::GEN_AI_RESPONSE_FINISH_REASONS),
            (INPUT_TOKENS, theirs::GEN_AI_USAGE_INPUT_TOKENS),
            (OUTPUT_TOKENS, theirs::GEN_AI_USAGE_OUTPUT_TOKENS),
            (
                CACHE_READ_TOKENS,
                theirs::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
            ),
            (
                CACHE_WRITE_TOKENS,
                theirs::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS,
            ),
            (TOOL_NAME, theirs::GEN_AI_TOOL_NAME),
            (TOOL_TYPE, theirs::GEN_AI_TOOL_TYPE),
            (CALL_ID, theirs::GEN_AI_TOOL_CALL_ID),
            (CALL_ARGUMENTS, theirs::GEN_AI_TOOL_CALL_ARGUMENTS),
            (CALL_RESULT, theirs::GEN_AI_TOOL_CALL_RESULT),
            (SYSTEM_INSTRUCTIONS, theirs::GEN_AI_SYSTEM_INSTRUCTIONS),
            (INPUT_MESSAGES, theirs::GEN_AI_INPUT_MESSAGES),
            (OUTPUT_MESSAGES, theirs::GEN_AI_OUTPUT_MESSAGES),
        ] {
            assert_eq!(ours, theirs);
        }
    }
}
