//! Commands that destroy data irrecoverably. This check is a convenience in addition to the
//! sandbox, not a security boundary.

mod arguments;
mod git;
mod rules;
mod services;
mod targets;

use std::ops::Range;

use sortie_base::truncate::truncate;

use crate::carry::{ShellCall, is_shell};
use crate::script::{Redirect, Script, Simple, Understanding, Word};

/// The most characters of a command that are shown to people.
pub const MAX_SHOWN_CHARACTERS: usize = 200;
/// The most dangers that are reported for one command line.
pub const MAX_DANGERS: usize = 16;

/// The kind of a danger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DangerKind {
    /// Deletes a whole tree of important files.
    DeletesTree,
    /// Writes to a disk below its file system.
    WritesDisk,
    /// Stops or restarts the machine.
    StopsMachine,
    /// Starts itself again and again.
    ForkBomb,
    /// Changes owners or permissions of a whole system.
    ChangesPermissions,
    /// Runs a download that was not inspected.
    RunsDownload,
    /// Changes or removes history that other people have.
    ForcesPush,
    DiscardsWork,
    /// Rewrites the history of a repository.
    RewritesHistory,
    /// Ends processes that the command did not start.
    EndsProcesses,
    /// Stops services, scheduled jobs or the firewall.
    StopsServices,
    /// Removes containers, clusters or infrastructure.
    RemovesInfrastructure,
    /// Drops data of a database.
    DropsData,
    /// The command cannot be parsed, so that no danger can be ruled out.
    Unreadable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Danger {
    pub kind: DangerKind,
    /// The command as it would be started, truncated.
    pub command: String,
    /// What the command would do.
    pub why: &'static str,
    pub instead: &'static str,
}

/// The danger that a rule finds in a command.
type Found = Option<DangerKind>;

/// Returns every danger in a command line. A command line that cannot be parsed is a danger itself.
pub fn dangers(understanding: &Understanding) -> Vec<Danger> {
    let script = match understanding {
        Understanding::Whole(script) | Understanding::Partly { script, .. } => script,
        Understanding::Not { why } => return vec![danger(DangerKind::Unreadable, why.clone())],
    };
    let mut found = Vec::new();
    for script in script.scripts() {
        for command in &script.commands {
            let kind = rules::judge(command).or_else(|| written(command));
            let kind = kind.or_else(|| runs_download_inside(script, command));
            found.extend(kind.map(|kind| danger(kind, shown(command))));
        }
        found.extend(piped(script).map(|command| danger(DangerKind::RunsDownload, shown(command))));
        found.extend(bombs(script).map(|name| danger(DangerKind::ForkBomb, name.to_owned())));
    }
    found.dedup();
    found.truncate(MAX_DANGERS);
    found
}

fn danger(kind: DangerKind, command: String) -> Danger {
    let (why, instead) = explained(kind);
    Danger {
        kind,
        command,
        why,
        instead,
    }
}

/// Finds redirects that write to a device.
fn written(command: &Simple) -> Found {
    let to_device = command.redirects.iter().any(|redirect| match redirect {
        Redirect::Writes(target) => targets::is_device(target.shape()),
        Redirect::Reads(_) | Redirect::Duplicates | Redirect::Text(_) => false,
    });
    to_device.then_some(DangerKind::WritesDisk)
}

/// Returns the shells that get a download through a pipe.
fn piped(script: &Script) -> impl Iterator<Item = &Simple> {
    script.pipelines.iter().filter_map(|stages| {
        let loads = |stage: &Range<usize>| commands(script, stage).iter().any(downloads);
        let source = stages.iter().position(loads)?;
        let later = stages.iter().skip(source + 1);
        later
            .flat_map(|stage| commands(script, stage))
            .find(|command| command.effective().iter().any(|one| runs_its_input(one)))
    })
}

/// Finds shells whose text or file is a download: `sh -c "$(curl …)"`, `bash <(curl …)`.
fn runs_download_inside(script: &Script, command: &Simple) -> Found {
    if !commands(script, &command.contains).iter().any(downloads) {
        return None;
    }
    let runs = command.effective().into_iter().any(|one| {
        let program = one.program().unwrap_or_default();
        let substituted = |word: &Word| {
            let text = word.shape();
            ["$(", "`", "<("].iter().any(|part| text.contains(part))
        };
        if is_shell(program) {
            return ShellCall::of(one.arguments())
                .operand()
                .is_some_and(substituted);
        }
        matches!(program, "eval" | "." | "source") && one.arguments().iter().any(substituted)
    });
    runs.then_some(DangerKind::RunsDownload)
}

fn downloads(command: &Simple) -> bool {
    let programs = command.effective().into_iter().filter_map(Simple::program);
    let mut loaders = programs.filter(|name| matches!(*name, "curl" | "wget" | "fetch"));
    loaders.next().is_some()
}

fn runs_its_input(command: &Simple) -> bool {
    let Some(program) = command.program() else {
        return false;
    };
    let arguments = command.arguments();
    if is_shell(program) {
        return ShellCall::of(arguments).reads_input();
    }
    if matches!(program, "." | "source") {
        return arguments.iter().any(|word| word.shape() == "/dev/stdin");
    }
    let file = arguments.iter().find(|word| !word.shape().starts_with('-'));
    let inline = arguments.iter().any(|word| {
        let text = word.shape();
        text.starts_with('-') && !text.starts_with("--") && text.contains(['c', 'e', 'm'])
    });
    let input = arguments
        .iter()
        .any(|word| matches!(word.shape(), "-s" | "-" | "/dev/stdin"));
    let interpreter = program.starts_with("python")
        || matches!(program, "perl" | "ruby" | "node" | "php" | "deno" | "bun");
    interpreter && !inline && (input || file.is_none())
}

/// Returns the functions that call themselves in a pipe or in the background.
fn bombs(script: &Script) -> impl Iterator<Item = &str> {
    script.functions.iter().filter_map(|(name, body)| {
        let calls = |range: &Range<usize>| {
            range.start >= body.start
                && range.end <= body.end
                && commands(script, range)
                    .iter()
                    .any(|command| command.program() == Some(name.as_str()))
        };
        let apart = script.pipelines.iter().flatten().chain(&script.background);
        apart
            .filter(|range| calls(range))
            .map(|_| name.as_str())
            .next()
    })
}

fn commands<'a>(script: &'a Script, range: &Range<usize>) -> &'a [Simple] {
    script.commands.get(range.clone()).unwrap_or_default()
}

/// Returns the words for display, truncated at a character boundary.
fn shown(command: &Simple) -> String {
    let mut text = String::new();
    let writes = command
        .redirects
        .iter()
        .filter_map(|redirect| match redirect {
            Redirect::Writes(target) => Some(target),
            Redirect::Reads(_) | Redirect::Duplicates | Redirect::Text(_) => None,
        });
    for word in &command.words {
        text.push_str(word.shape());
        text.push(' ');
    }
    for target in writes {
        text.push_str("> ");
        text.push_str(target.shape());
    }
    let text = text.trim_end();
    truncate(text, MAX_SHOWN_CHARACTERS)
}

/// Returns what each kind does, and the safer alternative.
fn explained(kind: DangerKind) -> (&'static str, &'static str) {
    match kind {
        DangerKind::DeletesTree => (
            "it deletes a whole directory tree, which cannot be restored",
            "name the one folder inside the workspace to delete",
        ),
        DangerKind::WritesDisk => (
            "it writes directly to a disk device",
            "write to a file inside the workspace",
        ),
        DangerKind::StopsMachine => (
            "it stops or restarts the machine",
            "say in your answer that a restart is needed",
        ),
        DangerKind::ForkBomb => (
            "it is a fork bomb: it starts copies of itself without end",
            "use a loop with a limit",
        ),
        DangerKind::ChangesPermissions => (
            "it changes owners or permissions across the whole system",
            "change only the files inside the workspace that need it",
        ),
        DangerKind::RunsDownload => (
            "it runs downloaded code that was not reviewed",
            "download to a file, read it, then run the file",
        ),
        DangerKind::ForcesPush => (
            "it rewrites or deletes history that other clones may contain",
            "push a new branch, or use --force-with-lease after a person has agreed",
        ),
        DangerKind::DiscardsWork => (
            "it discards uncommitted work",
            "commit or stash the work first, or name the one file to discard",
        ),
        DangerKind::RewritesHistory => (
            "it rewrites or removes the history of the repository",
            "make a new commit that corrects the old one",
        ),
        DangerKind::EndsProcesses => (
            "it kills processes that it did not start",
            "kill one process by its id",
        ),
        DangerKind::StopsServices => (
            "it stops services, scheduled jobs or the firewall of the machine",
            "say in your answer what should be stopped, and why",
        ),
        DangerKind::RemovesInfrastructure => (
            "it removes containers, clusters or infrastructure with their data",
            "name the one container or resource to remove",
        ),
        DangerKind::DropsData => (
            "it deletes data of a database",
            "work on a copy, or say in your answer what should be dropped",
        ),
        DangerKind::Unreadable => (
            "it cannot be parsed, so a danger cannot be ruled out",
            "write it in a simpler form, or put it into a script file and run that",
        ),
    }
}
