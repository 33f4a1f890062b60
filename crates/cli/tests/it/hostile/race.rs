//! Root cause 1 for the sandbox itself: the files that were checked while a view was planned are
//! the files that it shows.
//!
//! Two children work in one workspace. One swaps a folder that the sandbox protects for a link that
//! leads out, as fast as it can; the other starts commands, and the view of each is built
//! meanwhile.

use serde_json::json;

use super::stage::{Answer, CANARY, FILTER_OFF, Files, Scene, answers, exec};

/// The number of views that are built while the folder is swapped.
const VIEWS: usize = 150;

/// The system call that atomically exchanges two names.
#[cfg(target_arch = "x86_64")]
const EXCHANGE: &str = "316";
#[cfg(target_arch = "aarch64")]
const EXCHANGE: &str = "276";

/// Swaps a part of a submodule's repository until a file `stop` exists.
const SWAP: &str = r#"
workspace=$PWD
# Where nothing can be changed, nothing can be swapped.
touch FOLDER/try || exit
rm -rf .git/modules/evil/hooks
export WAY=LINK MAKE="CREATE"
cd FOLDER
perl -e '
    my ($one, $other, $workspace) = ("NAME", "other", $ARGV[0]);
    my $links = sub { scalar grep { -l $_ } $one, $other };
    my $folders = sub { scalar grep { !-l $_ && -d $_ } $one, $other };
    until (-e "$workspace/stop") {
        if ($links->() != 1 || $folders->() != 1) {
            system "rm -rf $one $other; $ENV{MAKE} $one; ln -s $ENV{WAY} $other";
        }
        for (1 .. 20) {
            syscall(EXCHANGE, -100, $one, -100, $other, 2);
            select undef, undef, undef, 0.00005 + rand 0.0006;
        }
    }
' "$workspace"
"#;

/// A swapped folder: its parent, its name, the command that creates it, and the target of the link.
struct Swapped {
    folder: &'static str,
    name: &'static str,
    create: &'static str,
    link: &'static str,
}

/// Runs one child that swaps and one that looks. Returns what the second saw, and the files outside
/// before and after.
fn raced(swapped: &Swapped, look: &str) -> (Vec<Answer>, Files, Files) {
    let scene = Scene::set();
    let workspace = scene.world.workspace();
    for words in [
        &["init", "-q"][..],
        &["init", "-q", "--bare", ".git/modules/evil"],
    ] {
        let made = std::process::Command::new("git")
            .args(words)
            .current_dir(&workspace)
            .status();
        assert!(made.unwrap().success());
    }
    let before = scene.outside();
    let swap = SWAP
        .replace("FOLDER", swapped.folder)
        .replace("NAME", swapped.name)
        .replace("CREATE", swapped.create)
        .replace("LINK", swapped.link)
        .replace("EXCHANGE", EXCHANGE);
    let mut looks = Vec::new();
    looks.extend(std::iter::repeat_n(exec(look), VIEWS));
    looks.push(exec("touch stop"));
    let task = |label: &str| json!({ "tool": "task", "args": { "description": label, "prompt": label, "subagent_type": "code" } });
    let first =
        json!({ "when": { "depth": 0, "turn": 1 }, "calls": [task("swapper"), task("looker")] });
    let swapper = json!({ "when": { "label": "swapper", "turn": 1 }, "calls": [exec(&swap)] });
    let looker = json!({ "when": { "label": "looker", "turn": 1 }, "calls": looks });
    let rules = format!("  - {first}\n  - {swapper}\n  - {looker}\n  - say: done\n");
    let model = scene.world.scenario(&rules);
    let run = ["run", "race", "--yes", "--model", &model];
    scene.world.ok(&[&run[..], &FILTER_OFF].concat());
    let looker = scene.world.task("looker");
    let seen = answers(&scene.world, looker["task_id"].as_str().unwrap());
    (seen, before, scene.outside())
}

#[test]
fn a_swapped_folder_shows_nothing_outside() {
    let swapped = Swapped {
        folder: ".git/modules/evil",
        name: "hooks",
        create: "mkdir",
        link: "../../../../.ssh",
    };
    let (seen, before, after) = raced(
        &swapped,
        "cat .git/modules/evil/hooks/* .git/modules/evil/other/*",
    );
    let leaks = seen.iter().filter(|answer| answer.text.contains(CANARY));
    assert_eq!(leaks.count(), 0, "of {VIEWS} commands");
    assert_eq!(after, before);
}

#[test]
fn a_swapped_folder_makes_nothing_outside() {
    let swapped = Swapped {
        folder: ".git/modules",
        name: "evil",
        create: "git init -q --bare",
        link: "../../../.ssh",
    };
    let (seen, before, after) = raced(
        &swapped,
        "echo evil > .git/modules/evil/authorized_keys; cat .git/modules/evil/id*",
    );
    let leaks = seen.iter().filter(|answer| answer.text.contains(CANARY));
    assert_eq!(leaks.count(), 0, "of {VIEWS} commands");
    assert_eq!(after, before);
}
