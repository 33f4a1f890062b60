//! Limits on JSON schemas that a model, an API client or an MCP server supplies.
//!
//! A validator follows a schema by recursion, so a schema can block a thread for ever: `{"allOf":
//! [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]}`, repeated in each of forty definitions, doubles
//! the work with each of them; `{"$ref": "#"}` refers to itself without descending into the value.
//! [`SchemaBounds::of`] rejects the second and measures the first. It reads the schema as a graph,
//! without recursion.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The maximum number of subschemas.
const MAX_NODES: usize = 20_000;
/// How deep a schema may nest; validators compile it by recursion.
const MAX_DEPTH: usize = 100;
/// The most validation steps that a schema may need at one place of a value, and along one path of
/// it.
const MAX_STEPS: u64 = 1_000_000;

/// Keywords that apply another schema to the same value.
const SAME: &[&str] = &["not", "if", "then", "else"];
const SAME_LISTS: &[&str] = &["allOf", "anyOf", "oneOf"];
const SAME_MAPS: &[&str] = &["dependentSchemas", "dependencies"];
const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords that apply another schema to a part of the value. Those of one row never apply to the
/// same part; the flag tells whether the value is an array.
const INNER: &[(bool, &[&str])] = &[
    (false, &["properties", "additionalProperties"]),
    (false, &["patternProperties"]),
    (false, &["unevaluatedProperties"]),
    (false, &["propertyNames"]),
    (true, &["items", "prefixItems", "additionalItems"]),
    (true, &["contains"]),
    (true, &["unevaluatedItems"]),
];

/// How deep a value may nest so that validating it against a schema stays cheap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaBounds {
    max_depth: usize,
}

impl SchemaBounds {
    /// Measures a schema. Fails if no validator can be trusted with it.
    pub fn of(schema: &Value) -> Result<Self, String> {
        if is_deeper(schema, MAX_DEPTH) {
            return Err(format!("it nests deeper than {MAX_DEPTH} levels"));
        }
        let graph = Graph::read(schema)?;
        let order = graph.order_of_same()?;
        let group = graph.groups();
        let mut steps = vec![1_u64; graph.nodes.len()];
        // How often one level of a value is validated again, separately for objects and arrays: no
        // value is both.
        let mut growth = vec![[0_u64; 2]; graph.nodes.len()];
        for &at in &order {
            let node = &graph.nodes[at];
            let recursive = |targets: &[usize]| targets.iter().any(|to| group[*to] == group[at]);
            for row in node.inner.iter().filter(|row| recursive(&row.targets)) {
                growth[at][usize::from(row.of_list)] += 1;
            }
            for &to in &node.same {
                steps[at] = steps[at].saturating_add(steps[to]);
                let [in_object, in_list] = growth[to];
                growth[at][0] = growth[at][0].saturating_add(in_object);
                growth[at][1] = growth[at][1].saturating_add(in_list);
            }
        }
        let most = steps.iter().copied().max().unwrap_or_default();
        if most > MAX_STEPS || graph.steps_along(&group) > MAX_STEPS {
            return Err("its parts refer to each other too often to be checked in time".into());
        }
        let growth = growth.iter().flatten().copied().max().unwrap_or_default();
        let max_depth = match growth {
            0 | 1 => usize::MAX,
            growth => MAX_STEPS.ilog(growth) as usize,
        };
        Ok(Self { max_depth })
    }

    /// Rejects a value that nests too deep for a schema that refers to itself in several ways.
    pub fn check_depth(&self, value: &Value) -> Result<(), String> {
        if !is_deeper(value, self.max_depth) {
            return Ok(());
        }
        Err(format!(
            "it nests deeper than {} levels, too deep for a schema that refers to itself in several ways",
            self.max_depth
        ))
    }
}

fn is_deeper(value: &Value, max_depth: usize) -> bool {
    let mut pending = vec![(value, 0_usize)];
    while let Some((value, depth)) = pending.pop() {
        if depth > max_depth {
            return true;
        }
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => {
                pending.extend(fields.values().map(|field| (field, depth + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

/// A schema and the schemas that it applies.
#[derive(Debug, Default)]
struct Node {
    /// Applied to the same value.
    same: Vec<usize>,
    /// Applied to parts of the value, by the rows of [`INNER`]; each pattern is its own row.
    inner: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    of_list: bool,
    targets: Vec<usize>,
}

#[derive(Debug, Default)]
struct Graph {
    nodes: Vec<Node>,
}

struct Reader<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    known: HashMap<usize, usize>,
    found: Vec<&'a Value>,
}

impl<'a> Reader<'a> {
    fn id(&mut self, schema: &'a Value) -> usize {
        // Two parts of one value never share an address.
        let place = std::ptr::from_ref(schema).addr();
        *self.known.entry(place).or_insert_with(|| {
            self.found.push(schema);
            self.found.len() - 1
        })
    }

    fn ids(&mut self, schemas: impl IntoIterator<Item = &'a Value>) -> Vec<usize> {
        schemas.into_iter().map(|schema| self.id(schema)).collect()
    }

    fn node(&mut self, fields: &'a Map<String, Value>) -> Result<Node, String> {
        let mut node = Node::default();
        for (key, value) in fields {
            let key = key.as_str();
            if SAME.contains(&key) {
                node.same.push(self.id(value));
            } else if SAME_LISTS.contains(&key) {
                let parts = self.ids(value.as_array().into_iter().flatten());
                node.same.extend(parts);
            } else if SAME_MAPS.contains(&key) {
                let parts = self.ids(value.as_object().into_iter().flat_map(Map::values));
                node.same.extend(parts);
            } else if REFERENCES.contains(&key)
                && let Some(name) = value.as_str()
            {
                let targets = self.targets(name)?;
                let targets = self.ids(targets);
                node.same.extend(targets);
            }
        }
        for (of_list, row) in INNER {
            let mut targets = Vec::new();
            for (key, value) in row.iter().filter_map(|key| Some((*key, fields.get(*key)?))) {
                match (key, value) {
                    ("properties", Value::Object(parts)) => {
                        targets.extend(self.ids(parts.values()));
                    }
                    ("patternProperties", Value::Object(parts)) => {
                        let rows = self.ids(parts.values());
                        node.inner.extend(rows.into_iter().map(|target| Row {
                            of_list: false,
                            targets: vec![target],
                        }));
                    }
                    (_, Value::Array(parts)) => targets.extend(self.ids(parts)),
                    (_, other) => targets.push(self.id(other)),
                }
            }
            node.inner.push(Row {
                of_list: *of_list,
                targets,
            });
        }
        Ok(node)
    }

    /// Returns the schemas that a reference may lead to.
    fn targets(&self, name: &str) -> Result<Vec<&'a Value>, String> {
        let outside =
            || format!("it refers to {name:?}; only references inside the schema are supported");
        let place = name.strip_prefix('#').ok_or_else(outside)?;
        if place.is_empty() {
            return Ok(vec![self.root]);
        }
        if place.starts_with('/') {
            let place = decoded(place).ok_or_else(outside)?;
            let target = self.root.pointer(&place).ok_or_else(outside)?;
            return Ok(vec![target]);
        }
        self.anchors.get(place).cloned().ok_or_else(outside)
    }
}

impl Graph {
    fn read(root: &Value) -> Result<Self, String> {
        let mut reader = Reader {
            root,
            anchors: anchors(root),
            known: HashMap::new(),
            found: Vec::new(),
        };
        reader.id(root);
        let mut nodes = Vec::new();
        while let Some(schema) = reader.found.get(nodes.len()).copied() {
            if nodes.len() == MAX_NODES {
                return Err(format!("it has more than {MAX_NODES} parts"));
            }
            let Value::Object(fields) = schema else {
                nodes.push(Node::default());
                continue;
            };
            // A nested `$id` would change the base of the references below it.
            if !nodes.is_empty() && fields.get("$id").is_some_and(Value::is_string) {
                return Err("a part of it has a name of its own (`$id`)".to_owned());
            }
            nodes.push(reader.node(fields)?);
        }
        Ok(Self { nodes })
    }

    /// Sorts the nodes so that each comes after those that it applies to the same value. There is
    /// no such order if a node leads back to itself: a validator would not terminate.
    fn order_of_same(&self) -> Result<Vec<usize>, String> {
        let mut waiting: Vec<usize> = self.nodes.iter().map(|node| node.same.len()).collect();
        let mut users = vec![Vec::new(); self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            node.same.iter().for_each(|to| users[*to].push(at));
        }
        let free = waiting.iter().enumerate().filter(|(_, count)| **count == 0);
        let mut order: Vec<usize> = free.map(|(at, _)| at).collect();
        let mut next = 0;
        while let Some(&at) = order.get(next) {
            next += 1;
            for &user in &users[at] {
                waiting[user] -= 1;
                if waiting[user] == 0 {
                    order.push(user);
                }
            }
        }
        if order.len() == self.nodes.len() {
            return Ok(order);
        }
        Err("a part of it refers to itself without looking into the value".to_owned())
    }

    fn targets(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let node = &self.nodes[at];
        let inner = node.inner.iter().flat_map(|row| &row.targets);
        node.same.iter().chain(inner).copied()
    }

    /// Returns the strongly connected component of each node. A component that leads to another has
    /// the lower number.
    fn groups(&self) -> Vec<usize> {
        let mut finished = Vec::with_capacity(self.nodes.len());
        let mut seen = vec![false; self.nodes.len()];
        for start in 0..self.nodes.len() {
            let mut way = vec![(start, false)];
            while let Some((at, is_done)) = way.pop() {
                if is_done {
                    finished.push(at);
                } else if !std::mem::replace(&mut seen[at], true) {
                    way.push((at, true));
                    way.extend(
                        self.targets(at)
                            .filter(|to| !seen[*to])
                            .map(|to| (to, false)),
                    );
                }
            }
        }
        let mut back = vec![Vec::new(); self.nodes.len()];
        for at in 0..self.nodes.len() {
            self.targets(at).for_each(|to| back[to].push(at));
        }
        let mut group = vec![usize::MAX; self.nodes.len()];
        let mut count = 0;
        for &start in finished.iter().rev() {
            let mut way = vec![start];
            let mut is_new = false;
            while let Some(at) = way.pop() {
                if group[at] == usize::MAX {
                    group[at] = count;
                    is_new = true;
                    way.extend(&back[at]);
                }
            }
            count += usize::from(is_new);
        }
        group
    }

    /// Returns the most validation steps along one path of a value, without references back into
    /// the same component.
    fn steps_along(&self, group: &[usize]) -> u64 {
        let groups = group.iter().max().map_or(0, |last| last + 1);
        let mut members = vec![Vec::new(); groups];
        for (at, number) in group.iter().enumerate() {
            members[*number].push(at);
        }
        let mut steps = vec![0_u64; groups];
        for number in (0..groups).rev() {
            let mut sum = members[number].len() as u64;
            for &at in &members[number] {
                for to in self.targets(at).filter(|to| group[*to] != number) {
                    sum = sum.saturating_add(steps[group[to]]);
                }
            }
            steps[number] = sum;
        }
        group.first().map_or(0, |root| steps[*root])
    }
}

/// Finds all named subschemas.
fn anchors(root: &Value) -> HashMap<&str, Vec<&Value>> {
    let mut anchors: HashMap<&str, Vec<&Value>> = HashMap::new();
    let mut pending = vec![root];
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => {
                for key in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = fields.get(key).and_then(Value::as_str) {
                        anchors.entry(name).or_default().push(value);
                    }
                }
                pending.extend(fields.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    anchors
}

/// Decodes `%` sequences of a JSON pointer; `None` if they are invalid.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ordinary_schemas_are_accepted() {
        let node = json!({"$ref": "#/$defs/node"});
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "$ref": {"type": "string"}}}),
            json!({"$defs": {"node": {"properties": {"left": node, "right": node, "all": {"items": node}}}}, "$ref": "#/$defs/node"}),
            json!({"properties": {"next": {"$ref": "#"}}}),
            json!({"$defs": {"a b": {"type": "null"}}, "items": {"$ref": "#/$defs/a%20b"}}),
            json!({"anyOf": [{"type": "string"}, {"additionalProperties": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}),
            json!({"$defs": {"x": {"$anchor": "name", "type": "null"}}, "$ref": "#name"}),
        ] {
            let bounds = SchemaBounds::of(&schema).unwrap_or_else(|why| panic!("{schema}: {why}"));
            let mut deep = json!({});
            for _ in 0..15 {
                deep = json!({"next": deep});
            }
            bounds.check_depth(&deep).unwrap();
        }
    }

    #[test]
    fn schemas_that_never_terminate_are_rejected() {
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"items": deep});
        }
        let mut doubling = Map::new();
        for at in 0..64 {
            let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
            doubling.insert(format!("d{at}"), json!({"allOf": [next, next]}));
        }
        doubling.insert("d64".to_owned(), json!({}));
        let inner: Map<String, Value> = doubling
            .iter()
            .map(|(name, schema)| (name.clone(), json!({"properties": {"x": schema}})))
            .collect();
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"not": {"$ref": "#"}}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "items": {"$ref": "#/$defs/a"}}),
            json!({"$anchor": "me", "$ref": "#me"}),
            json!({"$dynamicAnchor": "me", "if": {"$dynamicRef": "#me"}}),
            json!({"$recursiveRef": "#"}),
            json!({"$id": "http://x/", "allOf": [{"$ref": "http://x/"}]}),
            json!({"$defs": {"a": {"$id": "http://x/", "$ref": "#"}}, "$ref": "#/$defs/a"}),
            json!({"$ref": "#/$defs/missing"}),
            json!({"$defs": doubling, "$ref": "#/$defs/d0"}),
            json!({"$defs": inner, "$ref": "#/$defs/d0"}),
            deep,
        ] {
            assert!(SchemaBounds::of(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_value_is_bounded_where_each_level_multiplies_the_work() {
        let twice = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        let patterns = json!({"patternProperties": {"a": {"$ref": "#"}, "^a": {"$ref": "#"}}});
        for schema in [twice, patterns] {
            let bounds = SchemaBounds::of(&schema).unwrap();
            let nested =
                |levels: usize| (0..levels).fold(json!({}), |inside, _| json!({ "a": inside }));
            bounds.check_depth(&nested(12)).unwrap();
            bounds.check_depth(&nested(60)).unwrap_err();
        }
    }
}
