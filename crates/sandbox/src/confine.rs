//! Turns a command into the program that is really started in the sandbox, or refuses it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Once};

use crate::HELPER_COMMAND;
use crate::applied::{Applied, Backend, not_held};
use crate::bubblewrap;
use crate::cgroup::{Cage, Cages};
use crate::environment::{self, Own};
use crate::git;
use crate::git_places::Kind;
use crate::guard::{Guard, Reports, Unswept, righted};
use crate::layout::{self, Fates, MAX_PROTECTED, Scene, TEMPORARY, WRITABLE_DEVICES, network_word};
use crate::notes::{self, Left, Note, Pending};
use crate::open_exact;
use crate::orders::{self, Order};
use crate::owned::{Owned, remove_abandoned};
use crate::places::{Places, not_for_everybody};
use crate::policy::{Access, Limits, Network, Policy};
use crate::probe::{LANDLOCK_WITH_PORTS, LEAST_LANDLOCK, Offer, Prober};
use crate::promises::promises;
use crate::rights;
use crate::stand_in::{self, StandIns};
use crate::sweep::{self, Baseline, Before, Measure, Neutralised};
use crate::tidier::Tidier;
use crate::watched::{Known, Watched, Watches};

/// The name prefix of private scratch folders.
const SCRATCH: &str = "sortie-scratch-";
/// Only the owner may list a private scratch folder.
const SCRATCH_MODE: u32 = 0o700;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub argv: Vec<OsString>,
    pub cwd: PathBuf,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
}

/// The program that is really started, and the resources that must live as long as it.
#[derive(Debug)]
pub struct Confined {
    pub argv: Vec<OsString>,
    pub cwd: PathBuf,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Whether the program is a supervisor, which needs a
    /// [`Lifeline`](sortie_base::lifeline::Lifeline) as its standard input. It starts nothing
    /// without one, and ends everything that it started when the lifeline hangs up.
    pub supervised: bool,
    /// Must be kept until no process of the command is left.
    pub guard: Guard,
    /// The restrictions that apply, for the record.
    pub applied: Applied,
}

/// The sandbox setting of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The best backend that works on this machine.
    Best,
    /// This backend; commands are refused if it does not work.
    Only(Backend),
    Off,
}

/// The reason why a command is not started.
#[derive(Debug, thiserror::Error)]
pub enum CommandRefusal {
    /// No backend on this machine can confine the command.
    #[error(
        "No sandbox backend works on this machine, so no command was run. Ask the operator to install \
         bubblewrap (the package `bubblewrap`), or to switch the sandbox off."
    )]
    NoSandbox,
    /// The configured backend does not work on this machine.
    #[error("The sandbox `{0}` does not work on this machine. Ask the operator to choose another.")]
    NotHere(&'static str),
    /// The backend cannot enforce the requested network policy.
    #[error("{0}")]
    Network(&'static str),
    /// A folder is missing, or the path names something else.
    #[error("The folder {path} cannot be used: {cause}. Choose another working directory.")]
    Folder {
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The working directory is outside the workspace.
    #[error("The working directory {0} is not in the workspace. Choose one inside it.")]
    Outside(PathBuf),
    /// The workspace contains the whole system.
    #[error("The workspace {0} contains the operating system. Choose a folder inside it.")]
    TooMuch(PathBuf),
    /// A protected path does not lie beneath the workspace.
    #[error("The protected path {0} is not inside the workspace. Ask the operator to correct it.")]
    Protected(PathBuf),
    /// The workspace has more protected places than the limit.
    #[error("The workspace contains more than {MAX_PROTECTED} protected paths. Report this.")]
    TooManyProtected,
    /// The workspace has more entries than one scan reads.
    #[error(
        "The workspace cannot be checked for repositories before and after a command, because it is too large or a part of it cannot be read: {0}. Remove what is not needed, or choose a smaller workspace."
    )]
    Unseen(PathBuf),
    /// The note that the workspace must be swept could not be written.
    #[error(
        "{path} could not be written: {cause}. No command was run, because the sandbox needs it. Report this."
    )]
    Note {
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// Without namespaces, the workspace would need too many Landlock rules.
    #[error(
        "The workspace is too large for the sandbox backend of this machine. Ask the operator to install bubblewrap."
    )]
    TooWide,
    /// A stand-in for a protected path could not be created.
    #[error("{path} could not be protected: {cause}. No command was run. Report this.")]
    StandIn {
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
}

/// Confines commands on one machine.
#[derive(Debug)]
pub struct Sandbox {
    mode: Mode,
    machine: LazyLock<Machine, Box<dyn FnOnce() -> Machine + Send>>,
    places: Places,
    home: Option<PathBuf>,
    helper: PathBuf,
    stand_ins: StandIns,
    watches: Watches,
    tidier: Arc<Tidier>,
    notes: Option<PathBuf>,
    reports: Reports,
    swept: Once,
}

/// What only the first command needs to know of the machine: most runs start none.
#[derive(Debug)]
struct Machine {
    offer: Offer,
    cages: Cages,
    /// The entries of `/etc` that not every user may read.
    private: Vec<PathBuf>,
}

impl Machine {
    fn of(offer: Offer) -> Self {
        Self {
            cages: Cages::beneath(&offer.cgroups),
            private: not_for_everybody(Path::new("/etc")),
            offer,
        }
    }
}

/// A command while it is being confined.
struct Request<'a> {
    backend: Backend,
    policy: &'a Policy,
    command: Command,
    cwd: PathBuf,
    fates: Fates,
    guard: Guard,
}

impl Sandbox {
    /// Creates a sandbox from the operator's mode and the probe's findings. `helper` is our own
    /// binary.
    pub fn new(mode: Mode, offer: Offer, places: Places, helper: PathBuf) -> Self {
        Self::on(mode, places, helper, move || offer)
    }

    /// Creates a sandbox that probes the machine before the first command. The probe starts four
    /// processes, which a run without commands should not pay for. `helper` is our own binary.
    pub fn probing(mode: Mode, places: Places, helper: PathBuf) -> Self {
        let prober = Prober::new(&places, &helper);
        Self::on(mode, places, helper, move || prober.probe())
    }

    fn on(
        mode: Mode,
        places: Places,
        helper: PathBuf,
        offer: impl FnOnce() -> Offer + Send + 'static,
    ) -> Self {
        let home = places.home.as_deref().map(Path::to_owned);
        let home = home.and_then(|home| fs::canonicalize(home).ok());
        Self {
            mode,
            machine: LazyLock::new(Box::new(move || Machine::of(offer()))),
            home: home.filter(|home| home.parent().is_some()),
            helper: fs::canonicalize(&helper).unwrap_or(helper),
            places,
            stand_ins: StandIns::default(),
            watches: Watches::default(),
            tidier: Arc::default(),
            notes: None,
            reports: Reports::default(),
            swept: Once::new(),
        }
    }

    /// Returns the backend that confines commands on this machine. Probes the machine if no call has
    /// done so: not for async threads.
    pub fn backend(&self) -> Result<Backend, CommandRefusal> {
        let offer = || &self.machine.offer;
        let works = |backend| match backend {
            Backend::Bubblewrap => offer().bubblewrap.is_some(),
            Backend::Namespaces => offer().namespaces,
            Backend::Landlock => offer().landlock >= LEAST_LANDLOCK,
            Backend::None => true,
        };
        match self.mode {
            Mode::Off => Ok(Backend::None),
            Mode::Best => offer().best().ok_or(CommandRefusal::NoSandbox),
            Mode::Only(backend) if works(backend) => Ok(backend),
            Mode::Only(backend) => Err(CommandRefusal::NotHere(backend.name())),
        }
    }

    /// Returns the program to start in place of the command, so that the policy is enforced for it.
    pub fn confine(&self, policy: &Policy, command: Command) -> Result<Confined, CommandRefusal> {
        let backend = self.backend()?;
        if backend == Backend::None {
            return Ok(self.unconfined(policy.limits, command));
        }
        check_folders(policy)?;
        self.check_network(backend, &policy.network)?;
        let cwd = folder(&command.cwd)?;
        if !cwd.starts_with(&policy.workspace) {
            return Err(CommandRefusal::Outside(cwd));
        }
        let found = self.found_before(policy)?;
        let (fates, watched) = self.fates(backend, policy, &found.protect)?;
        let request = Request {
            backend,
            policy,
            fates,
            command,
            cwd,
            guard: Guard::new(watched, Arc::clone(&self.tidier)),
        };
        let mut confined = match backend {
            Backend::Bubblewrap => self.in_bubblewrap(request),
            Backend::Namespaces => self.in_namespaces(request),
            Backend::Landlock => self.in_landlock(request),
            Backend::None => Err(CommandRefusal::NoSandbox),
        }?;
        if policy.access == Access::ReadWrite {
            self.note(policy, found.baseline, &mut confined.guard)?;
        }
        Ok(confined)
    }

    /// Scans the workspace before a command that may change it. Entries that another running
    /// command may have created do not count as present before.
    fn found_before(&self, policy: &Policy) -> Result<Before, CommandRefusal> {
        if policy.access == Access::ReadOnly {
            return Ok(Before::default());
        }
        // Includes both a command that ends during the scan and one that starts during it.
        let mut others = self.running(&policy.workspace)?;
        let mut found =
            sweep::before(&policy.workspace).map_err(|cause| CommandRefusal::Folder {
                path: policy.workspace.clone(),
                cause,
            })?;
        // A folder that this process may not list, the command may not list either.
        if found.baseline.unseen.contains(Path::new("")) {
            return Err(CommandRefusal::Unseen(policy.workspace.clone()));
        }
        others.extend(self.running(&policy.workspace)?);
        for other in &others {
            found.baseline.retain_known_to(other);
        }
        Ok(found)
    }

    /// Returns the baselines of the commands that run in a workspace now.
    fn running(&self, workspace: &Path) -> Result<Vec<Baseline>, CommandRefusal> {
        match &self.notes {
            // This folder includes the notes of this process.
            Some(folder) => {
                let running = notes::retried(|| notes::running(folder, workspace));
                running.map_err(|cause| CommandRefusal::Note {
                    path: folder.clone(),
                    cause,
                })
            }
            None => Ok(self.reports.running(workspace)),
        }
    }

    /// Records, before the command can start, that the workspace must be swept after it.
    fn note(
        &self,
        policy: &Policy,
        mut baseline: Baseline,
        guard: &mut Guard,
    ) -> Result<(), CommandRefusal> {
        // A stand-in, or an entry that exists by now, is read-only for the command.
        baseline.protected.insert(".git".into());
        let watched = guard.watched.iter();
        let watched = watched.map(|one| (one.path().to_owned(), one.before().clone()));
        let pending = Pending {
            workspace: policy.workspace.clone(),
            baseline,
            watched: watched.collect(),
            stand_ins: guard
                .stand_ins
                .iter()
                .map(|one| one.path().to_owned())
                .collect(),
        };
        let note = match &self.notes {
            Some(folder) => {
                let written = notes::retried(|| Note::write(folder, &pending));
                Some(written.map_err(|cause| CommandRefusal::Note {
                    path: folder.clone(),
                    cause,
                })?)
            }
            None => None,
        };
        guard.pending = Some(Unswept {
            _running: self.reports.begin(&pending.workspace, &pending.baseline),
            workspace: pending.workspace,
            baseline: pending.baseline,
            note,
            watched: Vec::new(),
            reports: self.reports.clone(),
        });
        Ok(())
    }

    /// Sets a folder for durable notes about workspaces that must be swept. The notes outlive the
    /// process.
    #[must_use]
    pub fn with_notes(mut self, folder: PathBuf) -> Self {
        self.notes = Some(folder);
        self
    }

    /// Neutralises what commands of dead processes left behind, workspace by workspace. Call it
    /// before the first command of a process.
    pub fn recover(&self) -> io::Result<Vec<(PathBuf, Vec<Neutralised>)>> {
        let mut reports = Vec::new();
        let Some(folder) = &self.notes else {
            return Ok(reports);
        };
        // Sequentially, so that at most one note is open at a time.
        for path in notes::all(folder)? {
            let Some(Left { note, pending }) = notes::claim(path)? else {
                continue;
            };
            let Some(pending) = pending else {
                note.done()?;
                continue;
            };
            // Before the sweep, which would report them.
            for path in &pending.stand_ins {
                stand_in::remove_left(path);
            }
            let root = &pending.workspace;
            let watched = pending.watched.iter();
            let watched = watched.map(|(path, before)| (path.as_path(), before));
            let mut things = righted(root, watched);
            let righted = !things.iter().any(|thing| thing.measure == Measure::Failed);
            let swept = sweep::after(root, &pending.baseline);
            things.extend(swept.things);
            // A note that could not be completed is retried by the next process.
            if swept.complete && righted {
                note.done()?;
            }
            if !things.is_empty() {
                // The report is repeated to the next model that works in this workspace.
                self.reports.add(pending.workspace.clone(), things.clone());
                reports.push((pending.workspace, things));
            }
        }
        Ok(reports)
    }

    fn in_bubblewrap(&self, mut request: Request<'_>) -> Result<Confined, CommandRefusal> {
        let found = self.machine.offer.bubblewrap.as_ref();
        let bwrap = found.map(|found| found.path.clone());
        let bwrap = bwrap.filter(|path| !layout::is_changeable(request.policy, path));
        let bwrap = bwrap.ok_or(CommandRefusal::NotHere(Backend::Bubblewrap.name()))?;
        self.put_stand_ins(&mut request)?;
        let view = layout::view(&self.scene(&request));
        let mut program = bubblewrap::words(&bwrap, &view, &request.policy.network, &request.cwd);
        program.push(HELPER_COMMAND.into());
        let mut inner = vec![Order::Lifeline { pass_on: false }];
        inner.extend(proven(&view)?);
        inner.extend(self.inner(&request));
        program.extend(orders::words(&inner, &request.command.argv));
        let outer = self.outer(&mut request, true);
        Ok(self.confined(request, &outer, &program))
    }

    fn in_namespaces(&self, mut request: Request<'_>) -> Result<Confined, CommandRefusal> {
        self.put_stand_ins(&mut request)?;
        let mut orders = vec![
            Order::DieWithParent {},
            Order::Lifeline { pass_on: false },
            Order::NewRoot {},
        ];
        let view = layout::view(&self.scene(&request));
        let proof = proven(&view)?;
        orders.extend(view);
        orders.push(Order::EnterRoot {});
        orders.extend(proof);
        if request.policy.network == Network::Loopback {
            orders.push(Order::Loopback {});
        }
        orders.extend(self.inner(&request));
        let mut program = vec![self.helper.clone().into(), HELPER_COMMAND.into()];
        program.extend(orders::words(&orders, &request.command.argv));
        let mut outer = self.outer(&mut request, true);
        outer.push(Order::Unshare {
            network: match request.policy.network {
                Network::Off | Network::Loopback => true,
                Network::Ports(_) | Network::On => false,
            },
        });
        Ok(self.confined(request, &outer, &program))
    }

    fn in_landlock(&self, mut request: Request<'_>) -> Result<Confined, CommandRefusal> {
        let owned = self.scratch()?;
        let scratch = owned.path().to_owned();
        request.guard.scratch = Some(owned);
        let rules = rights::rights(&self.scene(&request), &scratch);
        let rules = rules.map_err(|rights::TooMany| CommandRefusal::TooWide)?;
        let mut orders = self.outer(&mut request, false);
        orders.extend(self.identity(&scratch));
        orders.push(Order::Start {
            at: request.cwd.clone(),
        });
        let bounded = request.guard.cage.is_some();
        orders.extend(limits(&request.policy.limits, bounded, request.backend));
        orders.extend(rules);
        orders.extend(closing(request.policy, true));
        let program = request.command.argv.clone();
        Ok(self.confined(request, &orders, &program))
    }

    /// Returns the orders of the first helper, outside the sandbox. It passes its lifeline on if it
    /// starts another helper, so that the inner helper does not depend on the processes between it
    /// and the runtime.
    fn outer(&self, request: &mut Request<'_>, pass_on: bool) -> Vec<Order> {
        let mut orders = vec![Order::Lifeline { pass_on }, Order::Adopt { at_end: true }];
        request.guard.cage = self.machine.cages.make(&request.policy.limits);
        let lists = request.guard.cage.iter().flat_map(Cage::lists);
        orders.extend(lists.map(|list| Order::Join { list }));
        orders
    }

    /// Returns the orders of the helper that is PID 1 in the namespaces.
    fn inner(&self, request: &Request<'_>) -> Vec<Order> {
        let policy = request.policy;
        let mut orders = vec![Order::DieWithParent {}, Order::Session {}];
        let home = self.home_inside();
        if home != TEMPORARY && !home.starts_with(&policy.workspace) {
            orders.extend(self.identity(home));
        }
        orders.push(Order::Start {
            at: request.cwd.clone(),
        });
        orders.extend(limits(&policy.limits, false, request.backend));
        orders.push(Order::MayRead { at: "/".into() });
        let devices = WRITABLE_DEVICES.iter().map(PathBuf::from);
        let own = ["/dev/shm", TEMPORARY].map(PathBuf::from);
        let mut writable: Vec<PathBuf> = devices.chain(own).collect();
        writable.push(home.to_owned());
        writable.extend(policy.extra_write.iter().cloned());
        if policy.access == Access::ReadWrite {
            writable.push(policy.workspace.clone());
        }
        let read_only = |path: &PathBuf| {
            policy.access == Access::ReadOnly && path.starts_with(&policy.workspace)
        };
        writable.retain(|path| !read_only(path) || policy.extra_write.contains(path));
        orders.extend(writable.into_iter().map(|at| Order::MayWrite { at }));
        orders.extend(closing(policy, false));
        orders
    }

    fn identity(&self, home: &Path) -> Option<Order> {
        let text = git::identity(self.home.as_deref()?)?.into();
        let at = home.join(".gitconfig");
        Some(Order::Text { at, text })
    }

    fn home_inside(&self) -> &Path {
        self.home.as_deref().unwrap_or(Path::new(TEMPORARY))
    }

    fn confined(&self, request: Request<'_>, orders: &[Order], program: &[OsString]) -> Confined {
        let policy = request.policy;
        let own = match &request.guard.scratch {
            Some(scratch) => Own {
                home: scratch.path(),
                temporary: scratch.path(),
                real_home: self.home.as_deref(),
            },
            None => Own {
                home: self.home_inside(),
                temporary: Path::new(TEMPORARY),
                real_home: None,
            },
        };
        let env = environment::confined(request.command.env, own, policy.access);
        let mut argv = vec![self.helper.clone().into(), HELPER_COMMAND.into()];
        argv.extend(orders::words(orders, program));
        let guard = request.guard;
        let applied = self.applied(request.backend, policy, guard.cage.is_some());
        Confined {
            argv,
            cwd: request.cwd,
            env,
            supervised: true,
            guard,
            applied,
        }
    }

    fn applied(&self, backend: Backend, policy: &Policy, grouped: bool) -> Applied {
        Applied {
            backend,
            access: policy.access,
            network: policy.network.clone(),
            landlock: self.machine.offer.landlock,
            limits: policy.limits,
            control_group: grouped,
            not_held: not_held(backend, &policy.network, grouped),
        }
    }

    fn check_network(&self, backend: Backend, network: &Network) -> Result<(), CommandRefusal> {
        match network {
            Network::Ports(_) if self.machine.offer.landlock < LANDLOCK_WITH_PORTS => {
                Err(CommandRefusal::Network(
                    "This kernel cannot restrict a command to single ports. Run the command without network, or ask the operator to allow the whole network.",
                ))
            }
            Network::Loopback if !backend.has_namespaces() => Err(CommandRefusal::Network(
                "This machine cannot create a network namespace for a command. Run the command without network.",
            )),
            Network::Off | Network::Loopback | Network::Ports(_) | Network::On => Ok(()),
        }
    }

    fn fates(
        &self,
        backend: Backend,
        policy: &Policy,
        repositories: &BTreeMap<PathBuf, Kind>,
    ) -> Result<(Fates, Vec<Watched>), CommandRefusal> {
        let wrong = policy
            .protected
            .iter()
            .find(|one| !layout::is_plain(&one.path));
        if let Some(wrong) = wrong {
            return Err(CommandRefusal::Protected(wrong.path.clone()));
        }
        let home = self.home.as_deref();
        let decide = |known: &Known| layout::fates(policy, home, &self.helper, repositories, known);
        let (fates, watched) = if backend.has_namespaces() {
            self.watches.decide(decide)
        } else {
            // A read-only workspace cannot be changed, so no place needs to be watched or restored.
            (decide(&Known::default()), Vec::new())
        };
        if fates.all().count() + fates.above.len() > MAX_PROTECTED {
            return Err(CommandRefusal::TooManyProtected);
        }
        Ok((fates, watched))
    }

    /// Creates the stand-ins. If another entry exists by now, that entry is protected instead.
    fn put_stand_ins(&self, request: &mut Request<'_>) -> Result<(), CommandRefusal> {
        let wanted = std::mem::take(&mut request.fates.stand_ins);
        for (path, stand) in wanted {
            let put =
                self.stand_ins
                    .put(&path, stand)
                    .map_err(|cause| CommandRefusal::StandIn {
                        path: path.clone(),
                        cause,
                    })?;
            match put {
                Some(open_exact) => {
                    request.guard.stand_ins.push(open_exact);
                    request.fates.stand_ins.insert(path, stand);
                }
                None if path.is_symlink() => {
                    request.guard.watched.push(self.watches.watch(&path));
                }
                None if path.exists() => drop(request.fates.present.insert(path)),
                // No process of this user can create an entry there.
                None => {}
            }
        }
        Ok(())
    }

    fn scene<'a>(&'a self, request: &'a Request<'_>) -> Scene<'a> {
        Scene {
            policy: request.policy,
            places: &self.places,
            home: self.home.as_deref(),
            fates: &request.fates,
            private: &self.machine.private,
            helper: &self.helper,
        }
    }

    /// Creates a private scratch folder on disk.
    fn scratch(&self) -> Result<Owned, CommandRefusal> {
        let path = folder(&self.places.scratch)?;
        self.swept.call_once(|| sweep(&path));
        Owned::make(&path, SCRATCH, SCRATCH_MODE)
            .map_err(|cause| CommandRefusal::Folder { path, cause })
    }

    /// Starts the command without a sandbox, as the operator configured: no restriction applies,
    /// but the command still ends with this process. Its supervisor is a process of the same user,
    /// which the command can kill.
    pub fn unconfined(&self, limits: Limits, command: Command) -> Confined {
        let orders = [
            Order::Lifeline { pass_on: false },
            Order::Adopt { at_end: false },
        ];
        let mut argv = vec![self.helper.clone().into(), HELPER_COMMAND.into()];
        argv.extend(orders::words(&orders, &command.argv));
        Confined {
            argv,
            supervised: true,
            ..Confined::bare(limits, command)
        }
    }
}

impl Confined {
    /// Returns the command unchanged, without a supervisor.
    pub fn bare(limits: Limits, command: Command) -> Self {
        Self {
            argv: command.argv,
            cwd: command.cwd,
            env: command.env,
            supervised: false,
            guard: Guard::default(),
            applied: Applied {
                backend: Backend::None,
                access: Access::ReadWrite,
                network: Network::On,
                landlock: 0,
                limits,
                control_group: false,
                not_held: not_held(Backend::None, &Network::On, false),
            },
        }
    }
}

/// Returns the argument prefix for a program outside the sandbox, so that it and everything that it
/// starts end with this process. The program keeps its standard input. Its supervisor keeps running
/// beside it.
pub fn supervisor(helper: &Path) -> Vec<OsString> {
    launcher(helper, &[Order::Adopt { at_end: true }])
}

/// Returns the argument prefix for a program outside the sandbox, so that it ends with the thread
/// that starts it, and so with this process. No supervisor keeps running; processes that the
/// program starts are not covered.
pub fn death_signal(helper: &Path) -> Vec<OsString> {
    launcher(helper, &[Order::DieWithParent {}, Order::Become {}])
}

/// Builds the helper's command line. The order that checks the parent comes last: a parent that
/// dies after it ends a helper that has armed everything.
fn launcher(helper: &Path, orders: &[Order]) -> Vec<OsString> {
    let mut orders = orders.to_vec();
    orders.push(Order::Parent {
        process: u64::from(std::process::id()),
    });
    let mut words = vec![helper.into(), HELPER_COMMAND.into()];
    words.extend(orders::words(&orders, &[]));
    words
}

/// Returns the orders by which the helper verifies a view before it continues.
fn proven(view: &[Order]) -> Result<Vec<Order>, CommandRefusal> {
    promises(view).map_err(|(path, cause)| CommandRefusal::Folder { path, cause })
}

/// Removes the private folders that dead processes left behind.
fn sweep(folder: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let us = rustix::process::geteuid().as_raw();
    remove_abandoned(folder, SCRATCH, |path| {
        if fs::symlink_metadata(path).is_ok_and(|facts| facts.uid() == us) {
            // What cannot be removed stays in a folder for temporary files.
            fs::remove_dir_all(path).ok();
        }
    });
}

/// Refuses folders that are no longer the ones that were decided about. They are used by the names
/// that they had then: resolving a link now would let a process that can plant one choose the
/// folder.
fn check_folders(policy: &Policy) -> Result<(), CommandRefusal> {
    let workspace = &policy.workspace;
    let contains_system = ["/usr", "/etc", "/proc", "/dev"]
        .iter()
        .any(|part| Path::new(part).starts_with(workspace));
    if contains_system {
        return Err(CommandRefusal::TooMuch(workspace.clone()));
    }
    for path in policy.extra_write.iter().chain([workspace]) {
        open_exact::open_folder(path).map_err(|cause| CommandRefusal::Folder {
            path: path.clone(),
            cause,
        })?;
    }
    Ok(())
}

/// Returns the canonical path of a folder.
fn folder(path: &Path) -> Result<PathBuf, CommandRefusal> {
    let refused = |cause| CommandRefusal::Folder {
        path: path.to_owned(),
        cause,
    };
    let real = fs::canonicalize(path).map_err(refused)?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(refused(io::ErrorKind::NotADirectory.into()))
    }
}

fn limits(limits: &Limits, grouped: bool, backend: Backend) -> Vec<Order> {
    let mut named = vec![
        ("core", 0),
        ("open", limits.open_files),
        ("file", limits.file_bytes),
        ("cpu", limits.cpu_seconds),
        ("memory", limits.memory_bytes),
    ];
    // Without a user namespace, this limit would count all other processes of this user, too.
    if backend.has_namespaces() && !grouped {
        named.push(("processes", limits.processes));
    }
    named
        .into_iter()
        .map(|(name, value)| Order::Limit {
            name: name.into(),
            value,
        })
        .collect()
}

/// Returns the last orders: after them the helper has no more rights than the command.
fn closing(policy: &Policy, needed: bool) -> Vec<Order> {
    let mut orders = Vec::new();
    let ports = match &policy.network {
        Network::Ports(ports) => {
            let allowed = ports.iter().map(|port| Order::MayConnect {
                port: u64::from(*port),
            });
            orders.extend(allowed);
            true
        }
        Network::Off | Network::Loopback | Network::On => false,
    };
    orders.push(Order::DropPrivileges {});
    orders.push(Order::Restrict { ports, needed });
    orders.push(Order::Filter {
        families: network_word(&policy.network).to_owned(),
    });
    orders
}
