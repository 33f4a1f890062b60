//! Tests of the trusted folders.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use sortie_config::{Revoked, TrustError, TrustStore};
use tempfile::TempDir;

use crate::support::folder;

struct World {
    _kept: TempDir,
    root: PathBuf,
}

impl World {
    fn new() -> Self {
        let kept = TempDir::new().unwrap();
        let root = kept.path().canonicalize().unwrap();
        Self { _kept: kept, root }
    }

    fn file(&self) -> PathBuf {
        self.root.join("state/deep/trust.json")
    }

    fn store(&self) -> TrustStore {
        TrustStore::open(&self.file()).unwrap()
    }

    fn check(&self, name: &str, expected: bool) {
        assert_eq!(
            self.store().is_trusted(&self.root.join(name)),
            expected,
            "{name}"
        );
    }

    fn damage(&self, text: &str) {
        folder(&self.root, "state/deep");
        fs::write(self.file(), text).unwrap();
        mode(&self.file(), 0o600);
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn trust_does_not_extend_to_subfolders() {
    let world = World::new();
    for name in ["a/b/c", "ab", "a/other/.git", "a/other/deep", "link-home"] {
        folder(&world.root, name);
    }
    fs::write(world.root.join("a/file"), "").unwrap();
    symlink(world.root.join("a"), world.root.join("link-home/into")).unwrap();
    symlink(world.root.join("ab"), world.root.join("a/out")).unwrap();
    world.check("a", false);
    let trusted = world
        .store()
        .trust(&world.root.join("link-home/into"))
        .unwrap();
    assert_eq!(trusted, world.root.join("a"));

    world.check("a", true);
    world.check("a/b/..", true);
    world.check("a/b", false);
    world.check("a/b/c", false);
    world.check("link-home/into", true);
    world.check("link-home/into/b", false);
    world.check("", false);
    world.check("ab", false);
    world.check("a/out", false);
    world.check("a/../ab", false);
    world.check("link-home", false);
    world.check("a/other", false);
    world.check("a/other/deep", false);
    world.check("a/file", false);
    world.check("a/not-there", false);
}

#[test]
fn trust_can_be_revoked() {
    let world = World::new();
    let (a, b) = (folder(&world.root, "a"), folder(&world.root, "a/b"));
    let mut store = world.store();
    store.trust(&a).unwrap();
    store.trust(&b).unwrap();
    store.trust(&b).unwrap();
    assert_eq!(world.store().list(), [a.clone(), b.clone()]);
    assert_eq!(store.revoke(&b).unwrap(), Revoked::Removed);
    assert_eq!(store.revoke(&a).unwrap(), Revoked::Removed);
    assert_eq!(store.revoke(&a).unwrap(), Revoked::NotThere);
    world.check("a/b", false);

    store.trust(&b).unwrap();
    fs::remove_dir(&b).unwrap();
    assert_eq!(store.revoke(&b).unwrap(), Revoked::Removed);
    assert!(world.store().list().is_empty());
}

#[test]
fn changes_of_two_processes_are_both_kept() {
    let world = World::new();
    let (a, b) = (folder(&world.root, "a"), folder(&world.root, "b"));
    let (mut one, mut other) = (world.store(), world.store());
    one.trust(&a).unwrap();
    other.trust(&b).unwrap();
    assert_eq!(world.store().list(), [a, b]);
}

#[test]
fn the_file_is_private_and_refused_if_others_can_write_it() {
    let world = World::new();
    let a = folder(&world.root, "a");
    world.store().trust(&a).unwrap();
    let permissions = fs::metadata(world.file()).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, 0o600);

    mode(&world.file(), 0o622);
    let error = TrustStore::open(&world.file()).unwrap_err();
    assert!(matches!(error, TrustError::Writable { .. }), "{error}");
}

#[test]
fn a_damaged_file_trusts_nothing_and_stays_as_it_is() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{\"version\":2,\"folders\":[\"/\"]}",
        "{\"version\":1,\"folders\":[\"relative\"]}",
        "{\"version\":1,\"folders\":[3]}",
        "{\"version\":1}",
        "\u{feff}{}",
    ] {
        let world = World::new();
        let a = folder(&world.root, "a");
        let mut early = world.store();
        early.trust(&a).unwrap();
        world.damage(text);
        let error = TrustStore::open(&world.file()).unwrap_err().to_string();
        assert!(error.contains("no folder is trusted"), "{text}: {error}");
        assert!(early.trust(&folder(&world.root, "b")).is_err(), "{text}");
        assert!(early.revoke(&a).is_err(), "{text}");
        assert_eq!(fs::read_to_string(world.file()).unwrap(), text);
    }
}

#[test]
fn only_folders_can_be_trusted() {
    let world = World::new();
    fs::write(world.root.join("file"), "").unwrap();
    for name in ["file", "not-there"] {
        let error = world.store().trust(&world.root.join(name)).unwrap_err();
        assert!(matches!(error, TrustError::NoFolder { .. }), "{error}");
    }
    assert!(!world.file().exists());
}
