use std::time::Duration;

use sortie_core::ports::model::{ModelDirectory as _, NoDeltas};
use sortie_models::{Directory, DirectorySettings};

use crate::support::{request, shown};

fn directory(base: &std::path::Path) -> Directory {
    Directory::new(DirectorySettings {
        pace: Duration::ZERO,
        base: base.to_owned(),
        ..DirectorySettings::default()
    })
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "version: 2\nrules: []\n").unwrap();
    let base = folder.path().display().to_string();
    for (name, expected) in [
        (
            "vendor/big",
            "there is no provider \"vendor\": known are anthropic, openai, openai-chat, gemini, deepseek, glm, kimi, qwen, openrouter, groq, mistral, xai, ollama, llamacpp, vllm, lmstudio, azure, openai-compatible; another one needs `wire` and `base_url` under [providers.vendor] in the configuration",
        ),
        ("script:", "`script:` needs a file: `script:scenario.yaml`"),
        (
            "script:none.yaml",
            "cannot read the script BASE/none.yaml: No such file or directory (os error 2)",
        ),
        (
            "script:bad.yaml",
            "BASE/bad.yaml:1:1: this build understands version 1 of the format, not 2",
        ),
    ] {
        let error = directory(folder.path()).find(name).unwrap_err();
        assert!(!error.fault.is_retryable());
        assert_eq!(error.message.replace(&base, "BASE"), expected);
    }
}

#[tokio::test]
async fn a_script_is_found_below_the_base_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{\"version\": 1, \"rules\": [{\"fault\": {\"kind\": \"retryable\", \"times\": 1}, \"say\": \"hi\"}]}";
    std::fs::write(folder.path().join("a.json"), text).unwrap();
    let directory = directory(folder.path());
    let prompt = async || {
        let model = directory.find("script:a.json").unwrap();
        model.turn(request("main", "l", "t", &[]), &NoDeltas).await
    };
    // The second time it is the same model: its fault is used up.
    assert!(prompt().await.unwrap_err().fault.is_retryable());
    let answer = prompt().await.unwrap();
    assert_eq!(shown(&answer), "say hi");
    assert_eq!(
        answer.model,
        format!("script:{}", folder.path().join("a.json").display())
    );
}

#[tokio::test]
async fn offline_is_found() {
    let model = directory(std::path::Path::new("")).find("offline").unwrap();
    let answer = model
        .turn(request("main", "l", "hello", &[]), &NoDeltas)
        .await
        .unwrap();
    assert_eq!(answer.model, "offline");
    assert_eq!(answer.usage, sortie_core::message::Usage::default());
}
