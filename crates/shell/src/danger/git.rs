//! Git commands that discard work.

use super::arguments::Arguments;
use super::rules::when;
use super::{DangerKind, Found};
use crate::script::Word;

pub(super) fn judge(words: &[Word]) -> Found {
    // Options before the subcommand were removed when the command was parsed.
    let (name, rest) = words.split_first()?;
    let arguments = Arguments::of(rest);
    match name.shape() {
        "push" => when(pushes_hard(&arguments), DangerKind::ForcesPush),
        "reset" => when(arguments.has_exactly("hard"), DangerKind::DiscardsWork),
        "clean" => {
            let dry = arguments.has("n", &["dry-run"]);
            when(
                arguments.has("f", &["force"]) && !dry,
                DangerKind::DiscardsWork,
            )
        }
        "checkout" | "switch" => {
            let force = arguments.has("f", &["force", "discard-changes"]);
            when(force || everything(&arguments), DangerKind::DiscardsWork)
        }
        "restore" => {
            let only_index = arguments.has("S", &["staged"]) && !arguments.has("W", &["worktree"]);
            when(
                everything(&arguments) && !only_index,
                DangerKind::DiscardsWork,
            )
        }
        "stash" => when(arguments.first() == "clear", DangerKind::DiscardsWork),
        "filter-branch" | "filter-repo" => Some(DangerKind::RewritesHistory),
        "reflog" => when(
            matches!(arguments.first(), "expire" | "delete"),
            DangerKind::RewritesHistory,
        ),
        "update-ref" => when(arguments.has("d", &[]), DangerKind::RewritesHistory),
        "gc" => when(
            rest.iter().any(|word| word.shape() == "--prune=now"),
            DangerKind::RewritesHistory,
        ),
        _ => None,
    }
}

fn pushes_hard(arguments: &Arguments<'_>) -> bool {
    let forced = arguments.has("fd", &[])
        || ["force", "delete", "mirror", "prune"]
            .iter()
            .any(|long| arguments.has_exactly(long));
    let refs = arguments.operands.iter().skip(1);
    let mut hard = refs.filter(|text| text.starts_with('+') || text.starts_with(':'));
    let dry = arguments.has("n", &["dry-run"]);
    !dry && (forced || hard.next().is_some())
}

fn everything(arguments: &Arguments<'_>) -> bool {
    arguments
        .operands
        .iter()
        .any(|path| matches!(*path, "." | "./" | "*" | ":/" | ":/*"))
}
