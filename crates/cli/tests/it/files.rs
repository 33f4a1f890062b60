//! Agents and skills in files, and what is wrong with them.

use crate::world::World;

const REVIEWER: &str = "---\nname: reviewer\ndescription: Reads a change and says what is wrong.\ntools: read_file, grep\n---\nYou review.\n";

#[test]
fn agents_of_files_are_listed_with_their_file() {
    let world = World::new();
    let file = world.write(".sortie/agents/reviewer.md", REVIEWER);
    world.ok(&["trust"]);
    let all = world.json(&["agents", "list", "--json"]);
    let reviewer = all
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "reviewer")
        .unwrap();
    assert_eq!(reviewer["source"], "project");
    assert!(
        file.ends_with(
            std::path::Path::new(reviewer["file"].as_str().unwrap())
                .strip_prefix(world.folder())
                .unwrap_or("nowhere".as_ref())
        ),
        "{reviewer}"
    );
    let shown = world.ok(&["agents", "show", "Reviewer"]).out;
    assert!(
        shown.contains("file of the project") && shown.contains("You review."),
        "{shown}"
    );
    // It can be run, and asked about.
    world.ok(&[
        "policy", "explain", "--agent", "reviewer", "--tool", "grep", "--args", "{}",
    ]);
}

#[test]
fn refused_agent_files_are_told_and_fail_the_check() {
    let world = World::new();
    let nothing = world.sortie(&["agents", "check"]);
    assert_eq!(nothing.code, Some(0), "{nothing:#?}");
    world.write(".sortie/agents/reviewer.md", REVIEWER);
    let good = world.ok(&["agents", "check"]).out;
    assert!(good.contains("reviewer"), "{good}");
    world.write(".sortie/agents/broken.md", "---\nname: [oh\n---\nWhat?\n");
    let said = world.sortie(&["agents", "check"]);
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(said.out.contains("refused"), "{}", said.out);
    let report = world.json_any(&["agents", "check", "--json"]);
    assert_eq!(report["ok"], false);
    let broken = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["verdict"] == "refused")
        .unwrap();
    assert!(broken["file"].as_str().unwrap().ends_with("broken.md"));
    assert!(!broken["problems"].as_array().unwrap().is_empty());
}

const SKILL: &str =
    "---\nname: release\ndescription: How to make a release.\n---\nFirst, breathe.\u{1b}[31m\n";

#[test]
fn skills_are_listed_and_shown_and_links_out_are_refused() {
    let world = World::new();
    assert_eq!(
        world.ok(&["skills", "list"]).err,
        "There are no skills here or in your home folder.\n"
    );
    world.write(".sortie/skills/release/SKILL.md", SKILL);
    std::fs::create_dir_all(world.folder().join("elsewhere")).unwrap();
    std::fs::write(world.folder().join("elsewhere/SKILL.md"), SKILL).unwrap();
    std::os::unix::fs::symlink(
        world.folder().join("elsewhere"),
        world.workspace().join(".sortie/skills/outside"),
    )
    .unwrap();
    let said = world.ok(&["skills", "list"]);
    assert!(
        said.out.contains("release") && said.out.contains("How to make a release."),
        "{said:#?}"
    );
    assert!(said.err.contains("outside"), "{said:#?}");
    let found = world.json(&["skills", "list", "--json"]);
    assert_eq!(found["skills"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["skills"][0]["source"], "project");
    assert!(!found["problems"].as_array().unwrap().is_empty());
    let shown = world.ok(&["skills", "show", "Release"]).out;
    assert!(shown.ends_with("First, breathe.\n"), "{shown:?}");
    let missing = world.sortie(&["skills", "show", "fly"]);
    assert_eq!(missing.code, Some(4));
    assert_eq!(
        missing.err,
        "error: There is no skill 'fly'. Known: release\n"
    );
}

#[test]
fn servers_of_tools_are_listed_even_if_they_do_not_start() {
    let world = World::new();
    assert_eq!(
        world.json(&["mcp", "list", "--json"]),
        serde_json::Value::Array(Vec::new())
    );
    let server = "mcp_servers.gone.command=/nonexistent/server";
    let listed = world.json(&["mcp", "list", "--json", "-c", server]);
    assert_eq!(listed[0]["server"], "gone");
    assert_eq!(listed[0]["state"], "unavailable");
    let refused = world.sortie(&["mcp", "approve", "gone", "-c", server]);
    assert_eq!(refused.code, Some(6), "{refused:#?}");
    let unknown = world.sortie(&["mcp", "approve", "other", "-c", server]);
    assert_eq!(unknown.code, Some(4), "{unknown:#?}");
}
