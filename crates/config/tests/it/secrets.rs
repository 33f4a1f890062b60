//! Tests that no printed output contains a secret.

use sortie_config::{Flag, set, show};

use crate::support::Case;

const SECRET: &str = "sk-do-not-show";

fn secret_free(text: &str) {
    assert!(!text.contains("do-not-show"), "{text}");
}

fn case() -> Case {
    let text = format!(
        "[providers.a]\napi_key = '{SECRET}-1'\nheaders.X-Key = '{SECRET}-2'\n\
         query.key = '{SECRET}-3'\napi_kye = '{SECRET}-4'\n"
    );
    Case::new()
        .user(&text)
        .project(text.replace("providers.a", "providers.b"))
        .variable("SORTIE__PROVIDERS__C__API_KEY", &format!("{SECRET}-5"))
        .variable("OTHER_API_KEY", &format!("{SECRET}-6"))
        .assign(&format!("providers.d.api_key={SECRET}-7"))
        .flag(Flag::new("--key", "providers.e.api_key", SECRET))
}

#[test]
fn shown_values_contain_no_secret() {
    for case in [case(), case().untrusted()] {
        let loaded = case.load().unwrap();
        let providers = &loaded.config.providers;
        let key = providers["a"].api_key.as_ref().unwrap();
        assert_eq!(key.expose(), "sk-do-not-show-1");
        let key = providers["d"].api_key.as_ref().unwrap();
        assert_eq!(key.expose(), "sk-do-not-show-7");

        let shown = show(&loaded);
        assert!(shown.iter().any(|key| key.text() == "\"[redacted]\""));
        secret_free(&serde_json::to_string(&shown).unwrap());
        secret_free(&format!("{shown:?}"));
        secret_free(&format!("{loaded:?}"));
        secret_free(&format!("{:?}", case.sources));
        secret_free(&serde_json::to_string(&loaded.config).unwrap());
        secret_free(&toml::to_string(&loaded.config).unwrap());
        secret_free(&case.report());
    }
}

#[test]
fn errors_contain_no_secret() {
    let at = |line: &str| line.replace("KEY", SECRET);
    for text in [
        "providers.a.api_key = ['KEY']",
        "providers.a.api_key = { value = 'KEY' }",
        "providers.a.api_key = \"KEY\\n\"",
        "providers.a.api_key = 'KEY",
        "providers.a.api_key = KEY",
        "providers.a.api_key = \"KEY\" \"KEY\"",
        "providers.a.api_key = 'KEY'\nproviders.a.api_key = 'KEY'",
        "providers.a.headers = 'Authorization: KEY'",
        "providers.a.headers.X = ['KEY']",
        "providers.a.api_key_env = 'KEY'",
        "providers.a.base_url = 'https://x/?key=KEY'",
        "providers.a.base_url = 'KEY'",
        "providers = 'KEY'",
        "max_tokens = 'KEY'",
    ] {
        let text = at(text);
        for case in [Case::new().user(&text), Case::new().project(&text)] {
            let error = case.load().unwrap_err();
            secret_free(&format!("{error} {error:?}"));
        }
    }
    let case = Case::new();
    let file = case.path("user.toml");
    let error = set(&file, "providers.a.api_key_env", SECRET).unwrap_err();
    secret_free(&format!("{error} {error:?}"));
    let case = Case::new().variable("SORTIE__PROVIDERS__A__BASE_URL", SECRET);
    let error = case.load().unwrap_err();
    secret_free(&format!("{error} {error:?}"));
}
