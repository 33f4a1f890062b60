//! Tests that the search for agent files and skills ends, for any content in their place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::support::World;

/// The number of files that the ordinary test writes.
const FEW: usize = 300;
/// The duration of the long form.
const LONG: Duration = Duration::from_secs(300);

/// The folders that are searched for agents and skills.
const PLACES: &[&str] = &[
    "project/.sortie/agents/a.md",
    "project/.claude/agents/a.md",
    "home/.claude/agents/a.md",
    "project/.sortie/skills/a/SKILL.md",
    "project/.claude/skills/a/SKILL.md",
    "home/.claude/skills/a/SKILL.md",
    "extra/a/SKILL.md",
    "project/.claude/agents",
    "project/.claude/skills",
    "project/.claude/skills/a",
];

/// Pieces of text that are repeated to create deep or long content.
const PIECES: &[&str] = &[
    "[",
    "{a: ",
    "- ",
    "? ",
    "a:\n ",
    "&a [*a, ",
    "!!map {",
    "\"",
    "'",
    "|\n",
    "---\n",
    "\0",
    "\t",
    "\u{feff}",
    "*a ",
    "<<: ",
    "tools: [",
    "description: x\n",
    "é",
    "#",
    "\r\n",
];

/// The kinds of entry that an agent can create in place of a file.
#[derive(Clone, Debug)]
enum Put {
    Bytes(Vec<u8>),
    Pipe,
    Link(&'static str),
    Folder,
    Sparse,
}

fn put() -> BoxedStrategy<Put> {
    let piece = proptest::sample::select(PIECES);
    let deep = (piece, 0_usize..20_000).prop_map(|(piece, times)| piece.repeat(times));
    let yaml = prop_oneof![4 => deep, 1 => any::<String>(), 2 => Just(laughs())];
    let document = yaml.prop_map(|yaml| format!("---\nname: a\ndescription: b\n{yaml}\n---\nbody"));
    prop_oneof![
        8 => document.prop_map(|text| Put::Bytes(text.into_bytes())),
        1 => proptest::collection::vec(any::<u8>(), 0..2_000).prop_map(Put::Bytes),
        1 => Just(Put::Pipe),
        1 => proptest::sample::select(&["/dev/zero", "a.md", "/etc/passwd", "../../.."][..])
            .prop_map(Put::Link),
        1 => Just(Put::Folder),
        1 => Just(Put::Sparse),
    ]
    .boxed()
}

/// Returns YAML with aliases that expand exponentially.
fn laughs() -> String {
    let mut text = "a0: &a0 [x, x, x, x]\n".to_owned();
    for at in 1..30 {
        let before = format!("*a{}", at - 1);
        text.push_str(&format!("a{at}: &a{at} [{before}, {before}, {before}]\n"));
    }
    text
}

impl Put {
    fn at(&self, path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match self {
            Self::Bytes(bytes) => fs::write(path, bytes).unwrap(),
            Self::Pipe => mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap(),
            Self::Link(target) => symlink(target, path).unwrap(),
            Self::Folder => fs::create_dir_all(path.join("inner")).unwrap(),
            Self::Sparse => fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        }
    }
}

fn run(runner: &mut TestRunner, goes_on: impl Fn(usize) -> bool) {
    let strategy = (proptest::sample::select(PLACES), put(), any::<bool>());
    let mut done = 0;
    while goes_on(done) {
        done += 1;
        let (place, put, trusted) = strategy.new_tree(runner).unwrap().current();
        println!(
            "{place} {}",
            format!("{put:?}").chars().take(200).collect::<String>()
        );
        let world = World::new();
        put.at(&world.path().join(place));
        drop((world.agents(trusted), world.skills()));
    }
}

#[test]
fn a_special_file_in_place_of_an_agent_or_a_skill_is_skipped() {
    run(&mut TestRunner::deterministic(), |done| done < FEW);
}

#[test]
#[ignore = "runs for five minutes with a new seed each time"]
fn fuzz_for_minutes() {
    let began = Instant::now();
    let mut runner = TestRunner::new(Config::default());
    run(&mut runner, |_| began.elapsed() < LONG);
}
