//! Key paths, and text escaped for printing.

use std::fmt::{self, Write as _};

use serde::{Serialize, Serializer};
use sortie_base::hidden::is_hidden;
use sortie_base::truncate::truncate;

/// The most characters of one name that are printed: names come from files of any author.
const SHOWN_CHARS: usize = 80;

/// The path of a key, for example `models."openai/gpt-5".temperature`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(Vec<String>);

impl KeyPath {
    /// Returns the empty path.
    pub fn root() -> Self {
        Self::default()
    }

    /// Parses a path in TOML notation.
    pub fn parse(text: &str) -> Option<Self> {
        let keys = toml_edit::Key::parse(text).ok()?;
        Some(Self(keys.iter().map(|key| key.get().to_owned()).collect()))
    }

    /// Returns the path of a key below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        let mut segments = self.0.clone();
        segments.push(name.to_owned());
        Self(segments)
    }

    /// Returns the names of the path, outermost first.
    pub fn segments(&self) -> &[String] {
        &self.0
    }
}

impl<S: Into<String>> FromIterator<S> for KeyPath {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_char('.')?;
            }
            formatter.write_str(&shown_name(segment))?;
        }
        Ok(())
    }
}

impl Serialize for KeyPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn shown_name(name: &str) -> String {
    let bare = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let short = truncate(name, SHOWN_CHARS);
    if bare { short } else { quoted(&short) }
}

/// Returns the text in quotation marks, with all characters escaped that a terminal would
/// interpret.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            letter if is_hidden(letter) => out.push_str(&match u32::from(letter) {
                code @ ..=0xFFFF => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            }),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_they_are_written() {
        for text in [
            "lang",
            "subagents.max_concurrent",
            "models.\"openai/gpt-5\".temperature",
            "agents.\"审查\".model",
            "providers.my-gateway.headers.X-Team",
            "agents.\"a.b\".\"\"",
        ] {
            assert_eq!(KeyPath::parse(text).unwrap().to_string(), text);
        }
        for text in ["", ".", "a.", "a b", "a=1"] {
            assert_eq!(KeyPath::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_hidden_character_of_a_name_is_written_out() {
        for hidden in sortie_base::hidden::all() {
            let shown = KeyPath::root().join(&format!("a{hidden}b")).to_string();
            assert!(!shown.contains(is_hidden), "{shown:?}");
            let read = KeyPath::parse(&shown).unwrap();
            assert_eq!(read.segments(), [format!("a{hidden}b")]);
        }
    }

    #[test]
    fn names_cannot_act_on_a_terminal() {
        let path: KeyPath = ["a\u{1b}[31m\u{202e}\"", &"长".repeat(200)]
            .into_iter()
            .collect();
        let expected = format!("\"a\\u001B[31m\\u202E\\\"\".\"{}…\"", "长".repeat(80));
        assert_eq!(path.to_string(), expected);
    }
}
