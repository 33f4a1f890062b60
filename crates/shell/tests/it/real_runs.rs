//! Tests against bash: allowed commands run only allowed programs, and cleared commands run no
//! denied program.

use sortie_shell::{Pattern, Verdict, read};

use crate::executor;

const CASES: usize = 2_500;
/// More attempts than are needed to find enough commands.
const MOST_TRIES: usize = 3_000_000;

/// Tricky pieces: each is part of a real way around a checker.
const PIECES: [&str; 90] = [
    "$\\\n",
    "<\\\n",
    "&\\\n",
    "(\\\n",
    "ls",
    "ls",
    "ls a",
    "git status",
    "git status",
    "'ls' x",
    "l\\s",
    "l\\\ns",
    "$'ls'",
    "\"git\" sta'tus'",
    "rm x",
    "rm x",
    "rm",
    "r\\m x",
    "'rm' x",
    "./git x",
    "git push",
    "true",
    "echo rm x",
    " ",
    " ",
    " ",
    "\n",
    "\n",
    ";",
    ";",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "(",
    ")",
    "{ ",
    "; }",
    "!",
    "#",
    " #",
    "\\ #",
    "\\",
    "\\\n",
    "'",
    "'",
    "\"",
    "\"",
    "`",
    "`",
    "\\`",
    "$(",
    "$(",
    ")",
    "${x:-",
    "${x:-$(rm x)}",
    "}",
    "$((1+1))",
    "$((",
    "))",
    "$'",
    "$\"",
    "<<E",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<-E\n",
    "\n\tE\n",
    "<(",
    "<(ls)",
    ">(rm x)",
    "2>&1",
    ">/dev/null",
    "2>",
    "<a",
    "<<<",
    "if ls; then",
    "; fi",
    "; else",
    "case a in a)",
    ";; esac",
    "[[ a ]]",
    "[[ a == ",
    " ]]",
    "f() {",
    "*",
    "{a,b}",
    "eval ",
    "bash -c ",
];

fn command(random: &mut fastrand::Rng) -> String {
    let count = random.usize(1..10);
    let mut command = String::new();
    for _ in 0..count {
        command.push_str(PIECES[random.usize(..PIECES.len())]);
        if random.u8(..3) > 0 {
            command.push(' ');
        }
    }
    command
}

/// Generates commands that a checker accepts, with something tricky in each.
fn passing(seed: u64, passes: impl Fn(&str) -> bool) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut found = Vec::new();
    for _ in 0..MOST_TRIES {
        let command = command(&mut random);
        if command.len() > 8 && passes(&command) {
            found.push(command);
        }
        if found.len() == CASES {
            return found;
        }
    }
    panic!("only {} of {CASES} commands pass", found.len());
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Returns whether the allowed patterns permit the program, by an independent implementation.
fn is_allowed(argv: &[String]) -> bool {
    match argv {
        [program, ..] if program == "ls" => true,
        [program, command, ..] => program == "git" && command == "status",
        _ => false,
    }
}

fn beyond(commands: &[String], allowed: impl Fn(&[String]) -> bool) -> Vec<String> {
    let started = executor::run(commands);
    assert!(!started.is_empty(), "nothing was recorded");
    let wrong = started.into_iter().filter(|one| !allowed(&one.argv));
    wrong
        .map(|one| format!("{:?} ran {:?}", commands[one.case], one.argv))
        .collect()
}

#[test]
fn what_is_allowed_runs_only_what_is_allowed() {
    let allowed = patterns(&[
        "git status *",
        "ls *",
        "echo *",
        "true",
        "eval *",
        "bash -c *",
    ]);
    let commands = passing(1, |command| Pattern::all_fit(&allowed, &read(command)));
    assert_eq!(beyond(&commands, is_allowed), Vec::<String>::new());
}

#[test]
fn what_is_clear_of_a_denied_program_does_not_run_it() {
    let denied = patterns(&["rm *"]);
    let commands = passing(2, |command| {
        Pattern::any_fits(&denied, &read(command)) == Verdict::Clear
    });
    let is_allowed = |argv: &[String]| argv.first().is_none_or(|program| program != "rm");
    assert_eq!(beyond(&commands, is_allowed), Vec::<String>::new());
}

/// Positive control: the harness finds commands that a checker of text wrongly accepts.
#[test]
fn text_based_checker_fails_the_harness() {
    let commands = passing(3, |command| {
        let programs = command.split([';', '|', '&']).map(str::trim_start);
        programs
            .into_iter()
            .all(|text| text.starts_with("ls") || text.starts_with("git status"))
    });
    assert!(!beyond(&commands, is_allowed).is_empty());
}
