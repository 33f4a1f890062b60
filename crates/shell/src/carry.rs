//! Completes a simple command with the commands that it would start or change beyond its own words.

mod arithmetic;
mod git;
mod shells;

pub(crate) use arithmetic::may_compute;
pub(crate) use shells::{ShellCall, is_shell};

use crate::reader::MAX_DEPTH;
use crate::script::{Redirect, Script, Simple, Understanding, Word};
use crate::wrapper::{self, Call, MANAGERS, OPTION_TEXTS, Runs, UNREAD, Wrapper};

/// The levels that count for a program that starts another: eight in a row are more than people
/// write, and each may be as long as the whole command.
const CARRIED_DEPTH: usize = MAX_DEPTH / 8;

/// The most words after `uv run` and similar commands that may be the program: options and their
/// values. Each is parsed separately.
const MOST_MANAGED_WORDS: usize = 6;
/// The most words of `npm exec` and similar commands that are parsed as shell text.
const MOST_MANAGED_TEXTS: usize = 12;
/// Short options of fd that take a value.
const FD_VALUED: &str = "CEScdejot";

/// Why a command cannot be analyzed completely.
type Doubt = Option<String>;

/// Builtins that may change what later words mean.
const CHANGERS: [&str; 8] = [
    "alias", "bind", "compgen", "complete", "enable", "fc", "let", "shopt",
];
/// Builtins that assign values to variables.
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
/// Builtins that evaluate the subscript of a variable name.
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
/// Variables that make a program run something that their text does not show.
const RUN_LATER: [&str; 20] = [
    "BASHOPTS",
    "BASH_ENV",
    "ENV",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    // Changes how programs parse their options.
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS4",
    "SHELL",
    "SHELLOPTS",
    "TAR_OPTIONS",
    "_POSIX2_VERSION",
];
/// Variables whose text a program passes to a shell, or starts.
const RUN_AS_TEXT: [&str; 20] = [
    "BROWSER",
    "EDITOR",
    "FCEDIT",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "LESSCLOSE",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "RSYNC_RSH",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SYSTEMD_PAGER",
    "VISUAL",
];

/// Adds the commands that the command carries; returns the remaining doubt.
pub(crate) fn complete(command: &mut Simple, depth: usize) -> Doubt {
    let mut carrier = Carrier {
        depth,
        input: command.redirects.iter().filter(is_input).cloned().collect(),
        scripts: Vec::new(),
        doubt: None,
    };
    carrier.variables(command);
    match command.words.first() {
        None => {}
        Some(Word::Unknown(_) | Word::Single(_)) => {
            carrier.doubt("a program's name is not known before it runs");
        }
        // No program has such a name: the program that starts it parses the options before it
        // differently than this code did.
        Some(Word::Known(name)) if name.starts_with('-') => {
            carrier.doubt("a program's name looks like an option");
            let rest = command.arguments().to_vec();
            carrier.command(&rest, false);
        }
        Some(Word::Known(_)) => {
            let name = command.program().unwrap_or_default().to_owned();
            carrier.builtin(&name, command);
            carrier.started(&name, command);
        }
    }
    command.carries = carrier.scripts;
    carrier.doubt
}

/// Collects the commands that one command carries.
struct Carrier {
    depth: usize,
    /// The input of the command, which every program that it starts reads too.
    input: Vec<Redirect>,
    scripts: Vec<Script>,
    doubt: Doubt,
}

impl Carrier {
    fn doubt(&mut self, why: &str) {
        self.doubt.get_or_insert_with(|| why.to_owned());
    }

    fn variables(&mut self, command: &Simple) {
        for (name, value) in &command.assignments {
            let name = name.trim_end_matches('+');
            if is_run_later(name) {
                self.doubt(&format!("the content of {name} may be run"));
            } else if RUN_AS_TEXT.contains(&name) {
                // The value of `LESSOPEN` begins with a mark.
                let text = value.shape().trim_start_matches(['|', '-']);
                self.line(&[value.with_text(text)]);
            }
        }
    }

    /// Handles what a builtin of the shell changes.
    fn builtin(&mut self, name: &str, command: &mut Simple) {
        let sets = command.arguments().first().and_then(Word::known);
        let printf = name == "printf" && sets.is_some_and(|first| first.starts_with("-v"));
        if (ASSIGNERS.contains(&name) && !command.arguments().is_empty()) || printf {
            self.named_variables(name, command.arguments());
            let value = Word::Unknown(String::new());
            command.assignments.push((name.to_owned(), value));
        }
        if CHANGERS.contains(&name) {
            self.doubt(&format!("{name} may change what other words mean"));
        }
        let evaluated = |text: &str| text.contains('[') && text.contains(['$', '`']);
        let words = command.arguments().iter().filter_map(Word::known);
        if EVALUATORS.contains(&name) && words.clone().any(evaluated) {
            self.doubt(&format!("{name} may run the content of a quoted text"));
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

    /// Checks variables that a builtin sets by name, such as `read PAGER`.
    fn named_variables(&mut self, builtin: &str, arguments: &[Word]) {
        for word in arguments {
            let text = word.shape();
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            let open = word.known().is_none() && name.contains(['$', '`', '*', '{', '<']);
            // The value in `export NAME=value` was parsed as an assignment.
            let unread = value.is_empty() && RUN_AS_TEXT.contains(&name);
            if open || unread || is_run_later(name) {
                self.doubt(&format!("{builtin} may set a variable that is run"));
            }
        }
    }

    /// Handles the programs that the command starts.
    fn started(&mut self, name: &str, command: &Simple) {
        let arguments = command.arguments();
        match name {
            _ if is_shell(name) => self.shell(name, command),
            "eval" => {
                let words = self.builtin_operands(name, arguments);
                self.line(words);
            }
            "." | "source" => self.sourced(name, command),
            "trap" => self.trapped(arguments),
            "find" | "gfind" => self.found(arguments),
            "git" => self.git(arguments),
            "fd" | "fdfind" => self.listed(arguments),
            _ if UNREAD.contains(&name) => {
                self.doubt(&format!("{name} may start commands that are not checked"));
            }
            _ => {
                self.option_texts(name, arguments);
                self.managed(name, command);
                if let Some(wrapper) = wrapper::find(name) {
                    self.wrapped(name, wrapper, command);
                }
            }
        }
    }

    /// Returns the operands of a builtin without options: `--` only ends an empty list of options.
    fn builtin_operands<'a>(&mut self, name: &str, arguments: &'a [Word]) -> &'a [Word] {
        let first = arguments.first().and_then(Word::known).unwrap_or_default();
        if first == "--" {
            return arguments.get(1..).unwrap_or_default();
        }
        if first.len() > 1 && first.starts_with('-') {
            self.doubt(&format!("the arguments of {name} are not understood"));
        }
        arguments
    }

    /// Parses option values that are commands, of programs that start nothing otherwise.
    fn option_texts(&mut self, name: &str, arguments: &[Word]) {
        let Some((_, valued, options)) = OPTION_TEXTS.iter().find(|(program, ..)| *program == name)
        else {
            return;
        };
        // The first word of tar is a cluster even without a dash; its values follow in order.
        let first = arguments.first().map(Word::shape).unwrap_or_default();
        if name == "tar" && !first.starts_with('-') && first.contains(['F', 'I']) {
            self.doubt("the arguments of tar are not understood");
        }
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let text = word.shape();
            let (given, attached) = match text.split_once('=') {
                Some((given, value)) if text.starts_with("--") => (given, Some(value)),
                Some(_) | None => (text, None),
            };
            let long = |option: &&&str| {
                given.len() > 3 && option.starts_with("--") && option.starts_with(given)
            };
            if options.iter().any(|option| long(&option)) {
                match attached {
                    Some(value) => {
                        let value = value.strip_prefix("exec=").unwrap_or(value);
                        self.line(&[word.with_text(value)]);
                    }
                    None => self.line(rest.as_slice().get(..1).unwrap_or_default()),
                }
            } else if let Some(value) = short_text(text, valued, options) {
                match value {
                    "" => self.line(rest.as_slice().get(..1).unwrap_or_default()),
                    value => self.line(&[word.with_text(value)]),
                }
            }
        }
    }

    /// Handles `uv run`, `bundle exec` and similar commands. They have many options, which change
    /// between versions, so each word after an option may be the program.
    fn managed(&mut self, name: &str, command: &Simple) {
        // It accepts abbreviated subcommands, and with `-all` no name precedes the command.
        let is_exec = |word: &Word| !word.shape().is_empty() && "exec".starts_with(word.shape());
        if name == "ip" && command.arguments().iter().any(is_exec) {
            self.doubt("the arguments of ip are not understood");
        }
        let Some(rest) = managed_words(name, command.arguments()) else {
            return;
        };
        if matches!(name, "mise" | "npm" | "npx" | "pnpm") {
            self.managed_texts(command.arguments());
        }
        let mut may_be_value = false;
        for (at, word) in rest.iter().enumerate() {
            let text = word.shape();
            if text.starts_with(['-', '+']) {
                may_be_value = !matches!(text, "--" | "-y" | "--yes" | "-q" | "--quiet");
                continue;
            }
            if at >= MOST_MANAGED_WORDS {
                self.doubt(&format!("the arguments of {name} are not understood"));
                return;
            }
            self.command(rest.get(at..).unwrap_or_default(), false);
            // An option takes at most one word.
            if !may_be_value {
                return;
            }
            may_be_value = false;
        }
    }

    /// Handles `npm exec -c` and similar commands, whose text a shell parses.
    fn managed_texts(&mut self, arguments: &[Word]) {
        for (word, next) in arguments.iter().zip(1..) {
            let text = word.shape();
            let (given, attached) = match text.split_once('=') {
                Some((given, value)) => (given, Some(value)),
                None => (text, None),
            };
            let long = ["--call", "--command", "--shell-mode"]
                .iter()
                .any(|option| given.len() > 3 && option.starts_with(given));
            let short = given.starts_with('-') && !given.starts_with("--") && given.contains('c');
            if !long && !short {
                continue;
            }
            // Each level of programs that start each other would parse all of them again.
            if next > MOST_MANAGED_TEXTS {
                return self.doubt("a text that is run follows too many words");
            }
            match attached {
                Some(value) => self.line(&[word.with_text(value)]),
                None => self.line(arguments.get(next..=next).unwrap_or_default()),
            }
        }
    }

    fn wrapped(&mut self, name: &str, wrapper: &Wrapper, command: &Simple) {
        let call = wrapper.call(command.arguments());
        let only_prints = match name {
            "command" => call.letters.contains(['v', 'V']),
            "jobs" => !call.letters.contains('x'),
            _ => false,
        };
        if only_prints && call.certain {
            return;
        }
        if !call.certain {
            self.doubt(&format!("the arguments of {name} are not understood"));
        }
        if name == "ssh" && names_command(command.arguments()) {
            self.doubt("an option of ssh runs a command");
        }
        for text in &call.texts {
            match name {
                "env" => self.split(text, &call.rest),
                // The shell that they start parses the text as `sh -c` does, including options.
                "su" | "runuser" => {
                    let user = usize::from(name == "runuser");
                    let arguments = call.rest.get(user..).unwrap_or_default();
                    let option = Word::Known("-c".to_owned());
                    let words: Vec<Word> = [option, text.clone()]
                        .into_iter()
                        .chain(arguments.iter().cloned())
                        .collect();
                    self.shell_words(&words);
                }
                _ => self.line(std::slice::from_ref(text)),
            }
        }
        if name == "env" && !call.texts.is_empty() {
            return;
        }
        self.inner(name, wrapper, &call, &call.rest, command);
        if let Some(other) = &call.other {
            self.inner(name, wrapper, &call, other, command);
        }
    }

    /// Handles one interpretation of what a wrapper starts.
    fn inner(
        &mut self,
        name: &str,
        wrapper: &Wrapper,
        call: &Call,
        rest: &[Word],
        command: &Simple,
    ) {
        let shell = wrapper.shell || (matches!(name, "sudo" | "doas") && wants_shell(call));
        if rest.is_empty() {
            if shell && call.texts.is_empty() {
                self.input(command);
            }
            return;
        }
        match name {
            "xargs" | "gxargs" => return self.appended(&call.before, rest),
            "flock" => {
                let first = rest.first().and_then(Word::known).unwrap_or_default();
                if first == "-c" || (first.len() > 3 && "--command".starts_with(first)) {
                    return self.line(rest.get(1..).unwrap_or_default());
                }
            }
            // The architecture may be the first word.
            "setarch" => self.command(rest.get(1..).unwrap_or_default(), false),
            // Without `-u` the first word is the user, and the others are arguments of a shell.
            "su" | "runuser" if !call.texts.is_empty() => return,
            "runuser" => self.shell_words(rest.get(1..).unwrap_or_default()),
            // Options and `--` may also follow the host.
            "ssh" => {
                let option = |word: &&Word| word.shape().starts_with('-');
                let count = rest.iter().take_while(option).count();
                if count > 0 {
                    self.doubt("the arguments of ssh are not understood");
                    self.line(rest.get(count + 1..).unwrap_or_default());
                }
                return self.line(rest.get(count..).unwrap_or_default());
            }
            "script" => self.doubt("script may start a command"),
            _ => {}
        }
        match wrapper.runs {
            Runs::Line => self.line(rest),
            Runs::Words => self.command(rest, wrapper.assigns),
            Runs::Shell => self.shell_words(rest),
        }
    }

    /// Adds a shell with these arguments.
    fn shell_words(&mut self, arguments: &[Word]) {
        let mut words = vec![Word::Known("sh".to_owned())];
        words.extend(arguments.iter().cloned());
        self.command(&words, false);
    }

    /// Handles the text of `env -S`: options and words of another `env`.
    fn split(&mut self, text: &Word, rest: &[Word]) {
        self.doubt("env splits a text by its own rules");
        let mut words = vec![text.with_text(&format!("env {}", text.shape().replace("\\_", " ")))];
        words.extend(rest.iter().cloned());
        self.line(&words);
    }

    /// Adds the command that these words start.
    fn command(&mut self, words: &[Word], assigns: bool) {
        let mut inner = Simple {
            redirects: self.input.clone(),
            ..Simple::default()
        };
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let Some((name, value)) = word.shape().split_once('=').filter(|_| assigns) else {
                break;
            };
            if word.may_split() {
                self.doubt("a variable's text may become several words");
            }
            inner
                .assignments
                .push((name.to_owned(), word.with_text(value)));
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

    /// Parses the words that a shell joins to one text.
    fn line(&mut self, words: &[Word]) {
        let known: Option<Vec<&str>> = words.iter().map(Word::known).collect();
        match known {
            Some(texts) => self.text(&texts.join(" ")),
            None => {
                self.doubt("a text that is run is not known before it runs");
                let shapes: Vec<&str> = words.iter().map(Word::shape).collect();
                let shapes = shapes.join(" ");
                // The content of a substitution was parsed already; parsing it again at each level
                // would not end.
                if !["$(", "`", "<(", ">("]
                    .iter()
                    .any(|part| shapes.contains(part))
                {
                    self.text(&shapes);
                }
            }
        }
    }

    /// Parses a text that a shell runs.
    fn text(&mut self, text: &str) {
        match crate::read_at(text, self.depth + CARRIED_DEPTH, &self.input) {
            Understanding::Whole(script) => self.scripts.push(script),
            Understanding::Partly { script, why } => {
                self.scripts.push(script);
                self.doubt(&why);
            }
            Understanding::Not { why } => {
                self.doubt(&format!("a text that is run cannot be parsed: {why}"));
            }
        }
    }

    /// Parses the commands that a shell reads from its input.
    fn input(&mut self, command: &Simple) {
        let mut texts = 0;
        for redirect in &command.redirects {
            match redirect {
                // The order of the redirects does not show which of several descriptors is read.
                Redirect::Text(word) => {
                    texts += 1;
                    self.line(std::slice::from_ref(word));
                }
                Redirect::Reads(_) => self.doubt("a shell reads commands from its input"),
                Redirect::Writes(_) | Redirect::Duplicates => {}
            }
        }
        if texts == 0 {
            self.doubt("a shell reads commands from its input");
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
            let expands = word.may_split() && text.contains(['$', '`']);
            let begins = text.starts_with(['$', '`', '*', '?', '[', '{', '-']);
            // A single word with a slash, such as `"$PWD/src"`, is not an action.
            let path = !word.may_split() && text.contains('/') && !text.contains(['(', '`', '{']);
            word.known().is_none() && (expands || begins) && !path
        };
        if arguments.iter().any(open) {
            self.doubt("the actions of find are not known before it runs");
        }
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if !matches!(word.shape(), "-exec" | "-execdir" | "-ok" | "-okdir") {
                continue;
            }
            let mut words: Vec<Word> = Vec::new();
            for word in rest.by_ref() {
                // A `+` ends the command only directly after `{}`.
                let files = words.last().is_some_and(|last| last.shape() == "{}");
                if word.shape() == ";" || (word.shape() == "+" && files) {
                    break;
                }
                words.push(mark(word, &["{}"]));
            }
            self.command(&words, false);
        }
    }

    /// Handles `fd -x`, which starts the words after it, up to a `;`.
    fn listed(&mut self, arguments: &[Word]) {
        let open = |word: &Word| word.may_split() && word.shape().contains(['$', '`']);
        if arguments.iter().any(open) {
            self.doubt("the actions of fd are not known before it runs");
        }
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let text = word.shape();
            let attached = match text.split_once('=').unwrap_or((text, "")) {
                ("--exec" | "--exec-batch", value) => Some(value),
                _ => short_text(text, FD_VALUED, &["-x", "-X"]),
            };
            let Some(attached) = attached else {
                continue;
            };
            let marks = ["{}", "{/}", "{//}", "{.}", "{/.}"];
            let own = (!attached.is_empty()).then(|| word.with_text(attached));
            let others = rest.by_ref().take_while(|word| word.shape() != ";");
            let words = own.into_iter().chain(others.cloned());
            let mut words: Vec<Word> = words.map(|word| mark(&word, &marks)).collect();
            words.push(Word::Unknown("…".to_owned()));
            self.command(&words, false);
        }
    }

    fn trapped(&mut self, arguments: &[Word]) {
        let first = arguments.first().and_then(Word::known).unwrap_or_default();
        if first.starts_with('-') && !matches!(first, "-" | "--") {
            // `trap` only lists, or this is an option of another version.
            let lists = first
                .trim_start_matches('-')
                .chars()
                .all(|c| "lpP".contains(c));
            if !lists {
                self.doubt("the arguments of trap are not understood");
            }
            return;
        }
        let rest = self.builtin_operands("trap", arguments);
        match rest.first() {
            Some(Word::Known(text)) if text == "-" => {}
            Some(Word::Known(text)) => self.text(text),
            None => {}
            Some(Word::Unknown(_) | Word::Single(_)) => {
                self.doubt("a text that is run is not known before it runs");
            }
        }
    }
}

fn is_input(redirect: &&Redirect) -> bool {
    match redirect {
        Redirect::Reads(_) | Redirect::Text(_) => true,
        Redirect::Writes(_) | Redirect::Duplicates => false,
    }
}

/// Returns the words after the subcommand of a program that starts what they name.
fn managed_words<'a>(name: &str, arguments: &'a [Word]) -> Option<&'a [Word]> {
    let mut of_program = MANAGERS.iter().filter(|(program, ..)| *program == name);
    of_program.find_map(|(_, commands, operands)| {
        let mut words = arguments;
        for command in commands.split_whitespace() {
            words = behind(command, words)?;
        }
        Some(words.get(*operands..).unwrap_or_default())
    })
}

/// Returns the words after a subcommand. Options and their values may precede it.
fn behind<'a>(command: &str, words: &'a [Word]) -> Option<&'a [Word]> {
    let mut may_be_value = false;
    for (word, next) in words.iter().zip(1..) {
        let text = word.shape();
        if text.starts_with(['-', '+']) {
            may_be_value = true;
            continue;
        }
        if text == command {
            return words.get(next..);
        }
        // An option takes at most one word.
        if !may_be_value {
            return None;
        }
        may_be_value = false;
    }
    None
}

/// Returns the value attached to a short option whose value is a command, also in a cluster of
/// letters. A letter before it that takes a value ends the cluster.
fn short_text<'a>(text: &'a str, valued: &str, options: &[&str]) -> Option<&'a str> {
    let mut short = options.iter().filter(|option| !option.starts_with("--"));
    if let Some(value) = short.find_map(|option| text.strip_prefix(*option)) {
        return Some(value);
    }
    let letters = text.strip_prefix('-')?;
    if letters.starts_with('-') {
        return None;
    }
    let runs = |c: char| {
        let mut options = options.iter();
        options.any(|option| option.len() == 2 && option.ends_with(c))
    };
    let mut found = letters.char_indices();
    let (at, letter) = found.find(|(_, c)| valued.contains(*c) || runs(*c))?;
    let value = letters.get(at + letter.len_utf8()..);
    value.filter(|_| runs(letter))
}

/// Returns whether the arguments of `sudo` or `doas` start a shell.
fn wants_shell(call: &Call) -> bool {
    let is_long = |word: &Word| {
        let text = word.shape();
        let mut names = ["--login", "--shell"].into_iter();
        text.len() > 3 && names.any(|name| name.starts_with(text))
    };
    call.letters.contains(['s', 'i']) || call.before.iter().any(is_long)
}

/// Returns whether the command is a package manager or similar, which finds the program itself. A
/// rule that allows it also allows the program that it starts, as `npx *` intends.
pub(crate) fn is_managed(command: &Simple) -> bool {
    let name = command.program().unwrap_or_default();
    managed_words(name, command.arguments()).is_some()
}

/// Returns whether a variable makes programs run something that its text does not show.
fn is_run_later(name: &str) -> bool {
    RUN_LATER.contains(&name)
        || name.starts_with("BASH_FUNC")
        || name.starts_with("GIT_CONFIG_KEY_")
        || name.starts_with("GIT_CONFIG_VALUE_")
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

/// Returns the strings that `xargs -I` replaces.
fn replaced(arguments: &[Word]) -> Vec<&str> {
    let mut marks = Vec::new();
    let mut rest = arguments.iter();
    while let Some(text) = rest.next().map(Word::shape) {
        let long = text.strip_prefix("--rep").map(|rest| rest.split_once('='));
        let cluster = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        // The first letter that takes a value ends the cluster.
        let at = cluster.and_then(|letters| letters.find(|c| "adEILnPseil".contains(c)));
        let (letter, attached) = match (cluster, at) {
            (Some(letters), Some(at)) => (letters.get(at..=at), letters.get(at + 1..)),
            _ => (None, None),
        };
        match (long, letter, attached.unwrap_or_default()) {
            (Some(Some((_, mark))), _, _) => marks.push(mark),
            (Some(None), _, _) | (None, Some("i"), "") => marks.push("{}"),
            (None, Some("I"), "") => marks.extend(rest.next().map(Word::shape)),
            (None, Some("I" | "i"), attached) => marks.push(attached),
            _ => {}
        }
    }
    marks
}

/// Marks a word as unknown if it contains a placeholder that is replaced before the command starts.
fn mark(word: &Word, marks: &[&str]) -> Word {
    let text = word.shape();
    // A placeholder alone may become several words.
    if marks.contains(&text) {
        return Word::Unknown(text.to_owned());
    }
    match marks.iter().any(|mark| text.contains(mark)) {
        true if word.may_split() => Word::Unknown(text.to_owned()),
        true => Word::Single(text.to_owned()),
        false => word.clone(),
    }
}
