//! The tools that an agent can use, one file each, with the description for the model beside the
//! code.
//!
//! Invariants: file tools resolve every path beneath an open descriptor of the workspace
//! (`confine`); everything that a model controls has a named limit; every failure is a sentence
//! that tells the model what to do next; dropping a call stops its work.

mod arguments;
mod ask;
mod blocking;
mod budget;
mod changes;
mod confine;
mod diff;
mod edit_file;
mod exec;
mod fan_out;
mod fingerprint;
#[cfg(test)]
mod fuzz;
mod gate;
mod glob;
mod grep;
mod list_dir;
mod memory;
#[cfg(test)]
mod ordinary;
#[cfg(test)]
mod permitted;
mod picture;
mod preview;
mod read_file;
mod sandbox;
mod spawn_subagent;
mod subagents;
mod task;
#[cfg(test)]
mod testing;
mod text;
mod todo_write;
mod walk;
mod write_file;

use std::sync::Arc;

use sortie_core::ports::tool::Tool;
use sortie_sandbox::{Places, Sandbox};

pub use ask::Ask;
pub use changes::Changes;
pub use edit_file::EditFile;
pub use exec::{Exec, ExecSettings};
pub use fan_out::FanOut;
pub use glob::Glob;
pub use grep::Grep;
pub use list_dir::ListDir;
pub use memory::memory_tools;
pub use read_file::ReadFile;
pub use spawn_subagent::SpawnSubagent;
pub use subagents::Subagents;
pub use task::Task;
pub use todo_write::TodoWrite;
pub use write_file::WriteFile;

/// The settings of the standard tools. The default is an empty environment, no sandbox, and a
/// machine without a home folder.
#[derive(Clone, Debug, Default)]
pub struct ToolSettings {
    /// The settings of the shell tool.
    pub exec: ExecSettings,
    /// The sandbox of shell commands. If `None`, only runs whose confinement is off have a shell.
    pub sandbox: Option<Arc<Sandbox>>,
    /// The places on this machine that file tools do not access, like the sandbox.
    pub places: Places,
}

/// Returns all standard tools, in the order in which they are described to models.
pub fn standard_tools(settings: ToolSettings) -> Vec<Arc<dyn Tool>> {
    let kept = Arc::new(confine::Kept::of(&settings.places));
    vec![
        Arc::new(ReadFile::keeping(&kept)),
        Arc::new(ListDir::keeping(&kept)),
        Arc::new(Glob::keeping(&kept)),
        Arc::new(Grep::keeping(&kept)),
        Arc::new(WriteFile::keeping(&kept)),
        Arc::new(EditFile::keeping(&kept)),
        Arc::new(Exec::new(settings.exec, settings.sandbox)),
        Arc::new(TodoWrite::default()),
        Arc::new(Task::default()),
        Arc::new(SpawnSubagent::default()),
        Arc::new(FanOut::default()),
        Arc::new(Subagents::default()),
        Arc::new(Changes::default()),
        Arc::new(Ask::default()),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::rename;

    fn all() -> Vec<Arc<dyn Tool>> {
        standard_tools(ToolSettings::default())
    }

    fn bytes_allowed(name: &str) -> usize {
        match name {
            "task" => 1100,
            "spawn_subagent" => 2000,
            "subagents" => 560,
            _ => 430,
        }
    }

    #[test]
    fn tool_descriptions_are_small() {
        for tool in all() {
            let spec = tool.spec();
            let size = serde_json::to_string(spec).unwrap().len();
            assert!(
                size <= bytes_allowed(&spec.name),
                "{}: {size} bytes, {} allowed",
                spec.name,
                bytes_allowed(&spec.name)
            );
        }
    }

    #[test]
    fn schemas_are_valid_and_closed() {
        for tool in all() {
            let spec = tool.spec();
            assert!(
                jsonschema::meta::is_valid(&spec.parameters),
                "{}",
                spec.name
            );
            assert_eq!(
                spec.parameters["additionalProperties"],
                json!(false),
                "{}",
                spec.name
            );
        }
    }

    #[test]
    fn names_and_spellings_are_all_different() {
        let mut seen = BTreeSet::new();
        for tool in all() {
            let spellings = tool.spellings().iter().map(|spelling| spelling.name);
            for name in spellings.chain([tool.spec().name.as_str()]) {
                assert!(seen.insert(name.to_owned()), "{name} is used twice");
            }
        }
    }

    #[test]
    fn calls_under_another_name_fit_the_schema_once_renamed() {
        let samples: BTreeMap<&str, Value> = BTreeMap::from([
            (
                "Task",
                json!({"description": "d", "prompt": "p", "agent_type": "explore"}),
            ),
            (
                "Agent",
                json!({"description": "d", "prompt": "p", "subagent_type": "explore",
                    "run_in_background": true}),
            ),
            ("spawn", json!({"task": "t", "label": "l"})),
            (
                "sessions_spawn",
                json!({"task": "t", "agent_id": "code", "timeoutSeconds": 30, "cleanup": "keep"}),
            ),
            ("bash", json!({"command": "ls", "timeout": 5})),
            (
                "TodoWrite",
                json!({"items": [{"content": "c", "status": "pending", "activeForm": "doing c"}]}),
            ),
        ]);
        for tool in all() {
            let validator = jsonschema::validator_for(&tool.spec().parameters).unwrap();
            for spelling in tool.spellings() {
                let sample = samples.get(spelling.name).expect(spelling.name);
                let renamed = rename(spelling, sample);
                assert!(validator.is_valid(&renamed), "{}: {renamed}", spelling.name);
                for (theirs, ours) in spelling.renames {
                    let known = &tool.spec().parameters["properties"];
                    assert!(
                        known.get(ours).is_some(),
                        "{}: {theirs} -> {ours}",
                        spelling.name
                    );
                }
            }
        }
    }
}
