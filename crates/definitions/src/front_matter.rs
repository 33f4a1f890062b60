//! Front matter: the YAML between two fences at the top of a Markdown file.

use std::collections::BTreeMap;

use serde_json::Value;
use sortie_core::message::is_too_deep;
use sortie_text::{first_chars, one_line};

/// Limit of the YAML of a file: a hundred times the usual size.
pub const MAX_FRONT_MATTER_BYTES: usize = 64 * 1024;
/// Limit of events, nodes and repeated nodes: nested aliases grow exponentially.
const MAX_EVENTS: usize = 10_000;
/// Most levels of nested values.
const MAX_DEPTH: usize = 24;
/// Limit of anchors and aliases.
const MAX_ALIASES: usize = 64;
/// Limit of the parser's message.
const MESSAGE_CHARS: usize = 200;
/// Keys whose values are prose.
const TEXT_KEYS: [&str; 4] = ["description", "whenToUse", "when_to_use", "argument-hint"];
const BYTE_ORDER_MARK: char = '\u{feff}';
const FENCE: &str = "---";
/// YAML's end of a document, which some files use instead of the second fence.
const END: &str = "...";

/// The parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// The YAML, if the file begins with a fence.
    pub yaml: Option<&'a str>,
    /// The line of the file on which the YAML begins, from 1.
    pub yaml_line: usize,
    /// The text after the front matter.
    pub body: &'a str,
}

/// Why front matter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrontMatterError {
    /// The first fence is never closed.
    #[error(
        "the front matter that begins on line {line} is never closed; end it with a line `---`"
    )]
    NotClosed {
        /// Line where the front matter begins, from 1.
        line: usize,
    },
    /// Larger than the limit.
    #[error("the front matter has {bytes} bytes; the limit is {MAX_FRONT_MATTER_BYTES}")]
    TooLarge {
        bytes: usize,
        /// Line where the front matter begins, from 1.
        line: usize,
    },
    /// Not YAML, or above a limit.
    #[error("the front matter cannot be read: {message}")]
    NotYaml {
        line: usize,
        /// The message of the parser.
        message: String,
    },
}

impl FrontMatterError {
    /// Returns the line of the file.
    pub const fn line(&self) -> usize {
        match self {
            Self::NotClosed { line } | Self::TooLarge { line, .. } | Self::NotYaml { line, .. } => {
                *line
            }
        }
    }
}

/// Parsed front matter, and whether it was repaired.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) keys: BTreeMap<String, Value>,
    /// The line of each key.
    pub(crate) lines: BTreeMap<String, usize>,
    /// The line that was read as text although it is not valid YAML.
    pub(crate) mended: Option<usize>,
}

/// Splits a file. Blank lines may precede the first fence.
pub fn split(text: &str) -> Result<Document<'_>, FrontMatterError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut lines = Lines {
        rest: text,
        number: 0,
    };
    let without = Document {
        yaml: None,
        yaml_line: 1,
        body: text,
    };
    let opened = loop {
        match lines.next() {
            Some(line) if line.trim().is_empty() => {}
            Some(line) if line.trim_end() == FENCE => break lines.number,
            Some(_) | None => return Ok(without),
        }
    };
    let inside = lines.rest;
    loop {
        let before = lines.rest;
        match lines.next() {
            Some(line) if matches!(line.trim_end(), FENCE | END) => {
                let yaml = &inside[..inside.len() - before.len()];
                return Ok(Document {
                    yaml: Some(yaml),
                    yaml_line: opened + 1,
                    body: lines.rest,
                });
            }
            Some(_) => {}
            None => return Err(FrontMatterError::NotClosed { line: opened }),
        }
    }
}

/// Reads the keys of front matter that begins on line `first_line` of its file.
pub(crate) fn parse(yaml: &str, first_line: usize) -> Result<Parsed, FrontMatterError> {
    if yaml.len() > MAX_FRONT_MATTER_BYTES {
        return Err(FrontMatterError::TooLarge {
            bytes: yaml.len(),
            line: first_line,
        });
    }
    let lines = key_lines(yaml, first_line);
    let error = match read(yaml) {
        Ok(keys) => {
            return Ok(Parsed {
                keys,
                lines,
                mended: None,
            });
        }
        Err(error) => error,
    };
    // Descriptions with an unquoted colon are invalid YAML, but common.
    if let Some((mended, index)) = quote_plain_text(yaml)
        && let Ok(keys) = read(&mended)
    {
        return Ok(Parsed {
            keys,
            lines,
            mended: Some(first_line + index),
        });
    }
    Err(not_yaml(&error, first_line))
}

fn read(yaml: &str) -> Result<BTreeMap<String, Value>, serde_saphyr::Error> {
    use serde::de::Error as _;
    if yaml.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    let options = serde_saphyr::options! {
        // `name: on` is a name.
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: MAX_EVENTS,
            max_nodes: MAX_EVENTS,
            max_depth: MAX_DEPTH,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: MAX_ALIASES,
            max_documents: 1,
            max_total_scalar_bytes: MAX_FRONT_MATTER_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_EVENTS,
            max_replay_stack_depth: MAX_DEPTH,
            max_alias_expansions_per_anchor: MAX_ALIASES,
        },
    };
    let keys: Option<BTreeMap<String, Value>> = serde_saphyr::from_str_with_options(yaml, options)?;
    let keys = keys.unwrap_or_default();
    if keys.values().any(is_too_deep) {
        return Err(serde_saphyr::Error::custom("it is nested too deeply"));
    }
    Ok(keys)
}

fn not_yaml(error: &serde_saphyr::Error, first_line: usize) -> FrontMatterError {
    let error = error.without_snippet();
    let line = error.location().map_or(0, |location| location.line());
    let line = usize::try_from(line).unwrap_or_default().saturating_sub(1);
    let message = one_line(&error.to_string());
    // The parser counts lines from the beginning of the YAML.
    let message = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(words, _)| words);
    FrontMatterError::NotYaml {
        line: first_line + line,
        message: first_chars(message, MESSAGE_CHARS).to_owned(),
    }
}

/// Returns the YAML with quotes around values that were meant as plain text, and the first such line.
fn quote_plain_text(yaml: &str) -> Option<(String, usize)> {
    let mut first = None;
    let mut quoted = String::with_capacity(yaml.len());
    for (index, line) in yaml.lines().enumerate() {
        match quote_value(line) {
            Some(line) => {
                first = first.or(Some(index));
                quoted.push_str(&line);
            }
            None => quoted.push_str(line),
        }
        quoted.push('\n');
    }
    first.map(|first| (quoted, first))
}

/// Quotes the text of a top-level `description: text with: colons`. No other key is repaired: a
/// comment behind a mode or a list of tools would become a part of it.
fn quote_value(line: &str) -> Option<String> {
    let (key, value) = line.split_once(':')?;
    let value = value.trim();
    let is_text = TEXT_KEYS.contains(&key);
    let is_plain = !value.starts_with(|c: char| "\"'[{|>&*!#%@`".contains(c));
    (is_text && is_plain && value.contains(':'))
        .then(|| format!("{key}: '{}'", value.replace('\'', "''")))
}

fn key_lines(yaml: &str, first_line: usize) -> BTreeMap<String, usize> {
    yaml.lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with(|c: char| c.is_whitespace() || "#-".contains(c)))
        .filter_map(|(index, line)| {
            let (key, _) = line.split_once(':')?;
            let key = key.trim().trim_matches(['"', '\'']);
            Some((key.to_owned(), first_line + index))
        })
        .collect()
}

/// Lines with what is left after each.
struct Lines<'a> {
    rest: &'a str,
    number: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        self.number += 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests;
