//! Tests that an edit changes one key and preserves everything else.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use sortie_config::{set, unset};
use tempfile::TempDir;

fn check(before: &str, key: &str, value: &str, after: &str) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("sortie.toml");
    fs::write(&file, before).unwrap();
    set(&file, key, value).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), after, "{key}={value}");
}

fn refused(before: &str, key: &str, value: &str, expected: &str) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("sortie.toml");
    fs::write(&file, before).unwrap();
    let error = set(&file, key, value).unwrap_err().to_string();
    let prefix = format!("{}/", folder.path().display());
    assert_eq!(error.replace(&prefix, ""), expected);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn keys_are_set_where_they_belong() {
    check("", "lang", "zh", "lang = \"zh\"\n");
    check(
        "",
        "subagents.max_concurrent",
        "8",
        "[subagents]\nmax_concurrent = 8\n",
    );
    check(
        "# mine\nmodel = 'a/b' # best\n\n[main]\nmax_iterations = 3\n",
        "model",
        "c/d",
        "# mine\nmodel = \"c/d\" # best\n\n[main]\nmax_iterations = 3\n",
    );
    check(
        "[subagents] # sub\nmaxConcurrent = 5 # five\n",
        "subagents.max_concurrent",
        "6",
        "[subagents] # sub\nmaxConcurrent = 6 # five\n",
    );
    check(
        "subagents = { max_depth = 1 }\n",
        "subagents.tools.deny",
        "exec,write",
        "subagents = { max_depth = 1 , tools = { deny = [\"exec\", \"write\"] } }\n",
    );
    check(
        "[agents.Explore]\nthinking = 'low'\n",
        "agents.explore.thinking",
        "high",
        "[agents.Explore]\nthinking = \"high\"\n",
    );
    check(
        "[agents.my_agent]\n",
        "agents.myAgent.thinking",
        "高",
        "[agents.my_agent]\n\n[agents.myAgent]\nthinking = \"高\"\n",
    );
    check(
        "\u{feff}lang = 'en'\r\n[main]\r\n",
        "main.max_iterations",
        "3",
        "\u{feff}lang = 'en'\r\n[main]\r\nmax_iterations = 3\r\n",
    );
    check(
        "",
        "models.\"a/b\".temperature",
        "0.5",
        "[models.\"a/b\"]\ntemperature = 0.5\n",
    );
}

#[test]
fn invalid_edits_are_refused() {
    refused("", "modle", "x", "unknown key modle; did you mean model?");
    refused("", "a b", "x", "\"a b\" is not the name of a key");
    refused(
        "",
        "subagents",
        "{}",
        "subagents is a table; set one of the keys inside it",
    );
    refused(
        "",
        "temperature",
        "3",
        "temperature: expected 0 to 2, found 3",
    );
    refused(
        "main = 3\n",
        "main.max_iterations",
        "3",
        "sortie.toml: main is not a table",
    );
    refused(
        "main = \n",
        "lang",
        "en",
        "sortie.toml:1:8: string values must be quoted, expected literal string",
    );
}

#[test]
fn keys_are_removed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("sortie.toml");
    fs::write(
        &file,
        "# top\nmodel = 'a/b'\n[subagents]\nmaxDepth = 1\nenabled = true # yes\n",
    )
    .unwrap();
    assert!(unset(&file, "subagents.max_depth").unwrap());
    assert!(!unset(&file, "subagents.max_depth").unwrap());
    assert!(!unset(&file, "agents.x.model").unwrap());
    let left = fs::read_to_string(&file).unwrap();
    assert_eq!(
        left,
        "# top\nmodel = 'a/b'\n[subagents]\nenabled = true # yes\n"
    );
}

#[test]
fn a_new_file_is_private_and_a_link_stays_a_link() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("new/folder/config.toml");
    set(&file, "providers.x.api_key", "sk-1").unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);

    let link = folder.path().join("link.toml");
    symlink(&file, &link).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    set(&link, "lang", "en").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(mode(&file), 0o640);
    assert!(fs::read_to_string(&file).unwrap().contains("lang"));
}
