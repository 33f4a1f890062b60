//! Flags for what a run may do and spend.

use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sortie_core::budget::Budget;
use sortie_core::config::usd_micros;
use sortie_core::policy::Mode;
use sortie_core::run::Isolation;
use sortie_runtime::NewRun;

use crate::problem::Problem;
use crate::settings::Settings;

/// Flags for what a run may do and spend.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RunFlags {
    /// Runs calls that change something without an approval; the same as --mode yolo
    #[arg(long, conflicts_with = "mode")]
    yes: bool,
    /// When calls that change something need your approval [default: approvals.mode]
    #[arg(long, value_parser = mode_parser(), value_name = "MODE")]
    mode: Option<Mode>,
    /// Cost limit of the run and its subagents, in US dollars [default: as configured]
    #[arg(long, value_name = "USD", value_parser = dollars)]
    budget_usd: Option<f64>,
    /// Token limit of the run and its subagents [default: as configured]
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Isolation of the run's changes [default: that of the agent, else none]
    #[arg(long, value_parser = isolation_parser(), value_name = "WHERE")]
    isolation: Option<Isolation>,
}

impl RunFlags {
    /// Returns the request with these flags; the configuration applies where a flag is missing.
    pub(crate) fn apply(&self, new: NewRun, settings: &Settings) -> NewRun {
        NewRun {
            mode: self.mode(settings),
            budget: Budget {
                tokens: self.budget_tokens,
                usd_micros: self.budget_usd.map(usd_micros),
                ..Budget::default()
            },
            isolation: self.isolation,
            ..new
        }
    }

    /// Fails if the flags cannot work in this folder, before a task is created that would fail.
    pub(crate) fn check(&self, workspace: &Path) -> Result<(), Problem> {
        let is_repository = || {
            let mut folders = workspace.ancestors();
            folders.any(|folder| folder.join(".git").exists())
        };
        if self.isolation == Some(Isolation::Worktree) && !is_repository() {
            return Err(Problem::NoRepository {
                path: workspace.to_owned(),
            });
        }
        Ok(())
    }

    /// Returns the mode of the run.
    pub(crate) fn mode(&self, settings: &Settings) -> Mode {
        if self.yes {
            return Mode::Yolo;
        }
        let configured = settings.configuration.config().approvals.mode;
        self.mode.unwrap_or(configured)
    }
}

fn dollars(text: &str) -> Result<f64, String> {
    let usd: f64 = text
        .trim_start_matches('$')
        .parse()
        .map_err(|_| format!("invalid amount {text:?}; write US dollars such as 0.50"))?;
    if usd.is_finite() && usd >= 0.0 {
        Ok(usd)
    } else {
        Err("the budget must not be negative; write US dollars such as 0.50".to_owned())
    }
}

/// The modes with their help texts, in the order of the help.
const MODES: [(Mode, &str); 5] = [
    (
        Mode::Default,
        "Every call that changes something needs approval",
    ),
    (
        Mode::AcceptEdits,
        "Like default, but changes to workspace files need no approval",
    ),
    (
        Mode::Plan,
        "Calls that change something are denied; the run only reads",
    ),
    (Mode::DontAsk, "Calls that would need approval are denied"),
    (
        Mode::Yolo,
        "Calls that would need approval run; deny rules and the sandbox still apply",
    ),
];
/// The isolations with their help texts.
const ISOLATIONS: [(Isolation, &str); 2] = [
    (Isolation::None, "Works in the folder itself"),
    (
        Isolation::Worktree,
        "Works in its own git worktree; `sortie tasks apply` merges the changes",
    ),
];

/// Returns the parser of `--mode`.
pub(crate) fn mode_parser() -> impl TypedValueParser<Value = Mode> {
    let words = MODES.map(|(mode, help)| PossibleValue::new(mode.as_str()).help(help));
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Mode>())
}

fn isolation_parser() -> impl TypedValueParser<Value = Isolation> {
    let words =
        ISOLATIONS.map(|(isolation, help)| PossibleValue::new(isolation.as_str()).help(help));
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Isolation>())
}
