//! The command line. The doc comments are the help text.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum};
use sortie::Environment;
use sortie_base::nearest::nearest;
use sortie_config::LogFormat;
use sortie_core::run::{Cleanup, Priority, Status};
use sortie_core::words::Lang;

use crate::commands::Command;
use crate::{help, output};

/// Runs LLM agents and their subagents durably.
///
/// Without a command, `sortie` opens a conversation; `sortie --continue` returns to the last one in
/// this folder. Runs, their progress and their results are stored on disk: `sortie resume` continues a run after
/// a crash, a signal or a power cut.
#[derive(Debug, Parser)]
#[command(name = "sortie", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The flag that disables all approval prompts.
const SKIP_APPROVALS: &str = "--yes";

impl Arguments {
    /// Parses the command line of this process. Exits with a message if it is invalid.
    pub(crate) fn of_process(environment: &Environment) -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        let lang = help::language(&words, environment);
        Self::of(words, lang).unwrap_or_else(|error| exit(&error, lang))
    }

    /// Parses arguments. A suggestion must not widen permissions: `--mode foo` is close to `yolo`.
    /// The message lists the possible values, so none of them is suggested.
    fn of(words: impl IntoIterator<Item = OsString>, lang: Lang) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        Self::parse_or_chat(&words, lang).map_err(|mut error| {
            error.remove(ContextKind::SuggestedValue);
            suggest_command(&mut error);
            let skips_approvals = |value: &ContextValue| {
                let names = value.to_string();
                names.split(", ").any(|name| name == SKIP_APPROVALS)
            };
            if error
                .get(ContextKind::SuggestedArg)
                .is_some_and(skips_approvals)
            {
                error.remove(ContextKind::SuggestedArg);
            }
            error
        })
    }
}

impl Arguments {
    /// Parses arguments. Without a command they are those of `chat`: `sortie --continue`.
    fn parse_or_chat(words: &[OsString], lang: Lang) -> Result<Self, clap::Error> {
        Self::parsed(words, lang).or_else(|error| {
            let may_be_chat = matches!(
                error.kind(),
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    | ErrorKind::MissingSubcommand
                    | ErrorKind::UnknownArgument
            );
            if !may_be_chat {
                return Err(error);
            }
            let mut with_chat = words.to_vec();
            with_chat.insert(with_chat.len().min(1), "chat".into());
            Self::parsed(&with_chat, lang).map_err(|_| error)
        })
    }

    fn parsed(words: &[OsString], lang: Lang) -> Result<Self, clap::Error> {
        let mut command = help::localized(Self::command(), lang);
        let matches = command.try_get_matches_from_mut(words)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Prints the help, the version or an error, and exits.
fn exit(error: &clap::Error, lang: Lang) -> ! {
    match help::error_text(error).filter(|_| lang == Lang::Zh) {
        Some(text) => {
            output::note(&text);
            std::process::exit(error.exit_code())
        }
        None => error.exit(),
    }
}

/// Suggests the command that was probably meant: clap's own measure misses swapped letters.
fn suggest_command(error: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let command = Arguments::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    if let Some(near) = nearest(typed, names) {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArguments {
    /// Folder of the store [env: SORTIE_HOME] [default: the data folder of this system]
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
    /// Language of messages: en or zh [env: SORTIE_LANG, LC_ALL, LANG]
    #[arg(long, global = true, value_name = "LANG", value_parser = parse_lang)]
    pub(crate) lang: Option<Lang>,
    /// Sets a configuration key for this command, for example model=ollama/qwen3; can be repeated
    #[arg(short = 'c', long = "config", global = true, value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,
    /// Disables colours [env: NO_COLOR]
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Logs to stderr; repeat for more detail [env: SORTIE_LOG]
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Format of the log [default: log.format]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormatArgument>,
}

/// The values of `--log-format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormatArgument {
    /// Plain lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

impl From<LogFormatArgument> for LogFormat {
    fn from(argument: LogFormatArgument) -> Self {
        match argument {
            LogFormatArgument::Text => Self::Text,
            LogFormatArgument::Json => Self::Json,
        }
    }
}

fn parse_lang(text: &str) -> Result<Lang, String> {
    text.parse()
        .map_err(|error: sortie_core::words::UnknownWord| error.to_string())
}

/// The values of `--status`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StatusArgument {
    /// Waiting for its start.
    Pending,
    /// Started and not ended.
    Running,
    /// Ended with a result.
    Completed,
    /// Ended without a result.
    Failed,
    /// Ended by its deadline.
    Timeout,
    /// Cancelled by a person or a parent.
    Cancelled,
}

impl From<StatusArgument> for Status {
    fn from(argument: StatusArgument) -> Self {
        match argument {
            StatusArgument::Pending => Self::Pending,
            StatusArgument::Running => Self::Running,
            StatusArgument::Completed => Self::Completed,
            StatusArgument::Failed => Self::Failed,
            StatusArgument::Timeout => Self::Timeout,
            StatusArgument::Cancelled => Self::Cancelled,
        }
    }
}

/// The values of `--priority`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum PriorityArgument {
    /// Queued as if it had arrived a minute later.
    Low,
    /// Queued in the order of arrival.
    #[default]
    Normal,
    /// Queued as if it had arrived a minute earlier.
    High,
}

impl From<PriorityArgument> for Priority {
    fn from(argument: PriorityArgument) -> Self {
        match argument {
            PriorityArgument::Low => Self::Low,
            PriorityArgument::Normal => Self::Normal,
            PriorityArgument::High => Self::High,
        }
    }
}

/// The values of `--cleanup`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum CleanupArgument {
    /// Keeps it.
    #[default]
    Keep,
    /// Deletes it; record, usage and audit are kept.
    Delete,
}

impl From<CleanupArgument> for Cleanup {
    fn from(argument: CleanupArgument) -> Self {
        match argument {
            CleanupArgument::Keep => Self::Keep,
            CleanupArgument::Delete => Self::Delete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_guess_widens_rights() {
        for words in [
            "run x --mode foo",
            "run x --mode yol",
            "run x --mode yoloo",
            "run x --mode accept",
            "run x --yess",
            "run x --ye",
            "run x --isolation nonee",
            "spawn x --mode foo",
        ] {
            let words = ["sortie"].into_iter().chain(words.split(' '));
            let error = Arguments::of(words.map(OsString::from), Lang::En)
                .unwrap_err()
                .to_string();
            assert!(!error.contains("tip:"), "{error}");
        }
        let words = ["sortie", "run", "x", "--modl", "y"].map(OsString::from);
        let error = Arguments::of(words, Lang::En).unwrap_err().to_string();
        assert!(error.contains("'--model'"), "{error}");
    }

    #[test]
    fn swapped_letters_of_a_command_are_recognized() {
        for (typed, meant) in [("rnu", "'run'"), ("taks", "'tasks'"), ("sevre", "'serve'")] {
            let words = ["sortie", typed].map(OsString::from);
            let error = Arguments::of(words, Lang::En).unwrap_err().to_string();
            assert!(error.contains(meant), "{error}");
        }
    }

    #[test]
    fn clap_definition_is_valid() {
        Arguments::command().debug_assert();
    }
}
