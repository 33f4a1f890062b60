use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// Creates a folder `inside` with a link of each kind, beside a secret.
fn setting() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    let inside = root.join("inside");
    fs::create_dir_all(inside.join("deep")).unwrap();
    fs::create_dir_all(root.join("outside")).unwrap();
    fs::write(root.join("outside/secret.md"), "secret").unwrap();
    fs::write(inside.join("plain.md"), "plain").unwrap();
    fs::write(inside.join("deep/file.md"), "deep").unwrap();
    fs::write(inside.join("binary"), [0xff, 0xfe]).unwrap();
    symlink("plain.md", inside.join("near.md")).unwrap();
    symlink("../outside/secret.md", inside.join("far.md")).unwrap();
    symlink(root.join("outside/secret.md"), inside.join("absolute.md")).unwrap();
    symlink("../outside", inside.join("door")).unwrap();
    symlink("circle.md", inside.join("circle.md")).unwrap();
    symlink("/proc/self/root", inside.join("magic")).unwrap();
    (place, inside)
}

fn read(folder: &Folder, path: &str) -> String {
    match folder.read(Path::new(path), 10) {
        Ok(text) => text,
        Err(FolderError::Outside(_)) => "outside".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn no_path_leads_out() {
    let (_place, inside) = setting();
    let folder = Folder::open(&inside).unwrap();
    for (path, expected) in [
        ("plain.md", "plain"),
        ("./deep/file.md", "deep"),
        ("near.md", "plain"),
        ("far.md", "outside"),
        ("absolute.md", "outside"),
        ("door/secret.md", "outside"),
        ("../outside/secret.md", "outside"),
        ("circle.md", "outside"),
        ("magic/etc/hostname", "outside"),
        ("/etc/hostname", "outside"),
        ("deep", "it is not a regular file"),
        ("none.md", "it does not exist"),
        ("binary", "it is not text in UTF-8"),
    ] {
        assert_eq!(read(&folder, path), expected, "{path}");
        let escapes = expected == "outside" && path != "circle.md";
        if escapes {
            // The positive control: without the confinement, the same path is readable.
            let unconfined = fs::metadata(inside.join(path));
            assert!(unconfined.is_ok() || path.starts_with("magic"), "{path}");
        }
    }
}

#[test]
fn large_files_are_refused_and_pipes_do_not_wait() {
    let (_place, inside) = setting();
    fs::write(inside.join("large.md"), "x".repeat(11)).unwrap();
    let pipe = inside.join("pipe.md");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let folder = Folder::open(&inside).unwrap();
    assert_eq!(read(&folder, "large.md"), "it is larger than 10 bytes");
    assert_eq!(read(&folder, "pipe.md"), "it is not a regular file");
}

#[test]
fn a_path_that_has_become_a_link_is_not_the_folder_any_more() {
    let (_place, inside) = setting();
    let deep = Folder::open(&inside)
        .unwrap()
        .folder(Path::new("deep"))
        .unwrap();
    let path = deep.path().to_owned();
    assert!(Folder::open_exact(&path).unwrap().is_same(&deep));
    fs::rename(&path, inside.join("moved")).unwrap();
    symlink("../outside", &path).unwrap();
    assert!(fs::read_to_string(path.join("secret.md")).is_ok());
    assert!(matches!(
        Folder::open_exact(&path),
        Err(FolderError::Outside(_))
    ));
    // The open descriptor still refers to the original folder.
    assert_eq!(read(&deep, "file.md"), "deep");
}
