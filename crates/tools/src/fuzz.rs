//! Tests: whatever arguments a model writes, each call has one outcome and no other effect.
//!
//! The arguments follow the schema of the tool as far as it goes, because arguments that do not fit
//! are rejected before a tool sees them. The values are those that break code: deep paths, nested
//! patterns, NULs, huge numbers, names of pipes, devices, sparse files and links. A stack overflow
//! ends the process; the test runner then reports the last printed line, which is the call.

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use sortie_core::ports::tool::{Tool, ToolOutcome};

use crate::testing::{Delegation, Folder, outcome_with};
use crate::{ToolSettings, standard_tools};

/// Far more than any call takes. A call that has not ended by then never ends.
const AT_MOST: Duration = Duration::from_secs(120);
/// More than the result of any tool.
const MAX_TEXT_BYTES: usize = 2 << 20;
/// The number of calls in the ordinary test.
const FEW: usize = 300;
/// The duration of the long test.
const LONG: Duration = Duration::from_secs(300);

/// Names that exist in the workspace of [`world`].
const NAMES: &[&str] = &[
    ".",
    "..",
    "/",
    "",
    "file",
    "pipe",
    "zero",
    "sparse",
    "loop",
    "out",
    "out/kept",
    "folder",
    "folder/pipe",
    ".git/config",
    "binary",
    "link",
    "dangling",
    "**/*",
    "*",
    "{a,b}",
    "x",
    "blob:x",
    "/etc/passwd",
    "/proc/self/environ",
    "folder/../../out",
    "file/",
    "~",
    "file\0",
    "\u{7f}",
];

/// Pieces that are repeated to build deep input.
const PIECES: &[&str] = &[
    "a/", "../", "./", "/", "(", "[", "{", "(a|", "a{9}", "\\", "{a,", "!", "**/", "[[:a", "?",
    "\"", "\n", "\0", "é", "{\"a\":", "\r\n", "x",
];

/// Pairs of delimiters that nest.
const PAIRS: &[(&str, &str)] = &[
    ("{", "}"),
    ("{a,", "}"),
    ("(", ")"),
    ("(?:a|", ")"),
    ("[", "]"),
];

fn text() -> BoxedStrategy<String> {
    let piece = proptest::sample::select(PIECES);
    prop_oneof![
        4 => proptest::sample::select(NAMES).prop_map(str::to_owned),
        3 => (piece.clone(), 0_usize..3_000).prop_map(|(piece, times)| piece.repeat(times)),
        1 => (piece, 0_usize..200_000).prop_map(|(piece, times)| piece.repeat(times)),
        1 => any::<String>(),
        2 => (proptest::sample::select(PAIRS), 0_usize..500).prop_map(|((open, close), times)| {
            format!("{}x{}", open.repeat(times), close.repeat(times))
        }),
        1 => "[a-z*?\\[\\]{}()|^$.]{1,40}",
    ]
    .boxed()
}

fn number() -> BoxedStrategy<Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        (0_u64..10).prop_map(Value::from),
        Just(json!(1e308)),
        Just(json!(-1)),
    ]
    .boxed()
}

fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
        (0_usize..100).prop_map(|depth| (0..depth).fold(json!([]), |inside, _| json!([inside]))),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
    .boxed()
}

/// Generates values that fit a schema most of the time.
fn fitting(schema: &Value) -> BoxedStrategy<Value> {
    let fits = match (schema["type"].as_str(), schema["enum"].as_array()) {
        (_, Some(values)) => proptest::sample::select(values.clone()).boxed(),
        (Some("string"), None) => text().prop_map(Value::from).boxed(),
        (Some("integer" | "number"), None) => number(),
        (Some("boolean"), None) => any::<bool>().prop_map(Value::from).boxed(),
        (Some("array"), None) => proptest::collection::vec(fitting(&schema["items"]), 0..4)
            .prop_map(Value::from)
            .boxed(),
        (Some("object"), None) => object(schema),
        (Some(_) | None, None) => anything(),
    };
    prop_oneof![15 => fits, 1 => anything()].boxed()
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    let Some(properties) = schema["properties"].as_object() else {
        return anything();
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let start = Just(Map::new()).boxed();
    let fields = properties.iter().fold(start, |fields, (name, schema)| {
        let chance = if required.contains(&json!(name)) {
            0.95
        } else {
            0.4
        };
        let field = proptest::option::weighted(chance, fitting(schema));
        let name = name.clone();
        (fields, field)
            .prop_map(move |(mut fields, field)| {
                fields.extend(field.map(|value| (name.clone(), value)));
                fields
            })
            .boxed()
    });
    fields.prop_map(Value::Object).boxed()
}

/// Creates a workspace that contains every kind of special file, and a folder outside it.
fn world() -> (Folder, Folder) {
    let outside = Folder::with(&[("kept", "as it was\n")]);
    let folder = Folder::with(&[
        ("file", "one\ntwo\n"),
        ("folder/inner", "three\r\n"),
        (".git/config", "[core]\n"),
    ]);
    folder.write("binary", b"\0\xff\xfe");
    folder.fifo("pipe");
    folder.fifo("folder/pipe");
    folder.fifo("folder/.gitignore");
    folder.link("zero", Path::new("/dev/zero"));
    folder.link("loop", Path::new("loop"));
    folder.link("link", Path::new("file"));
    folder.link("dangling", Path::new("nothing"));
    folder.link("out", outside.path());
    let sparse = std::fs::File::create(folder.path().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let deep = folder.path().join("d/".repeat(200));
    std::fs::create_dir_all(deep).unwrap();
    (folder, outside)
}

async fn run(runner: &mut TestRunner, goes_on: impl Fn(usize) -> bool) {
    let tools = standard_tools(ToolSettings::default());
    let strategies: Vec<_> = tools
        .iter()
        .map(|tool| object(&tool.spec().parameters))
        .collect();
    let (mut folder, mut outside) = world();
    let mut done = 0;
    while goes_on(done) {
        if done % 50 == 0 {
            (folder, outside) = world();
        }
        let at = done % tools.len();
        done += 1;
        let mut arguments = strategies[at].new_tree(runner).unwrap().current();
        let tool = tools[at].as_ref();
        if tool.spec().name == "exec" && arguments.get("command").is_some() {
            // Random text must not be executed; the other arguments are random enough.
            arguments["command"] = json!("true");
        }
        let beginning: String = arguments.to_string().chars().take(300).collect();
        println!("{} {beginning}", tool.spec().name);
        one_outcome(tool, &folder, arguments).await;
        assert_eq!(outside.read("kept"), "as it was\n");
        let count = std::fs::read_dir(outside.path()).unwrap().count();
        assert_eq!(count, 1, "something was made outside the workspace");
        assert_eq!(folder.read(".git/config"), "[core]\n");
    }
}

async fn one_outcome(tool: &dyn Tool, folder: &Folder, arguments: Value) {
    let delegation = Delegation::default();
    let call = outcome_with(tool, folder, arguments, &delegation);
    let outcome = tokio::time::timeout(AT_MOST, call).await;
    let text = match outcome.expect("the call ends") {
        Ok(ToolOutcome::Answer(answer)) => answer.text,
        Ok(ToolOutcome::Waits(_) | ToolOutcome::Asks { .. }) => String::new(),
        Err(failure) => failure.to_string(),
    };
    assert!(text.len() <= MAX_TEXT_BYTES, "{} bytes", text.len());
}

#[tokio::test]
async fn random_arguments_of_every_tool_come_to_one_outcome() {
    let mut runner = TestRunner::deterministic();
    run(&mut runner, |done| done < FEW).await;
}

#[tokio::test]
#[ignore = "runs for five minutes with a new seed each time"]
async fn fuzz_for_minutes() {
    let mut runner = TestRunner::new(Config::default());
    let began = Instant::now();
    run(&mut runner, |_| began.elapsed() < LONG).await;
}
