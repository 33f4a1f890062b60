//! Decides about the objects that a call really uses, at the moment of use.

use std::path::Path;
use std::sync::OnceLock;

use sortie_core::policy::{Decision, Ruling};
use sortie_core::ports::tool::Permits;

use crate::object::{Object, Real};
use crate::place::Place;
use crate::{Call, Compiled};

/// Decides about the files and servers that one call really uses, after links and redirects.
///
/// The same rules decide again, now about the real object. If they require an approval, the use is
/// denied unless the approver has approved exactly that object, because of the same rule.
#[derive(Debug)]
pub struct AtUse<'a> {
    policy: &'a Compiled,
    call: Call<'a>,
    call_ruling: OnceLock<Ruling>,
}

impl<'a> AtUse<'a> {
    /// Creates the check for a call that was allowed or approved.
    pub const fn new(policy: &'a Compiled, call: Call<'a>) -> Self {
        Self {
            policy,
            call,
            call_ruling: OnceLock::new(),
        }
    }

    /// Checks whether the call may use the file at this path, relative to the workspace and without
    /// links.
    pub fn permits_path(&self, path: &Path) -> Result<(), Ruling> {
        let real = Object::really(self.call, Real::Path(path));
        self.permits(&real, || {
            let named = Object::of(self.call);
            same_place(named.place(), real.place(), named.looks_into())
        })
    }

    /// Checks whether the call may connect to this host.
    pub fn permits_host(&self, host: &str) -> Result<(), Ruling> {
        let real = Object::really(self.call, Real::Host(host));
        self.permits(&real, || {
            let named = Object::of(self.call);
            named.host().is_some() && named.host() == real.host()
        })
    }

    fn permits(&self, real: &Object<'_>, is_same: impl Fn() -> bool) -> Result<(), Ruling> {
        let mut ruling = self.policy.rule_on(real);
        match ruling.decision {
            Decision::Allow => Ok(()),
            Decision::Deny => Err(ruling),
            Decision::Ask => {
                let call_ruling = self
                    .call_ruling
                    .get_or_init(|| self.policy.decide(&self.call));
                let same_rule = call_ruling.decision == Decision::Ask
                    && (call_ruling.layer, &call_ruling.rule) == (ruling.layer, &ruling.rule);
                if same_rule && is_same() {
                    return Ok(());
                }
                ruling.decision = Decision::Deny;
                ruling.why = format!(
                    "the approval covers another target: call the tool again with {} itself, so that an approver can decide it",
                    name_of(real)
                );
                Err(ruling)
            }
        }
    }
}

impl Permits for AtUse<'_> {
    fn path(&self, path: &Path) -> Result<(), String> {
        self.permits_path(path).map_err(|ruling| sentence(&ruling))
    }

    fn host(&self, host: &str) -> Result<(), String> {
        self.permits_host(host).map_err(|ruling| sentence(&ruling))
    }
}

fn sentence(ruling: &Ruling) -> String {
    match &ruling.rule {
        Some(rule) => format!("{} ({} policy, rule `{rule}`)", ruling.why, ruling.layer),
        None => format!("{} ({} policy)", ruling.why, ruling.layer),
    }
}

/// Returns how a denial names the real file. A name that could break the sentence is left out.
fn name_of<'a>(real: &'a Object<'_>) -> &'a str {
    match real.place() {
        Some(Place::Inside(path)) if !path.is_empty() && !path.contains(char::is_control) => {
            path.as_str()
        }
        Some(Place::Inside(_) | Place::Outside) | None => "this one",
    }
}

/// Returns whether the approval of one place covers the other: it is the same place, or it is
/// beneath a folder and the tool searches folders.
fn same_place(named: Option<&Place>, real: Option<&Place>, looks_into: bool) -> bool {
    let (Some(Place::Inside(named)), Some(Place::Inside(real))) = (named, real) else {
        return false;
    };
    named == real || (looks_into && is_beneath(real, named))
}

fn is_beneath(path: &str, folder: &str) -> bool {
    folder.is_empty() || Path::new(path).starts_with(folder)
}
