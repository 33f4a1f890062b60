//! What a shell command is started in.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use sortie_core::{Confinement, SandboxMode, ToolContext, ToolFailure, Worktree};
use sortie_sandbox::{
    Access, Backend, Command, Confined, Limits, Network, Policy, Sandbox, linked_worktree,
};

const GIB: u64 = 1 << 30;
/// How many processes and threads a command has at the same time.
const MAX_PROCESSES: u64 = 512;
/// How much memory a command uses.
const MAX_MEMORY_BYTES: u64 = 4 * GIB;
/// How large a file may become.
const MAX_FILE_BYTES: u64 = 2 * GIB;
/// How many files a process has open.
const MAX_OPEN_FILES: u64 = 1024;
/// How much its own folders for temporary files hold, each.
const MAX_SCRATCH_BYTES: u64 = GIB;
/// What a process gets beyond the time that all processors could spend on it.
const SPARE_CPU_SECONDS: u64 = 10;

const NO_SANDBOX: &str = "This run may start commands only in a sandbox, and none is set up. Work with the file tools, or ask the operator to install bubblewrap, or to switch the sandbox off for this run.";

/// What is to be held for one call, apart from the context it borrows.
#[derive(Debug)]
pub(crate) struct Wanted {
    sandbox: Option<Arc<Sandbox>>,
    confinement: Confinement,
    policy: Policy,
}

impl Wanted {
    /// What the call's run was admitted with, for a command that gets this much time.
    pub(crate) fn of(
        context: &ToolContext<'_>,
        sandbox: Option<Arc<Sandbox>>,
        time: Duration,
    ) -> Self {
        let mut policy = Policy::of(context.workspace.to_owned());
        policy.limits = limits(time);
        if context.read_only {
            policy.access = Access::ReadOnly;
        }
        if let Some(worktree) = context.worktree {
            open_for_git(&mut policy, worktree);
        }
        Self {
            sandbox,
            confinement: context.confinement,
            policy,
        }
    }

    /// The command that is really started, or why none is. Looks at files: not for async threads.
    pub(crate) fn confine(mut self, command: Command) -> Result<Confined, ToolFailure> {
        match self.confinement.sandbox {
            SandboxMode::Off => {
                let limits = self.policy.limits;
                return Ok(match self.sandbox {
                    Some(sandbox) => sandbox.unconfined(limits, command),
                    None => Confined::bare(limits, command),
                });
            }
            SandboxMode::Required => {}
        }
        let refused = |refusal| ToolFailure::new(format!("{refusal}"));
        let sandbox = self.sandbox.take();
        let sandbox = sandbox.ok_or_else(|| ToolFailure::new(NO_SANDBOX))?;
        let backend = sandbox.backend().map_err(refused)?;
        self.policy.network = network(backend, self.confinement.network)?;
        if self.policy.access == Access::ReadWrite && self.policy.extra_write.is_empty() {
            let linked = linked_worktree(&self.policy.workspace);
            let folders = linked.map(|linked| vec![linked.git_folder, linked.common_folder]);
            self.policy.extra_write = folders.unwrap_or_default();
        }
        sandbox.confine(&self.policy, command).map_err(refused)
    }
}

/// Lets git work in a worktree that was made for the run.
fn open_for_git(policy: &mut Policy, worktree: &Worktree) {
    policy.extra_read.clone_from(&worktree.git_reads);
    if worktree.root != policy.workspace {
        // Else git would take everything beside the workspace for deleted.
        policy.extra_read.push(worktree.root.clone());
    }
    match policy.access {
        Access::ReadOnly => policy.extra_read.extend_from_slice(&worktree.git_dirs),
        Access::ReadWrite => policy.extra_write.clone_from(&worktree.git_dirs),
    }
}

/// Without a network, programs still get a loopback of their own where there can be one: tests of
/// servers need it, and no other process listens there.
fn network(backend: Backend, allowed: bool) -> Result<Network, ToolFailure> {
    match backend {
        // A run that must be held is not held by a sandbox that is switched off.
        Backend::None => Err(ToolFailure::new(NO_SANDBOX)),
        Backend::Bubblewrap | Backend::Namespaces | Backend::Landlock if allowed => Ok(Network::On),
        Backend::Bubblewrap | Backend::Namespaces => Ok(Network::Loopback),
        Backend::Landlock => Ok(Network::Off),
    }
}

fn limits(time: Duration) -> Limits {
    let processors = available_parallelism().map_or(1, |count| count.get() as u64);
    Limits {
        processes: MAX_PROCESSES,
        memory_bytes: MAX_MEMORY_BYTES,
        cpu_seconds: time
            .as_secs()
            .saturating_mul(processors)
            .saturating_add(SPARE_CPU_SECONDS),
        file_bytes: MAX_FILE_BYTES,
        open_files: MAX_OPEN_FILES,
        scratch_bytes: MAX_SCRATCH_BYTES,
    }
}
