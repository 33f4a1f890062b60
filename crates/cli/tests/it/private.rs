//! Files that other users could have read or changed.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::process::{Signal, geteuid};

use crate::server::request;
use crate::world::World;

/// A user who is neither root nor the one who runs the tests.
const STRANGER: u32 = 54_321;

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns a home that has served once, and that other users can enter.
fn served() -> World {
    let world = World::new();
    let mut server = world.serve();
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
    mode(&world.folder(), 0o755);
    mode(&world.home(), 0o755);
    world
}

fn token(world: &World) -> (PathBuf, String) {
    let path = world.home().join("token");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text.trim().to_owned())
}

#[test]
fn a_token_that_others_could_read_is_not_used_until_it_is_replaced() {
    let world = served();
    let (path, leaked) = token(&world);
    let id = leaked.split('_').nth(1).unwrap();
    mode(&path, 0o644);
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let output = world.sortie(&serve);
    assert_eq!(output.code, Some(3), "{output:#?}");
    let remedy = format!("sortie keys rotate {id}");
    assert!(output.err.contains("Other users can read"), "{output:#?}");
    assert!(output.err.contains(&remedy), "{output:#?}");
    let doctor = world.sortie(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:#?}");
    assert!(doctor.out.contains(&remedy), "{doctor:#?}");
    // The command is refused until the token is replaced.
    assert_eq!(world.sortie(&serve).code, Some(3));
    world.ok(&["keys", "rotate", id]);
    assert_eq!(mode_of(&path), 0o600);
    let _server = world.serve();
    assert_eq!(request(&world, &leaked, "GET", "/api/me").0, 401);
    assert_eq!(request(&world, &token(&world).1, "GET", "/api/me").0, 200);
    // A client of the server would send the token.
    mode(&path, 0o640);
    let model = world.scenario("  - say: done\n");
    for arguments in [
        &["run", "x", "--model", &model] as &[&str],
        &["open", "--json"],
    ] {
        let output = world.sortie(arguments);
        assert_eq!(output.code, Some(3), "{arguments:?}: {output:#?}");
        assert!(output.err.contains("sortie keys rotate"), "{output:#?}");
    }
}

#[test]
fn unreachable_token_with_a_wide_mode_is_tightened_with_a_note() {
    let world = served();
    mode(&world.folder(), 0o700);
    let (path, _) = token(&world);
    mode(&path, 0o666);
    let doctor = world.sortie(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:#?}");
    assert_eq!(mode_of(&path), 0o666, "looking changes nothing");
    let mut server = world.serve();
    assert_eq!(mode_of(&path), 0o600);
    server.signal(Signal::TERM);
    let output = server.end();
    assert!(output.err.contains("its mode is 0600 now"), "{output:#?}");
    assert!(output.err.contains("sortie keys rotate"), "{output:#?}");
    world.ok(&["doctor"]);
}

#[test]
fn a_home_that_others_can_write_is_refused_by_every_command_and_by_the_doctor() {
    let world = served();
    let model = world.scenario("  - say: done\n");
    let commands: [&[&str]; 6] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &["run", "x", "--model", &model],
        &["keys", "list"],
        &["keys", "create", "--name", "x", "--role", "admin"],
        &["tasks", "list"],
        &["mcp", "list"],
    ];
    for (folder, open) in [
        (world.home(), 0o777),
        (world.home(), 0o1777),
        (world.folder(), 0o777),
    ] {
        mode(&folder, open);
        let sentence = format!(
            "{} can be written by other users (mode {open:04o})",
            folder.display()
        );
        for arguments in commands {
            let output = world.sortie(arguments);
            assert_eq!(output.code, Some(3), "{arguments:?}: {output:#?}");
            assert!(output.err.contains(&sentence), "{arguments:?}: {output:#?}");
            let remedy = format!("chmod go-w \"{}\"", folder.display());
            assert!(output.err.contains(&remedy), "{output:#?}");
        }
        let status = world.sortie(&["status"]);
        assert_eq!(status.code, Some(1), "{status:#?}");
        assert!(status.err.contains(&sentence), "{status:#?}");
        let doctor = world.sortie(&["doctor"]);
        assert_eq!(doctor.code, Some(1), "{doctor:#?}");
        assert!(doctor.out.contains(&sentence), "{doctor:#?}");
        mode(&folder, 0o755);
    }
    // A sticky parent folder keeps other users from replacing the home.
    mode(&world.folder(), 0o1777);
    world.ok(&["tasks", "list"]);
}

#[test]
fn files_of_other_users_and_links_are_refused_and_wide_modes_repaired() {
    if !geteuid().is_root() {
        return;
    }
    let world = served();
    let model = world.scenario("  - say: done\n");
    world.ok(&["run", "x", "--model", &model]);
    for name in ["keys.json", "sortie.db", "lock", "token"] {
        let path = world.home().join(name);
        chown(&path, Some(STRANGER), None).unwrap();
        let output = world.sortie(&["tasks", "list"]);
        assert_eq!(output.code, Some(3), "{name}: {output:#?}");
        let sentence = format!("{} belongs to another user", path.display());
        assert!(output.err.contains(&sentence), "{name}: {output:#?}");
        let remedy = format!("sudo chown \"$(id -un)\" \"{}\"", path.display());
        assert!(output.err.contains(&remedy), "{name}: {output:#?}");
        chown(&path, Some(0), None).unwrap();
        let aside = world.folder().join(name);
        std::fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        let output = world.sortie(&["tasks", "list"]);
        assert_eq!(output.code, Some(3), "{name}: {output:#?}");
        assert!(
            output.err.contains("is a symbolic link"),
            "{name}: {output:#?}"
        );
        let remedy = format!("mv \"{0}\" \"{0}.old\"", path.display());
        assert!(output.err.contains(&remedy), "{name}: {output:#?}");
        std::fs::rename(&aside, &path).unwrap();
    }
    for name in ["keys.json", "sortie.db", "lock"] {
        let path = world.home().join(name);
        mode(&path, 0o644);
        let output = world.ok(&["tasks", "list"]);
        assert!(
            output.err.contains("its mode is 0600 now"),
            "{name}: {output:#?}"
        );
        assert_eq!(mode_of(&path), 0o600, "{name}");
        mode(&path, 0o666);
        let output = world.sortie(&["tasks", "list"]);
        assert_eq!(output.code, Some(3), "{name}: {output:#?}");
        mode(&path, 0o600);
    }
    // A user who can write the configuration decides which programs are started.
    let config = world.folder().join(".config/sortie/config.toml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "").unwrap();
    mode(&config, 0o644);
    world.ok(&["tasks", "list"]);
    // A private group has no other member; these files belong to root's group.
    chown(&config, None, Some(0)).unwrap();
    mode(&config, 0o664);
    world.ok(&["tasks", "list"]);
    mode(&config, 0o666);
    let output = world.sortie(&["run", "x", "--model", &model]);
    assert_eq!(output.code, Some(3), "{output:#?}");
    assert!(
        output.err.contains("config.toml can be written"),
        "{output:#?}"
    );
}

#[test]
fn running_server_ignores_keys_that_another_user_could_have_written() {
    let world = served();
    // What an attacker would plant: the keys of their own server.
    let theirs = served();
    let stolen = std::fs::read(theirs.home().join("keys.json")).unwrap();
    let (_, planted) = token(&theirs);
    let _server = world.serve();
    let own = token(&world).1;
    let address = world.address();
    let status = |token: &str| {
        let response = crate::server::request_at(&address, token, "GET", "/api/keys");
        response.0
    };
    assert_eq!((status(&own), status(&planted)), (200, 401));
    mode(&world.home(), 0o777);
    let keys = world.home().join("keys.json");
    std::fs::remove_file(&keys).unwrap();
    std::fs::write(&keys, stolen).unwrap();
    mode(&keys, 0o600);
    assert_eq!(status(&planted), 500, "the log says why");
}
