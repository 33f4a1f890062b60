//! The JSON schema, converted to the form that the checks use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::schema;

/// The shape of the whole configuration.
pub(crate) static SHAPE: LazyLock<Shape> = LazyLock::new(|| Shape::of(&schema::inlined()));

/// What the configuration may contain at one path.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A table with these keys.
    Table(BTreeMap<String, Shape>),
    /// A table whose names the user chooses.
    Names(Box<Shape>),
    Leaf(Leaf),
}

/// The type of a value.
#[derive(Debug)]
pub(crate) enum Leaf {
    Boolean,
    /// An integer from the first bound to the second.
    Integer(f64, f64),
    /// A number from the first bound to the second.
    Number(f64, f64),
    /// A string that is one of these choices.
    Choice(Vec<String>),
    Text(Text),
    /// A list of strings.
    TextList,
}

/// The kind of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Any,
    /// An address that requests can be sent to.
    Url,
    /// The name of an environment variable.
    VariableName,
}

impl Shape {
    fn of(schema: &Value) -> Self {
        if let Some(fields) = schema["properties"].as_object() {
            let field = |(name, schema): (&String, &Value)| (name.clone(), Self::of(schema));
            return Self::Table(fields.iter().map(field).collect());
        }
        if schema["additionalProperties"].is_object() {
            return Self::Names(Box::new(Self::of(&schema["additionalProperties"])));
        }
        Self::Leaf(Leaf::of(schema))
    }

    /// Returns the shape below one name.
    pub(crate) fn below(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Table(fields) => fields.get(name),
            Self::Names(inside) => Some(inside),
            Self::Leaf(_) => None,
        }
    }

    /// Returns the path and type of every value; `*` stands for a name that the user chooses.
    pub(crate) fn leaves(&self) -> Vec<(String, &Leaf)> {
        match self {
            Self::Table(fields) => fields
                .iter()
                .flat_map(|(name, shape)| under(name, shape))
                .collect(),
            Self::Names(inside) => under("*", inside),
            Self::Leaf(leaf) => vec![(String::new(), leaf)],
        }
    }
}

fn under<'a>(name: &str, shape: &'a Shape) -> Vec<(String, &'a Leaf)> {
    let leaves = shape.leaves().into_iter();
    leaves
        .map(|(path, leaf)| match path.as_str() {
            "" => (name.to_owned(), leaf),
            path => (format!("{name}.{path}"), leaf),
        })
        .collect()
}

impl Leaf {
    fn of(schema: &Value) -> Self {
        if let Some(words) = choices(schema) {
            return Self::Choice(words);
        }
        let bound = |name: &str, other: f64| schema[name].as_f64().unwrap_or(other);
        let (least, most) = (bound("minimum", f64::MIN), bound("maximum", f64::MAX));
        match schema["type"].as_str().unwrap_or_default() {
            "boolean" => Self::Boolean,
            "integer" => Self::Integer(least, most),
            "number" => Self::Number(least, most),
            "array" => Self::TextList,
            _ => Self::Text(Text::of(schema)),
        }
    }
}

impl Text {
    fn of(schema: &Value) -> Self {
        match schema["format"].as_str().unwrap_or_default() {
            "uri" => Self::Url,
            "environment-variable" => Self::VariableName,
            _ => Self::Any,
        }
    }
}

/// Returns the choices of an enum: variants with a description, and all others in one list.
fn choices(schema: &Value) -> Option<Vec<String>> {
    let words: Vec<&Value> = match (schema["oneOf"].as_array(), schema["enum"].as_array()) {
        // A variant with a description has an entry of its own; the others share a list.
        (Some(variants), _) => variants
            .iter()
            .flat_map(|variant| match variant["enum"].as_array() {
                Some(words) => words.iter().collect(),
                None => vec![&variant["const"]],
            })
            .collect(),
        (None, Some(words)) => words.iter().collect(),
        (None, None) => return None,
    };
    let words = words.into_iter().filter_map(Value::as_str);
    Some(words.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_the_schema_is_understood() {
        let schema = schema::inlined();
        for (path, leaf) in SHAPE.leaves() {
            let mut at = &schema;
            for name in path.split('.') {
                at = match name {
                    "*" => &at["additionalProperties"],
                    name => &at["properties"][name],
                };
            }
            let kind = at["type"].as_str().unwrap_or("choice");
            let fits = match leaf {
                Leaf::Boolean => kind == "boolean",
                Leaf::Integer(least, most) => kind == "integer" && *least >= 0.0 && *most < 1e15,
                Leaf::Number(least, most) => kind == "number" && *least >= 0.0 && *most < 1e15,
                Leaf::Choice(words) => words.len() > 1,
                Leaf::Text(_) => kind == "string",
                Leaf::TextList => kind == "array" && at["items"]["type"] == "string",
            };
            assert!(fits, "{path} is {leaf:?} and {at}");
            assert!(
                at["description"].is_string() || path.ends_with(".*"),
                "{path}"
            );
        }
    }
}
