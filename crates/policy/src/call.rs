//! Whether one call may run: the same rules again, at the door.

use sortie_core::Touches;

use crate::{DefaultDeny, Layer, ToolFacts};

/// Everything that decides about one call.
#[derive(Clone, Copy, Debug)]
pub struct CallQuestion<'a> {
    /// The tool.
    pub tool: &'a ToolFacts,
    /// What the run was granted.
    pub granted: &'a [String],
    /// The default deny at the run's depth.
    pub default_deny: DefaultDeny,
    /// Whether the agent may change anything.
    pub read_only: bool,
    /// Whether calls that change something may run without asking.
    pub approved: bool,
}

/// What policy says about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow,
    /// A person decides.
    Ask,
    /// It may not.
    Deny(Layer),
}

/// Decides about one call.
///
/// The grant was already narrowed at admission; the default deny and read-only are checked again
/// because a journal from elsewhere could carry a wider grant.
pub fn decide_call(question: &CallQuestion<'_>) -> Decision {
    let changes_something = match question.tool.touches {
        Touches::Nothing | Touches::Runs => false,
        Touches::Files | Touches::Processes => true,
    };
    if question.default_deny.denies(question.tool) {
        Decision::Deny(Layer::Subagent)
    } else if question.read_only && changes_something {
        Decision::Deny(Layer::Agent)
    } else if !question.granted.contains(&question.tool.name) {
        Decision::Deny(Layer::Grant)
    } else if changes_something && !question.approved {
        Decision::Ask
    } else {
        Decision::Allow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, touches: Touches, change: impl Fn(&mut CallQuestion<'_>)) -> Decision {
        let tool = ToolFacts {
            name: name.to_owned(),
            spellings: Vec::new(),
            touches,
        };
        let granted = ["read_file", "exec", "task"].map(str::to_owned);
        let mut question = CallQuestion {
            tool: &tool,
            granted: &granted,
            default_deny: DefaultDeny::Root,
            read_only: false,
            approved: false,
        };
        change(&mut question);
        decide_call(&question)
    }

    #[test]
    fn looking_is_allowed_and_changing_asks() {
        assert_eq!(
            check("read_file", Touches::Nothing, |_| ()),
            Decision::Allow
        );
        assert_eq!(check("exec", Touches::Processes, |_| ()), Decision::Ask);
        assert_eq!(
            check("exec", Touches::Processes, |question| question.approved =
                true),
            Decision::Allow
        );
    }

    #[test]
    fn refusals_name_their_layer() {
        assert_eq!(
            check("write_file", Touches::Files, |question| question.approved =
                true),
            Decision::Deny(Layer::Grant)
        );
        assert_eq!(
            check("task", Touches::Runs, |question| question.default_deny =
                DefaultDeny::Leaf),
            Decision::Deny(Layer::Subagent)
        );
        assert_eq!(
            check("exec", Touches::Processes, |question| {
                question.read_only = true;
                question.approved = true;
            }),
            Decision::Deny(Layer::Agent)
        );
    }
}
