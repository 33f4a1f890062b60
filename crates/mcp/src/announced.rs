//! Checks announcements before a model sees them: limited in number and size, with valid
//! schemas and unambiguous names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sortie_base::hidden::{is_hidden, remove};
use sortie_core::ports::tool::ToolSpec;
use sortie_core::schema::SchemaBounds;

use crate::clean::clean_first;
use crate::fingerprint::announcement;
use crate::name::tool_name;
use crate::{Fingerprint, ToolRules};

/// Limit of tools of one server: each costs every model call some hundred tokens.
const MAX_TOOLS: usize = 128;
/// Limit of a tool name.
const MAX_NAME_CHARS: usize = 128;
/// Limit of a description.
const MAX_DESCRIPTION_CHARS: usize = 2_000;
/// Limit of a schema in bytes.
const MAX_SCHEMA_BYTES: usize = 32 * 1024;
/// Limit of the depth of a schema.
const MAX_SCHEMA_DEPTH: usize = 32;
/// Limit of the text of all tools of one server.
const MAX_ALL_BYTES: usize = 512 * 1024;
/// Limit of omitted tools that are listed by name.
const MAX_LEFT_OUT: usize = 64;

/// A tool that may be offered.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    /// Its server's name for it.
    pub(crate) name: String,
    /// The specification for the model.
    pub(crate) spec: ToolSpec,
    /// Fingerprint of the announcement.
    pub(crate) fingerprint: Fingerprint,
    /// The announcement itself, for people.
    pub(crate) text: String,
}

/// A tool that is not offered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its server's name for it, cut to a bound.
    pub tool: String,
    /// The reason, as a sentence part: `its schema is too deep`.
    pub reason: String,
}

/// The result of checking an announcement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<Announced>,
    pub(crate) left_out: Vec<LeftOut>,
}

impl Listing {
    /// Adds a tool that is not offered.
    pub(crate) fn leave_out(&mut self, tool: &str, reason: impl Into<String>) {
        if self.left_out.len() < MAX_LEFT_OUT {
            self.left_out.push(LeftOut {
                tool: clean_first(tool, MAX_NAME_CHARS),
                reason: reason.into(),
            });
        }
    }
}

/// Checks what a server announced.
pub(crate) fn check(server: &str, rules: &ToolRules, tools: &[rmcp::model::Tool]) -> Listing {
    let mut listing = Listing::default();
    let mut names = BTreeSet::new();
    let mut bytes = 0;
    for tool in tools.iter().filter(|tool| rules.permits(&tool.name)) {
        if !names.insert(tool.name.as_ref()) {
            listing.leave_out(
                &tool.name,
                "the server lists it twice; the first one is used",
            );
            continue;
        }
        match check_tool(server, tool, bytes, listing.tools.len()) {
            Ok((announced, size)) => {
                bytes += size;
                listing.tools.push(announced);
            }
            Err(reason) => listing.leave_out(&tool.name, reason),
        }
    }
    refuse_collisions(&mut listing);
    // A misspelled rule denies nothing; only this report shows it.
    for pattern in rules.without_tool(tools.iter().map(|tool| tool.name.as_ref())) {
        listing.leave_out(
            pattern,
            "this rule of `tools` matches no tool of the server: check its spelling",
        );
    }
    listing
}

fn check_tool(
    server: &str,
    tool: &rmcp::model::Tool,
    bytes: usize,
    count: usize,
) -> Result<(Announced, usize), String> {
    if count >= MAX_TOOLS {
        return Err(format!(
            "a server may offer at most {MAX_TOOLS} tools: select some with `tools.allow`"
        ));
    }
    if tool.name.is_empty() || tool.name.chars().count() > MAX_NAME_CHARS {
        return Err(format!(
            "the name must have 1 to {MAX_NAME_CHARS} characters"
        ));
    }
    let parameters = check_schema(&tool.input_schema)?;
    let description = clean_first(
        tool.description.as_deref().unwrap_or_default(),
        MAX_DESCRIPTION_CHARS,
    );
    let size = parameters.to_string().len() + description.len();
    if bytes + size > MAX_ALL_BYTES {
        return Err(
            "the tools of the server exceed the size limit: select some with `tools.allow`"
                .to_owned(),
        );
    }
    let announced = Announced {
        name: tool.name.to_string(),
        spec: ToolSpec {
            name: tool_name(server, &tool.name),
            description,
            parameters,
        },
        fingerprint: Fingerprint::of(tool),
        text: announcement(tool),
    };
    Ok((announced, size))
}

fn check_schema(schema: &serde_json::Map<String, Value>) -> Result<Value, String> {
    let mut schema = Value::Object(schema.clone());
    // Measured first: the following checks walk the whole schema.
    if is_deeper(&schema, MAX_SCHEMA_DEPTH) {
        return Err(format!(
            "its schema is deeper than {MAX_SCHEMA_DEPTH} levels"
        ));
    }
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        return Err(format!(
            "its schema is larger than {MAX_SCHEMA_BYTES} bytes"
        ));
    }
    SchemaBounds::of(&schema).map_err(|why| format!("its schema is not usable: {why}"))?;
    if !remove_hidden(&mut schema) {
        return Err("its schema has names with hidden characters".to_owned());
    }
    match schema.get("type") {
        None => schema["type"] = Value::from("object"),
        Some(kind) if kind == "object" => {}
        Some(_) => return Err("its schema does not describe an object".to_owned()),
    }
    // Compiling also finds external references: they are not fetched.
    if !jsonschema::meta::is_valid(&schema) || jsonschema::validator_for(&schema).is_err() {
        return Err(
            "its schema is not a JSON schema, or refers to something outside of it".to_owned(),
        );
    }
    Ok(schema)
}

/// Removes hidden characters from every text of a schema: a model reads all of them. `false` if a
/// name has some: a property under another name is another property.
fn remove_hidden(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            if text.contains(is_hidden) {
                *text = remove(text);
            }
            true
        }
        Value::Array(items) => items.iter_mut().all(remove_hidden),
        Value::Object(fields) => fields
            .iter_mut()
            .all(|(name, field)| !name.contains(is_hidden) && remove_hidden(field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_deeper(value: &Value, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else {
        return true;
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, left)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Finds tools whose names differ only in characters that model vendors do not accept: a call would be
/// ambiguous, so neither is offered.
fn refuse_collisions(listing: &mut Listing) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for tool in &listing.tools {
        *counts.entry(tool.spec.name.clone()).or_default() += 1;
    }
    let (kept, refused): (Vec<_>, Vec<_>) = std::mem::take(&mut listing.tools)
        .into_iter()
        .partition(|tool| counts.get(&tool.spec.name) == Some(&1));
    listing.tools = kept;
    for tool in refused {
        let reason = format!("another tool has the same name {}", remove(&tool.spec.name));
        listing.leave_out(&tool.name, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listing(tools: Value) -> Listing {
        let tools: Vec<rmcp::model::Tool> = serde_json::from_value(tools).unwrap();
        check("srv", &ToolRules::default(), &tools)
    }

    /// The names that are offered, and those that are not with the reason.
    fn check_listing(tools: Value, expected: &[&str]) {
        let listing = listing(tools);
        let offered = listing.tools.iter().map(|tool| tool.spec.name.clone());
        let left_out = listing
            .left_out
            .iter()
            .map(|left| format!("- {}: {}", left.tool, left.reason));
        let seen: Vec<String> = offered.chain(left_out).collect();
        assert_eq!(seen.len(), expected.len(), "{seen:?}");
        for (seen, expected) in seen.iter().zip(expected) {
            assert!(seen.starts_with(expected), "{seen}\nexpected {expected}");
        }
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({ "not": inner }))
    }

    #[test]
    fn names_and_schemas() {
        check_listing(
            json!([
                { "name": "read_file", "inputSchema": { "type": "object" } },
                { "name": "no type", "inputSchema": {} },
                { "name": "text", "inputSchema": { "type": "string" } },
                { "name": "wrong", "inputSchema": { "type": "object", "properties": 3 } },
                { "name": "remote", "inputSchema": { "type": "object", "$ref": "http://127.0.0.1/x" } },
                { "name": "endless", "inputSchema": { "type": "object", "allOf": [{ "$ref": "#" }] } },
                { "name": "deep", "inputSchema": nested(40) },
                { "name": "large", "inputSchema": { "type": "object", "title": "x".repeat(40_000) } },
                { "name": "n".repeat(200), "inputSchema": {} },
                { "name": "", "inputSchema": {} },
            ]),
            &[
                "mcp__srv__read_file",
                "mcp__srv__no_type",
                "- text: its schema does not describe an object",
                "- wrong: its schema is not a JSON schema",
                "- remote: its schema is not usable: it refers to",
                "- endless: its schema is not usable: a part of it refers to itself",
                "- deep: its schema is deeper",
                "- large: its schema is larger",
                "- nnnn",
                "- : the name must have",
            ],
        );
    }

    #[test]
    fn no_hidden_character_reaches_a_model() {
        for hidden in sortie_base::hidden::all().filter(|c| !matches!(c, '\n' | '\t')) {
            let text = format!("a{hidden}b");
            let listing = listing(json!([
                { "name": "told", "description": text, "inputSchema": {
                    "type": "object",
                    "title": text,
                    "properties": { "x": { "description": text, "examples": [text] } },
                } },
                { "name": "named", "inputSchema": { "properties": { text.clone(): {} } } },
            ]));
            let [tool] = listing.tools.as_slice() else {
                panic!("{:?}", listing.left_out);
            };
            let spec = format!("{}\n{}", tool.spec.description, tool.spec.parameters);
            assert_eq!(spec.matches("ab").count(), 4, "{spec:?}");
            assert_eq!(
                listing.left_out[0].reason,
                "its schema has names with hidden characters"
            );
        }
    }

    #[test]
    fn doubles_and_collisions() {
        check_listing(
            json!([
                { "name": "a", "description": "first", "inputSchema": {} },
                { "name": "a", "description": "second", "inputSchema": {} },
                { "name": "x y", "inputSchema": {} },
                { "name": "x/y", "inputSchema": {} },
            ]),
            &[
                "mcp__srv__a",
                "- a: the server lists it twice",
                "- x y: another tool has the same name mcp__srv__x_y",
                "- x/y: another tool has the same name mcp__srv__x_y",
            ],
        );
    }

    #[test]
    fn bounds() {
        let many: Vec<Value> = (0..10_000)
            .map(|i| json!({ "name": format!("t{i}"), "inputSchema": {} }))
            .collect();
        let many = listing(Value::from(many));
        assert_eq!(
            (many.tools.len(), many.left_out.len()),
            (MAX_TOOLS, MAX_LEFT_OUT)
        );
        let long =
            listing(json!([{ "name": "a", "description": "語".repeat(5_000), "inputSchema": {} }]));
        assert_eq!(
            long.tools[0].spec.description.chars().count(),
            MAX_DESCRIPTION_CHARS + "…".chars().count()
        );
        let large: Vec<Value> = (0..100)
            .map(|i| json!({ "name": format!("t{i}"), "inputSchema": { "title": "x".repeat(30_000) } }))
            .collect();
        assert_eq!(listing(Value::from(large)).tools.len(), 17);
    }
}
