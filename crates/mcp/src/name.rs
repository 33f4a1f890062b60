//! Names of servers in settings, and of their tools for models.

use sha2::{Digest as _, Sha256};
use sortie_core::id::hex;

/// Prefix of the names of all MCP tools; no built-in tool has it.
const PREFIX: &str = "mcp";
/// Separator of the parts of a name.
const SEPARATOR: &str = "__";
/// The longest name that every model vendor accepts.
const MAX_TOOL_NAME_CHARS: usize = 64;
/// The longest name of a server; the rest of the 64 is for the tool.
pub const MAX_SERVER_NAME_CHARS: usize = 48;
/// Number of hex digits that distinguish truncated names.
const HASH_CHARS: usize = 8;

/// Checks the name of a server; an error states what is allowed.
pub fn check_server_name(name: &str) -> Result<(), String> {
    // A separator inside the name, or a `_` beside one, would let two servers meet in one tool name.
    let fits = (1..=MAX_SERVER_NAME_CHARS).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.contains(SEPARATOR)
        && !name.starts_with('_')
        && !name.ends_with('_');
    if fits {
        return Ok(());
    }
    Err(format!(
        "the name of an MCP server has 1 to {MAX_SERVER_NAME_CHARS} letters, digits, `-` and single `_` inside"
    ))
}

/// Returns the name under which a model calls a tool: `mcp__server__tool`, in characters that all vendors accept.
pub(crate) fn tool_name(server: &str, tool: &str) -> String {
    let plain: String = tool
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    let prefix = format!("{PREFIX}{SEPARATOR}{server}{SEPARATOR}");
    let room = MAX_TOOL_NAME_CHARS.saturating_sub(prefix.len());
    if plain.len() <= room {
        return prefix + &plain;
    }
    // Two long names must differ after truncation.
    let mut hash = hex(&Sha256::digest(tool.as_bytes()));
    hash.truncate(HASH_CHARS);
    let kept: String = plain
        .chars()
        .take(room.saturating_sub(HASH_CHARS + 1))
        .collect();
    format!("{prefix}{kept}_{hash}")
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        for (name, fits) in [
            ("git-hub_2", true),
            ("a", true),
            (&"a".repeat(48), true),
            (&"a".repeat(49), false),
            ("", false),
            ("a__b", false),
            ("_a", false),
            ("a_", false),
            ("a b", false),
            ("a/b", false),
            ("é", false),
        ] {
            assert_eq!(check_server_name(name).is_ok(), fits, "{name}");
        }
    }

    #[test]
    fn tools() {
        let long = "x".repeat(60);
        let longest = "s".repeat(48);
        for (server, tool, expected) in [
            ("git", "get_issue", "mcp__git__get_issue"),
            ("git", "read file/日", "mcp__git__read_file__"),
            ("git", "", "mcp__git__"),
            (
                "git",
                &long,
                "mcp__git__xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_42f2d973",
            ),
            (
                &longest,
                &long,
                "mcp__ssssssssssssssssssssssssssssssssssssssssssssssss___42f2d973",
            ),
        ] {
            let name = tool_name(server, tool);
            assert!(name.len() <= MAX_TOOL_NAME_CHARS, "{name}");
            assert!(name.chars().all(is_plain), "{name}");
            assert_eq!(name, expected);
        }
        assert_ne!(
            tool_name("git", &format!("{long}1")),
            tool_name("git", &format!("{long}2"))
        );
    }
}
