//! Flags for what a run may do and spend.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sortie::micros;
use sortie_core::budget::Budget;
use sortie_core::policy::Mode;
use sortie_core::run::Isolation;
use sortie_runtime::NewRun;

use crate::settings::Settings;

/// Flags for what a run may do and spend.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RunFlags {
    /// Lets calls that change something run without asking; the same as --mode yolo
    #[arg(long, conflicts_with = "mode")]
    yes: bool,
    /// When you are asked about calls that change something [default: approvals.mode]
    #[arg(long, value_parser = mode_parser(), value_name = "MODE")]
    mode: Option<Mode>,
    /// What the run and its subagents may cost, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    budget_usd: Option<f64>,
    /// How many tokens the run and its subagents may use
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Where it works: in the folder itself, or in a git worktree of its own
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
                usd_micros: self.budget_usd.map(micros),
                ..Budget::default()
            },
            isolation: self.isolation,
            ..new
        }
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
        .map_err(|_| format!("{text:?} is no amount of dollars, such as 0.50"))?;
    if usd.is_finite() && usd >= 0.0 {
        Ok(usd)
    } else {
        Err("a budget is a positive amount of dollars, such as 0.50".to_owned())
    }
}

/// The modes with their help texts, in the order of the help.
const MODES: [(Mode, &str); 5] = [
    (Mode::Default, "Before anything changes"),
    (
        Mode::AcceptEdits,
        "Before anything changes but files of the workspace",
    ),
    (Mode::Plan, "Never: nothing may change"),
    (Mode::DontAsk, "Never: what would be asked is refused"),
    (Mode::Yolo, "Never: what would be asked is done"),
];
/// The isolations with their help texts.
const ISOLATIONS: [(Isolation, &str); 2] = [
    (Isolation::None, "In the folder itself"),
    (Isolation::Worktree, "In a git worktree of its own"),
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
