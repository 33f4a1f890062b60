//! Builds the sandbox policy of a shell command.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use sortie_core::ports::tool::{ToolContext, ToolFailure};
use sortie_core::run::{Confinement, SandboxMode, Worktree};
use sortie_sandbox::{
    Access, Backend, Command, Confined, Limits, Network, Policy, Sandbox, linked_worktree,
};

const GIB: u64 = 1 << 30;
/// The most processes and threads of a command at the same time.
const MAX_PROCESSES: u64 = 512;
/// The most bytes of memory that a command uses.
const MAX_MEMORY_BYTES: u64 = 4 * GIB;
/// The most bytes of a file that a command writes.
const MAX_FILE_BYTES: u64 = 2 * GIB;
/// The most files that a process has open.
const MAX_OPEN_FILES: u64 = 1024;
/// The most bytes in each of the command's own temporary folders.
const MAX_SCRATCH_BYTES: u64 = GIB;
/// The CPU seconds of a process beyond those that all processors could spend within the time limit.
const SPARE_CPU_SECONDS: u64 = 10;

const NO_SANDBOX: &str = "This run may run commands only in a sandbox, and none is available. Work with the file tools, or ask the operator to install bubblewrap, or to switch the sandbox off for this run.";

/// The confinement of one call, without the context that it borrows.
#[derive(Debug)]
pub(crate) struct Wanted {
    sandbox: Option<Arc<Sandbox>>,
    confinement: Confinement,
    policy: Policy,
}

impl Wanted {
    /// Returns the confinement that the run was admitted with, for a command with this time limit.
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

    /// Returns the confined command, or why it cannot be started. Accesses files: not for async
    /// threads.
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

/// Gives git access to a worktree that was created for the run.
fn open_for_git(policy: &mut Policy, worktree: &Worktree) {
    policy.extra_read.clone_from(&worktree.git_reads);
    if worktree.root != policy.workspace {
        // Otherwise git would report every file outside the workspace as deleted.
        policy.extra_read.push(worktree.root.clone());
    }
    match policy.access {
        Access::ReadOnly => policy.extra_read.extend_from_slice(&worktree.git_dirs),
        Access::ReadWrite => policy.extra_write.clone_from(&worktree.git_dirs),
    }
}

/// Returns the network of a command. Without network access, programs still get their own loopback
/// interface where the backend supports it: tests of servers need it, and no other process listens
/// there.
fn network(backend: Backend, allowed: bool) -> Result<Network, ToolFailure> {
    match backend {
        // A run that requires confinement must not run in a sandbox that is switched off.
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
