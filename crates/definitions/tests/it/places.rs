//! Tests of the folders that are searched, and of their order.

use std::path::Path;

use sortie_definitions::{
    Scope, SearchContext, Skills, agent_places, skill_places, workspace_skill_places,
};

use crate::support::World;

fn shown(world: &World, places: &[sortie_definitions::SearchFolder]) -> Vec<String> {
    places
        .iter()
        .map(|place| {
            let scope = match place.scope {
                Scope::Project => "project",
                Scope::User => "user",
                Scope::Extra => "extra",
            };
            let path = world.shown(&place.shown().display().to_string());
            format!("{scope} {path} {}", place.trusted)
        })
        .collect()
}

#[test]
fn from_the_workspace_up_to_the_repository_then_home_then_extra() {
    let world = World::new();
    let extra = [world.path().join("extra")];
    let places = world.looking(false, |from| skill_places(from, &extra));
    assert_eq!(
        shown(&world, &places),
        [
            "project project/app/.sortie/skills false",
            "project project/app/.claude/skills false",
            "project project/app/.agents/skills false",
            "project project/.sortie/skills false",
            "project project/.claude/skills false",
            "project project/.agents/skills false",
            "user home/.sortie/skills true",
            "user home/.claude/skills true",
            "user home/.agents/skills true",
            "extra extra/ true",
        ]
    );
}

#[test]
fn outside_a_repository_only_the_workspace() {
    let world = World::new();
    std::fs::remove_dir(world.path().join("project/.git")).unwrap();
    // The folders above the test may be anything, a repository included.
    std::fs::create_dir_all(world.path().join("project/app/.git")).unwrap();
    let places = world.looking(true, agent_places);
    assert_eq!(
        shown(&world, &places[..3]),
        [
            "project project/app/.sortie/agents true",
            "project project/app/.claude/agents true",
            "project project/app/.agents/agents true",
        ]
    );
    assert_eq!(places.len(), 6);
}

#[test]
fn a_home_directory_that_is_the_project_is_the_users() {
    let world = World::new();
    let home = world.path().join("project");
    let places = agent_places(&SearchContext {
        workspace: &world.path().join("project/app"),
        home: Some(&home),
        is_trusted: &|_: &Path| false,
    });
    let scopes: Vec<(Scope, bool)> = places
        .iter()
        .map(|place| (place.scope, place.trusted))
        .collect();
    assert_eq!(
        scopes,
        [[(Scope::Project, false); 3], [(Scope::User, true); 3]].concat()
    );
}

#[test]
fn requested_folders_must_be_in_the_workspace() {
    let skill = "---\nname: extra\ndescription: d\n---\nb";
    let world = World::with(&[
        ("project/app/more/extra/SKILL.md", skill),
        ("outside/extra/SKILL.md", skill),
    ]);
    world.link("project/app/door", "../../outside");
    let workspace = world.path().join("project/app");
    let absolute = world.path().join("outside").display().to_string();
    let check = |folder: &str, expected: usize| {
        let places = workspace_skill_places(&workspace, &[folder.to_owned()]);
        let found = Skills::find(&places);
        assert_eq!(found.skills.len(), expected, "{folder}");
        assert_eq!(found.problems.is_empty(), expected == 1, "{folder}");
    };
    check("more", 1);
    check("./more", 1);
    check("../../outside", 0);
    check("door", 0);
    check(&absolute, 0);
}
