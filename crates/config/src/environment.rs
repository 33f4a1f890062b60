//! Keys set by environment variables: `SORTIE__SUBAGENTS__MAX_CONCURRENT=8`, and a few short names.

use toml::{Table, Value};

use crate::case::variable;
use crate::load::Layer;
use crate::shape::{Leaf, SHAPE, Shape};
use crate::{KeyPath, Origin};

const PREFIX: &str = "SORTIE__";
const SEPARATOR: &str = "__";
const SHORT_MODEL: &str = "SORTIE_MODEL";
const SHORT_LANG: &str = "SORTIE_LANG";
/// The most segments of a key path.
const MAX_SEGMENTS: usize = 8;

/// Returns one layer for each variable that sets a key, short names first, so that the long ones
/// win. `known` contains the names that the user chose in files.
pub(crate) fn layers(environment: &[(String, String)], known: &Table) -> Vec<Layer> {
    let mut variables: Vec<_> = environment
        .iter()
        .filter(|(_, value)| !value.trim().is_empty())
        .collect();
    variables.sort();
    variables
        .into_iter()
        .filter_map(|(name, value)| layer(name, value, known))
        .collect()
}

fn layer(name: &str, text: &str, known: &Table) -> Option<Layer> {
    let (key, value) = match name {
        SHORT_MODEL => (KeyPath::from_iter(["model"]), Value::from(text)),
        SHORT_LANG => (KeyPath::from_iter(["lang"]), Value::from(language(text))),
        name => {
            let key = key_of(name.strip_prefix(PREFIX)?, known);
            let value = typed(text, leaf_at(&key));
            (key, value)
        }
    };
    Some(Layer {
        origin: Origin::Environment(name.to_owned()),
        table: table_of(&key, value),
    })
}

/// Returns the language of a text, which may be a locale such as `zh_CN.UTF-8`.
fn language(text: &str) -> &'static str {
    let word = text
        .trim_start()
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .next();
    if word.is_some_and(|word| word.eq_ignore_ascii_case("zh")) {
        "zh"
    } else {
        "en"
    }
}

fn key_of(name: &str, known: &Table) -> KeyPath {
    let mut shape: Option<&Shape> = Some(&SHAPE);
    let mut table = Some(known);
    let mut key = KeyPath::root();
    for segment in name.split(SEPARATOR).take(MAX_SEGMENTS) {
        let chosen = match shape {
            Some(Shape::Names(_)) => chosen_name(segment, table),
            Some(Shape::Table(_) | Shape::Leaf(_)) | None => None,
        };
        let segment = chosen.unwrap_or_else(|| segment.to_lowercase());
        shape = shape.and_then(|shape| shape.below(&segment));
        table = table.and_then(|table| table.get(&segment)?.as_table());
        key = key.join(&segment);
    }
    key
}

/// Returns the name in a file that matches this part of a variable.
fn chosen_name(segment: &str, table: Option<&Table>) -> Option<String> {
    let wanted = variable(segment);
    let mut names = table?.keys();
    names.find(|name| variable(name) == wanted).cloned()
}

/// Returns the definition of a key; `None` if the key is unknown or a table.
pub(crate) fn leaf_at(key: &KeyPath) -> Option<&'static Leaf> {
    let mut shape: &Shape = &SHAPE;
    for segment in key.segments() {
        shape = shape.below(segment)?;
    }
    match shape {
        Shape::Leaf(leaf) => Some(leaf),
        Shape::Table(_) | Shape::Names(_) => None,
    }
}

/// Returns a table with one value at a path.
pub(crate) fn table_of(key: &KeyPath, value: Value) -> Table {
    let mut segments = key.segments().iter().rev();
    // An empty path sets nothing.
    let Some(last) = segments.next() else {
        return Table::new();
    };
    let innermost = Table::from_iter([(last.clone(), value)]);
    segments.fold(innermost, |inside, segment| {
        Table::from_iter([(segment.clone(), Value::Table(inside))])
    })
}

/// Converts a typed text to a value: TOML, or plain text if the key expects text.
pub(crate) fn typed(text: &str, leaf: Option<&Leaf>) -> Value {
    let parsed = text.trim().parse::<Value>().ok();
    match leaf {
        Some(Leaf::Text(_) | Leaf::Choice(_)) => match parsed {
            Some(Value::String(text)) => Value::String(text),
            Some(_) | None => Value::from(text),
        },
        Some(Leaf::TextList) => match parsed {
            Some(Value::Array(items)) => Value::Array(items),
            Some(_) | None => listed(text),
        },
        Some(Leaf::Boolean | Leaf::Integer(..) | Leaf::Number(..)) | None => {
            parsed.unwrap_or_else(|| Value::from(text))
        }
    }
}

fn listed(text: &str) -> Value {
    let items = text.split(',').map(str::trim);
    let items = items.filter(|item| !item.is_empty());
    Value::Array(items.map(Value::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expected: &str) {
        let known: Table = "[providers.my-gateway]\n[models.'a/b-1']".parse().unwrap();
        let layers = layers(&[(name.to_owned(), value.to_owned())], &known);
        let found: Vec<String> = layers
            .iter()
            .map(|layer| {
                let mut path = Vec::new();
                let mut value = Value::Table(layer.table.clone());
                while let Value::Table(table) = value {
                    let (name, inside) = table.into_iter().next().unwrap();
                    path.push(name);
                    value = inside;
                }
                format!("{}={value}", KeyPath::from_iter(path))
            })
            .collect();
        assert_eq!(found.join(" "), expected, "{name}");
    }

    #[test]
    fn variables_set_keys() {
        check(
            "SORTIE__SUBAGENTS__MAX_CONCURRENT",
            "8",
            "subagents.max_concurrent=8",
        );
        check(
            "SORTIE__SUBAGENTS__ENABLED",
            "false",
            "subagents.enabled=false",
        );
        check("SORTIE__MODEL", "a/b", r#"model="a/b""#);
        check("SORTIE__MODEL", r#""a/b""#, r#"model="a/b""#);
        check("SORTIE__THINKING", "8", r#"thinking="8""#);
        check("SORTIE__TEMPERATURE", "0.5", "temperature=0.5");
        check("SORTIE__TEMPERATURE", "hot", r#"temperature="hot""#);
        check(
            "SORTIE__FALLBACKS",
            "a/b, c/d",
            r#"fallbacks=["a/b", "c/d"]"#,
        );
        check("SORTIE__FALLBACKS", "['a/b']", r#"fallbacks=["a/b"]"#);
        check(
            "SORTIE__PROVIDERS__MY_GATEWAY__API_KEY",
            "1",
            r#"providers.my-gateway.api_key="1""#,
        );
        check(
            "SORTIE__PROVIDERS__OTHER__STREAMING",
            "true",
            "providers.other.streaming=true",
        );
        check(
            "SORTIE__MODELS__A_B_1__IMAGES",
            "true",
            r#"models."a/b-1".images=true"#,
        );
        check("SORTIE__NO__SUCH", "x", r#"no.such="x""#);
        check("SORTIE_MODEL", "a/b", r#"model="a/b""#);
        check("SORTIE_LANG", "zh_CN.UTF-8", r#"lang="zh""#);
        check("SORTIE_LANG", "C", r#"lang="en""#);
        check("SORTIE_MODEL", " ", "");
        check("SORTIE_HOME", "/x", "");
        check("PATH", "/x", "");
    }
}
