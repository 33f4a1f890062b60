//! Tests of skills on disk.

use sortie_core::words::Lang;
use sortie_definitions::{SkillChoice, Skills, narrow, skill_places};

use crate::support::World;

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n")
}

/// Writes skill names with their folders, then the problems.
fn render(world: &World, skills: &Skills) -> String {
    let mut lines: Vec<String> = skills
        .skills
        .iter()
        .map(|skill| {
            let for_whom = match (skill.for_models, skill.for_people) {
                (true, true) => "",
                (true, false) => " (models only)",
                (false, true) => " (people only)",
                (false, false) => " (nobody)",
            };
            format!("{}{for_whom} in {}", skill.name, skill.folder.display())
        })
        .collect();
    let problems = skills.problems.iter();
    lines.extend(problems.map(|problem| format!("{:?} {problem}", problem.severity)));
    world.shown(&lines.join("\n"))
}

#[test]
fn skills_are_found_in_order_and_the_nearer_hides_the_farther() {
    let world = World::with(&[
        (
            "project/app/.sortie/skills/pdf/SKILL.md",
            &skill("pdf", "near"),
        ),
        ("project/.claude/skills/pdf/SKILL.md", &skill("pdf", "far")),
        (
            "project/.claude/skills/group/git/SKILL.md",
            &skill("git", "nested"),
        ),
        (
            "project/.claude/skills/group/deep/er/SKILL.md",
            &skill("er", "too deep"),
        ),
        (
            "project/.agents/skills/.hidden/SKILL.md",
            &skill("hidden", "h"),
        ),
        (
            "home/.agents/skills/mail/SKILL.md",
            &skill("mail", "user's"),
        ),
        ("extra/deploy/SKILL.md", &skill("deploy", "extra")),
        (
            "extra/mail/skill.md",
            &skill("mail", "hidden by the user's"),
        ),
        ("extra/README.md", "no skill"),
    ]);
    // A folder with two names is searched once.
    world.link("project/.sortie/skills", "../.claude/skills");
    insta::assert_snapshot!(render(&world, &world.skills()), @r#"
    pdf in project/app/.sortie/skills/pdf
    git in project/.claude/skills/group/git
    mail in home/.agents/skills/mail
    deploy in extra/deploy
    Warning project/.claude/skills/pdf/SKILL.md: `pdf` is hidden by the skill of the same name in project/app/.sortie/skills/pdf
    Warning extra/mail/skill.md: `mail` is hidden by the skill of the same name in home/.agents/skills/mail
    "#);
}

#[test]
fn names_and_descriptions() {
    let long = "x".repeat(2_000);
    let world = World::with(&[
        (
            "extra/a/SKILL.md",
            &skill("other", "the folder is called otherwise"),
        ),
        ("extra/b/SKILL.md", &skill("PDF Processing", "no name")),
        (
            "extra/c/SKILL.md",
            "---\ndescription: no name at all\n---\n",
        ),
        ("extra/d/SKILL.md", "---\nname: d\n---\n"),
        ("extra/e/SKILL.md", &skill("e", &long)),
        ("extra/f--f/SKILL.md", &skill("f--f", "two hyphens")),
        (
            "extra/技能/SKILL.md",
            &skill("技能", "letters of any language"),
        ),
        ("extra/h/SKILL.md", "no front matter"),
        (
            "extra/i/SKILL.md",
            "---\nname: i\ndescription: d\ndisable-model-invocation: yes\n---\n",
        ),
        (
            "extra/j/SKILL.md",
            "---\nname: j\ndescription: d\nuser-invocable: off\nwhen_to_use: when needed\nallowed-tools: Bash(git *) Read\nhooks: {}\nlicense: MIT\nfuture: 1\n---\n",
        ),
        ("extra/k/SKILL.md", "---\nname: k\n"),
    ]);
    let skills = world.skills();
    insta::assert_snapshot!(render(&world, &skills), @r#"
    other in extra/a
    b in extra/b
    c in extra/c
    e in extra/e
    i (people only) in extra/i
    j (models only) in extra/j
    技能 in extra/技能
    Warning extra/a/SKILL.md:2: the skill is called `other`, but its folder `a`
    Warning extra/b/SKILL.md:2: `PDF Processing` is not a valid skill name (1 to 64 lower-case letters, digits and single hyphens); it is called `b` like its folder
    Warning extra/c/SKILL.md: `name` is missing; it is called `c` like its folder
    Refusal extra/d/SKILL.md: `description` is missing: a model needs it to choose the skill
    Warning extra/e/SKILL.md:3: `description` is truncated after 1024 characters
    Refusal extra/f--f/SKILL.md:2: neither `name` nor the folder is a valid skill name (1 to 64 lower-case letters, digits and single hyphens)
    Refusal extra/h/SKILL.md:1: a skill begins with front matter: `---`, `name:`, `description:`, `---`
    Note extra/j/SKILL.md:6: `allowed-tools` grants nothing here: policy decides
    Warning extra/j/SKILL.md:7: hooks of a skill are never run; they are left out
    Note extra/j/SKILL.md:9: `future` is not known
    Refusal extra/k/SKILL.md:1: the front matter that begins on line 1 is never closed; end it with a line `---`
    "#);
    let of = |name: &str| {
        skills
            .skills
            .iter()
            .find(|skill| skill.name == name)
            .unwrap()
    };
    assert_eq!(of("e").description.chars().count(), 1_024);
    assert_eq!(of("j").description, "d when needed");
    let offered = skills.for_models();
    assert!(offered.iter().all(|skill| skill.name != "i"));
    assert!(!skills.prompt(Lang::En, 100_000).contains("\n- i:"));
    assert!(
        skills
            .prompt(Lang::En, 100_000)
            .contains("\n- j: d when needed")
    );
}

#[test]
fn links_that_lead_out_are_refused_and_reported() {
    let world = World::with(&[
        ("outside/evil/SKILL.md", &skill("evil", "e")),
        ("project/.claude/skills/good/SKILL.md", &skill("good", "g")),
        ("project/.claude/skills/real/sub/x.md", "x"),
    ]);
    world.link("project/.claude/skills/evil", "../../../outside/evil");
    world.link("project/.claude/skills/nearby", "good");
    world.link(
        "project/.claude/skills/file/SKILL.md",
        "../../../../outside/evil/SKILL.md",
    );
    world.link("project/.claude/skills/none", "nothing");
    world.link("project/.agents/skills", "../../outside");
    insta::assert_snapshot!(render(&world, &world.skills()), @r#"
    good in project/.claude/skills/good
    Refusal project/.claude/skills/evil: it leads out of project/.claude/skills, which is not allowed
    Refusal project/.claude/skills/file/SKILL.md: it leads out of project/.claude/skills/file, which is not allowed
    Refusal project/.agents/skills: it leads out of project, which is not allowed
    "#);
    // The positive control: the user may link a folder of theirs to anywhere.
    world.link("home/.claude/skills", "../../outside");
    assert!(
        world
            .skills()
            .skills
            .iter()
            .any(|skill| skill.name == "evil")
    );
}

#[test]
fn skills_beyond_the_limit_are_reported() {
    let world = World::new();
    for index in 0..300 {
        let name = format!("s{index:03}");
        world.write(&format!("extra/{name}/SKILL.md"), &skill(&name, "d"));
    }
    let skills = world.skills();
    assert_eq!(skills.skills.len(), 256);
    let reports = skills
        .problems
        .iter()
        .filter(|p| p.text.contains("more than 256"));
    assert_eq!(reports.count(), 1);
}

#[test]
fn a_child_gets_its_parents_and_those_of_extra_folders() {
    let world = World::with(&[
        ("project/.claude/skills/pdf/SKILL.md", &skill("pdf", "d")),
        ("more/deploy/SKILL.md", &skill("deploy", "d")),
    ]);
    let parent = world.skills().for_models();
    let extra_dirs = vec![world.path().join("more")];
    let places = world.looking(false, |from| skill_places(from, &extra_dirs));
    let found = Skills::find(&places[places.len() - 1..]);
    let choice = SkillChoice {
        extra_dirs,
        deny: vec!["pd*".to_owned()],
        ..SkillChoice::default()
    };
    let names: Vec<String> = narrow(&parent, &choice, &found.skills)
        .into_iter()
        .map(|skill| skill.name)
        .collect();
    assert_eq!(names, ["deploy"]);
}
