//! Flags for what a run may do and spend.

use clap::{Args, ValueEnum};
use sortie::{micros, mode};
use sortie_core::{Budget, Isolation, Mode};
use sortie_runtime::NewRun;

use crate::settings::Settings;

/// Flags for what a run may do and spend.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RunFlags {
    /// Lets calls that change something run without asking; the same as --mode yolo
    #[arg(long, conflicts_with = "mode")]
    yes: bool,
    /// When you are asked about calls that change something [default: approvals.mode]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeArgument>,
    /// What the run and its subagents may cost, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    budget_usd: Option<f64>,
    /// How many tokens the run and its subagents may use
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Where it works: in the folder itself, or in a git worktree of its own
    #[arg(long, value_enum, value_name = "WHERE")]
    isolation: Option<IsolationArgument>,
}

impl RunFlags {
    /// Returns the request with these flags; the configuration applies where a flag is missing.
    pub(crate) fn apply(&self, new: NewRun, settings: &Settings) -> NewRun {
        NewRun {
            mode: self.mode(settings),
            budget: Budget {
                tokens: self.budget_tokens,
                usd_micros: self.budget_usd.map(micros),
                ..Budget::default()
            },
            isolation: self.isolation.map(Isolation::from),
            ..new
        }
    }

    /// Returns the mode of the run.
    pub(crate) fn mode(&self, settings: &Settings) -> Mode {
        if self.yes {
            return Mode::Yolo;
        }
        let configured = settings.configuration.config().approvals.mode;
        self.mode.map_or_else(|| mode(configured), Mode::from)
    }
}

fn dollars(text: &str) -> Result<f64, String> {
    let usd: f64 = text
        .trim_start_matches('$')
        .parse()
        .map_err(|_| format!("{text:?} is no amount of dollars, such as 0.50"))?;
    if usd.is_finite() && usd >= 0.0 {
        Ok(usd)
    } else {
        Err("a budget is a positive amount of dollars, such as 0.50".to_owned())
    }
}

/// A mode on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ModeArgument {
    /// Before anything changes.
    Default,
    /// Before anything changes but files of the workspace.
    AcceptEdits,
    /// Never: nothing may change.
    Plan,
    /// Never: what would be asked is refused.
    DontAsk,
    /// Never: what would be asked is done.
    Yolo,
}

impl From<ModeArgument> for Mode {
    fn from(argument: ModeArgument) -> Self {
        match argument {
            ModeArgument::Default => Self::Default,
            ModeArgument::AcceptEdits => Self::AcceptEdits,
            ModeArgument::Plan => Self::Plan,
            ModeArgument::DontAsk => Self::DontAsk,
            ModeArgument::Yolo => Self::Yolo,
        }
    }
}

/// An isolation on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum IsolationArgument {
    /// In the folder itself.
    None,
    /// In a git worktree of its own.
    Worktree,
}

impl From<IsolationArgument> for Isolation {
    fn from(argument: IsolationArgument) -> Self {
        match argument {
            IsolationArgument::None => Self::None,
            IsolationArgument::Worktree => Self::Worktree,
        }
    }
}
