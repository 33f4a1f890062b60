//! Tool modes: how tools are offered to a model, and what was learned from providers about it.
//!
//! A provider that refuses tools for a model gets no request with tools again: the prompt describes
//! them, and the model replies with a JSON object, or with a fenced block if the provider refuses a
//! schema as well. The same applies to a model that writes its tool calls as text, and to a local
//! model that called no tool at first contact: the turn is repeated in schema mode, and later turns
//! begin in schema mode if the model called a tool there. A model that also uses the wire's tool
//! calls keeps them: one slip does not take them away.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sortie_base::{atomic_file, private_files, regular_file};
use sortie_core::ports::model::ToolSetting;
use sortie_wire::ToolMode;

/// The maximum number of models in the file.
const MAX_LEARNED: usize = 1_000;
/// The maximum size of the file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A feature that a provider does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsupported {
    Tools,
    Schema,
}

/// Returns the mode to try after the provider refused one, or `None` if the refusal has another
/// reason.
pub(crate) fn after_refusal(mode: ToolMode, refused: Unsupported) -> Option<ToolMode> {
    match (mode, refused) {
        (ToolMode::Native, Unsupported::Tools) => Some(ToolMode::Schema),
        (ToolMode::Schema, Unsupported::Schema) => Some(ToolMode::Fenced),
        (ToolMode::Native, Unsupported::Schema)
        | (ToolMode::Schema, Unsupported::Tools)
        | (ToolMode::Fenced, _) => None,
    }
}

/// Returns the mode in which the turn of a model that wrote its tool call as text is repeated.
pub(crate) fn after_text_call(mode: ToolMode, setting: ToolSetting) -> ToolMode {
    match (mode, setting) {
        (ToolMode::Native, ToolSetting::Auto | ToolSetting::Schema | ToolSetting::Fenced) => {
            ToolMode::Schema
        }
        (ToolMode::Native, ToolSetting::Native) => ToolMode::Native,
        (ToolMode::Schema | ToolMode::Fenced, _) => mode,
    }
}

/// Messages of servers that refuse tools; in lower case.
const NO_TOOLS: [&str; 13] = [
    "does not support tools",
    "do not support tools",
    "doesn't support tools",
    "tools are not supported",
    "tools is not supported",
    "tool use is not supported",
    "tool calling is not supported",
    "does not support tool",
    "does not support function",
    "function calling is not",
    "support tool use",
    "--enable-auto-tool-choice",
    "requires --jinja",
];
/// Names of structured output in such messages.
const SCHEMA_TERMS: [&str; 6] = [
    "response_format",
    "json_schema",
    "json schema",
    "structured output",
    "output_config",
    "responsejsonschema",
];
/// Phrases that express a refusal.
const REJECTION_TERMS: [&str; 6] = [
    "not support",
    "unsupported",
    "not available",
    "unavailable",
    "invalid",
    "unknown",
];

/// Returns the feature that the body of an error response reports as unsupported.
pub(crate) fn unsupported(status: u16, body: &[u8]) -> Option<Unsupported> {
    if !matches!(status, 400 | 404 | 422 | 500 | 501) {
        return None;
    }
    let body = String::from_utf8_lossy(body).to_lowercase();
    if NO_TOOLS.iter().any(|term| body.contains(term)) {
        return Some(Unsupported::Tools);
    }
    let about_schema = SCHEMA_TERMS.iter().any(|term| body.contains(term));
    let refused = REJECTION_TERMS.iter().any(|term| body.contains(term));
    (about_schema && refused && status != 500).then_some(Unsupported::Schema)
}

/// The learned tool modes by `vendor/model`, stored in a file if a path was given.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    path: Option<PathBuf>,
    modes: Mutex<BTreeMap<String, ToolSetting>>,
    /// Replies with tool calls, by model, since the process started.
    called: Mutex<BTreeMap<String, Called>>,
}

/// How often a model called tools, by mode.
#[derive(Clone, Copy, Debug, Default)]
struct Called {
    native: u32,
    /// In schema or fenced mode, after it had written a call as text.
    in_text: u32,
}

#[derive(Default, Deserialize, Serialize)]
struct File {
    #[serde(default)]
    tools: BTreeMap<String, ToolSetting>,
}

impl Learned {
    /// Loads what an earlier process learned. A damaged file counts as empty and costs a few
    /// requests.
    pub(crate) fn open(path: Option<PathBuf>) -> Self {
        let file = path.as_deref().map(read).unwrap_or_default();
        let modes = file.tools.into_iter().take(MAX_LEARNED).collect();
        Self {
            path,
            modes: Mutex::new(modes),
            called: Mutex::default(),
        }
    }

    /// Counts a reply with a call in `mode` of a model whose turns begin in `known`. A model that
    /// mostly calls tools in `mode` begins in that mode from now on.
    pub(crate) fn called(&self, name: &str, known: ToolMode, mode: ToolMode) {
        if known != ToolMode::Native {
            return;
        }
        let called = {
            let mut counts = self.called.lock().unwrap_or_else(PoisonError::into_inner);
            if counts.len() >= MAX_LEARNED && !counts.contains_key(name) {
                return;
            }
            let called = counts.entry(name.to_owned()).or_default();
            match mode {
                ToolMode::Native => called.native = called.native.saturating_add(1),
                ToolMode::Schema | ToolMode::Fenced => {
                    called.in_text = called.in_text.saturating_add(1);
                }
            }
            *called
        };
        if mode != ToolMode::Native && called.in_text > called.native {
            self.learn(name, mode);
        }
    }

    /// Returns whether the model is known to use the wire's tool calls.
    pub(crate) fn is_native(&self, name: &str) -> bool {
        self.get(name) == Some(ToolSetting::Native)
    }

    /// Returns the mode in which a model's turn begins.
    pub(crate) fn mode(&self, name: &str, setting: ToolSetting) -> ToolMode {
        match setting {
            ToolSetting::Native => ToolMode::Native,
            ToolSetting::Schema => match self.get(name) {
                Some(ToolSetting::Fenced) => ToolMode::Fenced,
                Some(_) | None => ToolMode::Schema,
            },
            ToolSetting::Fenced => ToolMode::Fenced,
            ToolSetting::Auto => match self.get(name) {
                Some(ToolSetting::Schema) => ToolMode::Schema,
                Some(ToolSetting::Fenced) => ToolMode::Fenced,
                Some(ToolSetting::Auto | ToolSetting::Native) | None => ToolMode::Native,
            },
        }
    }

    /// Stores the mode that a model supports.
    pub(crate) fn learn(&self, name: &str, mode: ToolMode) {
        let setting = match mode {
            ToolMode::Native => ToolSetting::Native,
            ToolMode::Schema => ToolSetting::Schema,
            ToolMode::Fenced => ToolSetting::Fenced,
        };
        let mut modes = self.modes.lock().unwrap_or_else(PoisonError::into_inner);
        if modes.len() >= MAX_LEARNED && !modes.contains_key(name) {
            return;
        }
        modes.insert(name.to_owned(), setting);
        let Some(path) = &self.path else {
            return;
        };
        let file = File {
            tools: modes.clone(),
        };
        drop(modes);
        if let Err(error) = write(path, &file) {
            // The next process learns it again.
            tracing::warn!(%error, "cannot write the learned tool modes");
        }
    }

    fn get(&self, name: &str) -> Option<ToolSetting> {
        let modes = self.modes.lock().unwrap_or_else(PoisonError::into_inner);
        modes.get(name).copied()
    }
}

fn read(path: &Path) -> File {
    let text = regular_file::read(path, MAX_FILE_BYTES).ok();
    let file = text.and_then(|text| serde_json::from_slice(&text).ok());
    file.unwrap_or_default()
}

/// Replaces the file atomically.
fn write(path: &Path, file: &File) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        private_files::make_folder(folder)?;
    }
    atomic_file::replace(path, &serde_json::to_vec_pretty(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_real_servers() {
        for (status, body, expected) in [
            (
                400,
                "library/gemma2 does not support tools",
                Some(Unsupported::Tools),
            ),
            (
                400,
                "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
                Some(Unsupported::Tools),
            ),
            (
                404,
                "No endpoints found that support tool use. To learn more",
                Some(Unsupported::Tools),
            ),
            (
                500,
                "tools param requires --jinja flag",
                Some(Unsupported::Tools),
            ),
            (
                400,
                "Function calling is not enabled for models/x",
                Some(Unsupported::Tools),
            ),
            (
                400,
                "This response_format type is unavailable now",
                Some(Unsupported::Schema),
            ),
            (
                400,
                "'response_format.type' must be 'json_schema' or 'text': invalid value",
                Some(Unsupported::Schema),
            ),
            (400, "prompt is too long", None),
            (401, "does not support tools", None),
            (400, "messages: invalid role", None),
        ] {
            assert_eq!(unsupported(status, body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn learned_modes_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("learned.json");
        let learned = Learned::open(Some(path.clone()));
        assert_eq!(learned.mode("a/b", ToolSetting::Auto), ToolMode::Native);
        learned.learn("a/b", ToolMode::Schema);
        let again = Learned::open(Some(path.clone()));
        assert_eq!(again.mode("a/b", ToolSetting::Auto), ToolMode::Schema);
        assert_eq!(again.mode("a/b", ToolSetting::Native), ToolMode::Native);
        assert_eq!(again.mode("a/c", ToolSetting::Auto), ToolMode::Native);
        assert!(!again.is_native("a/c"));
        again.learn("a/c", ToolMode::Native);
        let again = Learned::open(Some(path.clone()));
        assert!(again.is_native("a/c"));
        assert!(!again.is_native("a/b"));
        std::fs::write(&path, "{ not json").unwrap();
        let broken = Learned::open(Some(path));
        assert_eq!(broken.mode("a/b", ToolSetting::Auto), ToolMode::Native);
    }

    #[test]
    fn text_calls_are_learned_unless_the_model_also_calls_natively() {
        let learned = Learned::open(None);
        let mode = |name| learned.mode(name, ToolSetting::Auto);
        learned.called("a/small", ToolMode::Native, ToolMode::Schema);
        assert_eq!(mode("a/small"), ToolMode::Schema);
        for _ in 0..2 {
            learned.called("a/large", ToolMode::Native, ToolMode::Native);
        }
        for _ in 0..2 {
            learned.called("a/large", ToolMode::Native, ToolMode::Schema);
            assert_eq!(mode("a/large"), ToolMode::Native);
        }
        learned.called("a/large", ToolMode::Native, ToolMode::Schema);
        assert_eq!(mode("a/large"), ToolMode::Schema);
    }

    #[test]
    fn each_refusal_leads_to_a_simpler_way_and_ends() {
        let mut mode = ToolMode::Native;
        for (refused, expected) in [
            (Unsupported::Schema, None),
            (Unsupported::Tools, Some(ToolMode::Schema)),
            (Unsupported::Tools, None),
            (Unsupported::Schema, Some(ToolMode::Fenced)),
            (Unsupported::Schema, None),
        ] {
            assert_eq!(after_refusal(mode, refused), expected);
            mode = expected.unwrap_or(mode);
        }
    }
}
