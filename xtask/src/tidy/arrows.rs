//! Checks which crates may depend on which, and which external crates they must not reach.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::shell::{cargo, output};

/// Shared primitives: every crate may depend on it.
const BASE: &str = "sortie-base";
/// The workspace crates, and the workspace crates that each may depend on. Dev-dependencies are not
/// checked.
const MAY_KNOW: [(&str, &[&str]); 21] = [
    (BASE, &[]),
    ("sortie-core", &[]),
    ("sortie-config", &["sortie-core"]),
    ("sortie-sandbox", &[]),
    ("sortie-shell", &[]),
    ("sortie-text", &["sortie-core"]),
    ("sortie-definitions", &["sortie-core", "sortie-text"]),
    ("sortie-policy", &["sortie-core", "sortie-shell"]),
    ("sortie-wire", &["sortie-core"]),
    (
        "sortie-models",
        &["sortie-core", "sortie-text", "sortie-wire"],
    ),
    ("sortie-fetch", &["sortie-core"]),
    ("sortie-hooks", &["sortie-core", "sortie-fetch"]),
    ("sortie-mcp", &["sortie-core", "sortie-fetch"]),
    (
        "sortie-tools",
        &["sortie-core", "sortie-sandbox", "sortie-shell"],
    ),
    ("sortie-store", &["sortie-core"]),
    ("sortie-worktree", &["sortie-core"]),
    ("sortie-agent", &["sortie-core", "sortie-text"]),
    ("sortie-protocol", &["sortie-core"]),
    ("sortie-telemetry", &["sortie-core"]),
    (
        "sortie-server",
        &[
            "sortie-core",
            "sortie-protocol",
            "sortie-runtime",
            "sortie-text",
        ],
    ),
    (
        "sortie-runtime",
        &[
            "sortie-core",
            "sortie-policy",
            "sortie-agent",
            "sortie-text",
        ],
    ),
];
/// Crates that wire others together, and may depend on all of them.
const WIRES: [&str; 4] = [
    "sortie",
    "sortie-cli",
    "sortie-bench",
    "sortie-test-support",
];
/// The crate without workspace dependencies, so that it builds before the others and without them.
const ALONE: &str = "xtask";

/// Databases, HTTP and vendors: crates that only adapters behind the ports may use.
const OUTSIDE: &[&str] = &[
    "axum",
    "hyper",
    "libsqlite3-sys",
    "reqwest",
    "rig-core",
    "rmcp",
    "rusqlite",
    "sqlx",
    "tokio-postgres",
    "tungstenite",
    "ureq",
];
/// Asynchronous runtimes: crates that pure code must not use.
const WAITING: &[&str] = &[
    "async-io",
    "async-std",
    "futures-executor",
    "mio",
    "smol",
    "tokio",
];
/// Crates, and the external crates that must not be in their trees of normal dependencies.
const NEVER_REACHES: [(&str, &[&[&str]]); 7] = [
    ("sortie-core", &[OUTSIDE, WAITING]),
    ("sortie-shell", &[OUTSIDE, WAITING]),
    ("sortie-text", &[OUTSIDE, WAITING]),
    ("sortie-policy", &[OUTSIDE, WAITING]),
    ("sortie-agent", &[OUTSIDE, WAITING]),
    ("sortie-wire", &[OUTSIDE, WAITING]),
    ("sortie-runtime", &[OUTSIDE]),
];

/// Returns every forbidden dependency.
pub(super) fn problems() -> Result<Vec<String>> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&output(&mut { metadata })?)?;
    let mut problems = direct(&metadata)?;
    for (package, banned) in NEVER_REACHES {
        let tree = tree(package)?;
        problems.extend(reached(package, &banned.concat(), &tree));
    }
    Ok(problems)
}

fn direct(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let names: BTreeSet<&str> = packages.iter().filter_map(name).collect();
    let mut problems = Vec::new();
    for package in packages {
        let Some(package_name) = name(package) else {
            continue;
        };
        let known: Vec<&str> = package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(name)
            .filter(|dependency| names.contains(dependency))
            .collect();
        problems.extend(judge(package_name, &known));
    }
    Ok(problems)
}

fn judge(package: &str, known: &[&str]) -> Vec<String> {
    if WIRES.contains(&package) {
        return Vec::new();
    }
    let rule = MAY_KNOW.iter().find(|(name, _)| *name == package);
    let allowed = match rule {
        Some((_, allowed)) => *allowed,
        None if package == ALONE => &[],
        None => {
            return vec![format!(
                "{package} is new: say in xtask/src/tidy/arrows.rs which crates it may know"
            )];
        }
    };
    known
        .iter()
        .filter(|other| **other != BASE && !allowed.contains(other))
        .map(|other| format!("{package} must not know {other}"))
        .collect()
}

/// Returns the names of all crates that a package reaches by normal dependencies, with any
/// features.
fn tree(package: &str) -> Result<BTreeSet<String>> {
    let mut command = cargo(&["tree", "--package", package, "--edges", "normal"])?;
    command.args(["--all-features", "--prefix", "none", "--format", "{p}"]);
    let listing = output(&mut command)?;
    let names = listing.lines().filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

fn reached(package: &str, banned: &[&str], tree: &BTreeSet<String>) -> Vec<String> {
    banned
        .iter()
        .filter(|other| tree.contains(**other))
        .map(|other| {
            format!("{package} must not reach {other}: `cargo tree -p {package} -i {other}`")
        })
        .collect()
}

fn name(value: &Value) -> Option<&str> {
    value["name"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(package: &str, known: &[&str], expected: &[&str]) {
        assert_eq!(judge(package, known), expected, "{package}");
    }

    #[test]
    fn every_crate_may_know_the_base_which_knows_none() {
        check("sortie-core", &[BASE], &[]);
        check("sortie-protocol", &[BASE], &[]);
        check(
            BASE,
            &["sortie-core"],
            &["sortie-base must not know sortie-core"],
        );
    }

    #[test]
    fn arrows_point_inwards() {
        check("sortie-policy", &["sortie-core"], &[]);
        check(
            "sortie-policy",
            &["sortie-core", "sortie-store"],
            &["sortie-policy must not know sortie-store"],
        );
        check(
            "sortie-core",
            &["sortie-text"],
            &["sortie-core must not know sortie-text"],
        );
        check("sortie", &["sortie-core", "sortie-store"], &[]);
        check(
            "xtask",
            &["sortie-core"],
            &["xtask must not know sortie-core"],
        );
        check(
            "sortie-new",
            &[],
            &["sortie-new is new: say in xtask/src/tidy/arrows.rs which crates it may know"],
        );
    }

    #[test]
    fn a_database_behind_others_is_found() {
        let tree = ["sortie-runtime", "tokio", "rusqlite"].map(str::to_owned);
        assert_eq!(
            reached("sortie-runtime", OUTSIDE, &tree.into()),
            ["sortie-runtime must not reach rusqlite: \
                 `cargo tree -p sortie-runtime -i rusqlite`"]
        );
    }
}
