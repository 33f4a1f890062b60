//! Notes on a command for the approver: the programs that it would start, and the files that it
//! would write. The command itself is shown beside them, verbatim.

use sortie_shell::{Redirect, Simple, Understanding, Word, read};

use sortie_base::truncate::truncate;

/// The most programs that are shown.
const MAX_PROGRAMS: usize = 40;
/// The most characters of one program that are shown.
const MAX_PROGRAM_CHARS: usize = 300;

/// Returns one program with its arguments per line, then the files that are written.
pub(super) fn shown(command: &str) -> String {
    let understanding = read(command);
    let mut lines = programs(&understanding);
    match &understanding {
        Understanding::Whole(_) => {}
        Understanding::Partly { why, .. } | Understanding::Not { why } => {
            lines.push(format!("not fully parsed: {why}"));
        }
    }
    lines.join("\n")
}

fn programs(understanding: &Understanding) -> Vec<String> {
    let Some(script) = understanding.script() else {
        return Vec::new();
    };
    let all = script.effective();
    let named = all.iter().filter(|simple| !simple.words.is_empty());
    let mut lines: Vec<String> = named
        .clone()
        .take(MAX_PROGRAMS)
        .map(|one| line(one))
        .collect();
    let more = named.count().saturating_sub(MAX_PROGRAMS);
    if more > 0 {
        lines.push(format!("({more} more programs)"));
    }
    let written = all
        .iter()
        .flat_map(|simple| &simple.redirects)
        .filter_map(written);
    lines.extend(written.take(MAX_PROGRAMS));
    lines
}

fn written(redirect: &Redirect) -> Option<String> {
    match redirect {
        Redirect::Writes(file) => Some(truncate(
            &format!("writes to {}", word(file)),
            MAX_PROGRAM_CHARS,
        )),
        Redirect::Reads(_) | Redirect::Duplicates | Redirect::Text(_) => None,
    }
}

fn line(simple: &Simple) -> String {
    let words: Vec<String> = simple.words.iter().map(word).collect();
    truncate(&words.join(" "), MAX_PROGRAM_CHARS)
}

/// Quotes a word as it could be typed, so that one word never looks like two.
fn word(word: &Word) -> String {
    let plain = |text: &str| {
        let usual = |one: char| one.is_alphanumeric() || "-_./:=@%+,".contains(one);
        !text.is_empty() && text.chars().all(usual)
    };
    match word {
        Word::Known(text) if plain(text) => text.clone(),
        // Hidden characters stay as they are: the code that displays the note escapes them, once.
        Word::Known(text) => {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{}\"", text.replace('\n', "\\n"))
        }
        Word::Unknown(text) | Word::Single(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expected: &str) {
        assert_eq!(shown(command), expected, "{command}");
    }

    #[test]
    fn every_program_is_shown() {
        check("git status", "git status");
        check(
            "cd src && \"r\"m 'a b' | tee log",
            "cd src\nrm \"a b\"\ntee log",
        );
        check(
            "env X=1 sh -c 'ls -l'",
            "env X=1 sh -c \"ls -l\"\nsh -c \"ls -l\"\nls -l",
        );
        check("printf 'a\nb'", "printf \"a\\nb\"");
    }

    #[test]
    fn unclear_commands_are_noted() {
        let text = shown("$program x");
        assert!(text.contains("not fully parsed: "), "{text}");
        let text = shown("if");
        assert!(text.starts_with("not fully parsed: "), "{text}");
    }

    #[test]
    fn files_that_are_written_are_noted() {
        check(
            "cat x | sort > /tmp/x 2>&1 && echo done >> README.md",
            "cat x\nsort\necho done\nwrites to /tmp/x\nwrites to README.md",
        );
    }

    #[test]
    fn number_of_programs_is_bounded() {
        let text = shown(&"true; ".repeat(100));
        assert_eq!(text.lines().count(), MAX_PROGRAMS + 1);
        assert!(text.ends_with("(60 more programs)"), "{text}");
    }
}
