//! The terminal colours of agents.

use std::collections::BTreeMap;

use console::Style;
use sortie_runtime::Agents;

use crate::theme::Themed as _;

/// The 256-colour code of orange, which the sixteen names lack.
const ORANGE: u8 = 208;
/// The 256-colour code of pink.
const PINK: u8 = 213;

/// The colour of each agent, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Colors(BTreeMap<String, Style>);

impl Colors {
    /// Collects the colours that the agents define.
    pub(crate) fn of(agents: &Agents) -> Self {
        Self(
            agents
                .children()
                .iter()
                .filter_map(|agent| {
                    let style = style(agent.color.as_deref()?)?;
                    Some((agent.name.clone(), style.for_stderr()))
                })
                .collect(),
        )
    }

    /// Paints text in the colour of the agent.
    pub(crate) fn paint(&self, agent: &str, text: &str) -> String {
        match self.0.get(agent) {
            Some(style) => style.apply_to(text).to_string(),
            None => text.to_owned(),
        }
    }
}

/// Returns the style for the name of a colour; `None` for an unknown name.
pub(crate) fn style(name: &str) -> Option<Style> {
    let style = Style::new();
    Some(match name.to_ascii_lowercase().as_str() {
        // In the colour of the text, where the named one would be that of the background.
        "black" => style.plain(),
        "red" => style.bad(),
        "green" => style.good(),
        "yellow" => style.warning(),
        "blue" => style.blue(),
        "purple" | "magenta" => style.special(),
        "cyan" => style.info(),
        "white" => style.plain(),
        "orange" => style.color256(ORANGE),
        "pink" => style.color256(PINK),
        _ => return None,
    })
}
