use std::time::{Duration, Instant};

use proptest::prelude::*;
use sortie_shell::{MAX_BYTES, Pattern, Understanding, dangers, read};

/// Far more than a call takes, and far less than a blow-up would take.
const LONGEST: Duration = Duration::from_secs(5);

/// Calls every public function with a command.
fn use_all(command: &str) -> Understanding {
    let understanding = read(command);
    let patterns: Vec<Pattern> = ["git status *", "* *a*b*c", "rm *"]
        .map(|text| text.parse().unwrap())
        .into();
    Pattern::all_fit(&patterns, &understanding);
    Pattern::any_fits(&patterns, &understanding);
    dangers(&understanding);
    understanding
}

/// Pieces of bash that have a meaning in combination.
const FRAGMENTS: [&str; 62] = [
    "ls",
    "rm",
    "git",
    " ",
    " ",
    "\n",
    ";",
    "&",
    "|",
    "&&",
    "||",
    "(",
    ")",
    "{",
    "}",
    "$(",
    "${",
    "$((",
    "))",
    "`",
    "'",
    "\"",
    "$'",
    "\\",
    "\\\n",
    "<<E",
    "\nE\n",
    "<<-'E'",
    "<<<",
    "<(",
    ">(",
    ">",
    ">&",
    "2>",
    "&>",
    "#",
    "=",
    "a=",
    "a=(",
    "[",
    "]",
    "[[ ",
    " ]]",
    "if ",
    "; then ",
    "; fi",
    "for x in ",
    "; do ",
    "; done",
    "case x in ",
    ";;",
    " esac",
    "f()",
    "function ",
    "*",
    "~",
    "!",
    "time ",
    "eval ",
    "bash -c ",
    "env ",
    "\u{e9}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(command in "\\PC{0,200}") {
        use_all(&command);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        use_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_fragments_make_it_panic(parts in proptest::collection::vec(0..FRAGMENTS.len(), 0..60)) {
        let command: String = parts.into_iter().map(|part| FRAGMENTS[part]).collect();
        use_all(&command);
    }
}

fn check(name: &str, command: &str) {
    let start = Instant::now();
    use_all(command);
    let taken = start.elapsed();
    assert!(taken < LONGEST, "{name} took {taken:?}");
}

#[test]
fn the_longest_input_takes_bounded_time() {
    for part in FRAGMENTS {
        for joint in ["", " "] {
            let unit = format!("{part}{joint}");
            let command = unit.repeat(MAX_BYTES / unit.len());
            check(part, &command);
        }
    }
}

#[test]
fn deep_nesting_takes_bounded_time() {
    for (open, close) in [
        ("(", ")"),
        ("$(", ")"),
        ("echo $(", ")"),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("\"${x:-", "}\""),
        ("$((", "))"),
        ("{ ", "; }"),
        ("if ", "; then x; fi"),
        ("case x in a) ", ";; esac"),
        ("f() { ", "; }"),
        ("<(", ")"),
        ("eval \"$(", ")\""),
        ("bash -c \"$(", ")\""),
        ("env -S '", "'"),
        ("find -exec ", " ;"),
        ("xargs ", ""),
        ("git -c alias.a='!", "' a"),
        ("cat <<E\n$(", "\n)\nE\n"),
        ("trap \"", "\" EXIT"),
        ("sudo sh -c 'eval ", "'"),
    ] {
        for depth in [10, 30, 100, 3_000] {
            let command = format!("{}ls{}", open.repeat(depth), close.repeat(depth));
            check(open, &command);
        }
    }
}

#[test]
fn input_beyond_a_limit_is_not_understood() {
    let too_long = "a".repeat(MAX_BYTES + 1);
    let too_deep = "( ".repeat(100) + "ls" + &" )".repeat(100);
    let too_much = "a;".repeat(10_000);
    for command in [too_long, too_deep, too_much] {
        let understanding = read(&command);
        assert!(
            matches!(understanding, Understanding::Not { .. }),
            "{command:.40}"
        );
    }
}
