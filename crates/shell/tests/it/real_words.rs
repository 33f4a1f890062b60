//! Tests that the parsed words are the words that bash passes to programs.

use sortie_shell::{Understanding, Word, read};

use crate::executor;

const CASES: usize = 4_000;

const PIECES: [&str; 58] = [
    "a",
    "b",
    "ab",
    "x",
    "é",
    "'a b'",
    "\"a b\"",
    "''",
    "\"\"",
    "\\ ",
    "\\a",
    "\\\\",
    "\\'",
    "\\\"",
    "\\$",
    "\\\n",
    "'\\'",
    "'\n'",
    "\"\n\"",
    "\"\\\n\"",
    "\"\\a\"",
    "\"\\\\\"",
    "\"\\\"\"",
    "\"\\$x\"",
    "\"'\"",
    "'\"'",
    "$'a'",
    "$'\\n'",
    "$'\\x41'",
    "$'\\x4g'",
    "$'\\101'",
    "$'\\u0041b'",
    "$'\\''",
    "$'\\\"\\?\\q'",
    "$'\\\\'",
    "$'\\x'",
    "$",
    "\"$\"",
    "#",
    "~",
    "=",
    ":",
    "+",
    "-",
    "{",
    "}",
    "{}",
    "{a}",
    ",",
    "..",
    "{a\\,b}",
    "[",
    "]",
    "!",
    "^",
    "%",
    "@",
    "\t",
];

#[test]
fn parsed_words_are_those_that_bash_passes_to_programs() {
    let mut random = fastrand::Rng::with_seed(20_261_116);
    let commands: Vec<String> = (0..CASES).map(|_| command(&mut random)).collect();
    let started = executor::run(&commands);
    let mut compared = 0;
    for (index, command) in commands.iter().enumerate() {
        let Some(expected) = known_words(command) else {
            continue;
        };
        let got: Vec<&[String]> = started
            .iter()
            .filter(|one| one.case == index)
            .map(|one| one.argv.as_slice())
            .collect();
        assert_eq!(got, [expected.as_slice()], "{command:?}");
        compared += 1;
    }
    assert!(
        compared > CASES / 2,
        "only {compared} were certain enough to compare"
    );
}

fn command(random: &mut fastrand::Rng) -> String {
    let mut command = "p".to_owned();
    for _ in 0..random.usize(1..5) {
        command.push(' ');
        for _ in 0..random.usize(1..5) {
            command.push_str(PIECES[random.usize(..PIECES.len())]);
        }
    }
    command
}

/// Returns the words, if the checker reports all of them as known.
fn known_words(command: &str) -> Option<Vec<String>> {
    let Understanding::Whole(script) = read(command) else {
        return None;
    };
    let [simple] = script.commands.as_slice() else {
        return None;
    };
    let words = simple.words.iter().map(Word::known);
    words.map(|word| word.map(str::to_owned)).collect()
}
