//! Vendors as data, and how configuration changes them.

use std::collections::BTreeMap;

use sortie_core::config::{ModelConfig, Price, ProviderConfig};
use sortie_core::ports::model::Wire;
use sortie_core::ports::model::{ModelDirectory as _, NoDeltas};
use sortie_models::{
    Directory, DirectorySettings, Endpoint, Environment, Secret, ToolSetting, discover,
    suggest_default, usual_endpoints,
};

use crate::server::{Server, Step, reply};
use crate::support::request;

fn variables(pairs: &[(&str, &str)]) -> Environment {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn directory(environment: &[(&str, &str)], providers: &[(&str, ProviderConfig)]) -> Directory {
    let providers = providers.iter();
    Directory::new(DirectorySettings {
        environment: variables(environment),
        providers: providers
            .map(|(name, settings)| ((*name).to_owned(), settings.clone()))
            .collect(),
        ..DirectorySettings::default()
    })
}

#[test]
fn the_list_of_vendors() {
    let directory = directory(
        &[
            ("OLLAMA_HOST", "0.0.0.0"),
            ("GEMINI_API_KEY", ""),
            ("GOOGLE_API_KEY", "k"),
        ],
        &[(
            "house",
            ProviderConfig {
                wire: Some(Wire::Anthropic),
                base_url: Some("https://llm.example".to_owned()),
                ..ProviderConfig::default()
            },
        )],
    );
    let lines: Vec<String> = directory
        .vendors()
        .iter()
        .map(|vendor| {
            let key = match (vendor.key_present, vendor.key_needed) {
                (true, _) => "key",
                (false, true) => "no key",
                (false, false) => "-",
            };
            let url = vendor.base_url.as_deref().unwrap_or("?");
            format!("{} {} {url} {key}", vendor.name, vendor.wire)
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn every_vendor_can_be_prompted() {
    for vendor in directory(&[], &[]).vendors() {
        let server = Server::start(vec![reply("400 Bad Request", "", "{}")]).await;
        let settings = ProviderConfig {
            base_url: Some(server.url.clone()),
            api_key: Some(Secret::new("k-123456")),
            ..ProviderConfig::default()
        };
        let directory = directory(&[], &[(&vendor.name, settings)]);
        let model = vendor
            .default_model
            .unwrap_or(format!("{}/some/model", vendor.name));
        let mut question = request("main", "l", "hello", &["read"]);
        question.options.thinking = Some("high".to_owned());
        let model = directory.find(&model).unwrap();
        let error = model.turn(question, &NoDeltas).await.unwrap_err();
        assert_eq!(
            error.fault.name(),
            "bad_request",
            "{}: {error}",
            vendor.name
        );
        let mut seen = server.seen();
        // A local server is queried for the size of the model first, without a key.
        if vendor.local {
            let first = seen.remove(0);
            assert!(!first.contains("k-123456"), "{}: {first}", vendor.name);
        }
        assert_eq!(seen.len(), 1, "{}", vendor.name);
        assert!(seen[0].contains("k-123456"), "{}: {}", vendor.name, seen[0]);
        assert!(seen[0].contains("hello"), "{}: {}", vendor.name, seen[0]);
    }
}

#[test]
fn unusable_names_fail_with_a_hint() {
    let no_url = ProviderConfig {
        wire: Some(Wire::Chat),
        ..ProviderConfig::default()
    };
    let at = |url: &str| ProviderConfig {
        wire: Some(Wire::Chat),
        base_url: Some(url.to_owned()),
        ..ProviderConfig::default()
    };
    let providers = [
        ("half", no_url),
        ("ftp", at("ftp://host")),
        ("loud", at("https://me:secret@host")),
    ];
    for (name, fault, expected) in [
        (
            "anthropic/claude-sonnet-4-5",
            "auth",
            "there is no key for anthropic: set ANTHROPIC_API_KEY, or `api_key` under [providers.anthropic] in the configuration",
        ),
        (
            "google/gemini-2.5-pro",
            "auth",
            "there is no key for gemini: set GEMINI_API_KEY or GOOGLE_API_KEY, or `api_key` under [providers.gemini] in the configuration",
        ),
        (
            "openai-compatible/x",
            "bad_request",
            "openai-compatible needs an address: set OPENAI_COMPATIBLE_BASE_URL, or `base_url` under [providers.openai-compatible] in the configuration",
        ),
        (
            "antropic/claude",
            "bad_request",
            "there is no provider \"antropic\": did you mean `anthropic`? known are anthropic, openai, openai-chat, gemini, deepseek, glm, kimi, qwen, openrouter, groq, mistral, xai, ollama, llamacpp, vllm, lmstudio, azure, openai-compatible, ftp, half, loud; another one needs `wire` and `base_url` under [providers.antropic] in the configuration",
        ),
        (
            "half/x",
            "bad_request",
            "[providers.half] in the configuration needs `wire` and `base_url`, because no vendor of this build is called so",
        ),
        (
            "ftp/x",
            "bad_request",
            "the base URL of ftp is neither http nor https; write it as https://host/path",
        ),
        (
            "loud/x",
            "bad_request",
            "the base URL of loud carries a password, which belongs into `api_key`; write it as https://host/path",
        ),
        (
            "kimi",
            "bad_request",
            "there is no model \"kimi\": write vendor/model, for example `kimi/kimi-k3`; or `offline`, `script:FILE`, `replay:FOLDER`",
        ),
        (
            "openrouter/",
            "bad_request",
            "there is no model \"openrouter/\": write vendor/model, for example `openrouter/anthropic/claude-sonnet-5.5`; or `offline`, `script:FILE`, `replay:FOLDER`",
        ),
    ] {
        let error = directory(&[], &providers).find(name).unwrap_err();
        assert_eq!(
            (error.fault.name(), error.message.as_str()),
            (fault, expected),
            "{name}"
        );
    }
}

#[test]
fn what_is_known_about_models() {
    let own = ModelConfig {
        context_window: Some(1_000),
        images: Some(true),
        tools: Some(ToolSetting::Fenced),
        price: Some(Price {
            input: Some(0.0),
            output: Some(0.0),
            ..Price::default()
        }),
        ..ModelConfig::default()
    };
    let directory = Directory::new(DirectorySettings {
        models: BTreeMap::from([("deepseek/*".to_owned(), own)]),
        ..DirectorySettings::default()
    });
    for (name, expected) in [
        ("anthropic/claude-sonnet-4-5", "200000 images Auto 3"),
        ("openai/gpt-4.1", "1047576 images Auto 2"),
        ("claude/claude-opus-4-6", "1000000 images Auto 5"),
        ("ollama/gemma2:9b", "? text Schema 0"),
        (
            "openrouter/anthropic/claude-haiku-4.5",
            "200000 images Auto 1",
        ),
        ("deepseek/deepseek-chat", "1000 images Fenced 0"),
        ("mistral/codestral-latest", "128000 text Auto 0.3"),
    ] {
        let known = directory.known(name).unwrap();
        let window = known
            .context_window
            .map_or("?".to_owned(), |window| window.to_string());
        let images = if known.images { "images" } else { "text" };
        let price = known
            .price
            .map_or("?".to_owned(), |price| price.input.to_string());
        assert_eq!(
            format!("{window} {images} {:?} {price}", known.tools),
            expected,
            "{name}"
        );
    }
    assert_eq!(directory.known("nobody/knows"), None);
}

#[test]
fn the_first_key_that_is_set_suggests_a_model() {
    for (set, expected) in [
        (&[][..], None),
        (&[("OPENAI_API_KEY", "")], None),
        (&[("MOONSHOT_API_KEY", "k")], Some("kimi/kimi-k3")),
        (
            &[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")],
            Some("anthropic/claude-sonnet-5-5"),
        ),
        (&[("OLLAMA_API_KEY", "k")], None),
    ] {
        let suggested = suggest_default(&variables(set)).map(|suggestion| suggestion.model);
        assert_eq!(suggested.as_deref(), expected, "{set:?}");
    }
}

#[test]
fn local_servers_are_looked_for_where_they_usually_are() {
    for (host, expected) in [
        ("", "http://127.0.0.1:11434/v1"),
        ("127.0.0.1:9", "http://127.0.0.1:9/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("http://box:8/", "http://box:8/v1"),
        ("https://box", "https://box:11434/v1"),
    ] {
        let endpoints = usual_endpoints(&variables(&[("OLLAMA_HOST", host)]));
        let names: Vec<&str> = endpoints.iter().map(|e| e.vendor.as_str()).collect();
        assert_eq!(names, ["ollama", "llamacpp", "lmstudio", "vllm"]);
        assert_eq!(endpoints[0].base_url, expected, "{host}");
    }
}

#[tokio::test]
async fn local_servers_are_found_with_their_models() {
    let ollama = Server::answering(|_, request| {
        let body = if request.starts_with("GET /api/tags") {
            "{\"models\":[{\"name\":\"plain:1b\"},{\"name\":\"able:8b\"}]}"
        } else if request.contains("able:8b") {
            "{\"capabilities\":[\"completion\",\"tools\"]}"
        } else {
            "{\"capabilities\":[\"completion\"]}"
        };
        reply("200 OK", "", body)
    })
    .await;
    let llama = Server::start(vec![reply(
        "200 OK",
        "",
        "{\"data\":[{\"id\":\"big.gguf\"}]}",
    )])
    .await;
    let page = Server::start(vec![reply("200 OK", "", "<html>")]).await;
    let silent = Server::start(vec![vec![Step::Hang]]).await;
    let endpoint = |vendor: &str, server: &Server| Endpoint {
        vendor: vendor.to_owned(),
        base_url: format!("{}/v1", server.url),
    };
    let endpoints = [
        endpoint("ollama", &ollama),
        endpoint("lmstudio", &page),
        endpoint("vllm", &silent),
        endpoint("llamacpp", &llama),
    ];
    let found = discover(&endpoints, std::time::Duration::from_millis(200)).await;
    let lines: Vec<String> = found
        .iter()
        .flat_map(|server| &server.models)
        .map(|model| format!("{} {:?}", model.name, model.tools))
        .collect();
    assert_eq!(
        lines,
        [
            "ollama/able:8b Some(true)",
            "ollama/plain:1b Some(false)",
            "llamacpp/big.gguf None"
        ]
    );
}

#[tokio::test]
async fn a_prompt_that_exceeds_the_window_is_not_sent() {
    let window = ModelConfig {
        context_window: Some(1_000),
        ..ModelConfig::default()
    };
    let directory = Directory::new(DirectorySettings {
        models: BTreeMap::from([("ollama/small".to_owned(), window)]),
        // No server listens there: a request to it would fail with another error.
        environment: variables(&[("OLLAMA_HOST", "127.0.0.1:9")]),
        ..DirectorySettings::default()
    });
    let model = directory.find("ollama/small").unwrap();
    for (words, expected) in [(200, "transient"), (20_000, "context_overflow")] {
        let long = request("main", "l", &"word ".repeat(words), &[]);
        let error = model.turn(long, &NoDeltas).await.unwrap_err();
        assert_eq!(error.fault.name(), expected, "{words}: {error}");
    }
}
