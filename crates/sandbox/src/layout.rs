//! Plans what a command sees before any step is executed: the orders for the file view, and for
//! each protected path that does not exist yet whether it gets a stand-in or is watched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::git;
use crate::git_places::{Kind, is_git_name};
use crate::git_settings::named_by_settings;
use crate::open_exact;
use crate::orders::Order;
use crate::places::{Places, SECRETS, SYSTEM, TOOLCHAINS};
use crate::policy::{Access, Network, Policy};
use crate::promises::{Place, place};
use crate::protected::{IN_GIT_FOLDER, IN_HOME, IN_LINKED_FOLDER, WhileAbsent};
use crate::stand_in::{self, Stand};
use crate::watched::{Before, Known};

/// The path of the helper in the new root.
pub(crate) const HELPER: &str = "/run/sortie/helper";
/// The folder for temporary files.
pub(crate) const TEMPORARY: &str = "/tmp";
/// The most protected places of one command: each costs one or two mounts.
pub(crate) const MAX_PROTECTED: usize = 1024;
/// The most repositories of the user that are protected part by part.
const MAX_IN_DETAIL: usize = 32;
/// The most submodules or linked worktrees of one repository in which commands may work.
const MAX_INNER: usize = 32;
/// The most links that are followed to a protected place: as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// The decisions about protected places.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    /// Ancestors of protected places. Each is its own mount, because only a mount point cannot be
    /// renamed.
    pub(crate) above: BTreeSet<PathBuf>,
    /// Existing places, which become read-only.
    pub(crate) present: BTreeSet<PathBuf>,
    /// Writable folders within a read-only one.
    pub(crate) open: BTreeSet<PathBuf>,
    /// Missing places that get a stand-in.
    pub(crate) stand_ins: BTreeMap<PathBuf, Stand>,
    /// Places that are restored after the command, with their state before it.
    pub(crate) watched: BTreeMap<PathBuf, Before>,
}

impl Fates {
    /// Returns every place that must not be written to.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let absent = self.stand_ins.keys().chain(self.watched.keys());
        self.present.iter().chain(absent)
    }

    fn absent(&mut self, place: PathBuf, absent: WhileAbsent) {
        match absent {
            WhileAbsent::StandIn => drop(self.stand_ins.insert(place, Stand::Folder)),
            WhileAbsent::File(content) => {
                self.stand_ins.insert(place, Stand::File(content));
            }
            WhileAbsent::Watch => drop(self.watched.insert(place, Before::Absent)),
        }
    }

    /// Removes watches on covered places: restoring such a place would remove what other commands
    /// rely on.
    fn without_covered_watches(mut self) -> Self {
        let stand_ins = &self.stand_ins;
        self.watched.retain(|path, _| !stand_ins.contains_key(path));
        self
    }
}

/// Decides about places one by one.
struct Decider<'a> {
    fates: Fates,
    known: &'a Known,
}

impl Decider<'_> {
    /// Decides about one place beneath a root.
    fn decide(&mut self, root: &Path, path: &Path, absent: WhileAbsent) {
        self.decide_through(root, path, absent, MAX_LINKS);
    }

    /// Protects the target of a protected link within the same root as well, because programs act
    /// on the target.
    fn decide_target(
        &mut self,
        root: &Path,
        link: &Path,
        rest: &Path,
        absent: WhileAbsent,
        left: usize,
    ) {
        let Some(left) = left.checked_sub(1) else {
            return;
        };
        let folder = link.parent().unwrap_or(root);
        let Ok(target) = fs::read_link(link) else {
            return;
        };
        let target = folder.join(target);
        // The last name may be missing: then no entry may be created there.
        let real = fs::canonicalize(&target).ok().or_else(|| {
            let folder = fs::canonicalize(target.parent()?).ok()?;
            Some(folder.join(target.file_name()?))
        });
        let inside = real.and_then(|real| Some(real.strip_prefix(root).ok()?.join(rest)));
        // A link to the whole workspace adds no protection to what is protected there anyway.
        if let Some(inside) = inside.filter(|inside| is_plain(inside)) {
            self.decide_through(root, &inside, absent, left);
        }
    }

    fn decide_through(&mut self, root: &Path, path: &Path, absent: WhileAbsent, left: usize) {
        let fates = &mut self.fates;
        let mut place = root.to_owned();
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            place.push(name);
            if let Some((before, _)) = self.known.get(&place) {
                fates.watched.insert(place, before.clone());
                return;
            }
            // Read once: a stand-in can appear or disappear between two reads.
            let Ok(facts) = fs::symlink_metadata(&place) else {
                // A file is a stand-in only for the name itself, not for a folder on the way to it.
                let absent = match absent {
                    WhileAbsent::File(_) if names.peek().is_some() => WhileAbsent::StandIn,
                    WhileAbsent::File(_) | WhileAbsent::StandIn | WhileAbsent::Watch => absent,
                };
                fates.absent(place, absent);
                return;
            };
            if facts.is_symlink() {
                let before = Before::of(&place);
                fates.watched.insert(place.clone(), before);
                let rest: PathBuf = names.collect();
                self.decide_target(root, &place, &rest, absent, left);
                return;
            }
            if stand_in::is_ours(&place, &facts) {
                let stand = match absent {
                    WhileAbsent::StandIn | WhileAbsent::File(_) | WhileAbsent::Watch
                        if facts.is_dir() =>
                    {
                        Stand::Folder
                    }
                    WhileAbsent::File(content) => Stand::File(content),
                    WhileAbsent::StandIn | WhileAbsent::Watch => Stand::File(""),
                };
                fates.stand_ins.insert(place, stand);
                return;
            }
            if names.peek().is_none() || !facts.is_dir() {
                fates.present.insert(place);
                return;
            }
            fates.above.insert(place.clone());
        }
    }

    /// Decides about a git folder beneath a root.
    fn decide_git(&mut self, root: &Path, folder: &Path, is_linked: bool) {
        let names = if is_linked {
            IN_LINKED_FOLDER
        } else {
            IN_GIT_FOLDER
        };
        for (name, absent) in names {
            self.decide(root, &folder.join(name), *absent);
        }
        if !is_linked {
            self.open_inner(root, folder);
        }
    }

    /// Permits git to work in the existing linked worktrees and submodules of a git folder, while
    /// no new ones can be created.
    fn open_inner(&mut self, root: &Path, folder: &Path) {
        for (part, is_linked) in [("worktrees", true), ("modules", false)] {
            let part = folder.join(part);
            if !self.fates.present.contains(&root.join(&part)) {
                continue;
            }
            let entries = fs::read_dir(root.join(&part)).into_iter().flatten();
            for entry in entries.flatten().take(MAX_INNER) {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let path = entry.path();
                let fits = match is_linked {
                    true => git::is_linked_folder(&path),
                    false => git::is_git_folder(&path) && !git::is_linked_folder(&path),
                };
                if is_folder && fits {
                    self.fates.open.insert(path);
                    let inner = part.join(entry.file_name());
                    let names = if is_linked {
                        IN_LINKED_FOLDER
                    } else {
                        IN_GIT_FOLDER
                    };
                    for (name, absent) in names {
                        self.decide(root, &inner.join(name), *absent);
                    }
                }
            }
        }
    }

    /// Decides about the user's repositories in a workspace.
    fn decide_places(&mut self, workspace: &Path, places: &BTreeMap<PathBuf, Kind>) {
        // Each repository takes several mounts. Where there are many, each is read-only as a whole.
        let in_detail = places.len() <= MAX_IN_DETAIL;
        for (path, kind) in places {
            match kind {
                Kind::Folder if path == Path::new(".git") => self.open_inner(workspace, path),
                Kind::Folder if in_detail || !is_plain(path) => {
                    let is_linked = git::is_linked_folder(&workspace.join(path));
                    self.decide_git(workspace, path, is_linked);
                }
                // A link is restored afterwards; its target is protected like any git folder.
                Kind::Link => self.decide_git(workspace, path, false),
                Kind::Folder | Kind::Pointer | Kind::Other => {
                    self.decide(workspace, path, WhileAbsent::Watch);
                }
            }
        }
    }
}

/// Returns whether a writable folder is the small folder of a linked worktree (`true`) or a whole
/// repository (`false`); `None` if it is neither. Where its location decides, its content is not
/// read, because commands may change the content.
fn git_kind(policy: &Policy, root: &Path) -> Option<bool> {
    let mut others = policy.extra_write.iter();
    let is_linked = others.any(|other| root.starts_with(other.join("worktrees")));
    let mut others = policy.extra_write.iter();
    let has_linked = others.any(|other| other.starts_with(root.join("worktrees")));
    let is_named = root.file_name() == Some(OsStr::new(".git"));
    if is_linked || (!has_linked && git::is_linked_folder(root)) {
        Some(true)
    } else {
        (has_linked || is_named || git::is_git_folder(root)).then_some(false)
    }
}

/// Returns the folders that a command may change.
fn changeable(policy: &Policy) -> impl Iterator<Item = &PathBuf> {
    let workspace = match policy.access {
        Access::ReadWrite => Some(&policy.workspace),
        Access::ReadOnly => None,
    };
    workspace.into_iter().chain(&policy.extra_write)
}

/// Decides about every protected place in the folders that a command may change. `known` has the
/// state of some places before other commands that still run.
pub(crate) fn fates(
    policy: &Policy,
    home: Option<&Path>,
    helper: &Path,
    repositories: &BTreeMap<PathBuf, Kind>,
    known: &Known,
) -> Fates {
    let mut decider = Decider {
        fates: Fates::default(),
        known,
    };
    if policy.access == Access::ReadWrite {
        let workspace = &policy.workspace;
        for protected in &policy.protected {
            decider.decide(workspace, &protected.path, protected.absent);
        }
        decider.decide_places(workspace, repositories);
        for protected in named_by_settings(workspace, home) {
            decider.decide(workspace, &protected.path, protected.absent);
        }
        for path in repositories.keys().filter(|path| is_git_name(path)) {
            let worktree = path.parent().filter(|path| is_plain(path));
            for protected in worktree.iter().flat_map(|tree| {
                let all = named_by_settings(&workspace.join(tree), None);
                all.into_iter()
                    .map(|one| (tree.join(&one.path), one.absent))
            }) {
                decider.decide(workspace, &protected.0, protected.1);
            }
        }
        if let Some(home) = home.and_then(|home| home.strip_prefix(workspace).ok()) {
            for name in IN_HOME {
                decider.decide(workspace, &home.join(name), WhileAbsent::Watch);
            }
        }
    }
    for root in &policy.extra_write {
        if let Some(is_linked) = git_kind(policy, root) {
            decider.decide_git(root, Path::new(""), is_linked);
        }
    }
    // Our own binary starts the next command, with all rights of the user who started us.
    for root in changeable(policy).filter(|_| helper.exists()) {
        if let Ok(relative) = helper.strip_prefix(root) {
            decider.decide(root, relative, WhileAbsent::Watch);
        }
    }
    decider.fates.without_covered_watches()
}

/// Returns whether a relative path names an entry beneath a folder, without `.` or `..`.
pub(crate) fn is_plain(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Returns every path that must not be visible.
pub(crate) fn hidden(policy: &Policy, places: &Places, home: Option<&Path>) -> Vec<PathBuf> {
    let named = policy.hidden.iter().chain(&places.own).cloned();
    let mut all: Vec<PathBuf> = named
        .chain(in_home(home, SECRETS))
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the folders with programs that are visible as well, wherever links lead to them.
pub(crate) fn shown(policy: &Policy, places: &Places, home: Option<&Path>) -> Vec<PathBuf> {
    let programs = places.path.iter().filter(|folder| {
        let home = home.is_some_and(|home| home.starts_with(folder));
        folder.is_absolute() && !home && !policy.workspace.starts_with(folder)
    });
    in_home(home, TOOLCHAINS)
        .chain(programs.filter(|path| path.exists()).cloned())
        .collect()
}

/// Returns the names of a list that exist in the home folder. Most do not, and one check shows it:
/// resolving each name from the root takes five.
fn in_home(home: Option<&Path>, names: &[&str]) -> impl Iterator<Item = PathBuf> {
    let all = names.iter().filter_map(move |name| Some(home?.join(name)));
    all.filter(|path| path.symlink_metadata().is_ok())
}

/// The file view, as orders.
#[derive(Debug, Default)]
pub(crate) struct View {
    orders: Vec<Order>,
}

/// The access at a place of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    Read,
    Write,
}

/// The input for a view.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// The policy; its folders are named without links.
    pub(crate) policy: &'a Policy,
    pub(crate) places: &'a Places,
    /// The home folder, canonical.
    pub(crate) home: Option<&'a Path>,
    /// The decisions about protected places.
    pub(crate) fates: &'a Fates,
    /// Parts of the system that not every user may read.
    pub(crate) private: &'a [PathBuf],
    pub(crate) helper: &'a Path,
}

/// Plans the view of one command.
pub(crate) fn view(scene: &Scene<'_>) -> Vec<Order> {
    let Scene { policy, home, .. } = scene;
    let hidden = hidden(policy, scene.places, *home);
    let mut view = View::default();
    view.system(policy);
    view.scratch(Path::new(TEMPORARY), policy);
    view.link(Path::new(TEMPORARY), Path::new("/var/tmp"));
    if let Some(home) = home {
        view.scratch(home, policy);
    }
    for path in shown(policy, scene.places, *home) {
        view.show(&path);
    }
    for path in &policy.extra_read {
        view.show_exact(path);
    }
    // One of our own folders may contain the workspace: then only the workspace is visible of it.
    let around = |path: &&PathBuf| policy.workspace.starts_with(path);
    for path in hidden.iter().filter(around) {
        if view.shows(path) {
            view.scratch(path, policy);
        }
    }
    view.work(scene, &hidden);
    for path in hidden
        .iter()
        .filter(|path| !around(path))
        .chain(scene.private)
    {
        view.hide(path);
    }
    view.orders.push(Order::Processes {});
    view.orders.push(Order::Devices {});
    view.orders.push(Order::Read {
        from: scene.helper.to_owned(),
        at: HELPER.into(),
    });
    view.orders
}

impl View {
    fn system(&mut self, policy: &Policy) {
        for folder in SYSTEM.iter().map(Path::new) {
            match fs::canonicalize(folder) {
                Ok(real) if real == *folder => self.read(&real),
                Ok(real) => self.link(&real, folder),
                Err(_) => {}
            }
        }
        // Often a link to a file that is rewritten when the network changes.
        let names = fs::canonicalize("/etc/resolv.conf").ok();
        let reaches = match policy.network {
            Network::Off | Network::Loopback => false,
            Network::Ports(_) | Network::On => true,
        };
        if let Some(names) = names.filter(|names| reaches && !self.shows(names)) {
            self.read(&names);
        }
    }

    /// Adds the writable folders, with the protected places in them. Sorted, so that each mount
    /// lies on the folders that contain it.
    fn work(&mut self, scene: &Scene<'_>, hidden: &[PathBuf]) {
        let (policy, fates) = (scene.policy, scene.fates);
        let mut places = BTreeMap::from([(policy.workspace.clone(), Rights::Read)]);
        let roots: BTreeSet<&PathBuf> = changeable(policy).chain(&fates.open).collect();
        let above = fates.above.iter().cloned();
        let above = above.chain(above_hidden(&roots, hidden));
        let changed = roots.iter().copied().cloned().chain(above);
        places.extend(changed.map(|path| (path, Rights::Write)));
        let kept = fates.present.iter().chain(fates.stand_ins.keys()).cloned();
        places.extend(kept.map(|path| (path, Rights::Read)));
        let mut done: Vec<(&PathBuf, Rights)> = Vec::new();
        for (path, rights) in &places {
            let mut outer = done.iter().rev();
            let outer = outer.find(|(other, _)| path.starts_with(other));
            // Everything in a read-only folder is read-only.
            let is_kept = outer.is_some_and(|(_, rights)| *rights == Rights::Read);
            if is_kept && (*rights == Rights::Read || !roots.contains(path)) {
                continue;
            }
            match rights {
                Rights::Read => self.read(path),
                Rights::Write => self.write(path),
            }
            done.push((path, *rights));
        }
    }

    /// Adds a path to the view, under its link names too.
    fn show(&mut self, path: &Path) {
        let Ok(real) = fs::canonicalize(path) else {
            return;
        };
        if !self.shows(&real) {
            self.read(&real);
        }
        if real != path && !self.shows(path) {
            self.link(&real, path);
        }
    }

    /// Adds a folder by exactly this name: a link that was put there since is not followed.
    fn show_exact(&mut self, path: &Path) {
        if open_exact::open_folder(path).is_ok() && !self.shows(path) {
            self.read(path);
        }
    }

    fn hide(&mut self, path: &Path) {
        if !self.shows(path) {
            return;
        }
        let at = path.to_owned();
        self.orders.push(if path.is_dir() {
            Order::HideFolder { at }
        } else {
            Order::HideFile { at }
        });
    }

    /// Returns whether the new root shows what the old root has at this path.
    fn shows(&self, path: &Path) -> bool {
        let mut shows = false;
        for order in &self.orders {
            if let Order::Link { at, .. } = order
                && path.starts_with(at)
            {
                return true;
            }
            if let Some(place) = place(order)
                && path.starts_with(place.at())
            {
                shows = matches!(place, Place::Part(..));
            }
        }
        shows
    }

    fn read(&mut self, path: &Path) {
        self.orders.push(Order::Read {
            from: path.to_owned(),
            at: path.to_owned(),
        });
    }

    fn write(&mut self, path: &Path) {
        self.orders.push(Order::Write {
            from: path.to_owned(),
            at: path.to_owned(),
        });
    }

    fn scratch(&mut self, at: &Path, policy: &Policy) {
        self.orders.push(Order::Scratch {
            at: at.to_owned(),
            size_bytes: policy.limits.scratch_bytes,
        });
    }

    fn link(&mut self, to: &Path, at: &Path) {
        self.orders.push(Order::Link {
            to: to.to_owned(),
            at: at.to_owned(),
        });
    }
}

/// Returns the ancestors of hidden places within writable folders: a command that renames such an
/// ancestor would move the hidden place away from the mount that covers it.
fn above_hidden(roots: &BTreeSet<&PathBuf>, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in hidden {
        for root in roots.iter().filter(|root| path.starts_with(root)) {
            let above = path.ancestors().skip(1);
            let above = above.take_while(|folder| folder != root);
            found.extend(above.map(Path::to_owned));
        }
    }
    found
}

/// Returns whether a file lies where a command could have put it.
pub(crate) fn is_changeable(policy: &Policy, path: &Path) -> bool {
    let mut folders = policy.extra_write.iter().chain([&policy.workspace]);
    folders.any(|folder| path.starts_with(folder))
}

/// Devices that a command may write to.
pub(crate) const WRITABLE_DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Returns the name of the network policy that the filter expects.
pub(crate) fn network_word(network: &Network) -> &'static OsStr {
    OsStr::new(match network {
        Network::Off => "off",
        Network::Loopback => "loopback",
        Network::Ports(_) => "ports",
        Network::On => "on",
    })
}
