//! Keeps the files of a home folder to their owner.
//!
//! A token that other users can read makes each of them an administrator of the server, and a folder
//! that they can write lets them replace keys, store and configuration. [`judge_folder`] and
//! [`judge_file`] decide from owners and modes alone; [`inspect`] collects these for a folder, everything
//! above it and the files in it; [`enforce`] tightens what no other user could have used and refuses the
//! rest. Every command and `doctor` use the same verdicts.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::process::{getegid, geteuid};

use crate::atomic_file::sync_parent;
use crate::regular_file;

/// Mode of a private file: its owner reads and writes it.
pub const FILE_MODE: u32 = 0o600;
/// Mode of a private folder: its owner enters and changes it.
pub const FOLDER_MODE: u32 = 0o700;
/// As many links as the kernel follows in one path.
const MAX_LINKS: usize = 40;
/// The user id that a user namespace shows for unmapped users.
const OVERFLOW_USER: u32 = 65_534;
/// Limit of `/etc/group`; a larger file is not read, and then no group counts as private.
const MAX_GROUPS_BYTES: u64 = 4 * 1024 * 1024;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const READ_BY_OTHERS: u32 = 0o044;
const EVERYBODY_READS: u32 = 0o004;
const SEARCHED_BY_OTHERS: u32 = 0o011;
const ANYTHING_FOR_OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// The type of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Folder,
    File,
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

/// Type, owner and mode of a path; a link in its last component is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub kind: Kind,
    /// User id of the owner.
    pub owner: u32,
    pub group: u32,
    /// Permission bits and the sticky bit.
    pub mode: u32,
}

/// The users and groups that this process trusts with its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// The effective user id of this process.
    pub user: u32,
    /// The user id of unmapped owners in a user namespace. They are outside of it, as its root
    /// is; `None` outside of a user namespace.
    pub unmapped: Option<u32>,
    /// Groups without any other member.
    pub groups: Vec<u32>,
}

/// The position of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The folder of the private files itself.
    Home,
    /// A folder on the way to it.
    Above,
}

/// The class of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Contains a secret: reading it is enough to use it.
    Secret,
    /// Written only by this program; contains data of tasks.
    Private,
    /// Edited by people, who may keep it behind a link and may let other users read it.
    Settings,
}

/// The result of a check of owner and mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No action is needed.
    Safe,
    /// The mode is too wide, and no other user has changed the file: it is tightened.
    Repair,
    /// Other users could read the secret: it has to be replaced.
    Leaked,
    /// Other users could have changed it.
    Unsafe(Danger),
}

/// Why a file or folder is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Danger {
    /// Another user owns it.
    ForeignOwner {
        /// User id of the owner.
        owner: u32,
    },
    /// Other users may write it.
    WritableByOthers {
        /// The mode of the path.
        mode: u32,
    },
    /// It is not a regular file, or not a folder.
    WrongKind(Kind),
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignOwner { owner } => write!(f, "belongs to another user (uid {owner})"),
            Self::WritableByOthers { mode } => {
                write!(f, "can be written by other users (mode {mode:04o})")
            }
            Self::WrongKind(Kind::Link) => f.write_str("is a symbolic link"),
            Self::WrongKind(Kind::Folder) => f.write_str("is a folder"),
            Self::WrongKind(Kind::File) => f.write_str("is not a folder"),
            Self::WrongKind(Kind::Special) => f.write_str("is not a regular file"),
        }
    }
}

/// A file or folder that is not safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: PathBuf,
    /// Result of the check; never [`Verdict::Safe`].
    pub verdict: Verdict,
}

/// A file or folder that other users could have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeFile {
    pub path: PathBuf,
    pub danger: Danger,
}

impl fmt::Display for UnsafeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.danger)
    }
}

impl std::error::Error for UnsafeFile {}

/// Why private files are refused.
#[derive(Debug)]
pub enum FileRefusal {
    /// Other users could have changed one of them.
    Unsafe(UnsafeFile),
    /// Its owner and mode cannot be read or set.
    Unknown {
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl fmt::Display for FileRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsafe(found) => found.fmt(f),
            Self::Unknown { path, .. } => {
                write!(f, "cannot check who may use {}", path.display())
            }
        }
    }
}

impl std::error::Error for FileRefusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unsafe(_) => None,
            Self::Unknown { source, .. } => Some(source),
        }
    }
}

impl Trusted {
    fn owns(&self, owner: u32) -> bool {
        owner == self.user || owner == 0 || self.unmapped == Some(owner)
    }

    /// Returns whether untrusted users may write the path. A private group has no such member.
    fn others_write(&self, facts: &Facts) -> bool {
        let by_group = facts.mode & GROUP_WRITES != 0 && !self.groups.contains(&facts.group);
        by_group || facts.mode & OTHERS_WRITE != 0
    }
}

/// Decides whether other users could replace what is below a folder.
pub fn judge_folder(position: Position, facts: &Facts, trusted: &Trusted) -> Verdict {
    if facts.kind != Kind::Folder {
        return Verdict::Unsafe(Danger::WrongKind(facts.kind));
    }
    if !trusted.owns(facts.owner) {
        return Verdict::Unsafe(Danger::ForeignOwner { owner: facts.owner });
    }
    let open = match position {
        // New files can be planted here even where the sticky bit keeps the present ones.
        Position::Home => trusted.others_write(facts),
        Position::Above => trusted.others_write(facts) && facts.mode & STICKY == 0,
    };
    if open {
        Verdict::Unsafe(Danger::WritableByOthers { mode: facts.mode })
    } else {
        Verdict::Safe
    }
}

/// Decides about a file in a safe folder. `reachable` tells whether other users can enter the
/// folder: the mode of a file that they cannot reach has had no effect.
pub fn judge_file(class: Class, facts: &Facts, reachable: bool, trusted: &Trusted) -> Verdict {
    if facts.kind != Kind::File {
        return Verdict::Unsafe(Danger::WrongKind(facts.kind));
    }
    let owned = match class {
        Class::Secret | Class::Private => facts.owner == trusted.user,
        Class::Settings => trusted.owns(facts.owner),
    };
    if !owned {
        return Verdict::Unsafe(Danger::ForeignOwner { owner: facts.owner });
    }
    if reachable && trusted.others_write(facts) {
        return Verdict::Unsafe(Danger::WritableByOthers { mode: facts.mode });
    }
    match class {
        Class::Settings => Verdict::Safe,
        Class::Secret if reachable && facts.mode & READ_BY_OTHERS != 0 => Verdict::Leaked,
        Class::Secret | Class::Private if facts.mode & ANYTHING_FOR_OTHERS != 0 => Verdict::Repair,
        Class::Secret | Class::Private => Verdict::Safe,
    }
}

/// Checks a folder, everything above it and files in it. Missing paths are safe.
pub fn inspect(home: &Path, files: &[(PathBuf, Class)]) -> Result<Vec<Finding>, FileRefusal> {
    let trusted = trusted();
    let way = walk(home, &trusted)?;
    let mut findings = way.judge_home(&trusted);
    if !findings.is_empty() {
        // Everything below could be replaced between check and use.
        return Ok(findings);
    }
    let reachable = way
        .passed
        .iter()
        .all(|(_, facts)| facts.mode & SEARCHED_BY_OTHERS != 0);
    for (path, class) in files {
        let verdict = match class {
            Class::Secret | Class::Private => match facts_of(path)? {
                None => continue,
                Some(facts) => judge_file(*class, &facts, reachable, &trusted),
            },
            Class::Settings => {
                let way = walk(path, &trusted)?;
                let above = way.judge_above(&trusted);
                if !above.is_empty() {
                    findings.extend(above);
                    continue;
                }
                match way.end() {
                    None => continue,
                    Some((_, facts)) => judge_file(*class, facts, true, &trusted),
                }
            }
        };
        findings.extend(finding(path, verdict));
    }
    Ok(findings)
}

/// Inspects, repairs modes, and refuses what other users could have changed. Returns what
/// was repaired and which secrets leaked, for the caller to report.
pub fn enforce(home: &Path, files: &[(PathBuf, Class)]) -> Result<Vec<Finding>, FileRefusal> {
    let findings = inspect(home, files)?;
    for finding in &findings {
        if let Verdict::Unsafe(danger) = finding.verdict {
            return Err(FileRefusal::Unsafe(UnsafeFile {
                path: finding.path.clone(),
                danger,
            }));
        }
    }
    for finding in &findings {
        if finding.verdict == Verdict::Repair {
            tighten(&finding.path).map_err(|source| FileRefusal::Unknown {
                path: finding.path.clone(),
                source,
            })?;
        }
    }
    Ok(findings)
}

fn tighten(path: &Path) -> io::Result<()> {
    regular_file::open(path)?.set_permissions(Permissions::from_mode(FILE_MODE))
}

/// A path from the root, with links resolved.
struct ResolvedPath {
    /// Every component, from the root on.
    passed: Vec<(PathBuf, Facts)>,
    /// Whether the last of these is the end of the path, not just the last one that exists.
    complete: bool,
    /// A link of another user; resolution stops there.
    foreign_link: Option<Finding>,
}

impl ResolvedPath {
    fn end(&self) -> Option<&(PathBuf, Facts)> {
        self.passed.last().filter(|_| self.complete)
    }

    /// Returns the findings about the folders before the end.
    fn judge_above(&self, trusted: &Trusted) -> Vec<Finding> {
        let above = self.passed.len() - usize::from(self.end().is_some());
        let folders = self.passed.iter().take(above);
        let judged = folders.filter_map(|(path, facts)| {
            let verdict = judge_folder(Position::Above, facts, trusted);
            finding(path, verdict)
        });
        judged.chain(self.foreign_link.clone()).collect()
    }

    /// Returns the findings about the folder at the end and those before it.
    fn judge_home(&self, trusted: &Trusted) -> Vec<Finding> {
        let mut findings = self.judge_above(trusted);
        if let Some((path, facts)) = self.end() {
            findings.extend(finding(path, judge_folder(Position::Home, facts, trusted)));
        }
        findings
    }
}

fn finding(path: &Path, verdict: Verdict) -> Option<Finding> {
    let path = path.to_owned();
    (verdict != Verdict::Safe).then_some(Finding { path, verdict })
}

/// Follows a path from the root, link by link.
fn walk(path: &Path, trusted: &Trusted) -> Result<ResolvedPath, FileRefusal> {
    let absolute = std::path::absolute(path).map_err(|source| FileRefusal::Unknown {
        path: path.to_owned(),
        source,
    })?;
    let mut ahead: VecDeque<OsString> = parts(&absolute);
    let mut at = PathBuf::from("/");
    let root = facts_of(&at)?.map(|facts| (at.clone(), facts));
    let mut way = ResolvedPath {
        passed: root.into_iter().collect(),
        complete: false,
        foreign_link: None,
    };
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let Some(facts) = facts_of(&next)? else {
            return Ok(way);
        };
        if facts.kind == Kind::Link {
            links += 1;
            let target = read_link(&next, links)?;
            // In a sticky folder that other users write, a link may be theirs.
            if !trusted.owns(facts.owner) {
                let danger = Danger::ForeignOwner { owner: facts.owner };
                way.foreign_link = finding(&next, Verdict::Unsafe(danger));
                return Ok(way);
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for part in parts(&target).into_iter().rev() {
                ahead.push_front(part);
            }
            continue;
        }
        at = next;
        // A link can lead to folders that were passed before.
        if way.passed.iter().all(|(passed, _)| *passed != at) {
            way.passed.push((at.clone(), facts));
        }
    }
    // A path may end in `..` or in a link to a folder that was passed before.
    if way.passed.last().is_none_or(|(last, _)| *last != at)
        && let Some(facts) = facts_of(&at)?
    {
        way.passed.push((at, facts));
    }
    way.complete = true;
    Ok(way)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn read_link(path: &Path, links: usize) -> Result<PathBuf, FileRefusal> {
    let target = if links > MAX_LINKS {
        Err(io::Error::from(rustix::io::Errno::LOOP))
    } else {
        fs::read_link(path)
    };
    target.map_err(|source| FileRefusal::Unknown {
        path: path.to_owned(),
        source,
    })
}

fn facts_of(path: &Path) -> Result<Option<Facts>, FileRefusal> {
    match fs::symlink_metadata(path) {
        Ok(found) => {
            let kind = match found.file_type() {
                kind if kind.is_dir() => Kind::Folder,
                kind if kind.is_file() => Kind::File,
                kind if kind.is_symlink() => Kind::Link,
                _ => Kind::Special,
            };
            Ok(Some(Facts {
                kind,
                owner: found.uid(),
                group: found.gid(),
                mode: found.mode() & 0o7777,
            }))
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(source) => Err(FileRefusal::Unknown {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Returns whom this process trusts. If something is unknown, it trusts less.
fn trusted() -> Trusted {
    let user = geteuid().as_raw();
    let groups = regular_file::read(Path::new("/etc/group"), MAX_GROUPS_BYTES)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(|text| private_groups(&text, user, getegid().as_raw()))
        .unwrap_or_default();
    let in_namespace = fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().ne(["0", "0", "4294967295"]));
    Trusted {
        user,
        unmapped: in_namespace.then_some(OVERFLOW_USER),
        groups,
    }
}

/// Returns the groups whose only member is root or this user: by convention a user's own group has the user's
/// number. Systems with such groups also let the group write by default. The process's own group counts
/// too if it has the user's number and the file does not list it: a directory service made it.
fn private_groups(text: &str, user: u32, group: u32) -> Vec<u32> {
    let is_private = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        let members = fields.next().unwrap_or_default();
        let alone = members.split(',').all(|one| one.is_empty() || one == name);
        (alone && (number == user || number == 0)).then_some(number)
    };
    let is_listed = text
        .lines()
        .filter_map(|line| line.split(':').nth(2)?.parse::<u32>().ok())
        .any(|number| number == group);
    let unlisted = (group == user && !is_listed).then_some(group);
    text.lines()
        .filter_map(is_private)
        .chain(unlisted)
        .collect()
}

/// Returns whether other users than the owner may change a file.
pub fn others_may_write(metadata: &fs::Metadata) -> bool {
    metadata.permissions().mode() & (GROUP_WRITES | OTHERS_WRITE) != 0
}

/// Returns whether every user may read a file.
pub fn everybody_may_read(metadata: &fs::Metadata) -> bool {
    metadata.permissions().mode() & EVERYBODY_READS != 0
}

/// Creates a folder that only its owner can enter, and missing folders above it, independent of the umask.
/// Existing folders stay unchanged.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .filter(|folder| !folder.as_os_str().is_empty())
        .take_while(|folder| !folder.is_dir())
        .collect();
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
            Ok(()) => {
                fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))?;
                sync_parent(folder)?;
            }
            // Another process created it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
