//! What every layer says about a call, not only the one that decides.

use serde::Serialize;
use sortie_core::{Layer, Ruling};

use crate::Call;
use crate::compiled::{Compiled, Rules};
use crate::object::Object;

/// What was decided about a call, and what every layer says about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What was decided.
    pub ruling: Ruling,
    /// Each layer, in the order in which they are asked. None where the policy cannot be read.
    pub layers: Vec<LayerView>,
}

/// What one layer says about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerView {
    /// Which layer.
    pub layer: Layer,
    /// Where its rules stand.
    pub source: String,
    /// What it says; nothing if it has no rule that speaks of the call.
    pub opinions: Vec<Opinion>,
}

/// One thing that a layer says about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opinion {
    /// What.
    pub view: View,
    /// By which rule; `None` where it is the lack of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// What a layer can say about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// A rule denies it.
    Denies,
    /// A rule would deny it, and another of the same layer lifts that.
    Lifts,
    /// The allow list does not cover it.
    LeavesOut,
    /// The allow list covers it.
    Allows,
    /// A rule wants a person to be asked.
    Asks,
    /// A rule permits the call without an approval request.
    Approves,
}

impl View {
    /// The word people read.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Denies => "denies",
            Self::Lifts => "lifts",
            Self::LeavesOut => "leaves out",
            Self::Allows => "allows",
            Self::Asks => "asks",
            Self::Approves => "approves",
        }
    }
}

impl Compiled {
    /// Decides about a call and returns the opinion of every layer.
    pub fn explain(&self, call: &Call<'_>) -> Explanation {
        let object = Object::of(*call);
        let layers = match &self.state {
            Err(_) => Vec::new(),
            Ok(layers) => layers
                .layers
                .iter()
                .map(|layer| view(layer, &object))
                .chain(session(&layers.grants, &object))
                .collect(),
        };
        Explanation {
            ruling: self.rule_on(&object),
            layers,
        }
    }
}

fn view(layer: &Rules, object: &Object<'_>) -> LayerView {
    let mut opinions = Vec::new();
    let mut say = |view, rule| opinions.push(Opinion { view, rule });
    if let Some(rule) = layer.deny.restricts(object) {
        match layer.denies(object) {
            Some(_) => say(View::Denies, Some(rule.as_str().to_owned())),
            None => say(View::Lifts, layer.except.permits(object)),
        }
    }
    match &layer.allow {
        None => {}
        Some(allow) => match allow.permits(object) {
            Some(rule) => say(View::Allows, Some(rule)),
            None => say(View::LeavesOut, None),
        },
    }
    if let Some(rule) = layer.ask.restricts(object) {
        say(View::Asks, Some(rule.as_str().to_owned()));
    }
    if layer.may_approve()
        && let Some(rule) = layer.approve.permits(object)
    {
        say(View::Approves, Some(rule));
    }
    LayerView {
        layer: layer.layer,
        source: layer.source.clone(),
        opinions,
    }
}

fn session(grants: &crate::list::List, object: &Object<'_>) -> Option<LayerView> {
    let rule = grants.permits(object)?;
    Some(LayerView {
        layer: Layer::Session,
        source: "allowed for the session".to_owned(),
        opinions: vec![Opinion {
            view: View::Approves,
            rule: Some(rule),
        }],
    })
}
