//! Recognises replies in which a model wrote its tool call as text.
//!
//! Many small models do not use the wire's tool calls: they write a JSON object into their text,
//! bare, in a fence, or between the tags of their training format. Such a reply is no final answer.
//! It does not become a call either: its text may be truncated, a quotation or an example, so
//! nothing runs from it. The driver repeats the turn in a tool mode in which a call is unambiguous.
//!
//! A false positive therefore costs one more request. A call that is quoted within a longer answer
//! is not a text call: the text before a call is short, and no text follows it.

use serde_json::{Deserializer, Map, Value};
use sortie_core::ports::tool::ToolSpec;

/// The longest text that is examined: a call that writes a file carries the file.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// The longest text before a call ("I will read the file."): a longer one is an answer.
const MAX_LEAD_CHARS: usize = 400;
/// Calls in one text; a longer list is data.
const MAX_CALLS: usize = 64;
/// The maximum nesting of wrappers such as `{"tool_calls": [{"function": …}]}`.
const MAX_WRAPPERS: usize = 4;

const FENCE: &str = "```";
/// Info strings of fences that do not tell whether a call is inside.
const PLAIN_FENCES: [&str; 10] = [
    "",
    "json",
    "jsonc",
    "json5",
    "javascript",
    "python",
    "py",
    "xml",
    "text",
    "plaintext",
];
/// Info strings of fences that mark a call, whatever is inside.
const CALL_FENCES: [&str; 8] = [
    "tool",
    "tool_code",
    "tool_call",
    "tool_calls",
    "tool_use",
    "function",
    "function_call",
    "action",
];
/// Tags that surround calls in the formats that models are trained on; in lower case.
const TAGS: [&str; 34] = [
    "<tool_call>",
    "</tool_call>",
    "<tool_calls>",
    "</tool_calls>",
    "<toolcall>",
    "</toolcall>",
    "<function_call>",
    "</function_call>",
    "<function_calls>",
    "</function_calls>",
    "<functioncall>",
    "</functioncall>",
    "<tool_use>",
    "</tool_use>",
    "</invoke>",
    "<|tool_call_argument_begin|>",
    "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>",
    "<\u{ff5c}tool\u{2581}calls\u{2581}end\u{ff5c}>",
    "<tool>",
    "</tool>",
    "[tool_calls]",
    "[/tool_calls]",
    "[tool_call]",
    "[/tool_call]",
    "<|python_tag|>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|tool_calls|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<|tool_call_begin|>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "</function>",
];
/// End-of-turn tokens that servers leave in the text.
const ENDS: [&str; 6] = [
    "<|im_end|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|end|>",
    "<|endoftext|>",
    "</s>",
];
/// `<function=read_file>`, as Llama and Qwen write it, and `<invoke name="read_file">`.
const NAMED_TAGS: [(&str, &str); 3] = [
    ("<function=", ">"),
    ("<function name=\"", "\">"),
    ("<invoke name=\"", "\">"),
];
/// Keys that name the tool.
const NAME_KEYS: [&str; 8] = [
    "name",
    "tool",
    "tool_name",
    "function",
    "function_name",
    "recipient_name",
    "action",
    "command",
];
/// Keys of the arguments.
const ARGUMENT_KEYS: [&str; 10] = [
    "arguments",
    "parameters",
    "args",
    "input",
    "tool_arguments",
    "tool_input",
    "params",
    "kwargs",
    "action_input",
    "function_args",
];
/// Keys of a nested call, or of a list of calls.
const WRAPPER_KEYS: [&str; 7] = [
    "function",
    "tool_calls",
    "tool_call",
    "function_call",
    "function_calls",
    "tool_uses",
    "calls",
];
/// Other keys that a call may have.
const OTHER_KEYS: [&str; 12] = [
    "id",
    "type",
    "call_id",
    "tool_call_id",
    "index",
    "thought",
    "thoughts",
    "reason",
    "reasoning",
    "explanation",
    "role",
    "content",
];
/// Prefixes that models put before the name of a tool.
const NAMESPACES: [&str; 5] = ["functions.", "default_api.", "tools.", "tool.", "api."];

/// A tool call that a model wrote as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextCall {
    /// Whether the name is that of an offered tool.
    pub is_offered: bool,
    /// Whether the arguments are an object with the keys of that tool's schema.
    pub fits: bool,
    /// Whether text precedes the call.
    pub has_lead: bool,
}

/// Returns the call that `text` consists of, if it is one. `result` is the schema of the final
/// answer: text that fits it is the answer even if it looks like a call.
pub fn text_call(text: &str, tools: &[ToolSpec], result: Option<&Value>) -> Option<TextCall> {
    let text = after_thoughts(without_ends(text));
    if text.is_empty() || text.len() > MAX_TEXT_BYTES {
        return None;
    }
    if result.is_some_and(|schema| is_result(text, schema)) {
        return None;
    }
    let reader = Reader { tools };
    let part = reader.find(text)?;
    let has_lead = !part.lead.is_empty();
    let found = reader.read(&part)?;
    // Words around JSON that names no tool of ours are an answer about JSON.
    (found.is_offered || !has_lead).then_some(TextCall { has_lead, ..found })
}

/// Returns whether a reply that begins like this may turn out to be a call. Until that is decided,
/// its text is not shown.
pub fn may_be_text_call(beginning: &str) -> bool {
    let text = beginning.trim_start();
    if text.is_empty() || text.starts_with(['{', '[', '<']) {
        return true;
    }
    text.starts_with(FENCE) || FENCE.starts_with(text)
}

/// The part of a text that may be a call.
struct Part<'a> {
    lead: &'a str,
    body: &'a str,
    /// Whether a tag or the info string of a fence marks it as a call.
    is_marked: bool,
}

struct Reader<'a> {
    tools: &'a [ToolSpec],
}

impl Reader<'_> {
    fn find<'a>(&self, text: &'a str) -> Option<Part<'a>> {
        if let Some(part) = marked(text) {
            return Some(part);
        }
        let is_bare = text.starts_with(['{', '[']);
        if !is_bare && let Some(part) = fenced(text) {
            return Some(part);
        }
        let start = if is_bare { 0 } else { first_json_line(text)? };
        let lead = text[..start].trim();
        (lead.chars().count() <= MAX_LEAD_CHARS).then_some(Part {
            lead,
            body: &text[start..],
            is_marked: false,
        })
    }

    fn read(&self, part: &Part<'_>) -> Option<TextCall> {
        let unknown = TextCall {
            is_offered: false,
            fits: false,
            has_lead: false,
        };
        let body = part.body.trim();
        let calls = self.calls(body, part.is_marked);
        match calls {
            Some(calls) => Some(merged(&calls)),
            None if self.names_a_tool(body) => Some(TextCall {
                is_offered: true,
                ..unknown
            }),
            // Whatever the marks surround, it was meant as a call.
            None => part.is_marked.then_some(unknown),
        }
    }

    /// Returns the calls that a text consists of, in sequence or as a list.
    fn calls(&self, body: &str, is_marked: bool) -> Option<Vec<TextCall>> {
        let mut rest = after_tags(body);
        let mut calls = Vec::new();
        while !rest.is_empty() {
            let (mut found, after) = self.next(rest, is_marked)?;
            calls.append(&mut found);
            if calls.len() > MAX_CALLS {
                return None;
            }
            rest = after_tags(after);
        }
        (!calls.is_empty()).then_some(calls)
    }

    fn next<'a>(&self, text: &'a str, is_marked: bool) -> Option<(Vec<TextCall>, &'a str)> {
        if let Some((name, rest)) = named_tag(text) {
            let mut values = Deserializer::from_str(rest).into_iter::<Value>();
            if let Some(Ok(arguments)) = values.next() {
                let call = self.call(name, Some(&arguments));
                return Some((vec![call], &rest[values.byte_offset()..]));
            }
            // `<parameter=path>…</parameter>` as Qwen writes it: what follows is part of the call.
            let end = rest.find(NAMED_TAGS[0].0).unwrap_or(rest.len());
            return Some((vec![self.call(name, None)], &rest[end..]));
        }
        if text.starts_with(['{', '[']) {
            let mut values = Deserializer::from_str(text).into_iter::<Value>();
            if let Some(Ok(value)) = values.next() {
                let after = &text[values.byte_offset()..];
                return Some((self.shapes(&value, MAX_WRAPPERS)?, after));
            }
        }
        self.spelled(text, is_marked)
    }

    /// `read_file{"path": …}`, `read_file[ARGS]{…}`, or `[read_file(path="a")]` as in Python.
    fn spelled<'a>(&self, text: &'a str, is_marked: bool) -> Option<(Vec<TextCall>, &'a str)> {
        let text = text.trim_start_matches('[');
        let text = text.strip_prefix("print(").unwrap_or(text);
        let end = text.find(|char: char| !(char.is_alphanumeric() || "_.-:".contains(char)))?;
        let (name, rest) = text.split_at(end);
        let name = name.split(':').next().unwrap_or(name);
        let is_offered = self.tool(name).is_some();
        if name.is_empty() || !(is_offered || is_marked) {
            return None;
        }
        let after_name = rest.trim_start();
        let arguments = after_name.strip_prefix("[ARGS]").unwrap_or(after_name);
        if arguments.starts_with('{') {
            let mut values = Deserializer::from_str(arguments).into_iter::<Value>();
            let value = values.next()?.ok()?;
            let call = self.call(name, Some(&value));
            return Some((vec![call], &arguments[values.byte_offset()..]));
        }
        let inside = after_name.strip_prefix('(')?;
        let close = inside.rfind(')')?;
        let after = inside[close..].trim_start_matches([')', ']']);
        Some((vec![self.call(name, None)], after))
    }

    fn shapes(&self, value: &Value, depth: usize) -> Option<Vec<TextCall>> {
        let depth = depth.checked_sub(1)?;
        match value {
            Value::Array(items) if items.len() <= MAX_CALLS => {
                let shapes = items.iter().map(|item| self.shapes(item, depth));
                let calls: Vec<TextCall> = shapes.collect::<Option<Vec<_>>>()?.concat();
                (!calls.is_empty()).then_some(calls)
            }
            Value::Object(fields) => self.object(fields, depth),
            Value::Array(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => None,
        }
    }

    fn object(&self, fields: &Map<String, Value>, depth: usize) -> Option<Vec<TextCall>> {
        let only_other = |known: &[&str]| {
            let keys = fields.keys().map(String::as_str);
            let mut others = keys.filter(|key| !known.contains(key));
            others.all(|key| OTHER_KEYS.contains(&key))
        };
        // `{"function": {…}}`, `{"tool_calls": […]}`
        for key in WRAPPER_KEYS {
            if let Some(inner @ (Value::Object(_) | Value::Array(_))) = fields.get(key)
                && only_other(&[key])
                && let Some(calls) = self.shapes(inner, depth)
            {
                return Some(calls);
            }
        }
        // `{"read_file": {…}}`
        if let [(name, arguments @ Value::Object(_))] = fields.iter().collect::<Vec<_>>()[..]
            && self.tool(name).is_some()
        {
            return Some(vec![self.call(name, Some(arguments))]);
        }
        let named: Vec<(&str, &str)> = NAME_KEYS
            .into_iter()
            .filter_map(|key| Some((key, fields.get(key)?.as_str()?)))
            .collect();
        let offered = named.iter().find(|(_, name)| self.tool(name).is_some());
        let (name_key, name) = *offered.or_else(|| named.first())?;
        let arguments_key = ARGUMENT_KEYS
            .into_iter()
            .find(|key| fields.contains_key(*key));
        if let Some(key) = arguments_key {
            let arguments = object_in(&fields[key]);
            let is_offered = offered.is_some();
            let is_call = is_offered || (arguments.is_some() && only_other(&[name_key, key]));
            return is_call.then(|| vec![self.call(name, arguments.as_ref())]);
        }
        // `{"tool": "read_file", "path": "a"}`, `{"tool": "list_dir"}`
        offered?;
        let flat: Map<String, Value> = fields
            .iter()
            .filter(|(key, _)| *key != name_key && !OTHER_KEYS.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let call = self.call(name, Some(&Value::Object(flat)));
        call.fits.then(|| vec![call])
    }

    fn call(&self, name: &str, arguments: Option<&Value>) -> TextCall {
        let tool = self.tool(name);
        let fits = match (tool, arguments) {
            (Some(tool), Some(arguments)) => has_keys_of(arguments, &tool.parameters),
            (Some(_) | None, _) => false,
        };
        TextCall {
            is_offered: tool.is_some(),
            fits,
            has_lead: false,
        }
    }

    fn tool(&self, name: &str) -> Option<&ToolSpec> {
        let mut bare = name.trim();
        for namespace in NAMESPACES {
            bare = bare.strip_prefix(namespace).unwrap_or(bare);
        }
        self.tools.iter().find(|tool| tool.name == bare)
    }

    /// Returns whether text that is not JSON was meant as a call: `{'name': 'read_file',
    /// 'arguments': …`.
    fn names_a_tool(&self, body: &str) -> bool {
        if !body.starts_with(['{', '[']) || !body.ends_with(['}', ']']) {
            return false;
        }
        let has_arguments = ARGUMENT_KEYS.iter().any(|key| quoted(body, key).is_some());
        has_arguments
            && NAME_KEYS.iter().any(|key| {
                let after = quoted(body, key).unwrap_or_default().trim_start();
                let value = after.strip_prefix(':').unwrap_or_default().trim_start();
                let value = value.trim_start_matches(['"', '\'', '`']);
                let end = value.find(['"', '\'', '`', ',']).unwrap_or(value.len());
                self.tool(&value[..end]).is_some()
            })
    }
}

/// Combines all calls of one text into one.
fn merged(calls: &[TextCall]) -> TextCall {
    TextCall {
        is_offered: calls.iter().any(|call| call.is_offered),
        fits: calls.iter().all(|call| call.fits),
        has_lead: false,
    }
}

/// Returns the text after a key in single or double quotes.
fn quoted<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    ['"', '\''].into_iter().find_map(|quote| {
        let (_, after) = text.split_once(&format!("{quote}{key}{quote}"))?;
        Some(after)
    })
}

/// Returns the text from its first tag on. Text after the last tag makes the reply an answer.
fn marked(text: &str) -> Option<Part<'_>> {
    let lower = text.to_ascii_lowercase();
    let named = NAMED_TAGS.iter().map(|(open, _)| *open);
    let opening = TAGS.into_iter().filter(|tag| !tag.contains('/'));
    let (start, tag) = opening
        .chain(named)
        .filter_map(|tag| Some((lower.find(tag)?, tag)))
        .min()?;
    let lead = text[..start].trim();
    // A tag in the middle of a line is quoted; so is one in a fence.
    let begins_a_line = text[..start].trim_end_matches([' ', '\t']).ends_with('\n');
    if !(lead.is_empty() || begins_a_line)
        || lead.contains(FENCE)
        || lead.chars().count() > MAX_LEAD_CHARS
    {
        return None;
    }
    let is_named = NAMED_TAGS.iter().any(|(open, _)| *open == tag);
    let mut body = if is_named {
        &text[start..]
    } else {
        text[start + tag.len()..].trim_start()
    };
    let whole = body.len();
    body = before_tags(body);
    let is_closed = body.len() < whole;
    Some(Part {
        lead,
        body: unfenced(body),
        // Without a closing tag the rest has to look like a call: words behind it are an answer.
        is_marked: is_closed || body.ends_with(['}', ']', ')']),
    })
}

/// Returns the only fenced block of a text, if the text ends with it.
fn fenced(text: &str) -> Option<Part<'_>> {
    let start = match text.starts_with(FENCE) {
        true => 0,
        false => text.find("\n```")? + 1,
    };
    let lead = text[..start].trim();
    let inside = &text[start + FENCE.len()..];
    let (word, body) = inside.split_once('\n').or_else(|| {
        let at = inside.find(['{', '['])?;
        Some(inside.split_at(at))
    })?;
    let word = word.trim().to_ascii_lowercase();
    let is_marked = CALL_FENCES.contains(&word.as_str());
    if !is_marked && !PLAIN_FENCES.contains(&word.as_str()) {
        return None;
    }
    let body = body.trim_end();
    let body = body.strip_suffix(FENCE).unwrap_or(body);
    // A fence within the arguments is part of a JSON string, and no line of its own.
    let is_only = !body
        .lines()
        .any(|line| line.trim_start().starts_with(FENCE));
    (is_only && lead.chars().count() <= MAX_LEAD_CHARS).then_some(Part {
        lead,
        body: before_tags(after_tags(body).trim_end()),
        is_marked,
    })
}

/// Returns the start of the first line that begins like JSON, if the text ends like JSON.
fn first_json_line(text: &str) -> Option<usize> {
    let starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let mut starts = starts.filter(|at| text[*at..].starts_with(['{', '[']));
    starts.next().filter(|_| text.ends_with(['}', ']']))
}

/// Splits `<function=NAME>` off the beginning.
fn named_tag(text: &str) -> Option<(&str, &str)> {
    NAMED_TAGS.iter().find_map(|(open, close)| {
        let (start, rest) = (text.get(..open.len())?, text.get(open.len()..)?);
        let is_tag = start.eq_ignore_ascii_case(open);
        is_tag.then(|| rest.split_once(close)).flatten()
    })
}

fn unfenced(body: &str) -> &str {
    let Some(inside) = body.strip_prefix(FENCE) else {
        return body;
    };
    let at = inside.find(['{', '[']).unwrap_or(0);
    inside[at..].trim_end().trim_end_matches('`').trim_end()
}

/// Removes the tags at the end of a text.
fn before_tags(mut text: &str) -> &str {
    let tag_at = |text: &str| {
        let mut tags = TAGS.into_iter().filter_map(|tag| {
            let at = text.len().checked_sub(tag.len())?;
            text.get(at..)?.eq_ignore_ascii_case(tag).then_some(at)
        });
        tags.next()
    };
    while let Some(at) = tag_at(text) {
        text = text[..at].trim_end();
    }
    text
}

/// Removes the tags, separators and white space at the beginning of a text.
fn after_tags(mut text: &str) -> &str {
    loop {
        text = text.trim_start_matches(is_between);
        let tag = TAGS.into_iter().find(|tag| {
            let start = text.get(..tag.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(tag))
        });
        match tag {
            Some(tag) => text = &text[tag.len()..],
            None => return text,
        }
    }
}

/// Removes the reasoning that a server left at the beginning of a text.
fn after_thoughts(text: &str) -> &str {
    match text.split_once("</think>") {
        Some((thoughts, rest)) if text.starts_with("<think>") || !thoughts.contains('{') => {
            rest.trim_start()
        }
        Some(_) | None => text,
    }
}

fn without_ends(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(end) = ENDS.into_iter().find_map(|end| text.strip_suffix(end)) {
        text = end.trim_end();
    }
    text
}

/// Returns whether a character may separate two calls.
fn is_between(char: char) -> bool {
    char.is_whitespace() || char == ',' || char == ';'
}

/// Returns an object, given as JSON or as a string of JSON like OpenAI's `arguments`.
fn object_in(value: &Value) -> Option<Value> {
    match value {
        Value::Object(_) => Some(value.clone()),
        Value::String(text) => serde_json::from_str(text).ok().filter(Value::is_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// Returns whether an object has the keys that a schema requires, and no unknown keys.
fn has_keys_of(value: &Value, schema: &Value) -> bool {
    let Value::Object(fields) = value else {
        return false;
    };
    let required = schema["required"].as_array().into_iter().flatten();
    let has_required = required
        .filter_map(Value::as_str)
        .all(|key| fields.contains_key(key));
    let known = schema["properties"].as_object();
    has_required && known.is_none_or(|known| fields.keys().all(|key| known.contains_key(key)))
}

/// Returns whether a text is JSON with the keys of the final answer's schema.
fn is_result(text: &str, schema: &Value) -> bool {
    let body = match fenced(text) {
        Some(part) if part.lead.is_empty() => part.body.trim(),
        Some(_) | None => text,
    };
    match serde_json::from_str(body) {
        Ok(value @ Value::Object(_)) => has_keys_of(&value, schema),
        Ok(_) => schema["type"] != "object",
        Err(_) => false,
    }
}
