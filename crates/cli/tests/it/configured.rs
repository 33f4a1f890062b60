//! The configuration: which layer wins, what an untrusted project may set, and that values take
//! effect.

use serde_json::Value;

use crate::world::World;

/// Returns the origin and the value of a key.
fn key(world: &World, name: &str) -> (Value, Value) {
    let shown = world.json(&["config", "show", name, "--json"]);
    let keys = shown.as_array().unwrap();
    let [key] = keys.as_slice() else {
        panic!("{name}: {shown}");
    };
    (key["value"].clone(), key["origin"]["layer"].clone())
}

fn user_file(world: &World, content: &str) {
    let folder = world.folder().join(".config/sortie");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), content).unwrap();
}

#[test]
fn later_configuration_layers_override_earlier_ones() {
    let check = |world: &World, value: i64, layer: &str| {
        let found = key(world, "subagents.max_concurrent");
        assert_eq!(found, (value.into(), layer.into()));
    };
    let world = World::new();
    check(&world, 5, "default");
    user_file(&world, "[subagents]\nmaxConcurrent = 4\n");
    check(&world, 4, "user");
    world.write("sortie.toml", "[subagents]\nmax_concurrent = 3\n");
    check(&world, 3, "project");
    let world = world.with("SORTIE__SUBAGENTS__MAX_CONCURRENT", "2");
    check(&world, 2, "environment");
    let shown = world.json(&[
        "config",
        "show",
        "subagents.max_concurrent",
        "--json",
        "-c",
        "subagents.max_concurrent=1",
    ]);
    assert_eq!(shown[0]["value"], 1);
    assert_eq!(shown[0]["origin"]["layer"], "flag");
}

#[test]
fn only_a_trusted_project_may_redirect_secrets() {
    let world = World::new().with("OPENAI_API_KEY", "sk-test-0123456789");
    world.write(
        "sortie.toml",
        "[providers.openai]\nbase_url = \"http://127.0.0.1:9/v1\"\n",
    );
    let output = world.ok(&["config", "show", "providers", "--json"]);
    assert!(!output.out.contains("127.0.0.1:9"), "{}", output.out);
    assert!(output.err.contains("sortie trust"), "{}", output.err);
    world.ok(&["trust"]);
    let output = world.ok(&["config", "show", "providers", "--json"]);
    assert!(output.out.contains("127.0.0.1:9"), "{}", output.out);
    let listed = world.json(&["models", "list", "--json"]);
    let openai = listed["vendors"]
        .as_array()
        .unwrap()
        .iter()
        .find(|vendor| vendor["name"] == "openai")
        .unwrap();
    assert_eq!(openai["base_url"], "http://127.0.0.1:9/v1");
    assert!(!listed.to_string().contains("sk-test"));
    world.ok(&["trust", "--revoke"]);
    assert_eq!(
        world.json(&["trust", "--list", "--json"]),
        serde_json::json!([])
    );
    let output = world.ok(&["config", "show", "providers", "--json"]);
    assert!(!output.out.contains("127.0.0.1:9"), "{}", output.out);
}

#[test]
fn configured_values_take_effect() {
    let world = World::new();
    let model = world.scenario(
        "  - when: { depth: 1 }\n    say: done\n  - when: { turn: 1 }\n    calls:\n      - { tool: spawn_subagent, args: { task: a, agentId: explore } }\n      - { tool: spawn_subagent, args: { task: b, agentId: general } }\n  - say: over\n",
    );
    user_file(
        &world,
        &format!(
            "model = {model:?}\nsmall_model = \"script:elsewhere.yaml\"\nthinking = \"low\"\n\
             [agents.Explore]\nmodel = \"inherit\"\nthinking = \"high\"\n\
             temperature = 0.5\nmax_iterations = 7\n\
             [subagents]\ntimeout_seconds = 99\napprove_spawn = \"never\"\n"
        ),
    );
    world.ok(&["run", "Go"]);
    let admitted = |label: &str| {
        let id = world.task(label)["task_id"].clone();
        let id = id.as_str().unwrap().to_owned();
        let output = world.ok(&["tasks", "events", &id, "--json"]);
        let first: Value = serde_json::from_str(output.out.lines().next().unwrap()).unwrap();
        let spec = &first["spec"];
        format!(
            "{} {} {} {} {}",
            spec["model"] == model.as_str(),
            spec["thinking"],
            spec["sampling"]["temperature"],
            spec["limits"]["max_iterations"],
            spec["limits"]["timeout_ms"]
        )
    };
    assert_eq!(admitted("Go"), r#"true "low" null 50 null"#);
    assert_eq!(admitted("a"), r#"true "high" 0.5 7 99000"#);
    assert_eq!(admitted("b"), r#"true "low" null 15 99000"#);
}

#[test]
fn mistakes_are_named_with_file_and_key() {
    let world = World::new();
    user_file(
        &world,
        "[subagents]\nmax_concurent = 3\n[models.\"a/b\".price]\ninput = 1.0\n",
    );
    let output = world.ok(&["config", "show", "lang"]);
    assert!(
        output.err.contains("unknown key subagents.max_concurent"),
        "{}",
        output.err
    );
    assert!(output.err.contains("max_concurrent"), "{}", output.err);
    assert!(
        output.err.contains("it needs input and output"),
        "{}",
        output.err
    );
    user_file(&world, "temperature = 9\n");
    let output = world.sortie(&["run", "x"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(output.err.contains("temperature"), "{}", output.err);
    assert!(output.err.contains("config.toml"), "{}", output.err);
}

#[test]
fn keys_can_be_set_and_removed() {
    let world = World::new();
    world.ok(&["config", "set", "model", "ollama/qwen3"]);
    assert_eq!(key(&world, "model"), ("ollama/qwen3".into(), "user".into()));
    world.ok(&["config", "set", "--project", "subagents.max_depth", "0"]);
    assert_eq!(
        key(&world, "subagents.max_depth"),
        (0.into(), "project".into())
    );
    world.ok(&["config", "unset", "model"]);
    let shown = world.json(&["config", "show", "--changed", "--json"]);
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    let schema = world.json(&["config", "schema"]);
    assert!(schema["properties"]["subagents"].is_object(), "{schema}");
}

#[test]
fn missing_model_error_names_three_ways_to_set_one() {
    // Port 9 has no listener, so no model server of this machine is found by accident.
    let world = World::new()
        .with("OLLAMA_HOST", "127.0.0.1:9")
        .with("LLAMACPP_BASE_URL", "http://127.0.0.1:9/v1")
        .with("LMSTUDIO_BASE_URL", "http://127.0.0.1:9/v1")
        .with("VLLM_BASE_URL", "http://127.0.0.1:9/v1");
    let output = world.sortie(&["run", "x"]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    for way in ["ANTHROPIC_API_KEY", "ollama", "base_url", "sortie demo"] {
        assert!(output.err.contains(way), "{way}: {}", output.err);
    }
}

#[test]
fn invalid_file_of_an_untrusted_project_stops_no_command() {
    let world = World::new();
    let model = world.scenario("  - say: done\n");
    for broken in [&b"x ["[..], b"\xff\xfe", b"model = 3"] {
        std::fs::write(world.workspace().join("sortie.toml"), broken).unwrap();
        let output = world.ok(&["run", "x", "--model", &model]);
        assert!(output.err.contains("is ignored"), "{}", output.err);
        world.ok(&["tasks", "list"]);
    }
    world.ok(&["trust"]);
    let output = world.sortie(&["run", "x", "--model", &model]);
    assert_eq!(output.code, Some(2), "{output:#?}");
    // Commands that only read, or that repair the file, still work.
    for command in [
        &["tasks", "list"][..],
        &["config", "path"],
        &["config", "schema"],
        &["trust", "--revoke"],
    ] {
        world.ok(command);
    }
}

#[test]
fn a_changing_agent_is_not_started_without_an_approver() {
    let world = World::new();
    let model = world.scenario(
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: task, args: { description: looks, prompt: look, subagent_type: explore } }
      - { tool: task, args: { description: writes, prompt: write, subagent_type: code } }
  - say: done
"#,
    );
    let labels = || -> Vec<String> {
        let tasks = world.tasks();
        let labels = tasks.iter().map(|task| task["label"].as_str().unwrap());
        labels.map(str::to_owned).collect()
    };
    world.ok(&["run", "first", "--model", &model]);
    assert_eq!(labels(), ["first", "looks"]);
    world.ok(&["run", "second", "--model", &model, "--yes"]);
    assert_eq!(labels()[2..], ["second", "looks", "writes"]);
    let never = ["-c", "subagents.approve_spawn=never"];
    world.ok(&[&["run", "third", "--model", &model][..], &never].concat());
    assert_eq!(labels()[5..], ["third", "looks", "writes"]);
}
