//! What an approver is shown of a call.

use sortie_core::Danger;

use crate::Call;
use crate::object::Object;

/// What a call would run, verbatim: its command, path or URL; all of its arguments, as JSON, if no
/// single one says it.
pub fn exact(call: &Call<'_>) -> String {
    match Object::of(*call).words() {
        Some(words) => words.to_owned(),
        None => call.arguments.to_string(),
    }
}

/// What is dangerous about a call, also where policy permits it.
pub fn dangers(call: &Call<'_>) -> Vec<Danger> {
    let object = Object::of(*call);
    let found = object.command().map(sortie_shell::dangers);
    let told = |danger: sortie_shell::Danger| Danger {
        command: danger.command,
        why: danger.why.trim_end_matches('.').to_owned(),
        instead: danger.instead.to_owned(),
    };
    found.into_iter().flatten().map(told).collect()
}
