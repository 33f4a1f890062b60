//! `{{name}}` in the strings of a script: plain substitution, one pass, no engine.

use serde_json::Value;

use super::seen::ScriptRequest;
use sortie_base::nearest::nearest;

/// The valid placeholder names; `:N` follows a name that needs a number.
const NAMES: [&str; 9] = [
    "agent",
    "label",
    "last_result",
    "last_result_line",
    "notices",
    "result",
    "run_id",
    "task",
    "turn",
];

/// A part of a string.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Plain(&'a str),
    Name {
        name: &'static str,
        number: Option<i64>,
    },
}

/// Checks the placeholders of a string.
pub(super) fn check(text: &str) -> Result<(), String> {
    pieces(text).map(drop)
}

/// Checks the placeholders of all strings in a value.
pub(super) fn check_value(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => check(text),
        Value::Array(items) => items.iter().try_for_each(check_value),
        Value::Object(fields) => fields.values().try_for_each(check_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Expands the placeholders of a string.
pub(super) fn expand(text: &str, seen: ScriptRequest<'_>) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    for piece in pieces(text)? {
        match piece {
            Piece::Plain(plain) => whole.push_str(plain),
            Piece::Name { name, number } => whole.push_str(&value_of(name, number, seen)?),
        }
    }
    Ok(whole)
}

/// Expands the placeholders of all strings in a value.
pub(super) fn expand_value(value: &Value, seen: ScriptRequest<'_>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(expand(text, seen)?),
        Value::Array(items) => {
            let items: Result<_, _> = items.iter().map(|item| expand_value(item, seen)).collect();
            Value::Array(items?)
        }
        Value::Object(fields) => {
            let fields: Result<_, String> = fields
                .iter()
                .map(|(key, value)| Ok((key.clone(), expand_value(value, seen)?)))
                .collect();
            Value::Object(fields?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        found.push(Piece::Plain(&rest[..at]));
        let inner = &rest[at + 2..];
        if let Some(after) = inner.strip_prefix("{{") {
            found.push(Piece::Plain("{{"));
            rest = after;
            continue;
        }
        let end = inner
            .find("}}")
            .ok_or("`{{` is not closed; write `{{{{` for two braces as they are")?;
        found.push(placeholder(inner[..end].trim())?);
        rest = &inner[end + 2..];
    }
    found.push(Piece::Plain(rest));
    Ok(found)
}

fn placeholder(inner: &str) -> Result<Piece<'static>, String> {
    let (word, number) = match inner.split_once(':') {
        Some((word, number)) => (word.trim(), Some(number.trim())),
        None => (inner, None),
    };
    let name = NAMES.into_iter().find(|name| *name == word).ok_or_else(|| {
        let hint = nearest(word, NAMES).map_or_else(String::new, |name| {
            format!("; did you mean `{{{{{name}}}}}`?")
        });
        format!(
            "unknown placeholder `{{{{{inner}}}}}`{hint} (known: {}; write `{{{{{{{{` for two braces as they are)",
            NAMES.join(", ")
        )
    })?;
    let numbered = matches!(name, "last_result_line" | "result");
    match (numbered, number.map(str::parse::<i64>)) {
        (true, Some(Ok(number))) if number != 0 => Ok(Piece::Name {
            name,
            number: Some(number),
        }),
        (true, _) => Err(format!(
            "`{{{{{name}}}}}` needs a number from 1, or from -1 to count from the end: `{{{{{name}:1}}}}`"
        )),
        (false, None) => Ok(Piece::Name { name, number: None }),
        (false, Some(_)) => Err(format!("`{{{{{name}}}}}` takes no number")),
    }
}

fn value_of(name: &str, number: Option<i64>, seen: ScriptRequest<'_>) -> Result<String, String> {
    let origin = &seen.request.origin;
    let last = || {
        seen.last_result()
            .ok_or_else(|| format!("`{{{{{name}}}}}`: no tool has answered yet"))
    };
    match name {
        "agent" => Ok(origin.agent.clone()),
        "label" => Ok(origin.label.clone()),
        "task" => Ok(origin.task.clone()),
        "turn" => Ok(origin.turn.to_string()),
        "run_id" => Ok(origin.run.to_string()),
        "notices" => Ok(seen.notices().join("\n")),
        "last_result_line" => nth(&last()?.lines().collect::<Vec<_>>(), number, "line"),
        "result" => {
            let texts: Vec<&str> = seen
                .last_results()
                .iter()
                .map(|r| r.text.as_str())
                .collect();
            nth(&texts, number, "result")
        }
        _ => last(),
    }
}

fn nth(items: &[&str], number: Option<i64>, what: &str) -> Result<String, String> {
    let number = number.unwrap_or(1);
    let wanted = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    let index = if number > 0 {
        wanted.checked_sub(1)
    } else {
        items.len().checked_sub(wanted)
    };
    index
        .and_then(|index| items.get(index))
        .map(|item| (*item).to_owned())
        .ok_or_else(|| {
            format!(
                "there is no {what} {number}: the last answer has {}",
                items.len()
            )
        })
}
