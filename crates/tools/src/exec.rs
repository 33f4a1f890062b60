//! `exec`: runs a shell command.

mod capture;
mod marked;
mod process;
mod programs;
mod remains;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_core::id::EffectId;
use sortie_core::ports::tool::{
    Recovery, Spelling, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};
use sortie_sandbox::{Applied, Command, Confined, Neutralised, Sandbox};

use crate::arguments::{at_most, parse, spec, whole};
use crate::blocking::blocking;
use crate::confine::Workspace;
use crate::sandbox::Wanted;
use capture::Capture;
use process::{Ended, Ending, Process};

/// The most bytes of a command.
const MAX_COMMAND_BYTES: usize = 100 * 1024;
/// The folders to search for a shell if the environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The field of a record that lists what was neutralised after a command.
const NEUTRALISED: &str = "neutralised";
const READ_ONLY_GIT: &str = "(Settings and hooks of this repository are read-only for commands, and no submodule or linked worktree can be added to it. Pass settings with `git -c KEY=VALUE`; instead of `git worktree add` or `git submodule add` use `git clone` into a sub-folder; report what a person should set.)\n";

const SPELLINGS: &[Spelling] = &[Spelling {
    name: "bash",
    renames: &[("timeout", "timeout_seconds")],
}];

/// Runs shell commands.
///
/// Each command has a supervisor. It ends the command when the process that started it ends, after
/// a timeout, and when the call is dropped. If the supervisor itself is killed, the processes of
/// the command are found by the id of their effect, which the command and all its descendants carry
/// in the variable `SORTIE_EFFECT`. A process that clears its environment cannot be found this way;
/// a sandbox with namespaces still ends it, because all of its processes end with its first.
#[derive(Debug)]
pub struct Exec {
    spec: ToolSpec,
    shell: OsString,
    environment: Vec<(OsString, OsString)>,
    sandbox: Option<Arc<Sandbox>>,
}

/// The settings of the shell tool.
#[derive(Clone, Debug, Default)]
pub struct ExecSettings {
    /// The whole environment of every command, except for the id of its effect.
    pub environment: Vec<(OsString, OsString)>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    command: String,
    #[serde(default, deserialize_with = "whole")]
    timeout_seconds: Option<u64>,
    workdir: Option<String>,
}

impl Exec {
    /// Creates the tool. Without a sandbox it rejects every command of a run that requires one.
    pub fn new(settings: ExecSettings, sandbox: Option<Arc<Sandbox>>) -> Self {
        Self {
            spec: spec(
                "exec",
                "Run a shell command in the workspace: builds, tests, git. Returns output and exit code. No input; background processes end with the call. For files prefer the file tools.",
                json!({
                    "type": "object",
                    "properties": {
                        "command": {"type": "string"},
                        "timeout_seconds": {"type": "integer"},
                        "workdir": {"type": "string"}
                    },
                    "required": ["command"],
                    "additionalProperties": false
                }),
            ),
            shell: find_shell(&settings.environment),
            environment: settings.environment,
            sandbox,
        }
    }

    /// Builds the command as it is to be started.
    async fn prepare(
        &self,
        context: &ToolContext<'_>,
        arguments: &Arguments,
        time: Duration,
    ) -> Result<Confined, ToolFailure> {
        let wanted = Wanted::of(context, self.sandbox.clone(), time);
        let mut env = self.environment.clone();
        env.push((marked::VARIABLE.into(), context.effect.to_string().into()));
        let command = arguments.command.clone();
        let argv = vec![self.shell.clone(), "-c".into(), command.into()];
        let root = context.workspace.to_owned();
        let workdir = arguments.workdir.clone();
        blocking(move |_| {
            let cwd = working_directory(&root, workdir.as_deref())?;
            wanted.confine(Command { argv, cwd, env })
        })
        .await
    }
}

#[async_trait]
impl Tool for Exec {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Processes
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Once(Some(self))
    }

    fn spellings(&self) -> &[Spelling] {
        SPELLINGS
    }

    async fn preview(&self, _: &ToolContext<'_>, arguments: &Value) -> Option<String> {
        let arguments: Arguments = parse(arguments.clone()).ok()?;
        Some(programs::shown(&arguments.command))
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        at_most("command", &arguments.command, MAX_COMMAND_BYTES)?;
        let limit = limit(context.exec_timeout, arguments.timeout_seconds);
        // Dropped last, after the command and all processes that it started have ended.
        let mut confined = self.prepare(context, &arguments, limit).await?;
        let mut capture = Capture::default();
        let mut ended = run(&mut confined, context.effect, limit, &mut capture)
            .await
            .map_err(not_started)?;
        if ended.missed_its_group {
            // The command has not started: another program removed the control group after it was
            // created and before the command joined it.
            confined = self.prepare(context, &arguments, limit).await?;
            capture = Capture::default();
            ended = run(&mut confined, context.effect, limit, &mut capture)
                .await
                .map_err(not_started)?;
        }
        let ending = ended.ending;
        let (guard, applied) = (confined.guard, confined.applied);
        let things = blocking(move |_| Ok(guard.finish())).await?;
        let text = answer(capture, ending, limit);
        let hint = hint(&text, ending).unwrap_or_default();
        Ok(ToolAnswer {
            text: account(&things) + hint + &text,
            sandbox: Some(record(&applied, &things)),
            ..ToolAnswer::default()
        }
        .into())
    }
}

async fn run(
    confined: &mut Confined,
    effect: &EffectId,
    limit: Duration,
    capture: &mut Capture,
) -> std::io::Result<Ended> {
    let mut process = Process::start(confined, effect)?;
    let ended = process.finish(limit, capture).await?;
    confined.guard = process.into_guard();
    Ok(ended)
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn not_started(error: std::io::Error) -> ToolFailure {
    ToolFailure::new(format!(
        "The command could not be started: {error}. Check `command` and the working directory, or report this."
    ))
}

/// Returns the record: the confinement that applied, and what the command left behind that would
/// run later.
fn record(applied: &Applied, things: &[Neutralised]) -> Value {
    // Every field of both serializes to JSON.
    let mut record = serde_json::to_value(applied).unwrap_or_default();
    if let Value::Object(fields) = &mut record
        && !things.is_empty()
    {
        fields.insert(NEUTRALISED.to_owned(), json!(things));
    }
    record
}

/// Lists what a command left behind that would run later, one item per line.
fn account(things: &[Neutralised]) -> String {
    let lines = things
        .iter()
        .map(|thing| format!("({})\n", thing.sentence()));
    lines.collect()
}

/// Returns a hint if a command failed because parts of a repository are read-only.
fn hint(text: &str, ending: Ending) -> Option<&'static str> {
    let failed = match ending {
        Ending::TimedOut => false,
        Ending::Exited { status, .. } => !status.success(),
    };
    let refused = ["Read-only file system", "Device or resource busy"];
    let of_git = [".git/", "gitdir", "config file"];
    let hit = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    (failed && hit(&refused) && hit(&of_git)).then_some(READ_ONLY_GIT)
}

/// Returns the time limit of a command: the requested one, at most that of the run.
fn limit(max: Duration, requested_seconds: Option<u64>) -> Duration {
    match requested_seconds {
        None | Some(0) => max,
        Some(seconds) => max.min(Duration::from_secs(seconds)),
    }
}

/// Returns the working directory, which must be inside the workspace. The shell can leave it again:
/// the sandbox confines a command, not this check.
fn working_directory(root: &Path, requested: Option<&str>) -> Result<PathBuf, ToolFailure> {
    // Even without a sandbox, no command starts in a folder that has replaced the workspace.
    let workspace = Workspace::open(root)?;
    let Some(requested) = requested else {
        return Ok(root.to_owned());
    };
    let relative = workspace.locate(requested)?;
    workspace.open_directory(&relative)?;
    Ok(root.join(relative))
}

fn answer(capture: Capture, ending: Ending, limit: Duration) -> String {
    let mut text = capture.into_text();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let last = match ending {
        Ending::TimedOut => format!(
            "timed out after {} s; the command and everything it started were stopped",
            limit.as_secs_f64()
        ),
        Ending::Exited { status, held_open } => {
            if held_open {
                text.push_str(
                    "(background processes still had the output open and were stopped)\n",
                );
            }
            describe(status)
        }
    };
    text + &last
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code: {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => format!("ended: {status}"),
    }
}

/// Returns bash if the environment has it, because models write for bash; otherwise the shell that
/// every system has.
fn find_shell(environment: &[(OsString, OsString)]) -> OsString {
    let path = environment
        .iter()
        .find(|(name, _)| name == "PATH")
        .map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value.as_os_str());
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("bash"))
        .find(|shell| shell.is_file())
        .map_or_else(|| "/bin/sh".into(), PathBuf::into_os_string)
}

#[cfg(test)]
mod tests;
