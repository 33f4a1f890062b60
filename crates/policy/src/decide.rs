//! Decides whether one call may run.

use sortie_core::policy::{ApprovedBy, Decision, Layer, Mode, Ruling};
use sortie_core::ports::tool::Touches;
use sortie_shell::Danger;

use crate::Call;
use crate::compiled::{Compiled, Layers, Rules, Unreadable};
use crate::list::{List, permits_jointly};
use crate::object::Object;
use crate::rule::Rule;
use crate::tool::{Names, ToolFacts};

/// The most entries of an allow list that a denial names.
const MAX_SHOWN: usize = 8;

impl Compiled {
    /// Decides about a call. The first of these steps that applies determines the ruling:
    ///
    /// 1. a rule could not be parsed: deny;
    /// 2. the tool was not granted to the run: deny;
    /// 3. a layer denies the call, and no exception of that layer lifts it: deny;
    /// 4. a layer has an allow list that does not cover the call: deny;
    /// 5. the run may change nothing, but the call could: deny;
    /// 6. the command is dangerous, and no rule approves exactly this command: ask for approval; in
    ///    a mode without approval requests: deny;
    /// 7. a rule requires an approval: likewise, but `yolo` allows the call;
    /// 8. a rule of the operator or a grant approves the call: allow;
    /// 9. otherwise the mode decides, by the kind of effect of the tool.
    pub fn decide(&self, call: &Call<'_>) -> Ruling {
        self.rule_on(&Object::of(*call))
    }

    /// Checks whether any call of a tool could be allowed or sent for approval; the ruling says why
    /// not.
    pub fn offers(&self, tool: &ToolFacts, sandboxed: bool) -> Result<(), Ruling> {
        match &self.state {
            Err(unreadable) => Err(unreadable.ruling()),
            Ok(layers) => layers.offers(&Names::of(tool), sandboxed),
        }
    }

    pub(crate) fn rule_on(&self, object: &Object<'_>) -> Ruling {
        match &self.state {
            Err(unreadable) => unreadable.ruling(),
            Ok(layers) => layers.rule_on(object),
        }
    }
}

impl Unreadable {
    fn ruling(&self) -> Ruling {
        Ruling::new(
            Decision::Deny,
            self.layer,
            self.rule.clone(),
            self.why.as_str(),
        )
    }
}

impl Layers {
    fn rule_on(&self, object: &Object<'_>) -> Ruling {
        not_granted(object)
            .or_else(|| self.layers.iter().find_map(|layer| layer.denies(object)))
            .or_else(|| {
                self.layers
                    .iter()
                    .find_map(|layer| layer.leaves_out(object))
            })
            .or_else(|| self.changes(object.names().touches(), object.call().sandboxed))
            .or_else(|| self.endangers(object))
            .or_else(|| self.asks(object))
            .or_else(|| self.approves(object))
            .unwrap_or_else(|| self.by_mode(object))
    }

    fn offers(&self, names: &Names<'_>, sandboxed: bool) -> Result<(), Ruling> {
        let removed = (self
            .layers
            .iter()
            .find_map(|layer| layer.denies_wholly(names)))
        .or_else(|| {
            self.layers
                .iter()
                .find_map(|layer| layer.never_mentions(names))
        })
        .or_else(|| self.changes(names.touches(), sandboxed));
        removed.map_or(Ok(()), Err)
    }

    /// Returns whether the run may change nothing: then commands run only where the operating
    /// system enforces this.
    const fn is_unchanging(&self) -> bool {
        self.read_only || matches!(self.mode, Mode::Plan)
    }

    fn changes(&self, touches: Touches, sandboxed: bool) -> Option<Ruling> {
        if !self.is_unchanging() {
            return None;
        }
        let (layer, who) = if self.read_only {
            (Layer::Agent, "the agent is read-only")
        } else {
            (Layer::Mode, "plan mode denies changes")
        };
        match touches {
            Touches::Files => deny(layer, None, format!("{who}, and this tool changes files")),
            Touches::Services => deny(
                layer,
                None,
                format!("{who}, and an external service may change anything"),
            ),
            Touches::Processes if !sandboxed => deny(
                Layer::Sandbox,
                None,
                format!("{who}, and without a sandbox a command could change anything"),
            ),
            Touches::Processes
            | Touches::Nothing
            | Touches::Reads
            | Touches::Network
            | Touches::Runs => None,
        }
    }

    fn endangers(&self, object: &Object<'_>) -> Option<Ruling> {
        let danger = self.danger(object)?;
        if self.approves_exactly(object) {
            return None;
        }
        let why = format!("`{}`: {}; {}", danger.command, danger.why, danger.instead);
        match self.mode {
            Mode::Default | Mode::AcceptEdits => {
                Some(Ruling::new(Decision::Ask, Layer::Danger, None, why))
            }
            Mode::Plan | Mode::DontAsk | Mode::Yolo => deny(Layer::Danger, None, why),
        }
    }

    fn danger(&self, object: &Object<'_>) -> Option<Danger> {
        if self.allow_dangerous {
            return None;
        }
        sortie_shell::dangers(object.command()?).into_iter().next()
    }

    fn approves_exactly(&self, object: &Object<'_>) -> bool {
        let lists = self.approving().map(|layer| &layer.approve);
        let mut rules = lists.chain([&self.grants]).flat_map(List::rules);
        rules.any(|rule| rule.is_exact_command() && rule.permits(object))
    }

    fn asks(&self, object: &Object<'_>) -> Option<Ruling> {
        let (layer, rule) = self
            .layers
            .iter()
            .find_map(|layer| Some((layer, layer.ask.restricts(object)?)))?;
        let rule = Some(rule.as_str().to_owned());
        let why = format!("{} requires an approval", layer.source);
        match self.mode {
            Mode::Yolo => {
                let why = format!("{why}, but yolo mode needs no approval");
                Some(Ruling::new(Decision::Allow, Layer::Mode, rule, why))
            }
            Mode::Default | Mode::AcceptEdits => {
                Some(Ruling::new(Decision::Ask, layer.layer, rule, why))
            }
            Mode::Plan | Mode::DontAsk => deny(
                Layer::Mode,
                rule,
                format!(
                    "{why}, and {} mode denies what needs an approval",
                    self.mode
                ),
            ),
        }
    }

    fn approving(&self) -> impl Iterator<Item = &Rules> {
        self.layers
            .iter()
            .filter(|layer| layer.may_approve() && !layer.approve.is_empty())
    }

    fn approves(&self, object: &Object<'_>) -> Option<Ruling> {
        let by_layer = self.approving().find_map(|layer| {
            let rule = layer.approve.permits(object)?;
            let why = format!("{} approves it", layer.source);
            Some(Ruling::new(Decision::Allow, layer.layer, Some(rule), why))
        });
        by_layer
            .or_else(|| self.grants.permits(object).map(by_session))
            .or_else(|| self.approves_jointly(object))
    }

    /// Returns the ruling for a command whose parts are approved by several lists together.
    fn approves_jointly(&self, object: &Object<'_>) -> Option<Ruling> {
        let first = self.approving().next();
        let mut lists: Vec<&List> = self.approving().map(|layer| &layer.approve).collect();
        if let Some(first) = first
            && let Some(rules) = permits_jointly(&lists, object)
        {
            let why = "the rules of several layers together approve it";
            return Some(Ruling::new(Decision::Allow, first.layer, Some(rules), why));
        }
        lists.push(&self.grants);
        permits_jointly(&lists, object).map(by_session)
    }

    /// Whether an agent is started only with an approval.
    fn is_spawn_asked(&self, agent: &str) -> bool {
        let free = self.free_agents.as_ref();
        free.is_some_and(|free| !free.iter().any(|known| known.fits(agent)))
    }

    fn by_mode(&self, object: &Object<'_>) -> Ruling {
        let spawned = object.agent().filter(|agent| self.is_spawn_asked(agent));
        let weight = match spawned {
            Some(_) => Weight::Heavy,
            None => weight(object.names().touches(), self.is_unchanging()),
        };
        let decision = match (weight, self.mode) {
            (Weight::Light, _) | (_, Mode::Yolo) | (Weight::Edit, Mode::AcceptEdits) => {
                Decision::Allow
            }
            (Weight::Edit | Weight::Heavy, Mode::Plan | Mode::DontAsk) => Decision::Deny,
            (Weight::Edit | Weight::Heavy, Mode::Default) | (Weight::Heavy, Mode::AcceptEdits) => {
                Decision::Ask
            }
        };
        let why = match (weight, decision) {
            (Weight::Light, _) => "it changes nothing".to_owned(),
            (_, Decision::Allow) => format!("{} mode needs no approval for it", self.mode),
            (_, Decision::Ask) => match spawned {
                Some(agent) => format!(
                    "{} mode requires an approval to start agent {agent}",
                    self.mode
                ),
                None => format!("{} mode requires an approval for it", self.mode),
            },
            (_, Decision::Deny) => format!(
                "it needs an approval, and {} mode denies what needs one",
                self.mode
            ),
        };
        Ruling::new(decision, Layer::Mode, None, why)
    }
}

impl Rules {
    pub(crate) fn denies(&self, object: &Object<'_>) -> Option<Ruling> {
        let rule = self.deny.restricts(object)?;
        if !self.except.is_empty() && self.except.permits(object).is_some() {
            return None;
        }
        deny(
            self.layer,
            Some(rule.as_str().to_owned()),
            format!("{} denies it", self.source),
        )
    }

    pub(crate) fn leaves_out(&self, object: &Object<'_>) -> Option<Ruling> {
        let allow = self.allow.as_ref()?;
        if allow.permits(object).is_some() {
            return None;
        }
        self.allows_only(allow)
    }

    fn denies_wholly(&self, names: &Names<'_>) -> Option<Ruling> {
        let rule = self.deny.restricts_wholly(names)?;
        if self.except.mentions(names) {
            return None;
        }
        deny(
            self.layer,
            Some(rule.as_str().to_owned()),
            format!("{} denies it", self.source),
        )
    }

    fn never_mentions(&self, names: &Names<'_>) -> Option<Ruling> {
        let allow = self.allow.as_ref()?;
        if allow.mentions(names) {
            return None;
        }
        self.allows_only(allow)
    }

    fn allows_only(&self, allow: &List) -> Option<Ruling> {
        let rules = allow.rules();
        let mut shown: Vec<&str> = rules.iter().take(MAX_SHOWN).map(Rule::as_str).collect();
        if rules.len() > MAX_SHOWN {
            shown.push("…");
        }
        let what = if shown.is_empty() {
            "nothing".to_owned()
        } else {
            format!("only {}", shown.join(", "))
        };
        deny(self.layer, None, format!("{} allows {what}", self.source))
    }
}

/// How much a call could affect, which determines whether the mode requires an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// The call changes nothing.
    Light,
    /// The call changes files of the workspace.
    Edit,
    /// The call may do anything.
    Heavy,
}

const fn weight(touches: Touches, is_unchanging: bool) -> Weight {
    match touches {
        Touches::Nothing | Touches::Reads | Touches::Runs => Weight::Light,
        Touches::Files => Weight::Edit,
        // The operating system prevents these from changing anything: see `changes`.
        Touches::Processes if is_unchanging => Weight::Light,
        Touches::Processes | Touches::Network | Touches::Services => Weight::Heavy,
    }
}

fn not_granted(object: &Object<'_>) -> Option<Ruling> {
    let call = object.call();
    if call.granted.contains(&call.tool.name) {
        return None;
    }
    let why = format!("{} is not among the tools of this run", call.tool.name);
    deny(Layer::Grant, None, why)
}

fn by_session(rule: String) -> Ruling {
    let mut ruling = Ruling::new(
        Decision::Allow,
        Layer::Session,
        Some(rule.clone()),
        "it was granted for the whole session",
    );
    ruling.approved = Some(ApprovedBy::Grant { rule });
    ruling
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "every step of a decision is optional, and this is how a step that applies ends"
)]
fn deny(layer: Layer, rule: Option<String>, why: String) -> Option<Ruling> {
    Some(Ruling::new(Decision::Deny, layer, rule, why))
}
