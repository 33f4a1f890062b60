//! `sortie man`: the manual page, made from the definition of the command line.

use clap::{Args, Command, CommandFactory as _};

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::help;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Prints the manual page, for example for ~/.local/share/man/man1/sortie.1
#[derive(Debug, Args)]
pub(crate) struct Man {}

impl Man {
    pub(crate) fn run(&self, settings: &Settings) -> Result<Exit, Problem> {
        let mut command = help::localized(Arguments::command(), settings.lang);
        command.build();
        output::text(&page(&command))?;
        Ok(Exit::Ok)
    }
}

/// Returns the page in the language of `man`.
fn page(command: &Command) -> String {
    let version = command.get_version().unwrap_or_default();
    let about = command.get_about().map(ToString::to_string);
    let mut lines = vec![
        format!(".TH SORTIE 1 \"\" \"sortie {version}\""),
        ".SH NAME".to_owned(),
        format!("sortie \\- {}", escaped(&about.unwrap_or_default())),
        ".SH SYNOPSIS".to_owned(),
        ".B sortie".to_owned(),
        "[COMMAND] [OPTIONS]".to_owned(),
        ".SH DESCRIPTION".to_owned(),
    ];
    let long = command.get_long_about().map(ToString::to_string);
    lines.push(escaped(&long.unwrap_or_default()));
    options(command, true, &mut lines);
    lines.push(".SH COMMANDS".to_owned());
    commands(command, "sortie", &mut lines);
    lines.push(".SH EXIT STATUS".to_owned());
    lines.push("0 success; 1 failed; 2 usage; 3 store; 4 not found; 5 deadline; 6 refused; 130 cancelled; 143 terminated.".to_owned());
    lines.join("\n")
}

/// Describes the commands below one, each with its own options.
fn commands(command: &Command, path: &str, lines: &mut Vec<String>) {
    let shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands().filter(shown) {
        let path = format!("{path} {}", below.get_name());
        let text = below.get_long_about().or_else(|| below.get_about());
        lines.push(format!(".SS {}", escaped(&path)));
        lines.push(escaped(&text.map(ToString::to_string).unwrap_or_default()));
        options(below, false, lines);
        commands(below, &path, lines);
    }
}

/// Describes the options of a command. Those of every command are described once.
fn options(command: &Command, with_global: bool, lines: &mut Vec<String>) {
    let shown = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && (with_global || !arg.is_global_set()))
        .filter(|arg| with_global || !matches!(arg.get_id().as_str(), "help" | "version"));
    for arg in shown {
        let help = arg.get_long_help().or_else(|| arg.get_help());
        let name = match (arg.get_short(), arg.get_long()) {
            (Some(short), Some(long)) => format!("-{short}, --{long}"),
            (Some(short), None) => format!("-{short}"),
            (None, Some(long)) => format!("--{long}"),
            (None, None) => String::new(),
        };
        let takes_value = arg.get_action().takes_values();
        let value = arg.get_value_names().filter(|_| takes_value);
        let value = value.map(|names| names.join(" ")).unwrap_or_default();
        lines.push(".TP".to_owned());
        lines.push(format!(
            "\\fB{}\\fR \\fI{}\\fR",
            escaped(&name),
            escaped(&value)
        ));
        lines.push(escaped(&help.map(ToString::to_string).unwrap_or_default()));
    }
}

/// Escapes text so that `man` prints it as it is.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| match line.chars().next() {
        Some('.' | '\'') => format!("\\&{line}"),
        None => ".PP".to_owned(),
        Some(_) => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
