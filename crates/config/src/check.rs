//! Converts known keys to their canonical spelling, and checks the type and range of values.

use toml::{Table, Value};

use sortie_base::hidden::is_hidden;
use sortie_base::nearest::nearest;
use sortie_base::truncate::truncate;

use crate::case::snake;
use crate::key::quoted;
use crate::shape::{Leaf, SHAPE, Shape, Text};
use crate::{Expected, Fault, Found, KeyPath, MAX_WARNINGS, Origin, UrlFault, Warning};

/// The table of agents: the only one whose names match case-insensitively.
pub(crate) const AGENTS: &str = "agents";
/// The most characters of an invalid choice that are shown.
const SHOWN_CHARS: usize = 40;

/// Returns the table with known keys only, in snake_case, and a warning for everything else.
pub(crate) fn tidy(table: Table, origin: &Origin) -> (Table, Vec<Warning>) {
    let mut tidier = Tidier {
        origin,
        warnings: Vec::new(),
    };
    let table = tidier.table(table, &SHAPE, &KeyPath::root());
    (table, tidier.warnings)
}

struct Tidier<'a> {
    origin: &'a Origin,
    warnings: Vec<Warning>,
}

impl Tidier<'_> {
    fn table(&mut self, table: Table, shape: &Shape, path: &KeyPath) -> Table {
        let mut out = Table::new();
        let written: Vec<String> = table.keys().cloned().collect();
        for (name, value) in table {
            let known = known_spelling(shape, &name);
            let Some((known, inside)) = known else {
                self.unknown(shape, path, &name);
                continue;
            };
            let twice = out.contains_key(&known) || (known != name && written.contains(&known));
            if twice {
                self.set_twice(path.join(&known), &name);
                continue;
            }
            let value = self.inside(value, inside, &path.join(&known));
            out.insert(known, value);
        }
        out
    }

    fn inside(&mut self, value: Value, shape: &Shape, path: &KeyPath) -> Value {
        let Value::Table(table) = value else {
            return value;
        };
        Value::Table(self.table(table, shape, path))
    }

    fn unknown(&mut self, shape: &Shape, path: &KeyPath, name: &str) {
        self.warnings.push(Warning::UnknownKey {
            origin: self.origin.clone(),
            key: path.join(name),
            // Later warnings are not shown, so no suggestion is computed for them.
            nearest: (self.warnings.len() < MAX_WARNINGS)
                .then(|| probably(shape, path, name))
                .flatten(),
        });
    }

    fn set_twice(&mut self, key: KeyPath, ignored: &str) {
        self.warnings.push(Warning::SetTwice {
            origin: self.origin.clone(),
            key,
            ignored: truncate(ignored, SHOWN_CHARS),
        });
    }
}

/// Returns the canonical spelling of a name, and its shape. A table in place of a value is accepted
/// here: the type check rejects it later.
fn known_spelling<'a>(shape: &'a Shape, name: &str) -> Option<(String, &'a Shape)> {
    match shape {
        Shape::Table(fields) => [name.to_owned(), snake(name)]
            .into_iter()
            .find_map(|spelling| Some((spelling.clone(), fields.get(&spelling)?))),
        Shape::Names(inside) => Some((name.to_owned(), inside)),
        Shape::Leaf(_) => Some((name.to_owned(), shape)),
    }
}

/// Returns whether a name in a file refers to a key: in another spelling, or as the name of an
/// agent in another case.
pub(crate) fn stands_for(shape: Option<&Shape>, above: &[String], name: &str, key: &str) -> bool {
    name == key
        || match shape {
            Some(Shape::Table(_)) => snake(name) == key,
            Some(Shape::Names(_)) => above == [AGENTS] && name.to_lowercase() == key.to_lowercase(),
            Some(Shape::Leaf(_)) | None => false,
        }
}

/// Returns the most similar known key: a similar name here, or the same name elsewhere.
pub(crate) fn probably(shape: &Shape, path: &KeyPath, name: &str) -> Option<String> {
    let Shape::Table(fields) = shape else {
        return None;
    };
    let name = snake(name);
    if let Some(found) = nearest(&name, fields.keys().map(String::as_str)) {
        return Some(path.join(found).to_string());
    }
    let leaves = SHAPE.leaves().into_iter().map(|(leaf, _)| leaf);
    leaves
        .filter(|leaf| leaf.rsplit('.').next() == Some(&name))
        .min_by_key(|leaf| leaf.matches(['.', '*']).count())
        .map(|leaf| leaf.replace('*', "NAME"))
}

/// Returns the canonical path and the shape of a key, or else the most similar known key.
pub(crate) fn locate(path: &KeyPath) -> Result<(KeyPath, &'static Shape), Option<String>> {
    let mut shape: &Shape = &SHAPE;
    let mut at = KeyPath::root();
    for name in path.segments() {
        let (known, inside) = match shape {
            Shape::Leaf(_) => return Err(None),
            Shape::Table(_) | Shape::Names(_) => {
                known_spelling(shape, name).ok_or_else(|| probably(shape, &at, name))?
            }
        };
        at = at.join(&known);
        shape = inside;
    }
    Ok((at, shape))
}

/// Returns all invalid values of a table.
pub(crate) fn faults(table: &Table) -> Vec<(KeyPath, Fault)> {
    let mut faults = Vec::new();
    check_table(table, &SHAPE, &KeyPath::root(), &mut faults);
    faults
}

fn check_table(table: &Table, shape: &Shape, path: &KeyPath, faults: &mut Vec<(KeyPath, Fault)>) {
    for (name, value) in table {
        let path = path.join(name);
        if let Some(fault) = text_fault(name) {
            faults.push((path.clone(), fault));
        }
        match (shape.below(name), value) {
            (Some(inside @ (Shape::Table(_) | Shape::Names(_))), Value::Table(table)) => {
                check_table(table, inside, &path, faults);
            }
            (Some(Shape::Table(_) | Shape::Names(_)), value) => {
                faults.push((path, wrong_type(Expected::Table, value)));
            }
            (Some(Shape::Leaf(leaf)), value) => {
                faults.extend(leaf_fault(leaf, value).map(|fault| (path, fault)));
            }
            // Unknown keys were removed earlier.
            (None, _) => {}
        }
    }
}

/// Returns what is wrong with one value.
pub(crate) fn leaf_fault(leaf: &Leaf, value: &Value) -> Option<Fault> {
    match (leaf, value) {
        (Leaf::Boolean, Value::Boolean(_)) => None,
        (Leaf::Integer(least, most), Value::Integer(number)) => {
            // Exact: the bounds are far below 2^53, and beyond it only the order matters.
            out_of_range(*number as f64, value, *least, *most)
        }
        (Leaf::Number(least, most), Value::Integer(number)) => {
            out_of_range(*number as f64, value, *least, *most)
        }
        (Leaf::Number(least, most), Value::Float(number)) => {
            out_of_range(*number, value, *least, *most)
        }
        (Leaf::Choice(words), Value::String(word)) => choice_fault(words, word),
        (Leaf::Text(kind), Value::String(text)) => {
            text_fault(text).or_else(|| kind_fault(*kind, text))
        }
        (Leaf::TextList, Value::Array(items)) => {
            items.iter().find_map(|item| match item.as_str() {
                Some(text) => text_fault(text),
                None => Some(wrong_type(Expected::TextList, item)),
            })
        }
        (leaf, value) => Some(wrong_type(expected(leaf), value)),
    }
}

fn expected(leaf: &Leaf) -> Expected {
    match leaf {
        Leaf::Boolean => Expected::Boolean,
        Leaf::Integer(..) => Expected::Integer,
        Leaf::Number(..) => Expected::Number,
        Leaf::Choice(_) | Leaf::Text(_) => Expected::Text,
        Leaf::TextList => Expected::TextList,
    }
}

fn wrong_type(expected: Expected, value: &Value) -> Fault {
    let found = match value {
        Value::Table(_) => Found::Table,
        Value::String(_) => Found::Text,
        Value::Array(_) => Found::List,
        Value::Integer(_) | Value::Float(_) => Found::Number(value.to_string()),
        Value::Boolean(value) => Found::Boolean(*value),
        Value::Datetime(_) => Found::Time,
    };
    Fault::WrongType { expected, found }
}

fn out_of_range(number: f64, value: &Value, minimum: f64, maximum: f64) -> Option<Fault> {
    // NaN is outside every range.
    let inside = (minimum..=maximum).contains(&number);
    (!inside).then(|| Fault::OutOfRange {
        found: value.to_string(),
        minimum,
        maximum,
    })
}

fn choice_fault(words: &[String], word: &str) -> Option<Fault> {
    (!words.iter().any(|known| known == word)).then(|| Fault::NotAChoice {
        found: quoted(&truncate(word, SHOWN_CHARS)),
        choices: words.to_vec(),
    })
}

fn text_fault(text: &str) -> Option<Fault> {
    if text.trim().is_empty() {
        return Some(Fault::Empty);
    }
    text.contains(is_hidden).then_some(Fault::Unprintable)
}

fn kind_fault(kind: Text, text: &str) -> Option<Fault> {
    match kind {
        Text::Any => None,
        Text::Url => url_fault(text).map(Fault::Url),
        Text::VariableName => (!is_variable_name(text)).then_some(Fault::VariableName),
    }
}

/// Accepts upper case only, so that a secret entered here by mistake is refused and not shown as a
/// name.
fn is_variable_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.len() <= 128
        && text.chars().all(letters)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn url_fault(text: &str) -> Option<UrlFault> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Some(UrlFault::Scheme);
    };
    if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return Some(UrlFault::Scheme);
    }
    if rest.contains(['?', '#']) {
        return Some(UrlFault::Query);
    }
    // Some URL parsers treat a backslash as a slash: they would connect to another host than the
    // visible one.
    if rest.contains(|c: char| c.is_whitespace() || c == '\\') {
        return Some(UrlFault::Host);
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Some(UrlFault::User);
    }
    authority_fault(authority)
}

fn authority_fault(authority: &str) -> Option<UrlFault> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let Some((host, after)) = rest.split_once(']') else {
                return Some(UrlFault::Host);
            };
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Some(UrlFault::Host);
            }
            match after.strip_prefix(':') {
                None if after.is_empty() => (host, None),
                None => return Some(UrlFault::Host),
                port => (host, port),
            }
        }
        None => match authority.split_once(':') {
            None => (authority, None),
            Some((host, port)) => (host, Some(port)),
        },
    };
    if host.is_empty() || host.contains(['%', '[', ']']) {
        return Some(UrlFault::Host);
    }
    let number = |port: &str| port.parse::<u16>().is_ok_and(|number| number > 0);
    port.is_some_and(|port| !number(port))
        .then_some(UrlFault::Port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, expected) in [
            ("https://api.example.com", None),
            ("HTTPS://api.example.com/v1/", None),
            ("http://localhost:11434/v1", None),
            ("http://[::1]:8080", None),
            ("https://例子.测试/v1", None),
            ("api.example.com", Some(UrlFault::Scheme)),
            ("ftp://example.com", Some(UrlFault::Scheme)),
            ("file:///etc/passwd", Some(UrlFault::Scheme)),
            ("javascript://x", Some(UrlFault::Scheme)),
            ("https://", Some(UrlFault::Host)),
            ("https:///v1", Some(UrlFault::Host)),
            ("https://:80", Some(UrlFault::Host)),
            ("https://[::1", Some(UrlFault::Host)),
            ("https://[::1]x", Some(UrlFault::Host)),
            ("https://a b", Some(UrlFault::Host)),
            ("https://good.example\\@evil.example", Some(UrlFault::Host)),
            ("https://user:pass@example.com", Some(UrlFault::User)),
            ("https://example.com/?key=1", Some(UrlFault::Query)),
            ("https://example.com#x", Some(UrlFault::Query)),
            ("https://example.com:0", Some(UrlFault::Port)),
            ("https://example.com:70000", Some(UrlFault::Port)),
            ("https://example.com:", Some(UrlFault::Port)),
        ] {
            assert_eq!(url_fault(url), expected, "{url}");
        }
    }

    #[test]
    fn names_of_variables() {
        for (text, expected) in [
            ("OPENAI_API_KEY", true),
            ("_KEY2", true),
            ("sk-ant-abc", false),
            ("gsk_abc", false),
            ("2KEY", false),
            ("$KEY", false),
        ] {
            assert_eq!(is_variable_name(text), expected, "{text}");
        }
    }
}
