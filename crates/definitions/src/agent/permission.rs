//! The permission mode of an agent file: Claude's `permissionMode`, qwen's `approvalMode`,
//! opencode's `permission`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sortie_core::agent::ToolSelection;
use sortie_core::policy::Mode;

use super::Known;
use super::tools::{resolve, restricting, rule_tool};
use crate::Severity;
use crate::fields::{Fields, scalar, shown};
use sortie_base::wildcard::matches;

/// Names of modes, in lower case and without hyphens or underscores.
const MODES: &[(&str, Mode)] = &[
    ("plan", Mode::Plan),
    ("dontask", Mode::DontAsk),
    ("default", Mode::Default),
    ("manual", Mode::Default),
    ("ask", Mode::Default),
    // Claude's `auto` lets a model decide what is safe. Here an approver decides.
    ("auto", Mode::Default),
    ("acceptedits", Mode::AcceptEdits),
    ("autoedit", Mode::AcceptEdits),
    ("bypasspermissions", Mode::Yolo),
    ("yolo", Mode::Yolo),
];

/// Reads the mode. An unknown name may mean a stricter mode, so the file is refused.
pub(super) fn mode(fields: &mut Fields) -> Option<Mode> {
    let field = fields.take(&["permissionMode", "approvalMode"])?;
    let word = scalar(&field.value).unwrap_or_default().to_lowercase();
    let word: String = word.chars().filter(|c| !matches!(c, '-' | '_')).collect();
    let known = MODES.iter().find(|(name, _)| *name == word);
    if known.is_none() {
        let text = format!(
            "`{}` cannot be {}; say plan, dont-ask, default, accept-edits or yolo",
            field.key,
            shown(&field.value)
        );
        fields.problem(Severity::Refusal, &field.key, text);
    }
    known.map(|(_, mode)| *mode)
}

/// Reads opencode's permissions: denied tools are added to the selection, tools that ask are returned.
/// `allow` would skip approval, which no file can grant.
pub(super) fn permission(
    fields: &mut Fields,
    known: &Known<'_>,
    selection: &mut ToolSelection,
) -> Vec<String> {
    let mut ask = Vec::new();
    let Some(field) = fields.take(&["permission"]) else {
        return ask;
    };
    let rules = match field.value {
        Value::Object(rules) => rules,
        // One value for every tool.
        Value::String(word) => Map::from_iter([("*".to_owned(), Value::String(word))]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            let text = "`permission` must say `allow`, `ask` or `deny` for each tool";
            fields.problem(Severity::Refusal, "permission", text);
            return ask;
        }
    };
    // Sorted by name, because a JSON object has no order.
    let mut rules: BTreeMap<String, Value> = rules.into_iter().collect();
    if rules.get("*").is_some_and(|rest| rest == "deny") {
        rules.remove("*");
        only(fields, &rules, known, selection);
    }
    for (name, action) in &rules {
        let about = subjects(name, known);
        if about.is_empty() {
            let text = format!("there is no tool {} here", shown(&name.as_str().into()));
            fields.problem(Severity::Note, "permission", text);
        }
        for tool in about {
            one(fields, &tool, action, known, selection, &mut ask);
        }
    }
    ask
}

/// If everything is denied but named tools, these form an allow list.
fn only(
    fields: &mut Fields,
    rules: &BTreeMap<String, Value>,
    known: &Known<'_>,
    selection: &mut ToolSelection,
) {
    let named: Vec<String> = rules
        .iter()
        .filter(|(_, action)| *action != "deny")
        .flat_map(|(name, _)| subjects(name, known))
        .collect();
    let allow = match selection.allow.take() {
        Some(allow) => allow
            .into_iter()
            .filter(|rule| named.iter().any(|name| matches(name, rule_tool(rule))))
            .collect(),
        None => named,
    };
    if allow.is_empty() {
        let text = "`permission` denies every tool, so the agent would have none";
        fields.problem(Severity::Refusal, "permission", text);
    }
    selection.allow = Some(allow);
}

/// Returns the tools of a permission key: opencode's `edit` covers every change of a file.
fn subjects(name: &str, known: &Known<'_>) -> Vec<String> {
    match name {
        "*" => vec![name.to_owned()],
        "edit" => ["edit_file", "write_file"].map(str::to_owned).to_vec(),
        _ => resolve(name, known).into_iter().collect(),
    }
}

fn one(
    fields: &mut Fields,
    tool: &str,
    action: &Value,
    known: &Known<'_>,
    selection: &mut ToolSelection,
    ask: &mut Vec<String>,
) {
    let Value::Object(globs) = action else {
        return apply(fields, vec![tool.to_owned()], action, selection, ask);
    };
    // Deny takes precedence in any order here, so a tool that is denied except for some calls is denied.
    let denied_but = globs.get("*").is_some_and(|rest| rest == "deny") && globs.len() > 1;
    if denied_but {
        let text = format!("`{tool}` is denied except for some calls; here it is denied for all");
        fields.problem(Severity::Warning, "permission", text);
    }
    let globs: BTreeMap<&String, &Value> = globs.iter().collect();
    for (glob, action) in globs {
        let rules = match glob.as_str() {
            "*" => vec![tool.to_owned()],
            _ if action == "allow" => vec![format!("{tool}({glob})")],
            _ => restricting(fields, "permission", &format!("{tool}({glob})"), known),
        };
        apply(fields, rules, action, selection, ask);
    }
}

fn apply(
    fields: &mut Fields,
    rules: Vec<String>,
    action: &Value,
    selection: &mut ToolSelection,
    ask: &mut Vec<String>,
) {
    match action.as_str() {
        Some("deny") => selection.deny.extend(rules),
        Some("ask") => ask.extend(rules),
        Some("allow") => {
            let text = format!(
                "`{}: allow` approves nothing here: the mode and policy decide",
                rules.join(", ")
            );
            fields.problem(Severity::Note, "permission", text);
        }
        Some(_) | None => {
            let text = format!(
                "`{}` cannot be {}; it is denied",
                rules.join(", "),
                shown(action)
            );
            fields.problem(Severity::Warning, "permission", text);
            selection.deny.extend(rules);
        }
    }
}
