use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

const ME: u32 = 1_000;
const OTHER: u32 = 1_001;

fn me() -> Trusted {
    Trusted {
        user: ME,
        unmapped: None,
        groups: vec![ME, 0],
    }
}

fn facts(kind: Kind, owner: u32, group: u32, mode: u32) -> Facts {
    Facts {
        kind,
        owner,
        group,
        mode,
    }
}

#[test]
fn folders_are_judged_by_owner_and_who_may_write() {
    let writable = |mode| Verdict::Unsafe(Danger::WritableByOthers { mode });
    let foreign = Verdict::Unsafe(Danger::ForeignOwner { owner: OTHER });
    // Owner, group, mode, verdict as home, verdict as a folder above it.
    for (owner, group, mode, home, above) in [
        (ME, ME, 0o700, Verdict::Safe, Verdict::Safe),
        (ME, ME, 0o755, Verdict::Safe, Verdict::Safe),
        (0, 0, 0o755, Verdict::Safe, Verdict::Safe),
        (ME, ME, 0o777, writable(0o777), writable(0o777)),
        (ME, OTHER, 0o770, writable(0o770), writable(0o770)),
        // A private group writes nothing that its only member could not write.
        (ME, ME, 0o775, Verdict::Safe, Verdict::Safe),
        (0, 0, 0o775, Verdict::Safe, Verdict::Safe),
        // The sticky bit keeps others from replacing entries, not from planting new ones.
        (0, 0, 0o1777, writable(0o1777), Verdict::Safe),
        (OTHER, OTHER, 0o700, foreign, foreign),
        (OTHER, OTHER, 0o1777, foreign, foreign),
    ] {
        let found = facts(Kind::Folder, owner, group, mode);
        assert_eq!(
            judge_folder(Position::Home, &found, &me()),
            home,
            "{found:?}"
        );
        assert_eq!(
            judge_folder(Position::Above, &found, &me()),
            above,
            "{found:?}"
        );
    }
    let file = facts(Kind::File, ME, ME, 0o700);
    let wrong = Verdict::Unsafe(Danger::WrongKind(Kind::File));
    assert_eq!(judge_folder(Position::Home, &file, &me()), wrong);
    let outside = facts(Kind::Folder, OVERFLOW_USER, 0, 0o755);
    let mut trusted = me();
    assert_ne!(
        judge_folder(Position::Above, &outside, &trusted),
        Verdict::Safe
    );
    trusted.unmapped = Some(OVERFLOW_USER);
    assert_eq!(
        judge_folder(Position::Above, &outside, &trusted),
        Verdict::Safe
    );
}

/// Every mode of every class: no file that other users could write is used, no secret that they could read
/// of a secret goes unreported, and a file that no other user could reach is only repaired.
#[test]
fn every_mode_of_a_file_has_the_verdict_of_its_bits() {
    for class in [Class::Secret, Class::Private, Class::Settings] {
        for mode in 0..0o1000 {
            for reachable in [false, true] {
                // A private group writes nothing that its only member could not write.
                for (group, writing) in [(ME, 0o002), (OTHER, 0o022)] {
                    let found = facts(Kind::File, ME, group, mode);
                    let verdict = judge_file(class, &found, reachable, &me());
                    let expected = match class {
                        _ if reachable && mode & writing != 0 => {
                            Verdict::Unsafe(Danger::WritableByOthers { mode })
                        }
                        Class::Settings => Verdict::Safe,
                        Class::Secret if reachable && mode & 0o044 != 0 => Verdict::Leaked,
                        Class::Secret | Class::Private if mode & 0o077 != 0 => Verdict::Repair,
                        Class::Secret | Class::Private => Verdict::Safe,
                    };
                    assert_eq!(
                        verdict, expected,
                        "{class:?} {mode:04o} {group} {reachable}"
                    );
                }
                let theirs = facts(Kind::File, OTHER, OTHER, mode);
                let foreign = Verdict::Unsafe(Danger::ForeignOwner { owner: OTHER });
                assert_eq!(judge_file(class, &theirs, reachable, &me()), foreign);
            }
        }
        for kind in [Kind::Folder, Kind::Link, Kind::Special] {
            let found = facts(kind, ME, ME, 0o600);
            let wrong = Verdict::Unsafe(Danger::WrongKind(kind));
            assert_eq!(judge_file(class, &found, false, &me()), wrong);
        }
    }
}

#[test]
fn a_group_is_private_while_no_other_user_is_in_it() {
    let text = "root:x:0:\nanna:x:1000:\nstaff:x:50:anna\nodd\n";
    assert_eq!(private_groups(text, ME, ME), [0, ME]);
    let shared = "root:x:0:bob\nanna:x:1000:anna,bob\n";
    assert_eq!(private_groups(shared, ME, ME), [0_u32; 0]);
    assert_eq!(private_groups("anna:x:1000:anna\n", ME, ME), [ME]);
    // A directory service has the group, and the file does not.
    assert_eq!(private_groups("root:x:0:\n", ME, ME), [0, ME]);
    assert_eq!(private_groups("root:x:0:\n", ME, OTHER), [0]);
}

fn unsafe_at(path: &Path, danger: Danger) -> Finding {
    finding(path, Verdict::Unsafe(danger)).unwrap()
}

/// A home below a folder that other users can enter, so that the modes of its files matter.
fn home() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    mode(folder.path(), 0o755);
    let home = folder.path().join("home");
    make_folder(&home).unwrap();
    mode(&home, 0o755);
    (folder, home)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_readable_store_is_tightened_and_a_readable_secret_reported() {
    let (_folder, home) = home();
    let (store, token) = (home.join("store"), home.join("token"));
    for path in [&store, &token] {
        fs::write(path, "x").unwrap();
        mode(path, 0o644);
    }
    let files = [
        (store.clone(), Class::Private),
        (token.clone(), Class::Secret),
        (home.join("missing"), Class::Secret),
    ];
    let found = enforce(&home, &files).unwrap();
    let verdicts: Vec<_> = found.iter().map(|one| (&one.path, one.verdict)).collect();
    assert_eq!(
        verdicts,
        [(&store, Verdict::Repair), (&token, Verdict::Leaked)]
    );
    assert_eq!(mode_of(&store), FILE_MODE);
    assert_eq!(
        mode_of(&token),
        0o644,
        "the report stays until the secret is replaced"
    );
    crate::atomic_file::replace(&token, b"y").unwrap();
    assert_eq!(enforce(&home, &files).unwrap(), []);
}

#[test]
fn a_file_that_others_could_not_reach_is_only_tightened() {
    let (folder, home) = home();
    let token = home.join("token");
    fs::write(&token, "x").unwrap();
    mode(&token, 0o666);
    let files = [(token.clone(), Class::Secret)];
    assert!(matches!(
        enforce(&home, &files),
        Err(FileRefusal::Unsafe(_))
    ));
    mode(folder.path(), 0o700);
    let found = enforce(&home, &files).unwrap();
    assert_eq!(found[0].verdict, Verdict::Repair);
    assert_eq!(mode_of(&token), FILE_MODE);
}

#[test]
fn a_folder_that_others_write_is_refused_wherever_it_is_on_the_way() {
    let (folder, home) = home();
    let linked = folder.path().join("linked");
    symlink(&home, &linked).unwrap();
    for way in [&home, &linked] {
        for open in [folder.path(), &home] {
            mode(open, 0o777);
            let found = inspect(way, &[]).unwrap();
            let expected = unsafe_at(open, Danger::WritableByOthers { mode: 0o777 });
            assert_eq!(found, [expected]);
            mode(open, 0o755);
        }
    }
    mode(folder.path(), 0o1777);
    assert_eq!(inspect(&linked, &[]).unwrap(), []);
    mode(&home, 0o1777);
    assert_eq!(
        inspect(&home, &[]).unwrap().len(),
        1,
        "files can be planted"
    );
    mode(&home, 0o775);
    let group = facts_of(&home).unwrap().unwrap().group;
    let is_shared = !trusted().groups.contains(&group);
    let found = inspect(&home, &[]).unwrap();
    assert_eq!(found.len(), usize::from(is_shared), "group {group}");
}

#[test]
fn links_folders_and_special_files_are_refused_where_a_private_file_belongs() {
    let (folder, home) = home();
    let at = |name: &str| home.join(name);
    fs::write(at("real"), "x").unwrap();
    mode(&at("real"), 0o600);
    symlink(at("real"), at("link")).unwrap();
    symlink(at("link"), folder.path().join("settings")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    for (name, kind) in [
        ("link", Kind::Link),
        ("folder", Kind::Folder),
        ("fifo", Kind::Special),
    ] {
        let found = inspect(&home, &[(at(name), Class::Private)]).unwrap();
        assert_eq!(found, [unsafe_at(&at(name), Danger::WrongKind(kind))]);
    }
    // People keep settings elsewhere, and the folder they keep them in counts.
    let settings = [(folder.path().join("settings"), Class::Settings)];
    assert_eq!(inspect(folder.path(), &settings).unwrap(), []);
    mode(&at("real"), 0o666);
    assert_eq!(inspect(folder.path(), &settings).unwrap().len(), 1);
    mode(&at("real"), 0o644);
    mode(&home, 0o777);
    assert_eq!(inspect(folder.path(), &settings).unwrap()[0].path, home);
}

#[test]
fn circular_links_and_missing_folders_end_the_walk() {
    let (_folder, home) = home();
    symlink("b", home.join("a")).unwrap();
    symlink("a", home.join("b")).unwrap();
    assert!(matches!(
        inspect(&home.join("a"), &[]),
        Err(FileRefusal::Unknown { .. })
    ));
    assert_eq!(inspect(&home.join("not/there/../yet"), &[]).unwrap(), []);
}

#[test]
fn new_folders_are_private() {
    let (_folder, home) = home();
    let deep = home.join("one/two");
    make_folder(&deep).unwrap();
    assert_eq!(mode_of(&home.join("one")), FOLDER_MODE);
    assert_eq!(mode_of(&deep), FOLDER_MODE);
}
