//! Limits what the project file of an untrusted folder may set: only values that restrict.
//!
//! [`RULES`] lists every key. A key that is missing there needs trust, so a new key is refused by
//! default; a test fails until a rule for it is added.

use std::path::Path;

use toml::{Table, Value};

use crate::shape::{SHAPE, Shape};
use crate::{KeyPath, Restriction, Warning};

/// What the project file of an untrusted folder may do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// It may not set the key.
    NeedsTrust,
    /// It may set any value: the key exposes no secret and grants no authority.
    Free,
    /// It may name models of known vendors.
    Model,
    /// It may lower the value. If the key is unset, the value of this key is the limit; if that is
    /// unset too, no limit applies.
    Lower(Option<&'static str>),
    /// The same for a duration, where 0 means no limit.
    LowerTime(Option<&'static str>),
    /// It may set the key to false.
    SwitchOff,
    /// It may add items to the list; existing items stay.
    Add,
}

/// The rule of every key; `*` stands for a name that the user chooses.
const RULES: &[(&str, Rule)] = &[
    ("lang", Rule::Free),
    ("model", Rule::Model),
    ("small_model", Rule::Model),
    ("plan_model", Rule::Model),
    ("fallbacks", Rule::Model),
    ("thinking", Rule::Free),
    ("temperature", Rule::Free),
    ("max_tokens", Rule::Lower(None)),
    ("store", Rule::NeedsTrust),
    ("store_password_env", Rule::NeedsTrust),
    ("store_password_file", Rule::NeedsTrust),
    ("lease_seconds", Rule::NeedsTrust),
    ("main.max_iterations", Rule::Lower(None)),
    ("main.memory", Rule::SwitchOff),
    ("main.timeout_seconds", Rule::LowerTime(None)),
    ("subagents.enabled", Rule::SwitchOff),
    ("subagents.max_concurrent", Rule::Lower(None)),
    ("subagents.max_depth", Rule::Lower(None)),
    ("subagents.max_children", Rule::Lower(None)),
    // Tasks of other folders would disappear from the lists, too.
    ("subagents.archive_after_minutes", Rule::NeedsTrust),
    ("subagents.max_age_hours", Rule::NeedsTrust),
    // A deleted transcript cannot be inspected.
    ("subagents.default_cleanup", Rule::NeedsTrust),
    ("subagents.approve_spawn", Rule::NeedsTrust),
    ("subagents.allowed_agents", Rule::NeedsTrust),
    ("subagents.allowed_models", Rule::NeedsTrust),
    ("subagents.default_model", Rule::Model),
    ("subagents.max_iterations", Rule::Lower(None)),
    ("subagents.timeout_seconds", Rule::LowerTime(None)),
    ("subagents.tools.allow", Rule::NeedsTrust),
    ("subagents.tools.deny", Rule::Add),
    ("subagents.tools.inherit_tools", Rule::NeedsTrust),
    ("subagents.tools.inherit_skills", Rule::NeedsTrust),
    ("subagents.tools.allow_nested_subagents", Rule::NeedsTrust),
    ("subagents.skills.inherit", Rule::NeedsTrust),
    ("subagents.skills.extra_skill_dirs", Rule::NeedsTrust),
    ("subagents.skills.allow_skills", Rule::NeedsTrust),
    ("subagents.skills.deny_skills", Rule::NeedsTrust),
    ("subagents.budget.tokens", Rule::NeedsTrust),
    ("subagents.budget.usd", Rule::NeedsTrust),
    ("subagents.budget.tool_calls", Rule::NeedsTrust),
    ("subagents.budget.children", Rule::NeedsTrust),
    ("subagents.budget.seconds", Rule::NeedsTrust),
    ("providers.*.wire", Rule::NeedsTrust),
    ("providers.*.base_url", Rule::NeedsTrust),
    ("providers.*.api_key", Rule::NeedsTrust),
    ("providers.*.api_key_env", Rule::NeedsTrust),
    ("providers.*.headers.*", Rule::NeedsTrust),
    ("providers.*.query.*", Rule::NeedsTrust),
    ("providers.*.max_concurrent", Rule::NeedsTrust),
    ("providers.*.requests_per_minute", Rule::NeedsTrust),
    ("providers.*.tokens_per_minute", Rule::NeedsTrust),
    ("providers.*.cache_marks", Rule::NeedsTrust),
    ("providers.*.warm_cache", Rule::NeedsTrust),
    ("providers.*.streaming", Rule::NeedsTrust),
    ("providers.*.first_byte_timeout_seconds", Rule::NeedsTrust),
    ("providers.*.idle_timeout_seconds", Rule::NeedsTrust),
    ("models.*.temperature", Rule::Free),
    ("models.*.max_tokens", Rule::Lower(Some("max_tokens"))),
    ("models.*.thinking", Rule::Free),
    ("models.*.context_window", Rule::NeedsTrust),
    // Decides which text counts as a tool call.
    ("models.*.tools", Rule::NeedsTrust),
    ("models.*.fallbacks", Rule::Model),
    // A price of 0 would disable every cost budget.
    ("models.*.price.input", Rule::NeedsTrust),
    ("models.*.price.output", Rule::NeedsTrust),
    ("models.*.price.cache_read", Rule::NeedsTrust),
    ("models.*.price.cache_write", Rule::NeedsTrust),
    ("models.*.images", Rule::SwitchOff),
    ("agents.*.model", Rule::Model),
    ("agents.*.fallbacks", Rule::Model),
    ("agents.*.thinking", Rule::Free),
    ("agents.*.temperature", Rule::Free),
    // Overrides the limit of any model, so no single key bounds it.
    ("agents.*.max_tokens", Rule::NeedsTrust),
    (
        "agents.*.max_iterations",
        Rule::Lower(Some("subagents.max_iterations")),
    ),
    (
        "agents.*.timeout_seconds",
        Rule::LowerTime(Some("subagents.timeout_seconds")),
    ),
    ("agents.*.tools.allow", Rule::NeedsTrust),
    ("agents.*.tools.deny", Rule::Add),
    ("agents.*.tools.ask", Rule::Add),
    ("agents.*.tools.approve", Rule::NeedsTrust),
    ("agents.*.delegate_ceiling", Rule::NeedsTrust),
    ("agents.*.budget.tokens", Rule::NeedsTrust),
    ("agents.*.budget.usd", Rule::NeedsTrust),
    ("agents.*.budget.tool_calls", Rule::NeedsTrust),
    ("agents.*.budget.children", Rule::NeedsTrust),
    ("agents.*.budget.seconds", Rule::NeedsTrust),
    ("agents.*.mode", Rule::NeedsTrust),
    ("agents.*.isolation", Rule::NeedsTrust),
    ("agents.*.fork", Rule::NeedsTrust),
    ("agents.*.network", Rule::NeedsTrust),
    ("agents.*.skills", Rule::NeedsTrust),
    ("tenants.*.weight", Rule::NeedsTrust),
    ("tenants.*.max_running", Rule::NeedsTrust),
    ("tenants.*.max_queued", Rule::NeedsTrust),
    ("tenants.*.tokens_per_day", Rule::NeedsTrust),
    ("tenants.*.tokens_per_month", Rule::NeedsTrust),
    ("tenants.*.usd_per_day", Rule::NeedsTrust),
    ("tenants.*.usd_per_month", Rule::NeedsTrust),
    ("tenants.*.storage_mb", Rule::NeedsTrust),
    ("policy.allow", Rule::NeedsTrust),
    ("policy.deny", Rule::Add),
    ("policy.ask", Rule::Add),
    ("policy.approve", Rule::NeedsTrust),
    ("policy.allow_dangerous", Rule::NeedsTrust),
    ("policy.providers.*.allow", Rule::NeedsTrust),
    ("policy.providers.*.deny", Rule::Add),
    ("policy.providers.*.ask", Rule::Add),
    ("policy.providers.*.approve", Rule::NeedsTrust),
    ("policy.groups.*.allow", Rule::NeedsTrust),
    ("policy.groups.*.deny", Rule::Add),
    ("policy.groups.*.ask", Rule::Add),
    ("policy.groups.*.approve", Rule::NeedsTrust),
    ("policy.sandbox.allow", Rule::NeedsTrust),
    ("policy.sandbox.deny", Rule::Add),
    ("policy.sandbox.ask", Rule::Add),
    ("policy.sandbox.approve", Rule::NeedsTrust),
    ("sandbox.mode", Rule::NeedsTrust),
    ("sandbox.network", Rule::SwitchOff),
    ("approvals.mode", Rule::NeedsTrust),
    ("approvals.expiry_seconds", Rule::Lower(None)),
    ("budget.tokens", Rule::Lower(None)),
    ("budget.tool_calls", Rule::Lower(None)),
    ("budget.children", Rule::Lower(None)),
    ("budget.seconds", Rule::Lower(None)),
    ("budget.usd", Rule::NeedsTrust),
    ("web.fetch", Rule::SwitchOff),
    ("web.allow_hosts", Rule::NeedsTrust),
    ("web.search.provider", Rule::NeedsTrust),
    ("web.search.api_key", Rule::NeedsTrust),
    ("web.search.api_key_env", Rule::NeedsTrust),
    ("web.search.base_url", Rule::NeedsTrust),
    ("web.search.count", Rule::NeedsTrust),
    ("mcp_servers.*.command", Rule::NeedsTrust),
    ("mcp_servers.*.args", Rule::NeedsTrust),
    ("mcp_servers.*.env.*", Rule::NeedsTrust),
    ("mcp_servers.*.cwd", Rule::NeedsTrust),
    ("mcp_servers.*.url", Rule::NeedsTrust),
    ("mcp_servers.*.headers.*", Rule::NeedsTrust),
    ("mcp_servers.*.disabled", Rule::NeedsTrust),
    ("mcp_servers.*.timeout_seconds", Rule::NeedsTrust),
    ("mcp_servers.*.startup_timeout_seconds", Rule::NeedsTrust),
    ("mcp_servers.*.tools.allow", Rule::NeedsTrust),
    ("mcp_servers.*.tools.deny", Rule::NeedsTrust),
    // A hook runs programs outside the sandbox, and sends what agents do to other hosts.
    ("hooks.*.events", Rule::NeedsTrust),
    ("hooks.*.command", Rule::NeedsTrust),
    ("hooks.*.url", Rule::NeedsTrust),
    ("hooks.*.secret_env", Rule::NeedsTrust),
    ("hooks.*.secret_file", Rule::NeedsTrust),
    ("hooks.*.agents", Rule::NeedsTrust),
    ("hooks.*.tools", Rule::NeedsTrust),
    ("hooks.*.timeout_seconds", Rule::NeedsTrust),
    ("hooks.*.max_attempts", Rule::NeedsTrust),
    ("hooks.*.required", Rule::NeedsTrust),
    ("hooks.*.disabled", Rule::NeedsTrust),
    ("server.listen", Rule::NeedsTrust),
    ("server.hosts", Rule::NeedsTrust),
    ("server.workspaces", Rule::NeedsTrust),
    ("server.rate.per_second", Rule::NeedsTrust),
    ("server.rate.burst", Rule::NeedsTrust),
    ("server.tenants.*.workspaces", Rule::NeedsTrust),
    ("telemetry.endpoint", Rule::NeedsTrust),
    ("telemetry.headers.*", Rule::NeedsTrust),
    ("telemetry.capture_content", Rule::NeedsTrust),
    // The operator who reads the log chooses its format.
    ("log.format", Rule::NeedsTrust),
    ("terminal.theme", Rule::NeedsTrust),
];

/// Names that refer to another configured model.
const MODEL_WORDS: [&str; 3] = ["inherit", "small", "plan"];

/// The values that the file is compared with.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// The values in effect without the file, environment and flags included.
    pub(crate) own: &'a Table,
    /// The values that the file's values would replace.
    pub(crate) below: &'a Table,
}

/// Returns the part of a table that only restricts, and a warning for each key that was removed.
pub(crate) fn narrow(table: Table, bounds: Bounds<'_>, file: &Path) -> (Table, Vec<Warning>) {
    let mut narrower = Narrower {
        bounds,
        file,
        warnings: Vec::new(),
    };
    let table = narrower.table(table, &Place::top());
    (table, narrower.warnings)
}

/// A position in the file.
struct Place<'a> {
    path: KeyPath,
    pattern: Vec<&'a str>,
    shape: Option<&'static Shape>,
}

impl<'a> Place<'a> {
    fn top() -> Self {
        Self {
            path: KeyPath::root(),
            pattern: Vec::new(),
            shape: Some(&SHAPE),
        }
    }

    fn below(&self, name: &'a str) -> Self {
        let chosen = matches!(self.shape, Some(Shape::Names(_)));
        let mut pattern = self.pattern.clone();
        pattern.push(if chosen { "*" } else { name });
        Self {
            path: self.path.join(name),
            pattern,
            shape: self.shape.and_then(|shape| shape.below(name)),
        }
    }

    fn is_table(&self) -> bool {
        matches!(self.shape, Some(Shape::Table(_) | Shape::Names(_)))
    }
}

struct Narrower<'a> {
    bounds: Bounds<'a>,
    file: &'a Path,
    warnings: Vec<Warning>,
}

impl Narrower<'_> {
    fn table(&mut self, table: Table, place: &Place<'_>) -> Table {
        let mut out = Table::new();
        for (name, value) in table {
            let place = place.below(&name);
            let kept = self.kept(value, &place);
            if let Some(kept) = kept {
                out.insert(name.clone(), kept);
            }
        }
        out
    }

    fn kept(&mut self, value: Value, place: &Place<'_>) -> Option<Value> {
        if !place.is_table() {
            return self.value(value, place);
        }
        let Value::Table(inside) = value else {
            // A value where a table is expected: the type check rejects it later.
            return Some(value);
        };
        let inside = self.table(inside, place);
        // An emptied table would still define the name of a new provider.
        (!inside.is_empty()).then_some(Value::Table(inside))
    }

    fn value(&mut self, value: Value, place: &Place<'_>) -> Option<Value> {
        let decided = match rule(&place.pattern) {
            Rule::NeedsTrust => Err(Restriction::Key),
            Rule::Free => Ok(value),
            Rule::Model => plain_models(value),
            Rule::Lower(instead) => self.lowered(value, place, instead, i64::from),
            Rule::LowerTime(instead) => self.lowered(value, place, instead, zero_is_endless),
            Rule::SwitchOff => switched_off(value),
            Rule::Add => return added(value, self.bounds.below, &place.path),
        };
        decided
            .map_err(|restriction| {
                self.warnings.push(Warning::NeedsTrust {
                    file: self.file.to_owned(),
                    key: place.path.clone(),
                    restriction,
                });
            })
            .ok()
    }

    fn lowered(
        &self,
        value: Value,
        place: &Place<'_>,
        instead: Option<&str>,
        size: fn(i64) -> i64,
    ) -> Result<Value, Restriction> {
        let own = at(self.bounds.own, place.path.segments()).or_else(|| {
            let path: Vec<String> = instead?.split('.').map(str::to_owned).collect();
            at(self.bounds.own, &path)
        });
        let limit = own.and_then(Value::as_integer);
        match (value.as_integer(), limit) {
            (Some(number), Some(limit)) if size(number) > size(limit) => {
                Err(Restriction::Raises { limit })
            }
            // Not an integer: the type check rejects it later.
            (Some(_) | None, Some(_) | None) => Ok(value),
        }
    }
}

pub(crate) fn rule(pattern: &[&str]) -> Rule {
    let pattern = pattern.join(".");
    let found = RULES.iter().find(|(key, _)| *key == pattern);
    found.map_or(Rule::NeedsTrust, |(_, rule)| *rule)
}

fn zero_is_endless(seconds: i64) -> i64 {
    if seconds == 0 { i64::MAX } else { seconds }
}

fn at<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(first)?;
    if rest.is_empty() {
        return Some(value);
    }
    at(value.as_table()?, rest)
}

fn plain_models(value: Value) -> Result<Value, Restriction> {
    let plain = match &value {
        Value::String(name) => is_plain_model(name),
        Value::Array(names) => names
            .iter()
            .all(|name| name.as_str().is_none_or(is_plain_model)),
        // Not a string: the type check rejects it later.
        Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Table(_) => true,
    };
    if plain {
        Ok(value)
    } else {
        Err(Restriction::Model)
    }
}

/// Returns whether a name is `vendor/model` and cannot refer to a script, a recording or an
/// address.
fn is_plain_model(name: &str) -> bool {
    if MODEL_WORDS.contains(&name) {
        return true;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let Some((vendor, model)) = name.split_once('/') else {
        return false;
    };
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| plain(c) || matches!(c, ':' | '@'))
    };
    is_part(vendor) && vendor.chars().all(plain) && model.split('/').all(is_part)
}

fn switched_off(value: Value) -> Result<Value, Restriction> {
    match value.as_bool() {
        Some(true) => Err(Restriction::SwitchesOn),
        // Not a boolean: the type check rejects it later.
        Some(false) | None => Ok(value),
    }
}

/// Returns the existing items followed by the new ones; `None` if no item is new.
fn added(value: Value, below: &Table, path: &KeyPath) -> Option<Value> {
    let Value::Array(new) = value else {
        // Not a list: the type check rejects it later.
        return Some(value);
    };
    let old = at(below, path.segments()).and_then(Value::as_array);
    let old = old.map_or(&[][..], Vec::as_slice);
    let mut all = old.to_vec();
    for item in new {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    (all.len() > old.len()).then_some(Value::Array(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_exactly_one_rule() {
        let mut keys: Vec<String> = SHAPE.leaves().into_iter().map(|(key, _)| key).collect();
        let mut ruled: Vec<String> = RULES.iter().map(|(key, _)| (*key).to_owned()).collect();
        keys.sort();
        ruled.sort();
        assert_eq!(
            ruled, keys,
            "say in RULES what a folder that is not trusted may do with a new key"
        );
        for (key, rule) in RULES {
            if let Rule::Lower(Some(instead)) | Rule::LowerTime(Some(instead)) = rule {
                assert!(keys.contains(&(*instead).to_owned()), "{key}: {instead}");
            }
        }
    }

    #[test]
    fn whatever_moves_secrets_or_widens_needs_trust() {
        for (key, rule) in RULES {
            let closed = key.starts_with("providers.")
                || key.starts_with("server.")
                || key.starts_with("telemetry.")
                || key.starts_with("subagents.skills.")
                || key.contains("allow")
                || key.contains("price");
            if closed {
                assert_eq!(*rule, Rule::NeedsTrust, "{key}");
            }
            let limit = ["max_", "timeout"].iter().any(|word| key.contains(word));
            assert!(!limit || *rule != Rule::Free, "{key}");
        }
    }

    #[test]
    fn a_key_without_a_rule_needs_trust() {
        assert_eq!(rule(&["hooks", "start"]), Rule::NeedsTrust);
    }

    #[test]
    fn plain_models() {
        for (name, expected) in [
            ("openai/gpt-5", true),
            ("ollama/llama3:8b", true),
            ("openrouter/meta/llama-3", true),
            ("vertex/claude@20250929", true),
            ("inherit", true),
            ("script:evil.json", false),
            ("script:folder/evil.json", false),
            ("replay:tape/x", false),
            ("replay:x", false),
            ("demo", false),
            ("/etc/passwd", false),
            ("openai/", false),
            ("openai/../x", false),
            ("../x/y", false),
            ("openai//x", false),
            ("https://evil.example/x", false),
            ("openai/x?key=1", false),
            ("openai/x y", false),
            ("", false),
        ] {
            assert_eq!(is_plain_model(name), expected, "{name}");
        }
    }
}
