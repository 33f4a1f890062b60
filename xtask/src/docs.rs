//! `cargo xtask docs`: everything that a document names exists.
//!
//! Paths and links are compared with the tree, commands and flags with the snapshot of every
//! `--help`, configuration keys with the snapshot of the schema, routes with the OpenAPI document,
//! symbols with the sources, and the tests of docs/lessons.md with the tests. The snapshots are kept current by tests of their crates.

mod commands;
mod document;
mod keys;
mod lessons;
mod paths;
mod routes;
mod symbols;

use std::path::Path;

use anyhow::{Result, bail};

use crate::tree::Tree;
use crate::{measure, place};
use commands::Commands;
use document::Document;
use keys::Schema;
use routes::Routes;
use symbols::Symbols;

const GLOSSARY: &str = "docs/glossary.md";
const MOST_TERMS: usize = 60;

/// Checks every document and prints each name that does not exist.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let root = match arguments {
        [] => place::root(),
        [flag, folder] if flag == "--root" => Path::new(folder),
        [other, ..] => bail!("unknown argument {other:?}; run `cargo xtask help`"),
    };
    let tree = Tree::read(root)?;
    let mut problems = problems(&tree);
    problems.extend(measure::check_walks(&tree));
    problems.extend(too_many_terms(&tree));
    for problem in &problems {
        println!("docs: {problem}");
    }
    match problems.len() {
        0 => {
            println!("docs: every name in the documents exists");
            Ok(())
        }
        count => bail!("{count} names in documents do not exist; see above"),
    }
}

/// The glossary has to stay short enough to be remembered.
fn too_many_terms(tree: &Tree) -> Option<String> {
    let rows = tree.text(GLOSSARY)?.lines();
    let terms = rows
        .filter(|line| line.starts_with("| "))
        .filter(|line| !line.starts_with("| term |") && !line.starts_with("| --- |"))
        .count();
    (terms > MOST_TERMS).then(|| format!("{GLOSSARY}: {terms} terms; {MOST_TERMS} is the most"))
}

/// The documents of the project. CHANGELOG.md names what has been removed and is left out.
fn is_document(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    path.ends_with(".md") && ["", "docs", "packaging"].contains(&folder) && path != "CHANGELOG.md"
}

fn problems(tree: &Tree) -> Vec<String> {
    let documents: Vec<Document> = tree
        .paths()
        .filter(|path| is_document(path))
        .filter_map(|path| Document::read(tree, path))
        .collect();
    let mut problems: Vec<String> = [commands::REFERENCE, keys::SCHEMA, routes::OPENAPI]
        .iter()
        .filter(|path| !tree.contains(path))
        .map(|path| format!("{path} is missing: documents cannot be compared with it"))
        .collect();
    let schema = Schema::read(tree);
    let commands = Commands::read(tree);
    let routes = Routes::read(tree);
    let symbols = Symbols::read(tree);
    for document in &documents {
        let mut found = paths::broken_links(tree, document, &documents);
        found.extend(paths::missing(tree, document));
        found.extend(commands.problems(document, &schema));
        found.extend(schema.problems(document));
        found.extend(routes.problems(document));
        found.extend(symbols.problems(document, &schema));
        found.extend(lessons::problems(tree, document));
        found.sort();
        found.dedup();
        let lines = found.into_iter();
        problems
            .extend(lines.map(|(line, problem)| format!("{}:{line}: {problem}", document.path)));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A project in miniature with one thing of each kind.
    fn project(document: &str) -> Tree {
        let reference = "---\nsource: a\n---\n# sortie\n\nCommands:\n  tasks  Shows [alias: task]\n  run    Runs\n\nOptions:\n      --home <FOLDER>\n\n\n# sortie tasks\n\nCommands:\n  list  Lists\n  show  Shows\n\n\n# sortie tasks list\n\nOptions:\n      --all\n          Everything\n\n\n# sortie tasks show\n\nOptions:\n      --json\n\n\n# sortie run\n\nOptions:\n  -m, --model <MODEL>\n";
        let schema = "---\nsource: a\n---\n{\"properties\": {\"model\": {}, \"agents\": {\"additionalProperties\": {\"$ref\": \"#/$defs/A\"}}}, \"$defs\": {\"A\": {\"properties\": {\"mode\": {}}}}}";
        let openapi = "{\"paths\": {\"/api/tasks/{id}\": {\"get\": {}}, \"/api/tasks/{id}/cancel\": {\"post\": {}}}}";
        Tree::default()
            .with("README.md", document)
            .with("docs/guide.md", "# A guide\n")
            .with(commands::REFERENCE, reference)
            .with(keys::SCHEMA, schema)
            .with(routes::OPENAPI, openapi)
            .with("crates/core/Cargo.toml", "[package]\nname = \"sortie-core\"\n")
            .with(
                "crates/core/src/lib.rs",
                "pub struct RunSpec;\nimpl RunSpec {\n    pub fn admit(self) {}\n}\npub enum Mode {\n    Plan,\n}\nconst X: &str = \"queue_position SORTIE_HOME\";\n",
            )
            .with("crates/server/src/login.rs", "const LOGIN: &str = \"/login\";\n")
            .with("crates/core/examples/embed.rs", "")
    }

    #[test]
    fn names_that_exist_are_accepted() {
        let text = "\
See [a guide](docs/guide.md#a-guide), `core/lib.rs`, `crates/core/src`, `lib.rs`.
Type `sortie tasks list --all`, `sortie --home X tasks list, show --json`, `sortie task list|show`,
`tasks show ID --json`, `sortie run \"a --b\" -m x -c agents.main.mode=plan`, `--model M`,
`cargo run -- tasks list`, `cargo xtask tidy`, `cargo test -p sortie-core`, `cargo run --example embed`.
Set `agents.NAME.mode`, `[agents.NAME] mode = \"plan\"`, `SORTIE__AGENTS__MAIN__MODE=plan`; not `agents.json`.
Call `GET /api/tasks/{id}`, `POST …/cancel`, `/api/tasks/ID?x=1`, `GET /login`.
Use `RunSpec`, `RunSpec::admit`, `Mode::Plan`, `sortie_core::RunSpec`, `admit()`, `queue_position`,
`SORTIE_HOME`, `exec(git status *)`, `/proc`, `vendor/model`, `git worktree add`.

```toml
model = \"a\"
[agents.explore]
mode = \"plan\"
```

```sh
sortie tasks list --all   # everything
curl localhost/api/tasks/1
```
";
        assert_eq!(problems(&project(text)), Vec::<String>::new());
    }

    #[test]
    fn a_wrong_name_of_each_kind_is_rejected() {
        for (text, expected) in [
            ("[a](docs/gone.md)", "the link leads nowhere: docs/gone.md"),
            (
                "[a](docs/guide.md#gone)",
                "docs/guide.md has no heading #gone",
            ),
            ("`core/gone.rs`", "there is no file or folder core/gone.rs"),
            ("`docs/gone.md`", "there is no file or folder docs/gone.md"),
            ("`gone.rs`", "there is no file or folder gone.rs"),
            ("`sortie gone`", "`sortie` has no command \"gone\""),
            (
                "`sortie tasks list, gone`",
                "`sortie tasks` has no command \"gone\"",
            ),
            (
                "`sortie tasks list --gone`",
                "`sortie tasks list` has no flag --gone",
            ),
            (
                "`tasks show --gone`",
                "`sortie tasks show` has no flag --gone",
            ),
            ("`--gone`", "no command has the flag --gone"),
            (
                "```sh\nsortie run --gone\n```",
                "`sortie run` has no flag --gone",
            ),
            ("`cargo run -- gone`", "`sortie` has no command \"gone\""),
            (
                "`cargo xtask gone`",
                "`cargo xtask` has no command \"gone\"",
            ),
            (
                "`cargo xtask tidy --gone`",
                "`cargo xtask tidy` has no flag --gone",
            ),
            (
                "`cargo test -p sortie-gone`",
                "there is no package \"sortie-gone\"",
            ),
            ("`sortie-gone`", "there is no package \"sortie-gone\""),
            ("`cargo run --example gone`", "there is no example \"gone\""),
            (
                "`agents.NAME.gone`",
                "there is no configuration key agents.NAME.gone",
            ),
            (
                "`[agents.NAME] gone`",
                "there is no configuration key agents.NAME.gone",
            ),
            ("`-c gone=1`", "there is no configuration key gone"),
            (
                "`SORTIE__GONE__KEY`",
                "there is no configuration key gone.key",
            ),
            (
                "```toml\n[agents.a]\ngone = 1\n```",
                "there is no configuration key agents.a.gone",
            ),
            ("`/api/gone`", "there is no route /api/gone"),
            (
                "`POST /api/tasks/{id}`",
                "there is no route POST /api/tasks/{id}",
            ),
            ("`POST …/gone`", "there is no route POST …/gone"),
            (
                "```sh\ncurl localhost/api/gone\n```",
                "there is no route /api/gone",
            ),
            ("`RunSpec::gone`", "the sources have no RunSpec::gone"),
            ("`Gone::admit`", "the sources have no Gone::admit"),
            ("`gone(&spec)`", "the sources have no function gone"),
            ("`GoneType`", "the sources do not contain GoneType"),
            ("`Gone`", "the sources do not contain Gone"),
            ("`gone_field`", "the sources do not contain gone_field"),
            ("`SORTIE_GONE`", "the sources do not contain SORTIE_GONE"),
        ] {
            let found = problems(&project(text));
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].ends_with(expected), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_glossary_of_more_than_sixty_terms_is_rejected() {
        let glossary = |terms| {
            let rows = "| a | b | c |\n".repeat(terms);
            let text = format!("| term | meaning | do not use |\n| --- | --- | --- |\n{rows}");
            too_many_terms(&Tree::default().with(GLOSSARY, &text))
        };
        assert_eq!(glossary(60), None);
        assert!(glossary(61).is_some());
    }

    #[test]
    fn a_reference_that_is_gone_is_reported() {
        let found = problems(&Tree::default());
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
