//! Builds an agent from the keys of an agent file.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use sortie_core::agent::{AgentDefinition, AgentSource};
use sortie_core::budget::{Budget, MICROS_PER_USD};
use sortie_core::id::hex;
use sortie_core::policy::Mode;
use sortie_core::run::{ContextFork, Isolation};
use sortie_text::{first_chars, one_line};

use sha2::{Digest as _, Sha256};

use super::tools::{refuse_empty, selection};
use super::{Known, LoadedAgent, McpServer, model, permission, trust};
use crate::fields::{Fields, scalar, shown, whole};
use crate::{Problem, Scope, SearchFolder, Severity, front_matter};

const MAX_NAME_CHARS: usize = 64;
/// Limit of the description that a parent reads.
const MAX_DESCRIPTION_CHARS: usize = 2_048;
/// Limit of the prompt.
const MAX_PROMPT_CHARS: usize = 100_000;
const MAX_ITERATIONS: u64 = 10_000;
/// A year, the longest time limit.
const MAX_TIMEOUT_SECONDS: u64 = 31_536_000;
const MAX_TEMPERATURE: f64 = 2.0;
const MAX_SERVERS: usize = 32;
const COLORS: [&str; 8] = [
    "red", "blue", "green", "yellow", "purple", "orange", "pink", "cyan",
];
/// Keys that other systems read and that have no meaning here.
const UNUSED: [&str; 13] = [
    "memory",
    "initialPrompt",
    "display_name",
    "top_p",
    "options",
    "override",
    "subagents",
    "metadata",
    "license",
    "version",
    "prompt",
    "whenToUse",
    "exampleUses",
];

/// The result of reading a file.
#[derive(Debug)]
pub(super) enum Reading {
    Agent(Box<LoadedAgent>),
    /// Text for people, or a disabled agent.
    Skipped(Vec<Problem>),
    /// An agent that cannot be used.
    Refused(Vec<Problem>),
}

/// Reads an agent file.
pub(super) fn read(file: &Path, text: &str, place: &SearchFolder, known: &Known<'_>) -> Reading {
    let problem = |severity, text: String, line| Problem::new(severity, file, text).at(Some(line));
    let document = match front_matter::split(text) {
        Ok(document) => document,
        Err(error) => {
            let problem = problem(Severity::Refusal, error.to_string(), error.line());
            return Reading::Refused(vec![problem]);
        }
    };
    let Some(yaml) = document.yaml else {
        let text = "it has no front matter, so it is not an agent".to_owned();
        return Reading::Skipped(vec![problem(Severity::Note, text, 1)]);
    };
    match front_matter::parse(yaml, document.yaml_line) {
        Ok(parsed) => {
            let mut fields = Fields::new(file, parsed);
            let agent = agent(&mut fields, file, document.body, place, known);
            finish(fields, agent, text)
        }
        Err(error) => {
            let problem = problem(Severity::Refusal, error.to_string(), error.line());
            Reading::Refused(vec![problem])
        }
    }
}

fn finish(mut fields: Fields, agent: Option<LoadedAgent>, text: &str) -> Reading {
    let problems = std::mem::take(&mut fields.problems);
    let refused = problems
        .iter()
        .any(|problem| problem.severity == Severity::Refusal);
    match agent {
        Some(mut agent) if !refused => {
            agent.sha256 = hex(&Sha256::digest(text.as_bytes()));
            agent.unknown = fields.unknown();
            agent.problems = problems;
            Reading::Agent(Box::new(agent))
        }
        None if !refused => Reading::Skipped(problems),
        Some(_) | None => Reading::Refused(problems),
    }
}

/// Returns the agent; `None` if there is none, or if a problem is an error.
fn agent(
    fields: &mut Fields,
    file: &Path,
    body: &str,
    place: &SearchFolder,
    known: &Known<'_>,
) -> Option<LoadedAgent> {
    if fields.restriction(&["disable", "disabled"]) {
        fields.problem(Severity::Note, "disable", "it is switched off");
        return None;
    }
    refuse_remote(fields);
    let name = name(fields, file)?;
    let when_to_use = when_to_use(fields, file)?;
    let mut tools = selection(fields, known);
    let ask = permission::permission(fields, known, &mut tools);
    refuse_empty(fields, &tools);
    let mode = permission::mode(fields);
    let read_only = fields.restriction(&["readonly"]) || mode == Some(Mode::Plan);
    let limits = limits(fields);
    let definition = AgentDefinition {
        name,
        when_to_use,
        prompt: prompt(fields, file, body),
        model: model::choice(fields, known, place.trusted),
        tools,
        read_only,
        color: color(fields),
        source: match place.scope {
            Scope::Project => AgentSource::Project,
            Scope::User | Scope::Extra => AgentSource::User,
        },
        max_iterations: limits.max_iterations,
    };
    let mut agent = LoadedAgent {
        definition,
        ask,
        mode,
        timeout: limits.timeout,
        budget: limits.budget,
        skills: fields.list(&["skills"]).unwrap_or_default(),
        mcp_servers: mcp_servers(fields),
        isolation: isolation(fields),
        fork: fork(fields),
        background: fields.flag(&["background"]),
        thinking: thinking(fields),
        temperature: fields.number(&["temperature"], MAX_TEMPERATURE),
        hooks: fields.take(&["hooks"]).map(|field| field.value),
        offered: offered(fields),
        file: file.to_owned(),
        scope: place.scope,
        trusted: place.trusted,
        sha256: String::new(),
        unknown: Vec::new(),
        problems: Vec::new(),
    };
    report_rest(fields);
    if !place.trusted {
        trust::narrow(&mut agent, fields, known);
    }
    Some(agent)
}

fn refuse_remote(fields: &mut Fields) {
    let card = fields.take(&["agent_card_url", "agent_card_json"]);
    let kind = fields.text(&["kind"]);
    if card.is_some() || kind.is_some_and(|kind| kind == "remote") {
        let text = "a remote agent cannot be defined in a file";
        fields.problem(Severity::Refusal, "kind", text);
    }
}

fn name(fields: &mut Fields, file: &Path) -> Option<String> {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let written = fields.text(&["name"]);
    let name = written
        .or_else(|| stem.map(str::to_owned))
        .unwrap_or_default();
    let in_form = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let is_name = !name.is_empty()
        && !name.starts_with('-')
        && name.chars().count() <= MAX_NAME_CHARS
        && name.chars().all(in_form);
    if is_name {
        return Some(name);
    }
    let text = format!(
        "{} is not a valid agent name: use up to {MAX_NAME_CHARS} letters, digits, `-` and `_`",
        shown(&name.into())
    );
    fields.problem(Severity::Refusal, "name", text);
    None
}

fn when_to_use(fields: &mut Fields, file: &Path) -> Option<String> {
    let when = fields.text(&["whenToUse"]);
    let text = fields.text(&["description"]).or(when).unwrap_or_default();
    // One line, so that no description can imitate another agent in a list.
    let line = one_line(&text.replace("\\n", " "));
    if line.is_empty() {
        fields.problems.push(Problem::new(
            Severity::Refusal,
            file,
            "`description` is missing: a parent needs it to choose the agent",
        ));
        return None;
    }
    if line.chars().count() > MAX_DESCRIPTION_CHARS {
        let text = format!("`description` is truncated after {MAX_DESCRIPTION_CHARS} characters");
        fields.problem(Severity::Warning, "description", text);
    }
    Some(first_chars(&line, MAX_DESCRIPTION_CHARS).to_owned())
}

fn prompt(fields: &mut Fields, file: &Path, body: &str) -> String {
    let body = body.trim().replace("\r\n", "\n");
    if body.is_empty() {
        let text = "it has no text: the prompt contains only the task";
        let problem = Problem::new(Severity::Warning, file, text);
        fields.problems.push(problem);
    }
    if body.chars().count() > MAX_PROMPT_CHARS {
        let text = format!("its text is truncated after {MAX_PROMPT_CHARS} characters");
        let problem = Problem::new(Severity::Warning, file, text);
        fields.problems.push(problem);
    }
    first_chars(&body, MAX_PROMPT_CHARS).to_owned()
}

fn color(fields: &mut Fields) -> Option<String> {
    let color = fields.text(&["color"])?.to_lowercase();
    let is_hex = color.strip_prefix('#').is_some_and(|digits| {
        matches!(digits.len(), 3 | 6) && digits.chars().all(|c| c.is_ascii_hexdigit())
    });
    if COLORS.contains(&color.as_str()) || is_hex {
        return Some(color);
    }
    let text = format!(
        "{} is not a colour; the agent has none",
        shown(&color.into())
    );
    fields.problem(Severity::Note, "color", text);
    None
}

struct Limits {
    max_iterations: Option<u32>,
    timeout: Option<Duration>,
    budget: Budget,
}

fn limits(fields: &mut Fields) -> Limits {
    let run = fields.take(&["runConfig"]).map(|field| field.value);
    let of_run = |name: &str| run.as_ref().and_then(|run| run.get(name)).and_then(whole);
    let turns = fields.whole(
        &["maxTurns", "maxIterations", "steps", "maxSteps"],
        MAX_ITERATIONS,
    );
    let turns = turns
        .or(of_run("max_turns"))
        .map(|turns| turns.min(MAX_ITERATIONS));
    let minutes = fields.whole(
        &["timeout_mins", "timeoutMinutes"],
        MAX_TIMEOUT_SECONDS / 60,
    );
    let minutes = minutes.or(of_run("max_time_minutes"));
    let seconds = fields.whole(&["timeout_seconds", "timeout"], MAX_TIMEOUT_SECONDS);
    let seconds = seconds.or(minutes.map(|minutes| minutes.saturating_mul(60)));
    let seconds = seconds.map(|seconds| seconds.min(MAX_TIMEOUT_SECONDS));
    Limits {
        max_iterations: turns.and_then(|turns| u32::try_from(turns).ok()),
        timeout: seconds.map(Duration::from_secs),
        budget: budget(fields),
    }
}

fn budget(fields: &mut Fields) -> Budget {
    let mut budget = Budget::default();
    let Some(field) = fields.take(&["budget"]) else {
        return budget;
    };
    let Value::Object(entries) = &field.value else {
        fields.wrong(&field, "limits such as `tokens` and `tool_calls`");
        return budget;
    };
    for (key, value) in entries {
        let whole = whole(value);
        let read = match key.as_str() {
            "tokens" => whole.map(|count| budget.tokens = Some(count)),
            "tool_calls" => whole.map(|count| budget.tool_calls = Some(count)),
            "children" => whole.map(|count| budget.children = Some(count)),
            "seconds" => whole.map(|count| budget.wall_ms = Some(count.saturating_mul(1000))),
            "usd" => value
                .as_f64()
                .filter(|usd| usd.is_finite() && *usd >= 0.0)
                .map(|usd| budget.usd_micros = Some((usd * MICROS_PER_USD) as u64)),
            _ => {
                let text = format!("`budget.{key}` is not known");
                fields.problem(Severity::Warning, "budget", text);
                continue;
            }
        };
        if read.is_none() {
            let text = format!("`budget.{key}` must be a number that is not negative");
            fields.problem(Severity::Refusal, "budget", text);
        }
    }
    budget
}

fn mcp_servers(fields: &mut Fields) -> Vec<McpServer> {
    let Some(field) = fields.take(&["mcpServers"]) else {
        return Vec::new();
    };
    let mut servers = Vec::new();
    match &field.value {
        Value::Object(configs) => servers.extend(configs.iter().map(inline)),
        Value::Array(items) => {
            for item in items {
                if let Value::Object(configs) = item {
                    servers.extend(configs.iter().map(inline));
                } else {
                    servers.extend(scalar(item).map(McpServer::Named));
                }
            }
        }
        Value::String(names) => servers.extend(
            names
                .split(',')
                .map(|name| McpServer::Named(name.trim().to_owned())),
        ),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => fields.wrong(&field, "a list of servers"),
    }
    if servers.len() > MAX_SERVERS {
        let text = format!("more than {MAX_SERVERS} servers; the rest is left out");
        fields.problem(Severity::Warning, &field.key, text);
        servers.truncate(MAX_SERVERS);
    }
    servers
}

fn inline((name, config): (&String, &Value)) -> McpServer {
    McpServer::Inline {
        name: name.clone(),
        config: config.clone(),
    }
}

fn isolation(fields: &mut Fields) -> Option<Isolation> {
    let field = fields.take(&["isolation"])?;
    match scalar(&field.value).as_deref() {
        Some("worktree") => Some(Isolation::Worktree),
        Some("none") => Some(Isolation::None),
        Some(_) | None => {
            // The author wanted isolation, which would be missing.
            let text = format!("`isolation` cannot be {}", shown(&field.value));
            fields.problem(Severity::Refusal, "isolation", text);
            None
        }
    }
}

/// Returns the context fork of its runs: `fork`, or neovate's `forkContext`.
fn fork(fields: &mut Fields) -> Option<ContextFork> {
    let all = fields.flag(&["forkContext"]).map(|forks| match forks {
        true => ContextFork::ALL,
        false => ContextFork::Clean,
    });
    let Some(field) = fields.take(&["fork"]) else {
        return all;
    };
    match scalar(&field.value).unwrap_or_default().parse() {
        Ok(fork) => Some(fork),
        Err(problem) => {
            fields.problem(Severity::Warning, "fork", problem);
            all
        }
    }
}

fn thinking(fields: &mut Fields) -> Option<String> {
    let word = fields.text(&["effort", "thinking", "reasoningEffort", "variant"])?;
    let in_form = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_word = !word.is_empty() && word.len() <= MAX_NAME_CHARS && word.chars().all(in_form);
    if !is_word {
        let text = format!("{} is not a thinking level", shown(&word.as_str().into()));
        fields.problem(Severity::Warning, "effort", text);
    }
    is_word.then_some(word)
}

/// Returns whether parents see the agent: not if opencode uses it for the main conversation only or hides it.
fn offered(fields: &mut Fields) -> bool {
    let hidden = fields.restriction(&["hidden"]);
    let mode = fields.text(&["mode"]);
    !hidden && mode.is_none_or(|mode| mode != "primary")
}

fn report_rest(fields: &mut Fields) {
    for key in UNUSED {
        if let Some(field) = fields.take(&[key]) {
            let text = format!("`{}` has no meaning here", field.key);
            fields.problem(Severity::Note, &field.key, text);
        }
    }
    for key in fields.unknown() {
        fields.problem(Severity::Note, &key, format!("`{key}` is not known"));
    }
}
