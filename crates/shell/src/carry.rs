//! Completes a simple command with what it would start or change beyond its own words.

mod git;
mod shells;

pub(crate) use shells::is_shell;

use crate::reader::MAX_DEPTH;
use crate::script::{Redirect, Script, Simple, Understanding, Word};
use crate::wrapper::{self, Runs, Wrapper};

/// How many levels a program counts that starts another: eight in a row are more than anybody
/// writes, and each may be as long as the whole.
const CARRIED_DEPTH: usize = MAX_DEPTH / 8;

/// Why a command cannot be told wholly.
type Doubt = Option<String>;

/// Builtins that may change what later words mean.
const CHANGERS: [&str; 8] = [
    "alias", "bind", "compgen", "complete", "enable", "fc", "let", "shopt",
];
/// Builtins that give values to variables.
const ASSIGNERS: [&str; 11] = [
    "declare",
    "export",
    "getopts",
    "local",
    "mapfile",
    "read",
    "readarray",
    "readonly",
    "typeset",
    "unset",
    "let",
];
/// Builtins that evaluate the subscript of a variable's name.
const EVALUATORS: [&str; 15] = [
    "[",
    "declare",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "test",
    "typeset",
    "unset",
    "wait",
];
/// Variables whose text some program runs.
const RUN_LATER: [&str; 14] = [
    "BASH_ENV",
    "ENV",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "LD_AUDIT",
    "LD_PRELOAD",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
];

/// Adds what the command carries; says what remains in doubt.
pub(crate) fn complete(command: &mut Simple, depth: usize) -> Doubt {
    let mut carrier = Carrier {
        depth,
        scripts: Vec::new(),
        doubt: None,
    };
    carrier.variables(command);
    match command.words.first() {
        None => {}
        Some(Word::Unknown(_)) => carrier.doubt("a program's name is not known before it runs"),
        Some(Word::Known(_)) => {
            let name = command.program().unwrap_or_default().to_owned();
            carrier.builtin(&name, command);
            carrier.started(&name, command);
        }
    }
    command.carries = carrier.scripts;
    carrier.doubt
}

/// Gathers what one command carries.
struct Carrier {
    depth: usize,
    scripts: Vec<Script>,
    doubt: Doubt,
}

impl Carrier {
    fn doubt(&mut self, why: &str) {
        self.doubt.get_or_insert_with(|| why.to_owned());
    }

    fn variables(&mut self, command: &Simple) {
        for (name, _) in &command.assignments {
            if RUN_LATER.contains(&name.as_str()) || name.starts_with("BASH_FUNC") {
                self.doubt(&format!("what {name} holds may be run"));
            }
        }
    }

    /// Looks at what the shell's own commands change.
    fn builtin(&mut self, name: &str, command: &mut Simple) {
        let sets = command.arguments().first().and_then(Word::known);
        let printf = name == "printf" && sets.is_some_and(|first| first.starts_with("-v"));
        if (ASSIGNERS.contains(&name) && !command.arguments().is_empty()) || printf {
            let value = Word::Unknown(String::new());
            command.assignments.push((name.to_owned(), value));
        }
        if CHANGERS.contains(&name) {
            self.doubt(&format!("{name} may change what other words mean"));
        }
        let evaluated = |text: &str| text.contains('[') && text.contains(['$', '`']);
        let words = command.arguments().iter().filter_map(Word::known);
        if EVALUATORS.contains(&name) && words.clone().any(evaluated) {
            self.doubt(&format!("{name} may run what a quoted text holds"));
        }
        let options: Vec<&str> = words.filter(|text| text.starts_with(['-', '+'])).collect();
        let strange = match name {
            "hash" => options.iter().any(|option| option.contains('p')),
            "mapfile" | "readarray" => options.iter().any(|option| option.contains('C')),
            "set" => !options.iter().all(|option| is_usual_setting(option)),
            _ => false,
        };
        if strange {
            self.doubt(&format!("{name} may change what other words mean"));
        }
    }

    /// Looks at what the command starts.
    fn started(&mut self, name: &str, command: &Simple) {
        let arguments = command.arguments();
        match name {
            _ if is_shell(name) => self.shell(name, command),
            "eval" => self.line(arguments),
            "." | "source" => self.sourced(command),
            "trap" => self.trapped(arguments),
            "find" => self.found(arguments),
            "git" => self.git(arguments),
            "su" | "runuser" | "script" => self.with_option(arguments),
            "command" if looks_up(arguments) => {}
            _ => {
                if let Some(wrapper) = wrapper::find(name) {
                    self.wrapped(name, wrapper, arguments);
                }
            }
        }
    }

    fn wrapped(&mut self, name: &str, wrapper: &Wrapper, arguments: &[Word]) {
        let start = wrapper.skip(arguments);
        let split = arguments.iter().any(|word| {
            let text = word.shape();
            name == "env" && (text.starts_with("-S") || text.starts_with("--split"))
        });
        if !start.certain || split {
            self.doubt(&format!("how {name} is called is not clear"));
        }
        if split {
            self.each_text(arguments);
            return;
        }
        if name == "ssh" && names_command(arguments) {
            self.doubt("an option of ssh runs a command");
        }
        match (name, wrapper.runs) {
            ("xargs", _) => self.appended(arguments, start.rest),
            ("parallel", _) => {
                self.doubt("parallel builds its commands from its input");
                self.line(start.rest);
            }
            ("flock", _) if start.rest.first().and_then(Word::known) == Some("-c") => {
                self.line(start.rest.get(1..).unwrap_or_default());
            }
            (_, Runs::Line) if start.rest.is_empty() => {}
            (_, Runs::Line) => self.line(start.rest),
            (_, Runs::Words) => self.command(start.rest, wrapper.assigns),
        }
    }

    /// The command that is started by these words.
    fn command(&mut self, words: &[Word], assigns: bool) {
        let mut inner = Simple::default();
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let Some((name, value)) = word.shape().split_once('=').filter(|_| assigns) else {
                break;
            };
            let value = match word {
                Word::Known(_) => Word::Known(value.to_owned()),
                Word::Unknown(_) => Word::Unknown(value.to_owned()),
            };
            inner.assignments.push((name.to_owned(), value));
            rest = after;
        }
        inner.words = rest.to_vec();
        if !inner.words.is_empty() || !inner.assignments.is_empty() {
            self.carry(inner);
        }
    }

    fn carry(&mut self, mut inner: Simple) {
        if self.depth >= MAX_DEPTH {
            self.doubt("commands start each other too deeply");
            return;
        }
        let doubt = complete(&mut inner, self.depth + CARRIED_DEPTH);
        self.doubt = self.doubt.take().or(doubt);
        self.scripts.push(Script {
            commands: vec![inner],
            ..Script::default()
        });
    }

    /// The words that a shell joins and reads.
    fn line(&mut self, words: &[Word]) {
        let known: Option<Vec<&str>> = words.iter().map(Word::known).collect();
        match known {
            Some(texts) => self.text(&texts.join(" ")),
            None => {
                self.doubt("a text that is run is not known before it runs");
                let shapes: Vec<&str> = words.iter().map(Word::shape).collect();
                let shapes = shapes.join(" ");
                // What a substitution holds was read already; again at each level would be endless.
                if !["$(", "`", "<(", ">("]
                    .iter()
                    .any(|part| shapes.contains(part))
                {
                    self.text(&shapes);
                }
            }
        }
    }

    /// A text that a shell reads.
    fn text(&mut self, text: &str) {
        match crate::read_at(text, self.depth + CARRIED_DEPTH) {
            Understanding::Whole(script) => self.scripts.push(script),
            Understanding::Partly { script, why } => {
                self.scripts.push(script);
                self.doubt(&why);
            }
            Understanding::Not { why } => {
                self.doubt(&format!("a text that is run cannot be read: {why}"));
            }
        }
    }

    fn each_text(&mut self, words: &[Word]) {
        for word in words {
            let text = word.shape();
            let text = text
                .trim_start_matches("-S")
                .trim_start_matches("--split-string=");
            if text.contains(' ') {
                self.text(text);
            }
        }
    }

    /// What a shell reads from its input.
    fn input(&mut self, command: &Simple) {
        let mut texts = command
            .redirects
            .iter()
            .filter_map(|redirect| match redirect {
                Redirect::Text(word) => Some(word),
                Redirect::Reads(_) | Redirect::Writes(_) | Redirect::Duplicates => None,
            });
        match texts.next_back() {
            Some(Word::Known(text)) => self.text(text),
            Some(Word::Unknown(_)) | None => {
                self.doubt("a shell reads commands from its input");
            }
        }
    }

    fn appended(&mut self, arguments: &[Word], inner: &[Word]) {
        if inner.is_empty() {
            return;
        }
        let marks: Vec<&str> = replaced(arguments);
        let mut words: Vec<Word> = inner.iter().map(|word| mark(word, &marks)).collect();
        if marks.is_empty() {
            words.push(Word::Unknown("…".to_owned()));
        }
        self.command(&words, false);
    }

    fn found(&mut self, arguments: &[Word]) {
        let open = |word: &Word| {
            let text = word.shape();
            word.known().is_none() && text.starts_with(['$', '`', '*', '?', '[', '{', '-'])
        };
        if arguments.iter().any(open) {
            self.doubt("what find is told to do is not known before it runs");
        }
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if !matches!(word.shape(), "-exec" | "-execdir" | "-ok" | "-okdir") {
                continue;
            }
            let mut words: Vec<Word> = Vec::new();
            for word in rest.by_ref() {
                // A `+` ends the command only where the files stand before it.
                let files = words.last().is_some_and(|last| last.shape() == "{}");
                if word.shape() == ";" || (word.shape() == "+" && files) {
                    break;
                }
                words.push(mark(word, &["{}"]));
            }
            self.command(&words, false);
        }
    }

    /// `su -c 'text'` and its like.
    fn with_option(&mut self, arguments: &[Word]) {
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let text = word.shape();
            if matches!(text, "-c" | "--command") {
                match rest.next() {
                    Some(text) => self.line(std::slice::from_ref(text)),
                    None => self.doubt("a text that is run is missing"),
                }
            } else if let Some(text) = text.strip_prefix("--command=") {
                self.text(text);
            } else if text.starts_with('-') && text.contains('c') && text != "--" {
                self.doubt("how a command is started is not clear");
            }
        }
    }

    fn trapped(&mut self, arguments: &[Word]) {
        let mut words = arguments.iter().skip_while(|word| word.shape() == "--");
        match words.next() {
            Some(Word::Known(text)) if !text.starts_with('-') => self.text(text),
            Some(Word::Known(_)) | None => {}
            Some(Word::Unknown(_)) => self.doubt("a text that is run is not known before it runs"),
        }
    }
}

/// Whether `command` only says what it would run.
fn looks_up(arguments: &[Word]) -> bool {
    let first = arguments.first().and_then(Word::known);
    first.is_some_and(|text| matches!(text, "-v" | "-V" | "-pv" | "-pV"))
}

fn is_usual_setting(option: &str) -> bool {
    let letters = option.trim_start_matches(['-', '+']);
    letters.chars().all(|letter| "efuxvnoE".contains(letter))
}

fn names_command(arguments: &[Word]) -> bool {
    let texts = arguments.iter().map(|word| word.shape().to_lowercase());
    let mut options = texts.filter(|text| text.contains("command") && text.contains('='));
    options.next().is_some()
}

/// What `xargs -I` replaces.
fn replaced(arguments: &[Word]) -> Vec<&str> {
    let mut marks = Vec::new();
    let mut rest = arguments.iter();
    while let Some(text) = rest.next().map(Word::shape) {
        let attached = text.strip_prefix("-I").or(text.strip_prefix("--replace="));
        match attached {
            Some("") => marks.extend(rest.next().map(Word::shape)),
            Some(attached) => marks.push(attached),
            None if matches!(text, "-i" | "--replace") => marks.push("{}"),
            None => {}
        }
    }
    marks
}

/// A word in which something is put before it is used.
fn mark(word: &Word, marks: &[&str]) -> Word {
    let text = word.shape();
    if marks.iter().any(|mark| text.contains(mark)) {
        return Word::Unknown(text.to_owned());
    }
    word.clone()
}
