//! Runs the checks of a result: by the host, outside the run, with no more than the run's authority.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use regex::RegexBuilder;
use serde_json::{Value, json};
use sortie_agent::CallStatus;
use sortie_base::regular_file;
use sortie_core::audit::AuditEntry;
use sortie_core::check::{Check, CheckResult, CheckStatus};
use sortie_core::id::{BlobId, CallId, EffectId};
use sortie_core::message::{Arguments, ResultStatus, ToolCall, ToolResult};
use sortie_core::policy::{Decision, Layer};
use sortie_core::ports::tool::{Permits as _, STATUS_ONLY, ToolContext, ToolOutcome, ToolReply};
use sortie_core::run::SandboxMode;
use sortie_text::truncate_middle;

use super::{CheckedCall, Dispatch};
use crate::audit;
use crate::authority::{CallPermits, ruling_text};

/// The most bytes of a file that a check reads.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The most characters of the evidence of one check: enough for the end of a failed test.
const MAX_EVIDENCE_CHARS: usize = 800;
/// The most bytes of a compiled expression.
const MAX_EXPRESSION_BYTES: usize = 1 << 20;
/// The last line of a command's output, written by the host.
const EXIT_CODE: &str = "exit code: ";

type Finding = (CheckStatus, String);

/// The final answer that is checked.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// Whether a check has sent the run back to work already.
    pub(crate) was_sent_back: bool,
}

impl Dispatch<'_> {
    /// Runs all checks in order. Each command has its audit entries.
    pub(crate) async fn check_result(self, answer: &Answer) -> (Vec<CheckResult>, Vec<AuditEntry>) {
        let mut results = Vec::new();
        let mut audited = Vec::new();
        for (index, check) in self.spec.checks.iter().enumerate() {
            let call = |name: &str, arguments: Value| ToolCall {
                id: CallId::from_stored(format!("check-{}", index + 1)),
                provider_id: None,
                name: name.to_owned(),
                arguments: Arguments::Json(arguments),
            };
            let (status, evidence) = match check {
                Check::Command(command) => {
                    let call = call("exec", json!({ "command": command }));
                    let reply = self.host_call(&call, &mut audited).await;
                    reply.map_or_else(not_run, |(reply, read_only)| exit_code(reply, read_only))
                }
                Check::Http { url, status } => {
                    let call = call("web_fetch", json!({ "url": url, STATUS_ONLY: true }));
                    let reply = self.host_call(&call, &mut audited).await;
                    reply.map_or_else(not_run, |(reply, _)| http_status(reply, *status))
                }
                Check::FileExists(file)
                | Check::FileChanged(file)
                | Check::Matches { file, .. }
                | Check::Sha256 { file, .. } => self.check_file(check, file).await,
                Check::Hook(name) => self.stop_hook(name, answer).await,
            };
            let evidence = self.engine.redactor.redact(&evidence);
            results.push(CheckResult {
                check: check.clone(),
                status,
                evidence: truncate_middle(evidence.trim(), MAX_EVIDENCE_CHARS, "\n…\n").text,
            });
        }
        (results, audited)
    }

    /// Makes a call that no model requested. Policy decides about it as about a call of the run. What
    /// would need an approval runs only if the sandbox can keep it from changing anything: the second
    /// value of the result says so.
    async fn host_call(
        self,
        call: &ToolCall,
        audited: &mut Vec<AuditEntry>,
    ) -> Result<(ToolReply, bool), String> {
        let Arguments::Json(arguments) = &call.arguments else {
            return Err("its arguments are not JSON".to_owned());
        };
        let found = self.engine.planner.toolbox.find(&call.name, arguments);
        let found = found.ok_or_else(|| format!("there is no tool {}", call.name))?;
        let ruling = self.authority.rule(found.facts, &found.arguments);
        let is_confined = call.name == "exec"
            && self.spec.confinement.sandbox == SandboxMode::Required
            && ruling.layer != Layer::Danger
            // A rule that asks means every time, whatever the command could change.
            && ruling.rule.is_none();
        let read_only = match ruling.decision {
            Decision::Allow => false,
            Decision::Ask if is_confined => true,
            Decision::Ask | Decision::Deny => return Err(ruling_text(&ruling)),
        };
        let requested = CallStatus::Requested;
        let checked = CheckedCall {
            call,
            tool: found.tool.as_ref(),
            facts: found.facts,
            arguments: Arc::new(found.arguments),
            status: &requested,
            ruling,
        };
        let effect = EffectId::new(self.fence.run, &call.id);
        let ports = self.tool_ports(&checked);
        let context = self.context(call, &effect, &ports);
        let context = ToolContext {
            read_only: context.read_only || read_only,
            ..context
        };
        let started = self.engine.clock.now();
        let reply = checked
            .tool
            .run(&context, Value::clone(&checked.arguments))
            .await;
        let elapsed_ms = self.engine.clock.now().ms_since(started);
        let (status, text, sandbox) = match &reply {
            Ok(ToolOutcome::Answer(answer)) => (
                ResultStatus::Ok,
                answer.text.clone(),
                answer.sandbox.clone(),
            ),
            Ok(ToolOutcome::Waits(_) | ToolOutcome::Asks { .. }) => {
                (ResultStatus::Error, String::new(), None)
            }
            Err(failure) => (ResultStatus::Error, failure.to_string(), None),
        };
        let result = ToolResult::not_run(call, status, text);
        let stage = audit::ended(&result, elapsed_ms, sandbox);
        audited.push(self.audited(&checked, stage));
        Ok((reply, read_only))
    }

    async fn check_file(self, check: &Check, file: &str) -> Finding {
        let arguments = json!({ "path": file });
        let Some(found) = self.engine.planner.toolbox.find("read_file", &arguments) else {
            return not_run("there is no tool read_file".to_owned());
        };
        let ruling = self.authority.rule(found.facts, &found.arguments);
        if ruling.decision != Decision::Allow {
            return not_run(ruling_text(&ruling));
        }
        let permits = CallPermits {
            authority: Arc::clone(self.authority),
            tool: found.facts.clone(),
            arguments: Arc::new(found.arguments),
        };
        let (folder, name) = (self.workspace().to_owned(), file.to_owned());
        let hidden = self.engine.settings().hidden.clone();
        let read = tokio::task::spawn_blocking(move || {
            read_inside(&folder, &name, &hidden, |path| permits.path(path))
        });
        match read.await {
            Ok(Ok(content)) => self.judge(check, content.as_deref()),
            Ok(Err(why)) => not_run(why),
            Err(error) => not_run(error.to_string()),
        }
    }

    /// Judges the content of a file; `None` if there is no such file.
    fn judge(self, check: &Check, content: Option<&[u8]>) -> Finding {
        let Some(content) = content else {
            return (CheckStatus::Failed, "there is no such file".to_owned());
        };
        let size = format!("{} bytes", content.len());
        let hash = || BlobId::of(content).as_str().to_owned();
        match check {
            Check::FileExists(_) => (CheckStatus::Passed, size),
            Check::FileChanged(file) => match self.spec.watched.get(file) {
                None => not_run("its content at the start is not known".to_owned()),
                Some(Some(before)) if *before == hash() => (
                    CheckStatus::Failed,
                    "its content has not changed".to_owned(),
                ),
                Some(Some(_)) => (CheckStatus::Passed, format!("changed, {size}")),
                Some(None) => (CheckStatus::Passed, format!("new, {size}")),
            },
            Check::Matches { regex, .. } => {
                let compiled = RegexBuilder::new(regex)
                    .multi_line(true)
                    .size_limit(MAX_EXPRESSION_BYTES)
                    .build();
                match compiled {
                    Err(error) => not_run(error.to_string()),
                    Ok(regex) => match regex.find(&String::from_utf8_lossy(content)) {
                        Some(found) => (CheckStatus::Passed, format!("found {:?}", found.as_str())),
                        None => (CheckStatus::Failed, format!("not found in {size}")),
                    },
                }
            }
            Check::Sha256 { hash: expected, .. } => {
                let hash = hash();
                let status = if hash.eq_ignore_ascii_case(expected.trim()) {
                    CheckStatus::Passed
                } else {
                    CheckStatus::Failed
                };
                (status, format!("the hash is {hash}"))
            }
            Check::Command(_) | Check::Http { .. } | Check::Hook(_) => {
                not_run("it is about no file".to_owned())
            }
        }
    }
}

/// Returns the SHA-256 of a file of a workspace; `None` if there is none that can be read.
pub(crate) fn hash_inside(folder: &Path, file: &str, hidden: &[PathBuf]) -> Option<String> {
    let content = read_inside(folder, file, hidden, |_| Ok(()))
        .ok()
        .flatten()?;
    Some(BlobId::of(&content).as_str().to_owned())
}

/// Reads a file of a workspace; `None` if there is no such file. The error says why it is not read.
fn read_inside(
    folder: &Path,
    file: &str,
    hidden: &[PathBuf],
    permits: impl Fn(&Path) -> Result<(), String>,
) -> Result<Option<Vec<u8>>, String> {
    let leads_out = || Err("the path leads out of the workspace".to_owned());
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(file).components().all(is_inside) {
        return leads_out();
    }
    let root = folder.canonicalize().map_err(|error| error.to_string())?;
    let path = match root.join(file).canonicalize() {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !path.starts_with(&root) {
        return leads_out();
    }
    let real = |place: &PathBuf| place.canonicalize().unwrap_or_else(|_| place.clone());
    if hidden.iter().any(|place| path.starts_with(real(place))) {
        return Err("it belongs to the secrets of a person or to Sortie's own files".to_owned());
    }
    permits(&path)?;
    // The real path leads through no link. If a command of another run puts one there meanwhile, the
    // read fails.
    regular_file::read_exact(&path, MAX_FILE_BYTES)
        .map(Some)
        .map_err(|error| error.to_string())
}

fn not_run(why: String) -> Finding {
    (CheckStatus::NotRun, why)
}

/// A command that failed where it could change nothing proves nothing: `cargo test` writes files.
fn exit_code(reply: ToolReply, read_only: bool) -> Finding {
    match reply {
        Ok(ToolOutcome::Answer(answer)) => {
            let last = answer.text.lines().next_back().unwrap_or_default();
            let status = match last.strip_prefix(EXIT_CODE) {
                Some("0") => CheckStatus::Passed,
                Some(_) | None if read_only => {
                    let why = "it needs an approval, ran without the right to change anything, and failed";
                    return not_run(format!("{why}: {}", answer.text));
                }
                Some(_) | None => CheckStatus::Failed,
            };
            (status, answer.text)
        }
        Ok(ToolOutcome::Waits(_) | ToolOutcome::Asks { .. }) => not_run("it waits".to_owned()),
        Err(failure) => not_run(failure.to_string()),
    }
}

fn http_status(reply: ToolReply, expected: u16) -> Finding {
    match reply {
        Ok(ToolOutcome::Answer(answer)) => {
            let status = if answer.text == expected.to_string() {
                CheckStatus::Passed
            } else {
                CheckStatus::Failed
            };
            (status, format!("the status is {}", answer.text))
        }
        Ok(ToolOutcome::Waits(_) | ToolOutcome::Asks { .. }) => not_run("it waits".to_owned()),
        // Whether the service is down or the host is not permitted, the request did not succeed.
        Err(failure) => (CheckStatus::Failed, failure.to_string()),
    }
}
