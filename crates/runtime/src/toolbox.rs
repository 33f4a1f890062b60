//! The registered tools: found by any of their names, with arguments checked before a tool runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sortie_core::ports::tool::{Spelling, Tool, ToolSpec};
use sortie_core::schema::SchemaBounds;
use sortie_policy::ToolFacts;
use sortie_text::truncate_middle;

/// Characters of one argument error for the model: it may quote the whole argument.
const MAX_ERROR_CHARS: usize = 300;
/// Argument errors that the model reads at once.
const MAX_ERRORS_SHOWN: usize = 5;

pub struct Toolbox {
    entries: Vec<Entry>,
    facts: Vec<ToolFacts>,
    /// Tool lists by the names granted: siblings share one, so that ten thousand runs cost one.
    shared_specs: Mutex<BTreeMap<Vec<String>, Arc<[ToolSpec]>>>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    bounds: SchemaBounds,
    validator: jsonschema::Validator,
}

/// A tool that cannot be registered.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    /// Two tools answer to one name.
    #[error("two tools have the name {0}")]
    SameName(String),
    /// The parameters are not a JSON schema.
    #[error("the parameters of tool {tool} are not a JSON schema: {what}")]
    BadSchema {
        tool: String,
        /// The error of the schema compiler.
        what: String,
    },
}

/// A tool found by a name, with the arguments under its own parameter names.
pub(crate) struct ResolvedTool<'a> {
    pub(crate) tool: &'a Arc<dyn Tool>,
    pub(crate) facts: &'a ToolFacts,
    pub(crate) arguments: Value,
}

impl Toolbox {
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, ToolboxError> {
        let mut names = std::collections::BTreeSet::new();
        let mut entries = Vec::with_capacity(tools.len());
        let mut facts = Vec::with_capacity(tools.len());
        for tool in tools {
            let fact = facts_of(tool.as_ref());
            for name in std::iter::once(&fact.name).chain(&fact.spellings) {
                if !names.insert(name.clone()) {
                    return Err(ToolboxError::SameName(name.clone()));
                }
            }
            facts.push(fact);
            let (bounds, validator) = validator_of(tool.spec())?;
            entries.push(Entry {
                bounds,
                validator,
                tool,
            });
        }
        Ok(Self {
            entries,
            facts,
            shared_specs: Mutex::new(BTreeMap::new()),
        })
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &dyn Tool> {
        self.entries.iter().map(|entry| entry.tool.as_ref())
    }

    /// Returns what policy needs to know about each tool.
    pub(crate) fn facts(&self) -> &[ToolFacts] {
        &self.facts
    }

    /// Returns the descriptions of the tools with these names, for a model.
    pub(crate) fn specs(&self, names: &[String]) -> Arc<[ToolSpec]> {
        let mut shared = self
            .shared_specs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(specs) = shared.get(names) {
            return Arc::clone(specs);
        }
        let specs: Arc<[ToolSpec]> = self
            .entries
            .iter()
            .map(|entry| entry.tool.spec())
            .filter(|spec| names.contains(&spec.name))
            .cloned()
            .collect();
        shared.insert(names.to_vec(), Arc::clone(&specs));
        specs
    }

    /// Returns the tool with this name or alias, with the arguments renamed to its own parameters.
    pub(crate) fn find(&self, name: &str, arguments: &Value) -> Option<ResolvedTool<'_>> {
        self.entries
            .iter()
            .zip(&self.facts)
            .find_map(|(entry, facts)| {
                let renames: &[(&str, &str)] = if entry.tool.spec().name == name {
                    &[]
                } else {
                    spelled(entry.tool.as_ref(), name)?.renames
                };
                Some(ResolvedTool {
                    tool: &entry.tool,
                    facts,
                    arguments: renamed(arguments.clone(), renames),
                })
            })
    }

    /// Returns what is wrong with the arguments, as sentences for the model.
    pub(crate) fn problems(&self, tool: &str, arguments: &Value) -> Vec<String> {
        self.entries
            .iter()
            .find(|entry| entry.tool.spec().name == tool)
            .map(|entry| {
                if let Err(problem) = entry.bounds.check_depth(arguments) {
                    return vec![problem];
                }
                entry
                    .validator
                    .iter_errors(arguments)
                    .take(MAX_ERRORS_SHOWN)
                    .map(|error| {
                        let place = error.instance_path().to_string();
                        let message = if place.is_empty() {
                            error.to_string()
                        } else {
                            format!("{place}: {error}")
                        };
                        truncate_middle(&message, MAX_ERROR_CHARS, "…").text
                    })
                    .collect()
            })
            .unwrap_or_default()
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.facts.iter().map(|facts| &facts.name))
            .finish()
    }
}

pub(crate) fn facts_of(tool: &dyn Tool) -> ToolFacts {
    ToolFacts {
        name: tool.spec().name.clone(),
        spellings: tool
            .spellings()
            .iter()
            .map(|spelling| spelling.name.to_owned())
            .collect(),
        touches: tool.touches(),
    }
}

fn validator_of(spec: &ToolSpec) -> Result<(SchemaBounds, jsonschema::Validator), ToolboxError> {
    let bad = |what: String| ToolboxError::BadSchema {
        tool: spec.name.clone(),
        what,
    };
    let bounds = SchemaBounds::of(&spec.parameters).map_err(bad)?;
    let options = jsonschema::options();
    let options = if is_the_same_in_draft_7(&spec.parameters) {
        options.with_draft(jsonschema::Draft::Draft7)
    } else {
        options
    };
    let validator = options.build(&spec.parameters);
    Ok((bounds, validator.map_err(|error| bad(error.to_string()))?))
}

/// Whether a schema uses nothing that draft 7 does not know or treats differently. Most tools do not,
/// and the schema of draft 7 itself, against which each schema is checked, is compiled in a fraction of
/// the time of the newest draft's.
fn is_the_same_in_draft_7(schema: &Value) -> bool {
    const NEWER: &[&str] = &[
        "$schema",
        "$ref",
        "$defs",
        "$anchor",
        "$dynamicRef",
        "$recursiveRef",
        "$vocabulary",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "additionalItems",
        "prefixItems",
        "maxContains",
        "minContains",
        "unevaluatedItems",
        "unevaluatedProperties",
        "format",
    ];
    match schema {
        Value::Object(fields) => fields.iter().all(|(key, value)| {
            match (key.as_str(), value) {
                // The keys are names of parameters.
                ("properties", Value::Object(schemas)) => {
                    schemas.values().all(is_the_same_in_draft_7)
                }
                // One schema for all items means the same in both; a list of schemas does not.
                ("items", Value::Array(_)) => false,
                (key, _) => !NEWER.contains(&key) && is_the_same_in_draft_7(value),
            }
        }),
        Value::Array(values) => values.iter().all(is_the_same_in_draft_7),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn spelled<'a>(tool: &'a dyn Tool, name: &str) -> Option<&'a Spelling> {
    tool.spellings()
        .iter()
        .find(|spelling| spelling.name == name)
}

fn renamed(mut arguments: Value, renames: &[(&str, &str)]) -> Value {
    if let Value::Object(fields) = &mut arguments {
        for (theirs, ours) in renames {
            if fields.contains_key(*ours) {
                continue;
            }
            if let Some(value) = fields.remove(*theirs) {
                fields.insert((*ours).to_owned(), value);
            }
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn draft_7_is_used_only_where_it_means_the_same() {
        for (schema, same) in [
            (
                json!({"type": "object", "properties": {"format": {"type": "string"}}}),
                true,
            ),
            (
                json!({"properties": {"list": {"items": {"enum": ["a", "b"]}}}}),
                true,
            ),
            (
                json!({"properties": {"list": {"items": [{"type": "string"}]}}}),
                false,
            ),
            (
                json!({"properties": {"list": {"prefixItems": [{"type": "string"}]}}}),
                false,
            ),
            (
                json!({"anyOf": [{"dependentRequired": {"a": ["b"]}}]}),
                false,
            ),
            (json!({"properties": {"mail": {"format": "email"}}}), false),
            (
                json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
                false,
            ),
        ] {
            assert_eq!(is_the_same_in_draft_7(&schema), same, "{schema}");
        }
    }
}
