//! Hooks: programs and web services outside that observe runs, or decide about their calls.
//!
//! A *deciding* hook is a command at [`HookEvent::ToolBefore`], [`HookEvent::ToolAfter`] or
//! [`HookEvent::Stop`]: the run waits for it. All others *observe*: the transaction of the fact writes a
//! letter, which is delivered later, at least once.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_base::wildcard;

use crate::id::{BlobId, CallId, RunId, SessionKey};
use crate::message::Usage;
use crate::policy::Mode;
use crate::run::{Outcome, Reason, Status};
use crate::time::Timestamp;

/// The most hooks of a configuration with its agent files.
pub const MAX_HOOKS: usize = 100;
/// The most characters of a text in the input of a hook; a longer one is truncated.
pub const MAX_HOOK_TEXT_CHARS: usize = 64_000;

words! {
    /// When a hook runs.
    HookEvent {
        /// A run was admitted.
        Spawn = "spawn",
        /// A run was claimed for the first time.
        Start = "start",
        /// A model has requested a call. A command can deny the call, or require an approval.
        ToolBefore = "tool_before",
        /// A call has its result. A command can add to what the model reads.
        ToolAfter = "tool_after",
        /// A run has its final answer. A command can send it back to work.
        Stop = "stop",
        /// A run has ended, whatever its outcome.
        Finish = "finish",
        /// The result of a run was delivered to its parent or session.
        Announce = "announce",
    }
}

impl HookEvent {
    /// Returns whether a command at this event decides something, so that the run waits for it.
    pub const fn decides(self) -> bool {
        match self {
            Self::ToolBefore | Self::ToolAfter | Self::Stop => true,
            Self::Spawn | Self::Start | Self::Finish | Self::Announce => false,
        }
    }

    /// Returns whether the event is about one tool call.
    pub const fn is_about_call(self) -> bool {
        matches!(self, Self::ToolBefore | Self::ToolAfter)
    }

    /// Returns the name that Claude Code gives to the event; one of the same form if it has none.
    pub const fn claude_name(self, is_child: bool) -> &'static str {
        match (self, is_child) {
            (Self::Spawn, _) => "SubagentSpawn",
            (Self::Start, true) => "SubagentStart",
            (Self::Start, false) => "SessionStart",
            (Self::ToolBefore, _) => "PreToolUse",
            (Self::ToolAfter, _) => "PostToolUse",
            (Self::Stop, true) => "SubagentStop",
            (Self::Stop, false) => "Stop",
            (Self::Finish, _) => "SubagentFinish",
            (Self::Announce, _) => "SubagentAnnounce",
        }
    }

    /// Returns the event of a name that Claude Code uses in its hooks. The events of a main agent are
    /// those of the runs that the hooks apply to.
    pub fn of_claude(name: &str) -> Option<Self> {
        Some(match name {
            "PreToolUse" => Self::ToolBefore,
            "PostToolUse" => Self::ToolAfter,
            "Stop" | "SubagentStop" => Self::Stop,
            "SubagentStart" | "SessionStart" => Self::Start,
            "SessionEnd" => Self::Finish,
            _ => return None,
        })
    }
}

/// How a hook acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// A command of the operator, outside any sandbox.
    Command,
    /// A signed request to a web service.
    Webhook,
}

/// A hook as the runtime knows it. What it starts, and its secret, are known to the port alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Unique in the configuration; letters carry it.
    pub name: String,
    pub kind: HookKind,
    pub events: Vec<HookEvent>,
    /// Only runs of these agents; `*` matches any characters. Empty: all.
    pub agents: Vec<String>,
    /// Only calls of these tools; `*` matches any characters. Empty: all.
    pub tools: Vec<String>,
    pub timeout: Duration,
    /// Delivery attempts before a letter is dead.
    pub max_attempts: u32,
    /// Whether a call is denied if the hook fails.
    pub required: bool,
    /// Whether its input has the names of Claude Code's tools and arguments.
    pub claude_names: bool,
    /// The command or the address without its query, for people.
    pub target: String,
}

impl Hook {
    /// Returns whether the hook is a command that decides at this event about a run of this agent.
    pub fn decides(&self, event: HookEvent, agent: &str, tool: Option<&str>) -> bool {
        self.kind == HookKind::Command
            && event.decides()
            && self.events.contains(&event)
            && self.is_for_agent(agent)
            && tool.is_none_or(|tool| matches_any(&self.tools, tool))
    }

    /// Returns what the hook observes of a run of this agent; `None` if nothing.
    pub fn subscription(&self, agent: &str) -> Option<HookSubscription> {
        let observed = |event: &HookEvent| self.kind == HookKind::Webhook || !event.decides();
        let events: Vec<_> = self.events.iter().copied().filter(observed).collect();
        (!events.is_empty() && self.is_for_agent(agent)).then(|| HookSubscription {
            hook: self.name.clone(),
            events,
            tools: self.tools.clone(),
        })
    }

    fn is_for_agent(&self, agent: &str) -> bool {
        let agent = agent.to_lowercase();
        self.agents.is_empty()
            || self
                .agents
                .iter()
                .any(|pattern| wildcard::matches(&pattern.to_lowercase(), &agent))
    }
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.is_empty()
        || patterns
            .iter()
            .any(|pattern| wildcard::matches(pattern, name))
}

/// What a hook observes of one run, decided at admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSubscription {
    pub hook: String,
    pub events: Vec<HookEvent>,
    /// Only calls of these tools; empty is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

impl HookSubscription {
    /// Returns whether the hook observes this event, of a call of this tool.
    pub fn observes(&self, event: HookEvent, tool: Option<&str>) -> bool {
        self.events.contains(&event) && tool.is_none_or(|tool| matches_any(&self.tools, tool))
    }
}

/// The input of a hook: a flat JSON object with the keys of Claude Code's hooks, and further ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HookInput {
    pub hook_event_name: &'static str,
    /// The event by Sortie's name.
    pub event: &'static str,
    pub session_id: String,
    pub cwd: String,
    /// The run, and so the subagent.
    pub agent_id: String,
    pub agent_type: String,
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    pub root_id: String,
    pub label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<&'static str>,
    /// The instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Value>,
    /// Whether a stop hook has sent the run back already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_hook_active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_assistant_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The run that an input is about.
#[derive(Clone, Copy, Debug)]
pub struct HookSubject<'a> {
    pub run: RunId,
    pub parent: Option<RunId>,
    pub root: RunId,
    pub session: &'a SessionKey,
    pub agent: &'a str,
    pub label: &'a str,
    pub cwd: &'a std::path::Path,
}

impl HookInput {
    /// Returns the input about a run, without what belongs to single events.
    pub fn new(event: HookEvent, about: HookSubject<'_>) -> Self {
        Self {
            hook_event_name: event.claude_name(about.parent.is_some()),
            event: event.as_str(),
            session_id: about.session.to_string(),
            cwd: about.cwd.display().to_string(),
            agent_id: about.run.to_string(),
            agent_type: about.agent.to_owned(),
            task_id: about.run.to_string(),
            parent_id: about.parent.map(|parent| parent.to_string()),
            root_id: about.root.to_string(),
            label: about.label.to_owned(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.permission_mode = Some(match mode {
            Mode::Plan => "plan",
            Mode::DontAsk => "dontAsk",
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Yolo => "bypassPermissions",
        });
        self
    }

    /// Adds the instruction of the run.
    #[must_use]
    pub fn with_task(mut self, task: &str) -> Self {
        self.task = Some(bounded(task));
        self
    }

    /// Adds how the run ended.
    #[must_use]
    pub fn with_outcome(mut self, outcome: &Outcome) -> Self {
        self.status = Some(outcome.status());
        self.reason = outcome.reason();
        self.result = outcome.text().map(bounded);
        self.error = outcome.error().map(|error| bounded(&error));
        self
    }

    /// Adds a call.
    #[must_use]
    pub fn with_call(mut self, tool: &str, call: &CallId, arguments: Value) -> Self {
        self.tool_name = Some(tool.to_owned());
        self.tool_use_id = Some(call.as_str().to_owned());
        self.tool_input = Some(arguments);
        self
    }

    /// Returns the input with the names of Claude Code's tools and arguments.
    #[must_use]
    pub fn with_claude_names(mut self) -> Self {
        if let Some(name) = &self.tool_name {
            self.tool_name = Some(claude_tool(name).to_owned());
        }
        if let Some(Value::Object(input)) = &mut self.tool_input
            && !input.contains_key("file_path")
            && let Some(path) = input.get("path").cloned()
        {
            input.insert("file_path".to_owned(), path);
        }
        self
    }

    /// Returns the input as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Truncates a text for the input of a hook.
pub fn bounded(text: &str) -> String {
    sortie_base::truncate::truncate(text, MAX_HOOK_TEXT_CHARS)
}

/// Returns Claude Code's name of a tool.
pub fn claude_tool(name: &str) -> &str {
    match name {
        "exec" => "Bash",
        "read_file" => "Read",
        "write_file" => "Write",
        "edit_file" => "Edit",
        "list_dir" => "LS",
        "glob" => "Glob",
        "grep" => "Grep",
        "web_fetch" => "WebFetch",
        "web_search" => "WebSearch",
        "todo_write" => "TodoWrite",
        "task" | "spawn_subagent" => "Task",
        "skill" => "Skill",
        other => other,
    }
}

/// What a command answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutput {
    /// `None` if a signal ended it.
    pub exit_code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// What a deciding hook decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// It has no objection. The text is an addition for the model.
    Pass { context: Option<String> },
    /// An approver has to decide the call.
    Ask { reason: String },
    /// It denies the call, or sends the run back to work.
    Block { reason: String },
    /// It has failed, so it decided nothing.
    Failed { why: String },
}

impl HookOutput {
    /// Reads the decision: the exit code 2 blocks with the text on stderr; with the exit code 0 the
    /// JSON on stdout decides, in the form of Claude Code. It can restrict only: an approval in it has no effect.
    pub fn verdict(&self) -> HookVerdict {
        match self.exit_code {
            Some(0) => self.decision(),
            Some(2) => HookVerdict::Block {
                reason: first_text(&[&self.stderr, &self.stdout]),
            },
            Some(code) => HookVerdict::Failed {
                why: format!("exit code {code}: {}", first_text(&[&self.stderr])),
            },
            None => HookVerdict::Failed {
                why: "it was ended by a signal".to_owned(),
            },
        }
    }

    fn decision(&self) -> HookVerdict {
        let text = self.stdout.trim();
        if !text.starts_with('{') {
            return HookVerdict::Pass { context: None };
        }
        let Ok(json) = serde_json::from_str::<Value>(text) else {
            return HookVerdict::Failed {
                why: "its output begins like JSON and is not JSON".to_owned(),
            };
        };
        let of_event = &json["hookSpecificOutput"];
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let reason = || {
            word(&of_event["permissionDecisionReason"])
                .or_else(|| word(&json["reason"]))
                .or_else(|| word(&json["stopReason"]))
                .unwrap_or_default()
        };
        let stops = json["continue"] == Value::Bool(false);
        match (
            of_event["permissionDecision"].as_str(),
            json["decision"].as_str(),
        ) {
            (Some("deny"), _) | (_, Some("block" | "deny")) => {
                HookVerdict::Block { reason: reason() }
            }
            _ if stops => HookVerdict::Block { reason: reason() },
            (Some("ask"), _) | (_, Some("ask")) => HookVerdict::Ask { reason: reason() },
            _ => HookVerdict::Pass {
                context: word(&of_event["additionalContext"]),
            },
        }
    }
}

fn first_text(texts: &[&String]) -> String {
    let found = texts.iter().map(|text| text.trim());
    found
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .next()
        .unwrap_or_default()
}

/// A message for a receiver outside, written in the transaction of the fact that it reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLetter {
    /// Identifies the message: the same for every attempt, so that the receiver can detect a
    /// repetition.
    pub key: String,
    /// `hook:NAME`.
    pub receiver: String,
    /// The run that it is about.
    pub run: Option<RunId>,
    /// The event or the kind of message.
    pub kind: String,
    pub body: String,
    /// Letters of one queue are delivered in their order; one without a queue waits for none.
    pub queue: Option<String>,
}

impl NewLetter {
    /// Returns a letter for a hook. `detail` tells several events of one run apart.
    pub fn of_hook(
        hook: &str,
        event: HookEvent,
        run: RunId,
        detail: &str,
        input: &HookInput,
    ) -> Self {
        let seed = format!("{hook}\n{event}\n{run}\n{detail}");
        let digest = BlobId::of(seed.as_bytes());
        Self {
            key: format!("msg_{}", &digest.as_str()[..32]),
            receiver: hook_receiver(hook),
            run: Some(run),
            kind: event.as_str().to_owned(),
            body: input.to_json(),
            queue: None,
        }
    }
}

/// Returns the receiver of letters for a hook.
pub fn hook_receiver(hook: &str) -> String {
    format!("hook:{hook}")
}

words! {
    /// The state of a letter. Delivered and dismissed letters are removed.
    LetterState {
        /// It is due, or will be retried.
        Pending = "pending",
        /// The last attempt has failed; a person retries or dismisses it.
        Dead = "dead",
    }
}

/// A stored letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub id: i64,
    pub key: String,
    pub receiver: String,
    pub run: Option<RunId>,
    pub kind: String,
    pub body: String,
    pub state: LetterState,
    pub attempts: u32,
    /// When it was written.
    pub at: Timestamp,
    pub next_at: Timestamp,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(exit_code: i32, stdout: &str, stderr: &str) -> HookVerdict {
        HookOutput {
            exit_code: Some(exit_code),
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        }
        .verdict()
    }

    #[test]
    fn decisions_are_read_in_the_forms_of_claude_code() {
        let block = |reason: &str| HookVerdict::Block {
            reason: reason.to_owned(),
        };
        let pass = HookVerdict::Pass { context: None };
        assert_eq!(output(0, "", ""), pass);
        assert_eq!(output(0, "all good", ""), pass);
        assert_eq!(
            output(2, "", " no network here\n"),
            block("no network here")
        );
        assert_eq!(
            output(0, r#"{"decision":"block","reason":"r"}"#, ""),
            block("r")
        );
        let deny = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"d"}}"#;
        assert_eq!(output(0, deny, ""), block("d"));
        let ask =
            r#"{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"a"}}"#;
        assert_eq!(
            output(0, ask, ""),
            HookVerdict::Ask {
                reason: "a".to_owned()
            }
        );
        assert_eq!(
            output(0, r#"{"continue":false,"stopReason":"s"}"#, ""),
            block("s")
        );
        let context = r#"{"hookSpecificOutput":{"additionalContext":"formatted"}}"#;
        assert_eq!(
            output(0, context, ""),
            HookVerdict::Pass {
                context: Some("formatted".to_owned())
            }
        );
        for (code, text) in [(1, ""), (127, ""), (0, "{broken")] {
            assert!(matches!(output(code, text, ""), HookVerdict::Failed { .. }));
        }
    }

    #[test]
    fn an_approval_of_a_hook_widens_nothing() {
        for text in [
            r#"{"decision":"approve"}"#,
            r#"{"hookSpecificOutput":{"permissionDecision":"allow"}}"#,
        ] {
            assert_eq!(output(0, text, ""), HookVerdict::Pass { context: None });
        }
    }

    #[test]
    fn webhooks_observe_and_commands_decide() {
        let hook = |kind, events: &[HookEvent]| Hook {
            name: "h".to_owned(),
            kind,
            events: events.to_vec(),
            agents: vec!["Code*".to_owned()],
            tools: vec!["exec".to_owned()],
            timeout: Duration::from_secs(1),
            max_attempts: 1,
            required: false,
            claude_names: false,
            target: String::new(),
        };
        let command = hook(
            HookKind::Command,
            &[HookEvent::ToolBefore, HookEvent::Finish],
        );
        assert!(command.decides(HookEvent::ToolBefore, "coder", Some("exec")));
        assert!(!command.decides(HookEvent::ToolBefore, "coder", Some("read_file")));
        assert!(!command.decides(HookEvent::ToolBefore, "plan", Some("exec")));
        let observed = command.subscription("code").unwrap().events;
        assert_eq!(observed, [HookEvent::Finish]);
        let webhook = hook(HookKind::Webhook, &[HookEvent::ToolBefore]);
        assert!(!webhook.decides(HookEvent::ToolBefore, "code", Some("exec")));
        let subscription = webhook.subscription("code").unwrap();
        assert!(subscription.observes(HookEvent::ToolBefore, Some("exec")));
        assert!(!subscription.observes(HookEvent::ToolBefore, Some("grep")));
        assert!(webhook.subscription("plan").is_none());
    }
}
