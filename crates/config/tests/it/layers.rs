//! Tests of the precedence of layers and the spelling of keys.

use insta::assert_snapshot;
use sortie_config::{Config, Flag, Origin};
use sortie_core::words::Lang;

use crate::support::Case;

#[test]
fn each_layer_is_stronger_than_the_one_before() {
    let key = "subagents.max_concurrent";
    let mut case = Case::new();
    let mut check = |change: fn(Case) -> Case, expected: u32, origin: fn(&Case) -> Origin| {
        case = change(std::mem::replace(&mut case, Case::new()));
        let loaded = case.load().unwrap();
        assert_eq!(loaded.config.subagents.max_concurrent, expected);
        assert_eq!(loaded.origin(key), Some(&origin(&case)));
    };
    check(|case| case, 5, |_| Origin::Default);
    check(
        |case| case.user("[subagents]\nmax_concurrent = 6"),
        6,
        |case| Origin::User(case.path("user.toml")),
    );
    check(
        |case| case.project("[subagents]\nmax_concurrent = 7"),
        7,
        |case| Origin::Project(case.path("sortie.toml")),
    );
    check(
        |case| case.variable("SORTIE__SUBAGENTS__MAX_CONCURRENT", "8"),
        8,
        |_| Origin::Environment("SORTIE__SUBAGENTS__MAX_CONCURRENT".to_owned()),
    );
    check(
        |case| case.flag(Flag::new("--max-concurrent", "subagents.max_concurrent", 9)),
        9,
        |_| Origin::Flag("--max-concurrent".to_owned()),
    );
}

#[test]
fn tables_are_merged_and_lists_are_replaced() {
    let case = Case::new()
        .user(
            r#"
            model = "a/user"
            fallbacks = ["a/one", "a/two"]
            [providers.gateway]
            base_url = "https://user.example"
            headers = { X-One = "1", X-Two = "2" }
            [models."a/m"]
            price = { input = 1, output = 2.5 }
            "#,
        )
        .project(
            r#"
            fallbacks = ["b/three"]
            [providers.gateway]
            headers = { X-Two = "3" }
            [models."a/m".price]
            output = 3
            "#,
        )
        .variable("SORTIE_MODEL", "a/short")
        .variable("SORTIE__MODEL", "a/long")
        .variable("SORTIE__PROVIDERS__GATEWAY__WIRE", "chat")
        .assign("subagents.tools.deny=exec, write")
        .assign(r#"models."a/m".images = true"#);
    assert_snapshot!(case.report(), @r#"
    fallbacks = ["b/three"] (sortie.toml)
    model = "a/long" (environment variable SORTIE__MODEL)
    models."a/m".images = true (flag -c)
    models."a/m".price.input = 1.0 (user.toml)
    models."a/m".price.output = 3.0 (sortie.toml)
    providers.gateway.base_url = "https://user.example" (user.toml)
    providers.gateway.headers.X-One = "[redacted]" (user.toml)
    providers.gateway.headers.X-Two = "[redacted]" (sortie.toml)
    providers.gateway.wire = "chat" (environment variable SORTIE__PROVIDERS__GATEWAY__WIRE)
    subagents.tools.deny = ["exec", "write"] (flag -c)
    "#);
    let loaded = case.load().unwrap();
    let gateway = &loaded.config.providers["gateway"];
    assert_eq!(gateway.headers["X-One"].expose(), "1");
    assert_eq!(gateway.headers["X-Two"].expose(), "3");
}

#[test]
fn camel_case_keys_are_accepted() {
    let case = Case::new()
        .user(
            r#"
            [subagents]
            maxConcurrent = 6
            archiveAfterMinutes = 60
            defaultCleanup = "delete"
            allowedAgents = ["explore"]
            defaultModel = "a/b"
            [subagents.tools]
            inheritTools = false
            allowNestedSubagents = true
            [subagents.skills]
            extraSkillDirs = ["./skills"]
            denySkills = ["x"]
            [providers.myGateway]
            baseUrl = "https://a.example"
            [providers.myGateway.headers]
            myHeader = "x"
            [agents.codeReviewer]
            maxIterations = 3
            "#,
        )
        .project("[subagents]\nmax_concurrent = 7")
        .assign("smallModel=a/s");
    assert_snapshot!(case.report(), @r#"
    agents.codeReviewer.max_iterations = 3 (user.toml)
    providers.myGateway.base_url = "https://a.example" (user.toml)
    providers.myGateway.headers.myHeader = "[redacted]" (user.toml)
    small_model = "a/s" (flag -c)
    subagents.allowed_agents = ["explore"] (user.toml)
    subagents.archive_after_minutes = 60 (user.toml)
    subagents.default_cleanup = "delete" (user.toml)
    subagents.default_model = "a/b" (user.toml)
    subagents.max_concurrent = 7 (sortie.toml)
    subagents.skills.deny_skills = ["x"] (user.toml)
    subagents.skills.extra_skill_dirs = ["./skills"] (user.toml)
    subagents.tools.allow_nested_subagents = true (user.toml)
    subagents.tools.inherit_tools = false (user.toml)
    "#);
}

#[test]
fn one_key_in_two_spellings_counts_once() {
    let case = Case::new().user(
        "[subagents]\nmaxConcurrent = 6\nmax_concurrent = 7\n[agents.Explore]\nthinking = \"low\"\n\
         [agents.explore]\nthinking = \"high\"",
    );
    assert_snapshot!(case.report(), @r#"
    agents.Explore.thinking = "low" (user.toml)
    subagents.max_concurrent = 7 (user.toml)
    warning: user.toml: subagents.max_concurrent is set twice; maxConcurrent is ignored
    warning: user.toml: agents.Explore is set twice; explore is ignored
    "#);
}

#[test]
fn an_agent_has_one_name_in_all_layers() {
    let case = Case::new()
        .user("[agents.Explore]\nthinking = \"low\"\nmax_iterations = 3")
        .project("[agents.explore]\nthinking = \"high\"")
        .variable("SORTIE__AGENTS__EXPLORE__TEMPERATURE", "1");
    assert_snapshot!(case.report(), @r#"
    agents.Explore.max_iterations = 3 (user.toml)
    agents.Explore.temperature = 1.0 (environment variable SORTIE__AGENTS__EXPLORE__TEMPERATURE)
    agents.Explore.thinking = "high" (sortie.toml)
    "#);
}

#[test]
fn unknown_keys_are_reported_with_the_most_similar_key() {
    let case = Case::new()
        .user(
            r#"
            modle = "a/b"
            max_concurrent = 3
            color = "blue"
            [subagent]
            enabled = true
            [subagents.tool]
            deny = []
            [providers.x]
            api_kye = "sk-secret"
            [agents.x.tools]
            Deny = ["a"]
            alow = ["a"]
            "#,
        )
        .project("\"\\u001b[31m\\u202e\" = 1")
        .variable("SORTIE__SUBAGENTS__MAX_CONCURENT", "3")
        .assign("thinkin=low");
    assert_snapshot!(case.report(), @r#"
    agents.x.tools.deny = ["a"] (user.toml)
    warning: user.toml: unknown key agents.x.tools.alow; did you mean agents.x.tools.allow?
    warning: user.toml: unknown key color
    warning: user.toml: unknown key max_concurrent; did you mean subagents.max_concurrent?
    warning: user.toml: unknown key modle; did you mean model?
    warning: user.toml: unknown key providers.x.api_kye; did you mean providers.x.api_key?
    warning: user.toml: unknown key subagent; did you mean subagents?
    warning: user.toml: unknown key subagents.tool; did you mean subagents.tools?
    warning: sortie.toml: unknown key "\u001B[31m\u202E"
    warning: environment variable SORTIE__SUBAGENTS__MAX_CONCURENT: unknown key subagents.max_concurent; did you mean subagents.max_concurrent?
    warning: flag -c: unknown key thinkin; did you mean thinking?
    "#);
    let case = Case::new().user("modle = 1\ntemprature = 2");
    assert_snapshot!(case.report(), @r#"
    warning: user.toml: unknown key modle; did you mean model?
    warning: user.toml: unknown key temprature; did you mean temperature?
    "#);
}

#[test]
fn warnings_are_bounded() {
    let keys: String = (0..2000).map(|n| format!("key{n} = 1\n")).collect();
    let loaded = Case::new().user(keys).load().unwrap();
    assert_eq!(loaded.warnings.len(), 51);
    let last = loaded.warnings.last().unwrap().to_string();
    assert!(last.ends_with("1950 more warnings"), "{last}");
}

#[test]
fn byte_order_marks_and_line_endings_are_accepted() {
    for text in [
        "lang = \"zh\"\nthinking = \"高\"\n[agents.\"审查\"]\nmodel = \"inherit\"\n",
        "\u{feff}lang = \"zh\"\nthinking = \"高\"\n[agents.\"审查\"]\nmodel = \"inherit\"\n",
        "lang = \"zh\"\r\nthinking = \"高\"\r\n[agents.\"审查\"]\r\nmodel = \"inherit\"",
    ] {
        let loaded = Case::new().user(text).load().unwrap();
        assert_eq!(loaded.config.lang, Some(Lang::Zh));
        assert_eq!(loaded.config.thinking.as_deref(), Some("高"));
        let agent = &loaded.config.agents["审查"];
        assert_eq!(agent.model.as_deref(), Some("inherit"));
        assert!(loaded.warnings.is_empty());
    }
}

#[test]
fn nothing_set_is_the_default() {
    for case in [
        Case::new(),
        Case::new().user(""),
        Case::new().project("# 空\n"),
    ] {
        let loaded = case.load().unwrap();
        assert_eq!(loaded.config, Config::default());
        assert!(
            loaded
                .origins
                .values()
                .all(|origin| *origin == Origin::Default)
        );
    }
    let mut case = Case::new();
    case.sources.user_file = Some(case.path("not-there.toml"));
    assert_eq!(case.load().unwrap().config, Config::default());
}
