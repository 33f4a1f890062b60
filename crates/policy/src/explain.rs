//! Explains the view of every layer on a call, not only of the one that decides.

use serde::Serialize;
use sortie_core::policy::{Layer, Ruling};

use crate::Call;
use crate::compiled::{Compiled, Rules};
use crate::object::Object;

/// The decision about a call, and the opinions of every layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub ruling: Ruling,
    /// Each layer in order of evaluation. Empty if the policy cannot be parsed.
    pub layers: Vec<LayerView>,
}

/// The opinions of one layer on a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerView {
    pub layer: Layer,
    /// The place where its rules are defined.
    pub source: String,
    /// Empty if the layer has no rule about the call.
    pub opinions: Vec<Opinion>,
}

/// One opinion of a layer on a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opinion {
    pub view: View,
    /// The rule behind the opinion; `None` if it is the lack of a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// The possible views of a layer on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// A rule denies the call.
    Denies,
    /// A rule would deny the call, and an exception of the same layer lifts it.
    Lifts,
    /// The allow list does not cover the call.
    LeavesOut,
    /// The allow list covers the call.
    Allows,
    /// A rule requires an approval.
    Asks,
    /// A rule permits the call without an approval request.
    Approves,
}

impl View {
    /// Returns the word for display.
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
    let mut add = |view, rule| opinions.push(Opinion { view, rule });
    if let Some(rule) = layer.deny.restricts(object) {
        match layer.denies(object) {
            Some(_) => add(View::Denies, Some(rule.as_str().to_owned())),
            None => add(View::Lifts, layer.except.permits(object)),
        }
    }
    match &layer.allow {
        None => {}
        Some(allow) => match allow.permits(object) {
            Some(rule) => add(View::Allows, Some(rule)),
            None => add(View::LeavesOut, None),
        },
    }
    if let Some(rule) = layer.ask.restricts(object) {
        add(View::Asks, Some(rule.as_str().to_owned()));
    }
    if layer.may_approve()
        && let Some(rule) = layer.approve.permits(object)
    {
        add(View::Approves, Some(rule));
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
