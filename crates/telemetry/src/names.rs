//! The names of attributes, in one place: OpenTelemetry's for generative AI, and our own.
//!
//! The conventions are unstable, and the crate with their names marks all of those for
//! generative AI as moved elsewhere: so they are spelled out here, and a test compares them with it.
//! When they change, this is the file that changes.

/// The kind of failure.
pub(crate) const ERROR_TYPE: &str = "error.type";
/// The name of the sending program.
pub(crate) const SERVICE_NAME: &str = "service.name";
/// The version of the sending program.
pub(crate) const SERVICE_VERSION: &str = "service.version";
/// The operation of a span: see below.
pub(crate) const OPERATION_NAME: &str = "gen_ai.operation.name";
/// The vendor of the model.
pub(crate) const PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
/// The session, as `channel:chat_id`.
pub(crate) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
/// The limit of output tokens.
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// The model that answered.
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Tokens read from the provider's cache.
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// Tokens written to the provider's cache.
pub(crate) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
/// The tool, as the model spelled it.
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
/// The kind of tool.
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The call within its run.
pub(crate) const CALL_ID: &str = "gen_ai.tool.call.id";
/// Content: the arguments of a tool call.
pub(crate) const CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// Content: the result of a tool call.
pub(crate) const CALL_RESULT: &str = "gen_ai.tool.call.result";
/// Content: the system prompt.
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";

/// `gen_ai.operation.name` of a run.
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
/// `gen_ai.operation.name` of a model call.
pub(crate) const CHAT: &str = "chat";
/// `gen_ai.operation.name` of a tool call.
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

pub(crate) const TASK_ID: &str = "sortie.task.id";
/// The id of the root run.
pub(crate) const ROOT_ID: &str = "sortie.root.id";
/// The label: content, because it may be the beginning of the task.
pub(crate) const LABEL: &str = "sortie.task.label";
pub(crate) const STATUS: &str = "sortie.task.status";
/// The reason of a failure.
pub(crate) const REASON: &str = "sortie.task.reason";
/// The depth below the root run.
pub(crate) const DEPTH: &str = "sortie.task.depth";
/// The run that it was forked from.
pub(crate) const CONTINUES: &str = "sortie.task.continues";
pub(crate) const TENANT: &str = "sortie.tenant";
/// The hash of its policy.
pub(crate) const POLICY: &str = "sortie.policy.hash";
/// The number of claims, including the first one.
pub(crate) const CLAIMS: &str = "sortie.task.claims";
/// Time in the queue before the first claim.
pub(crate) const QUEUED_MS: &str = "sortie.task.queued_ms";
/// The number of tool calls.
pub(crate) const TOOL_CALLS: &str = "sortie.task.tool_calls";
pub(crate) const COST_USD: &str = "sortie.usage.cost_usd";
/// The turn of a model call.
pub(crate) const TURN: &str = "sortie.chat.turn";
/// Time that a model call waited for the provider's rate limit.
pub(crate) const HELD_MS: &str = "sortie.chat.held_ms";
/// The status of a tool call.
pub(crate) const CALL_STATUS: &str = "sortie.tool.status";
/// The policy decision about a tool call.
pub(crate) const DECISION: &str = "sortie.policy.decision";
/// The layer of the decision.
pub(crate) const LAYER: &str = "sortie.policy.layer";
/// Execution time of the tool, without waiting times.
pub(crate) const ELAPSED_MS: &str = "sortie.tool.elapsed_ms";
/// What a call waited for: `approval`, `question` or `children`.
pub(crate) const WAITED_FOR: &str = "sortie.tool.waited_for";
/// The child that a call started.
pub(crate) const CHILD: &str = "sortie.tool.child";

/// Event: an executor claimed the run.
pub(crate) const EVENT_CLAIMED: &str = "sortie.claimed";
/// Whether the previous executor died.
pub(crate) const RECOVERED: &str = "sortie.claimed.recovered";
/// Event: the history was compacted.
pub(crate) const EVENT_COMPACTED: &str = "sortie.compacted";
/// Event: the run was paused.
pub(crate) const EVENT_PAUSED: &str = "sortie.paused";
/// Event: the run was resumed.
pub(crate) const EVENT_RESUMED: &str = "sortie.resumed";
/// Event: the budget is nearly spent.
pub(crate) const EVENT_BUDGET_LOW: &str = "sortie.budget_low";

/// Returns the name of a vendor in the semantic conventions.
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
