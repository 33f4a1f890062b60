//! Checks what a spawn call may name: models that the operator made available, and tools that
//! exist.

use std::sync::Arc;

use sortie_base::nearest::nearest;
use sortie_base::wildcard::{fold, matches, matches_any};
use sortie_core::agent::ModelChoice;
use sortie_core::policy::Rules;
use sortie_core::ports::tool::Tool;
use sortie_core::run::{LABEL_CHARS, RunSpec, ToolNarrowing};
use sortie_core::words::Lang;
use sortie_policy::{Rule, ToolFacts};
use sortie_text::{first_chars, one_line, t};

use crate::planner::{INHERIT, MODELS_IN_FILES, Planner};
use crate::refusal::{Refusal, RefusalReason};
use crate::settings::Settings;
use crate::toolbox::facts_of;

/// Characters of the list of tools in a refusal.
const MOST_LISTED_CHARS: usize = 1_000;
/// Names in a refusal.
const MOST_LISTED: usize = 30;
/// Prefix of the names of MCP tools. A server may connect later.
const MCP: &str = "mcp__";
/// Tools of the product that are registered only if they are configured, or only for some runs. A
/// rule about one of them is valid.
const SOMETIMES: [&str; 7] = [
    "ask",
    "changes",
    "exec",
    "skill",
    "subagents",
    "web_fetch",
    "web_search",
];

impl Planner {
    /// Refuses a model that the operator did not make available: the text of a run must not open
    /// files, reach servers that are not configured, or spend at a vendor whose key happens to be
    /// set.
    pub(crate) fn check_model(&self, parent: &RunSpec, model: &str) -> Result<(), Refusal> {
        if model == INHERIT {
            return Ok(());
        }
        let own = std::iter::once(&parent.model).chain(&parent.fallbacks);
        let of_agents = self.agents.children().iter();
        let of_agents = of_agents.filter_map(|agent| match &agent.model {
            ModelChoice::Named(name) => Some(name),
            ModelChoice::Inherit | ModelChoice::Small | ModelChoice::Plan => None,
        });
        let allowed = AllowedModels::of(&self.settings, own.chain(of_agents).map(String::as_str));
        if allowed.contains(model) {
            return Ok(());
        }
        let known = match allowed.listed() {
            none if none.is_empty() => INHERIT.to_owned(),
            known => known,
        };
        Err(Refusal::new(
            RefusalReason::ModelNotAllowed,
            t!(
                parent.lang,
                "spawn-model-not-allowed",
                model = one_line(first_chars(model, LABEL_CHARS)),
                known = known
            ),
        ))
    }

    /// Refuses rules about unknown tools: a misspelled deny rule would deny nothing.
    pub(crate) fn check_tools(&self, lang: Lang, tools: &ToolNarrowing) -> Result<(), Refusal> {
        let named = tools.allow.iter().flatten().chain(&tools.deny);
        let Some(unknown) = unknown_tools(named, self.toolbox.facts())
            .into_iter()
            .next()
        else {
            return Ok(());
        };
        let known: Vec<&str> = self
            .toolbox
            .facts()
            .iter()
            .map(|tool| tool.name.as_str())
            .collect();
        let known = one_line(first_chars(&known.join(", "), MOST_LISTED_CHARS));
        let rule = one_line(first_chars(&unknown.rule, LABEL_CHARS));
        Err(Refusal::new(
            RefusalReason::UnknownTool,
            match unknown.nearest {
                Some(nearest) => t!(
                    lang,
                    "spawn-unknown-tool-near",
                    rule = rule,
                    nearest = nearest,
                    known = known
                ),
                None => t!(lang, "spawn-unknown-tool", rule = rule, known = known),
            },
        ))
    }
}

/// The models that a model, or a file of an untrusted folder, may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedModels {
    names: Vec<String>,
    patterns: Vec<String>,
}

impl AllowedModels {
    /// Collects the models that are available to runs whose own models are `own`: these, every
    /// model in the configuration, and those that match `subagents.allowed_models`. If that key is
    /// unset, all models of the same providers. A key in the environment, or a server that happens
    /// to listen on this machine, makes nothing available.
    pub fn of<'a>(settings: &Settings, own: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names: Vec<String> = own.into_iter().map(str::to_owned).collect();
        let single = [
            &settings.small_model,
            &settings.plan_model,
            &settings.child_model,
        ];
        names.extend(single.into_iter().flatten().cloned());
        names.extend(settings.every_model.fallbacks.iter().flatten().cloned());
        for (name, model) in &settings.models {
            if !name.contains('*') {
                names.push(name.clone());
            }
            names.extend(model.fallbacks.iter().flatten().cloned());
        }
        for agent in settings.agents.values() {
            names.extend(agent.model.iter().cloned());
            names.extend(agent.fallbacks.iter().flatten().cloned());
        }
        names.retain(|name| name != "inherit");
        names.sort();
        names.dedup();
        let patterns = match &settings.allowed_models {
            Some(patterns) => patterns.clone(),
            None => {
                let providers = names.iter().filter_map(|name| provider_of(name));
                let mut patterns: Vec<String> =
                    providers.map(|provider| format!("{provider}/*")).collect();
                patterns.sort();
                patterns.dedup();
                patterns
            }
        };
        Self { names, patterns }
    }

    /// Returns whether this model may be named. A file that stands in for a model is available only
    /// by its exact name.
    pub fn contains(&self, model: &str) -> bool {
        let named = self.names.iter().any(|name| name == model);
        named || (!is_file(model) && matches_any(&self.patterns, model))
    }

    /// Returns the names and patterns for a refusal, without paths of files.
    pub(crate) fn listed(&self) -> String {
        let covered = |name: &&String| matches_any(&self.patterns, name);
        let names = self
            .names
            .iter()
            .filter(|name| !is_file(name) && !covered(name));
        let mut all: Vec<&str> = self
            .patterns
            .iter()
            .chain(names)
            .map(String::as_str)
            .collect();
        let more = all.len().saturating_sub(MOST_LISTED);
        all.truncate(MOST_LISTED);
        if more > 0 {
            return format!("{} (and {more} more)", all.join(", "));
        }
        all.join(", ")
    }
}

fn is_file(model: &str) -> bool {
    let lower = fold(model);
    MODELS_IN_FILES
        .iter()
        .any(|prefix| lower.starts_with(prefix))
}

/// Returns the provider of `provider/model`.
fn provider_of(model: &str) -> Option<&str> {
    let (provider, _) = model.split_once('/').filter(|_| !is_file(model))?;
    (!provider.is_empty() && !provider.contains('*')).then_some(provider)
}

/// A rule that matches no tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTool {
    /// The rule as written.
    pub rule: String,
    /// The most similar tool name.
    pub nearest: Option<String>,
}

/// Finds the rules that match none of the tools. Rules that cannot be parsed are reported by the
/// policy compiler; rules about MCP tools may match later.
pub(crate) fn unknown_tools<'a>(
    rules: impl IntoIterator<Item = &'a String>,
    tools: &[ToolFacts],
) -> Vec<UnknownTool> {
    rules
        .into_iter()
        .filter_map(|text| {
            let rule: Rule = text.parse().ok()?;
            let name = text.split('(').next().unwrap_or(text).trim();
            let folded = fold(name);
            let open = folded.starts_with(MCP) || folded.starts_with("group:");
            // `mcp*` may also match a server that is not connected.
            let covers_mcp = name.contains('*') && matches(name, "mcp__server__tool");
            let sometimes = SOMETIMES.iter().any(|tool| matches(name, tool));
            let known = tools.iter().any(|tool| rule.is_about(tool));
            if open || covers_mcp || sometimes || known {
                return None;
            }
            let names: Vec<&str> = tools
                .iter()
                .map(|tool| tool.name.as_str())
                .chain(SOMETIMES)
                .collect();
            Some(UnknownTool {
                rule: text.clone(),
                nearest: nearest(&folded, names).map(str::to_owned),
            })
        })
        .collect()
}

/// Finds every configured rule that matches no tool, with its configuration key: such a rule has no
/// effect, which its author should know.
pub fn unknown_tools_of(
    settings: &Settings,
    tools: &[Arc<dyn Tool>],
) -> Vec<(String, UnknownTool)> {
    let tools: Vec<ToolFacts> = tools.iter().map(|tool| facts_of(tool.as_ref())).collect();
    let policy = &settings.policy;
    let mut layers = vec![
        ("policy".to_owned(), policy.rules()),
        ("policy.sandbox".to_owned(), policy.sandbox.clone()),
        ("subagents.tools".to_owned(), settings.child_tools.rules()),
    ];
    let named = |kind: &str, name: &str| format!("policy.{kind}.{name}");
    layers.extend(
        policy
            .providers
            .iter()
            .map(|(name, it)| (named("providers", name), it.clone())),
    );
    layers.extend(
        policy
            .groups
            .iter()
            .map(|(name, it)| (named("groups", name), it.clone())),
    );
    let agents = settings.agents.iter();
    layers.extend(agents.map(|(name, it)| (format!("agents.{name}.tools"), it.tools.rules())));
    let mut found = Vec::new();
    for (key, rules) in layers {
        let unknown = unknown_tools(all(&rules), &tools);
        found.extend(unknown.into_iter().map(|unknown| (key.clone(), unknown)));
    }
    found
}

fn all(rules: &Rules) -> impl Iterator<Item = &String> {
    let allow = rules.allow.iter().flatten();
    allow
        .chain(&rules.deny)
        .chain(&rules.ask)
        .chain(&rules.approve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sortie_core::config::{AgentConfig, ModelConfig};
    use sortie_core::ports::tool::Touches;

    fn settings() -> Settings {
        let mut settings = Settings {
            small_model: Some("openai/small".to_owned()),
            every_model: ModelConfig {
                fallbacks: Some(vec!["mistral/large".to_owned()]),
                ..ModelConfig::default()
            },
            ..Settings::default()
        };
        let agent = AgentConfig {
            model: Some("deepseek/chat".to_owned()),
            ..AgentConfig::default()
        };
        settings.agents.insert("code".to_owned(), agent);
        settings
    }

    fn check(allowed: Option<&[&str]>, model: &str, expected: bool) {
        let mut settings = settings();
        settings.allowed_models =
            allowed.map(|patterns| patterns.iter().map(|it| (*it).to_owned()).collect());
        let models = AllowedModels::of(&settings, ["anthropic/big", "script:/x.yaml"]);
        assert_eq!(models.contains(model), expected, "{allowed:?} {model}");
    }

    #[test]
    fn only_configured_models_can_be_named() {
        for (model, expected) in [
            ("anthropic/big", true),
            ("anthropic/other", true),
            ("openai/other", true),
            ("mistral/other", true),
            ("deepseek/other", true),
            ("script:/x.yaml", true),
            ("script:/y.yaml", false),
            ("SCRIPT:/y.yaml", false),
            // Local servers and vendors whose key happens to be set.
            ("llamacpp/x", false),
            ("ollama/x", false),
            ("vllm/x", false),
            ("lmstudio/x", false),
            ("groq/x", false),
            ("offline", false),
            ("", false),
        ] {
            check(None, model, expected);
        }
    }

    #[test]
    fn allowed_models_replace_the_default_of_providers() {
        check(Some(&[]), "anthropic/big", true);
        check(Some(&[]), "anthropic/other", false);
        check(Some(&["ollama/qwen*"]), "ollama/Qwen3", true);
        check(Some(&["ollama/qwen*"]), "ollama/other", false);
        check(Some(&["*"]), "groq/x", true);
        check(Some(&["*"]), "script:/y.yaml", false);
    }

    #[test]
    fn rules_about_unknown_tools_are_found() {
        let facts = |name: &str| ToolFacts {
            name: name.to_owned(),
            spellings: Vec::new(),
            touches: Touches::Nothing,
        };
        let tools = [facts("read_file"), facts("exec")];
        for (rule, expected) in [
            ("exec", None),
            ("EXEC", None),
            ("exec(git *)", None),
            ("*_file", None),
            ("group:fs", None),
            ("web_search", None),
            ("mcp__later__*", None),
            ("MCP__later__x", None),
            ("*", None),
            ("mcp*", None),
            ("exce", Some(Some("exec"))),
            ("read_fiel", Some(Some("read_file"))),
            ("zzzzzzzzz*", Some(None)),
        ] {
            let found = unknown_tools([&rule.to_owned()], &tools);
            let found = found.first().map(|unknown| unknown.nearest.as_deref());
            assert_eq!(found, expected, "{rule}");
        }
    }
}
