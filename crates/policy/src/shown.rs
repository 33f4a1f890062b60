//! The content of a call that an approver sees.

use sortie_core::request::Danger;

use crate::Call;
use crate::object::Object;

/// Returns what a call would run, verbatim: its command, path or URL; all arguments as JSON if it
/// has no single object.
pub fn exact(call: &Call<'_>) -> String {
    match Object::of(*call).object_argument() {
        Some(text) => text.to_owned(),
        None => call.arguments.to_string(),
    }
}

/// Returns the dangers of a call, even if policy permits it.
pub fn dangers(call: &Call<'_>) -> Vec<Danger> {
    let object = Object::of(*call);
    let found = object.command().map(sortie_shell::dangers);
    let describe = |danger: sortie_shell::Danger| Danger {
        command: danger.command,
        why: danger.why.trim_end_matches('.').to_owned(),
        instead: danger.instead.to_owned(),
    };
    found.into_iter().flatten().map(describe).collect()
}
