//! Hooks: of the configuration and of trusted agent files.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sortie_config::{HookConfig, Secret};
use sortie_core::hook::{Hook, HookEvent, HookKind, MAX_HOOKS};
use sortie_definitions::{AgentFiles, translate_rule};
use sortie_hooks::{Action, HookHost, Signer, Webhook};

use crate::Options;
use crate::options::read_password;

const COMMAND_SECONDS: u64 = 60;
const WEBHOOK_SECONDS: u64 = 15;
const MAX_ATTEMPTS: u32 = 12;
/// The longest time limit of a hook of an agent file, in seconds.
const MAX_SECONDS: u64 = 600;

/// The hooks for the runtime, the host that runs them, and why others are left out.
#[derive(Debug, Default)]
pub(crate) struct FoundHooks {
    pub(crate) hooks: Vec<Hook>,
    pub(crate) host: HookHost,
    pub(crate) problems: Vec<String>,
}

/// Reads all hooks.
pub(crate) fn find(options: &Options, agents: &AgentFiles, tools: &[String]) -> FoundHooks {
    let helper = options.helper.as_ref();
    let supervisor = helper.map(|helper| sortie_sandbox::supervisor(helper.path()));
    let environment = options.environment.for_commands();
    let mut found = FoundHooks {
        host: HookHost::new(environment, supervisor.unwrap_or_default()),
        ..FoundHooks::default()
    };
    for (name, config) in &options.config.hooks {
        if config.disabled {
            continue;
        }
        match configured(options, name, config, tools) {
            Ok((hook, action)) => found.add(hook, action),
            Err(why) => found.problems.push(format!("hook {name}: {why}")),
        }
    }
    for agent in agents.agents.iter().filter(|agent| agent.trusted) {
        let Some(hooks) = &agent.hooks else {
            continue;
        };
        let name = &agent.definition.name;
        let (of_agent, problems) = claude_hooks(hooks, &format!("agent.{name}"), tools);
        let file = agent.file.display();
        let problems = problems.into_iter();
        found
            .problems
            .extend(problems.map(|why| format!("{file}: hooks: {why}")));
        for (mut hook, action) in of_agent {
            hook.agents = vec![name.clone()];
            found.add(hook, action);
        }
    }
    found
}

impl FoundHooks {
    fn add(&mut self, hook: Hook, action: Action) {
        if self.hooks.len() >= MAX_HOOKS {
            let name = hook.name;
            let why = format!("hook {name}: there are more than {MAX_HOOKS} hooks");
            return self.problems.push(why);
        }
        self.host.add(hook.name.clone(), action);
        self.hooks.push(hook);
    }
}

/// Converts a configured hook.
fn configured(
    options: &Options,
    name: &str,
    config: &HookConfig,
    tools: &[String],
) -> Result<(Hook, Action), String> {
    let mut events = Vec::new();
    for word in &config.events {
        let event = word.parse().ok().or_else(|| HookEvent::of_claude(word));
        events.push(event.ok_or_else(|| {
            let known: Vec<_> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
            format!("{word:?} is no event; use {}", known.join(", "))
        })?);
    }
    if events.is_empty() {
        return Err("`events` is empty: name at least one".to_owned());
    }
    let seconds = |default| Duration::from_secs(config.timeout_seconds.unwrap_or(default));
    let (kind, timeout, target, action) = match (&config.command, &config.url) {
        (Some(command), None) => {
            let timeout = seconds(COMMAND_SECONDS);
            (
                HookKind::Command,
                timeout,
                command.clone(),
                Action::Command(command.clone()),
            )
        }
        (None, Some(url)) => {
            if events.contains(&HookEvent::Stop) {
                return Err("a webhook decides nothing: use `finish` instead of `stop`".to_owned());
            }
            let timeout = seconds(WEBHOOK_SECONDS);
            let secret = secret(options, config)?;
            let signer = Signer::parse(&secret).map_err(|error| error.to_string())?;
            let webhook = Webhook::new(url, signer, timeout).map_err(|error| error.to_string())?;
            let target = url.split(['?', '#']).next().unwrap_or_default().to_owned();
            let action = Action::Webhook(Box::new(webhook));
            (HookKind::Webhook, timeout, target, action)
        }
        (Some(_), Some(_)) => {
            return Err("it has both `command` and `url`: remove one of them".to_owned());
        }
        (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
    };
    let own_name = |tool: &String| translate_rule(tool, tools).unwrap_or_else(|| tool.clone());
    let hook = Hook {
        name: name.to_owned(),
        kind,
        events,
        agents: config.agents.clone(),
        tools: config.tools.iter().map(own_name).collect(),
        timeout,
        max_attempts: config.max_attempts.unwrap_or(MAX_ATTEMPTS),
        required: config.required,
        claude_names: false,
        target,
    };
    Ok((hook, action))
}

/// Returns the secret of a webhook from its variable or its file.
fn secret(options: &Options, config: &HookConfig) -> Result<Secret, String> {
    if let Some(name) = &config.secret_env {
        let value = options.environment.text(name);
        let value = value.ok_or_else(|| format!("the environment variable {name} is not set"))?;
        return Ok(Secret::trimmed(value));
    }
    let Some(file) = &config.secret_file else {
        return Err("a webhook needs `secret_env` or `secret_file`".to_owned());
    };
    let path: PathBuf = options.workspace.join(file);
    Ok(Secret::trimmed(&read_password(&path)?))
}

/// Returns the secrets of all webhooks, for the redactor.
pub(crate) fn secrets(options: &Options) -> Vec<String> {
    let webhooks = options
        .config
        .hooks
        .values()
        .filter(|hook| hook.url.is_some());
    webhooks
        .filter_map(|hook| secret(options, hook).ok())
        .map(|secret| secret.expose().to_owned())
        .collect()
}

/// Reads hooks in the form of Claude Code: lists of matchers by event, each with its commands.
fn claude_hooks(
    hooks: &Value,
    prefix: &str,
    tools: &[String],
) -> (Vec<(Hook, Action)>, Vec<String>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let Value::Object(events) = hooks else {
        let why = "it must have events such as `PreToolUse`".to_owned();
        return (found, vec![why]);
    };
    for (name, matchers) in events {
        let Some(event) = HookEvent::of_claude(name) else {
            problems.push(format!("the event {name} does not exist here"));
            continue;
        };
        for matcher in matchers.as_array().into_iter().flatten() {
            let Some(commands) = matcher["hooks"].as_array() else {
                problems.push(format!("an entry of {name} has no list `hooks`"));
                continue;
            };
            let tools = match matched_tools(matcher["matcher"].as_str(), tools) {
                Ok(tools) => tools,
                Err(why) => {
                    problems.push(why);
                    Vec::new()
                }
            };
            for one in commands {
                let is_command = one["type"].as_str().is_none_or(|kind| kind == "command");
                let Some(command) = one["command"].as_str().filter(|_| is_command) else {
                    problems.push(format!("a hook of {name} is no command"));
                    continue;
                };
                let seconds = one["timeout"].as_u64().unwrap_or(COMMAND_SECONDS);
                let hook = Hook {
                    name: format!("{prefix}.{}.{}", event.as_str(), found.len() + 1),
                    kind: HookKind::Command,
                    events: vec![event],
                    agents: Vec::new(),
                    tools: tools.clone(),
                    timeout: Duration::from_secs(seconds.clamp(1, MAX_SECONDS)),
                    max_attempts: MAX_ATTEMPTS,
                    required: false,
                    claude_names: true,
                    target: command.to_owned(),
                };
                found.push((hook, Action::Command(command.to_owned())));
            }
        }
    }
    (found, problems)
}

/// Returns the tools of a matcher such as `Edit|Write` or `mcp__.*`; none means all. A matcher that
/// cannot be translated matches all tools: a guard that runs too often is safer than one that does not.
fn matched_tools(matcher: Option<&str>, tools: &[String]) -> Result<Vec<String>, String> {
    let Some(matcher) = matcher.filter(|matcher| !matches!(*matcher, "" | "*" | ".*")) else {
        return Ok(Vec::new());
    };
    let mut matched = Vec::new();
    for one in matcher
        .trim_start_matches('^')
        .trim_end_matches('$')
        .split('|')
    {
        let one = one.replace(".*", "*");
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '*');
        let own = translate_rule(&one, tools).unwrap_or_else(|| one.clone());
        if one.is_empty() || !one.chars().all(is_plain) {
            return Err(format!(
                "the matcher {matcher:?} is not understood and matches every tool"
            ));
        }
        // One word of Claude Code for two tools of ours.
        if one == "Task" || one == "Agent" {
            matched.push("spawn_subagent".to_owned());
        }
        matched.push(own);
    }
    Ok(matched)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<String> {
        ["exec", "edit_file", "write_file", "task"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn hooks_of_claude_code_become_commands_with_our_tool_names() {
        let hooks = json!({
            "PreToolUse": [{"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "guard", "timeout": 5}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "check"}, {"type": "prompt", "prompt": "x"}]}],
            "Future": [],
        });
        let (found, problems) = claude_hooks(&hooks, "agent.code", &tools());
        let hooks: Vec<_> = found.into_iter().map(|(hook, _)| hook).collect();
        assert_eq!(hooks.len(), 2);
        assert_eq!(hooks[0].name, "agent.code.tool_before.1");
        assert_eq!(hooks[0].tools, ["exec", "edit_file"]);
        assert_eq!(hooks[0].timeout, Duration::from_secs(5));
        assert_eq!(hooks[1].events, [HookEvent::Stop]);
        assert!(hooks.iter().all(|hook| hook.claude_names));
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn a_matcher_that_is_not_understood_matches_every_tool() {
        let matched = |matcher| matched_tools(Some(matcher), &tools());
        assert_eq!(matched(".*"), Ok(Vec::new()));
        assert_eq!(matched("mcp__.*"), Ok(vec!["mcp__*".to_owned()]));
        assert_eq!(matched("^Write$"), Ok(vec!["write_file".to_owned()]));
        assert!(matched("(Edit").is_err());
    }
}
