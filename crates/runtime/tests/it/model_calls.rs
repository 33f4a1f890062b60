//! Histories that are too long, results with a schema, pictures, and settings of agents.
use sortie_core::config::{AgentConfig, ModelConfig};
use sortie_core::run::Status;
use sortie_test_support::stage::Play;

#[tokio::test]
async fn context_overflow_shortens_the_history_and_the_run_continues() {
    let stage = Play::new(
        r#"
  - when: { turn: "1..3" }
    calls: [{ tool: read_file, args: { path: "{{turn}}.txt" } }]
  - when: { turn: 4 }
    fault: { kind: context_overflow, message: "prompt is too long", times: 1 }
    calls: [{ tool: read_file, args: { path: "4.txt" } }]
  - expect: { history_contains: "[History shortened]" }
    say: "read them all"
"#,
    )
    .begin()
    .await;
    for number in 1..=4 {
        stage.put(
            &format!("{number}.txt"),
            &format!("{number} is read\n").repeat(1_500),
        );
    }
    let mut notes = stage.listen();
    let record = stage.play("read").await;
    assert_eq!(record.status, Status::Completed, "{record:?}");
    let log = stage.log(record.run_id).await;
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with("result"))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    admitted main: read
    claimed
    answered 1: read_file{"path":"1.txt"}
    answered 2: read_file{"path":"2.txt"}
    answered 3: read_file{"path":"3.txt"}
    model failed (context_overflow): prompt is too long
    compacted 2 parts
    answered 4: read_file{"path":"4.txt"}
    answered 5: "read them all"
    finished completed: read them all
    "#);
    let published = notes.about(record.run_id);
    assert!(published.contains("compacted"), "{published}");
    // The summary of a shortened part names the blob with the whole, which can be read.
    let request = stage
        .model()
        .request("main", 4)
        .expect("the question after it");
    let short = format!("{:?}", request.messages);
    assert!(short.contains("[shortened: read_file"), "{short}");
    assert!(!short.contains("1 is read\\n749"), "{short}");
}

#[tokio::test]
async fn context_overflow_after_compaction_fails_with_the_partial_result() {
    let stage = Play::new(
        r#"
  - when: { turn: 1 }
    say: "I begin."
    calls: [{ tool: read_file, args: { path: "long.txt" } }]
  - fault: { kind: context_overflow, message: "prompt is too long" }
"#,
    )
    .begin()
    .await;
    stage.put("long.txt", &"a long line\n".repeat(2_000));
    let record = stage.play("read").await;
    insta::assert_snapshot!(stage.task(record.run_id).await, @r"
    status: failed
    reason: error
    error: The conversation exceeds the model's context window, even after older answers were shortened: prompt is too long
    progress: 5
    result: I begin.
    tool_calls: 1
    delivery: not_required
    ");
}

#[tokio::test]
async fn a_result_with_a_schema_reaches_the_parent_as_json_that_fits() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - tool: spawn_subagent
        args:
          task: count
          label: counts
          result_schema: { type: object, required: [count], properties: { count: { type: integer } } }
      - tool: spawn_subagent
        args: { task: bad, result_schema: { type: nonsense } }
  - when: { agent: main }
    say: "I wait."
  - when: { turn: 1 }
    expect: { system_contains: "fits this JSON schema" }
    say: "three"
  - when: { turn: 2 }
    expect: { notice_contains: "it is not JSON" }
    say: "```json\n{\"count\": 3}\n```"
"#,
    )
    .begin()
    .await;
    stage.play("send one").await;
    let counts = stage.run_of("counts").await;
    let record = stage.record(counts).await;
    assert_eq!(record.result(), Some(r#"{"count": 3}"#), "{record:?}");
    let request = stage.model().request("counts", 1).expect("its question");
    let schema = request.options.schema.as_ref().expect("a schema");
    assert_eq!(schema["required"][0], "count");
    let seen = stage.seen("main", 2).await;
    assert!(
        seen.contains("The result schema is not a usable JSON schema"),
        "{seen}"
    );
}

#[tokio::test]
async fn pictures_reach_the_model_and_survive_a_restart() {
    let stage = Play::new(
        r#"
  - when: { turn: 1 }
    calls: [{ tool: read_file, args: { path: "dot.png" } }]
  - say: "a dot"
"#,
    )
    .begin()
    .await;
    let png = b"\x89PNG\r\n\x1a\n and the rest";
    let shown = |request: &sortie_core::ports::model::ModelRequest| -> Vec<Vec<u8>> {
        let images = request.images.values();
        images.map(|bytes| bytes.to_vec()).collect()
    };
    std::fs::write(stage.workspace().join("dot.png"), png).expect("a picture");
    stage.model().block("main#2");
    let run = stage.start("look").await;
    stage.until_prompted("main", 2).await;
    let first = stage.model().request("main", 2).expect("its question");
    assert_eq!(shown(&first), [png.to_vec()], "at once");
    let stage = stage.crash().await;
    stage.model().release("main#2");
    let record = stage.end_of(run).await;
    assert_eq!(record.status, Status::Completed, "{record:?}");
    let request = stage.model().request("main", 2).expect("its question");
    assert_eq!(shown(&request), [png.to_vec()], "and after a crash");
}

#[tokio::test]
async fn model_options_of_agent_model_and_default_reach_the_request() {
    let stage = Play::new(
        r#"
  - when: { agent: main, turn: 1 }
    calls:
      - { tool: spawn_subagent, args: { task: t, label: explores, agentId: Explore } }
      - { tool: spawn_subagent, args: { task: t, label: works, agentId: general } }
      - { tool: spawn_subagent, args: { task: t, label: named, agentId: general, model: other } }
  - when: { agent: main }
    say: "I wait."
  - say: "done"
"#,
    )
    .set(|settings| {
        settings.small_model = Some("small".to_owned());
        settings.child_model = Some("of-children".to_owned());
        settings.every_model = ModelConfig {
            fallbacks: Some(vec!["second".to_owned(), "other".to_owned()]),
            thinking: Some("low".to_owned()),
            temperature: Some(0.1),
            max_tokens: Some(100),
            ..ModelConfig::default()
        };
        settings.models.insert(
            "other".to_owned(),
            ModelConfig {
                thinking: Some("of-the-model".to_owned()),
                ..ModelConfig::default()
            },
        );
        settings.agents.insert(
            "explore".to_owned(),
            AgentConfig {
                model: Some("inherit".to_owned()),
                fallbacks: Some(Vec::new()),
                thinking: Some("high".to_owned()),
                temperature: Some(0.9),
                max_iterations: Some(4),
                timeout_seconds: Some(8),
                ..AgentConfig::default()
            },
        );
    })
    .begin()
    .await;
    stage.play("send three").await;
    let mut shown = Vec::new();
    for label in ["explores", "works", "named"] {
        let request = stage.model().request(label, 1).expect("its question");
        let options = &request.options;
        let record = stage.record(stage.run_of(label).await).await;
        shown.push(format!(
            "{label}: {} {:?} {:?} {:?} fallback {} timeout {:?}",
            request.model,
            options.thinking,
            options.sampling.temperature,
            options.sampling.max_tokens,
            options.has_fallback,
            record.timeout_ms,
        ));
    }
    insta::assert_snapshot!(shown.join("\n"), @r#"
    explores: script Some("high") Some(0.9) Some(100) fallback false timeout Some(8000)
    works: of-children Some("low") Some(0.1) Some(100) fallback true timeout Some(1800000)
    named: other Some("of-the-model") Some(0.1) Some(100) fallback true timeout Some(1800000)
    "#);
}
