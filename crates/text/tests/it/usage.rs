//! Every place of the workspace that says something, read as tokens: the ids exist, and the
//! arguments are the ones that the message has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use sortie_text::Lang;

use crate::catalogue::{Catalogue, catalogue};

/// A place in the code that says something, with the id written out.
#[derive(Debug, PartialEq)]
struct Use {
    id: String,
    /// `None` where the arguments are not written out.
    arguments: Option<BTreeSet<String>>,
    /// Whether it is `t!` or `text` itself, and not a function that hands on an id.
    direct: bool,
}

/// What a file says, and every string literal in it.
#[derive(Default)]
struct Found {
    uses: Vec<Use>,
    literals: BTreeSet<String>,
}

#[test]
fn every_message_id_in_the_code_exists() {
    let catalogue = catalogue(Lang::En);
    let mut problems = Vec::new();
    for path in rust_files() {
        for rendered in read(&path).uses {
            if let Some(problem) = problem_of(&rendered, &catalogue) {
                problems.push(format!("{}: {problem}", path.display()));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// A literal anywhere counts as a use, so that ids may be chosen by a `match`.
#[test]
fn every_message_is_used_in_the_code() {
    let mut literals = BTreeSet::new();
    for path in rust_files() {
        literals.append(&mut read(&path).literals);
    }
    let unused: Vec<_> = catalogue(Lang::En)
        .into_keys()
        .filter(|id| !literals.contains(id))
        .collect();
    assert!(unused.is_empty(), "{unused:#?}");
}

fn problem_of(rendered: &Use, catalogue: &Catalogue) -> Option<String> {
    let Some(variables) = catalogue.get(&rendered.id) else {
        let is_id = rendered.direct || is_of_a_family(&rendered.id, catalogue);
        return is_id.then(|| format!("there is no message {:?}", rendered.id));
    };
    let arguments = rendered.arguments.as_ref()?;
    let differs = arguments != variables;
    differs.then(|| {
        format!(
            "{} has {variables:?} and is given {arguments:?}",
            rendered.id
        )
    })
}

/// Whether other messages begin with the same word: then it is meant as one of them.
fn is_of_a_family(id: &str, catalogue: &Catalogue) -> bool {
    id.split_once('-').is_some_and(|(family, _)| {
        let family = format!("{family}-");
        catalogue.keys().any(|known| known.starts_with(&family))
    })
}

/// The sources of all crates, without tests that say wrong things on purpose.
fn rust_files() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = here.ancestors().nth(2).expect("the crate is in crates/");
    let mut folders = vec![workspace.join("crates"), workspace.join("xtask")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the workspace") {
            let path = entry.expect("a file of the workspace").path();
            if path.is_dir() && path != here.join("tests") && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

fn read(path: &Path) -> Found {
    let source = fs::read_to_string(path).expect("a source file");
    let tokens = source
        .parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut found = Found::default();
    search(tokens, &mut found);
    found
}

fn search(tokens: TokenStream, found: &mut Found) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                let before = tokens.get(..index).unwrap_or_default();
                found.uses.extend(use_of(before, group));
                search(group.stream(), found);
            }
            TokenTree::Literal(_) => found.literals.extend(string(token)),
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Recognises `t!(lang, "id", name = value…)`, `text(lang, "id", …)`, and functions that hand on
/// `"id", &[("name", value)…]`.
fn use_of(before: &[TokenTree], group: &Group) -> Option<Use> {
    if group.delimiter() != Delimiter::Parenthesis {
        return None;
    }
    let word = |from_end: usize| {
        let index = before.len().checked_sub(from_end)?;
        before.get(index).map(ToString::to_string)
    };
    let arguments = split(group);
    match (word(2).as_deref(), word(1)?.as_str()) {
        (Some("t"), "!") => Some(Use {
            id: id_at(&arguments, 1)?,
            arguments: arguments
                .iter()
                .skip(2)
                .map(|argument| named(argument))
                .collect(),
            direct: true,
        }),
        (Some("." | "fn"), "text") | (_, "!") => None,
        (_, "text") => Some(Use {
            id: id_at(&arguments, 1)?,
            arguments: listed(arguments.get(2)?),
            direct: true,
        }),
        (_, _) => handed_on(&arguments),
    }
}

fn handed_on(arguments: &[Vec<TokenTree>]) -> Option<Use> {
    (0..arguments.len()).find_map(|index| {
        Some(Use {
            id: id_at(arguments, index)?,
            arguments: Some(listed(arguments.get(index + 1)?)?),
            direct: false,
        })
    })
}

fn id_at(arguments: &[Vec<TokenTree>], index: usize) -> Option<String> {
    match arguments.get(index)?.as_slice() {
        [token] => string(token),
        _ => None,
    }
}

/// The name in `name = value`.
fn named(argument: &[TokenTree]) -> Option<String> {
    match argument {
        [TokenTree::Ident(name), TokenTree::Punct(equals), ..] if equals.as_char() == '=' => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// The names in `&[("name", value), …]`.
fn listed(list: &[TokenTree]) -> Option<BTreeSet<String>> {
    let [TokenTree::Punct(_), TokenTree::Group(list)] = list else {
        return None;
    };
    split(list)
        .iter()
        .map(|pair| match pair.as_slice() {
            [TokenTree::Group(pair)] => split(pair).first().and_then(|name| string(name.first()?)),
            _ => None,
        })
        .collect()
}

/// The parts of a group between its commas.
fn split(group: &Group) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    for token in group.stream() {
        match (&token, parts.last_mut()) {
            (TokenTree::Punct(comma), _) if comma.as_char() == ',' => parts.push(Vec::new()),
            (_, Some(part)) => part.push(token),
            (_, None) => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The content of a string literal without escapes, which ids never have.
fn string(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else {
        return None;
    };
    let text = literal.to_string();
    let content = text.strip_prefix('"')?.strip_suffix('"')?;
    (!content.contains('\\')).then(|| content.to_owned())
}

/// `id(names)`, with `~` before what only hands on an id and `?` for arguments that are not
/// written out.
fn shown(rendered: &Use) -> String {
    let mark = if rendered.direct { "" } else { "~" };
    let names = rendered.arguments.as_ref().map_or("?".to_owned(), |names| {
        names.iter().cloned().collect::<Vec<_>>().join(" ")
    });
    format!("{mark}{}({names})", rendered.id)
}

#[test]
fn uses_are_recognised() {
    let check = |source: &str, expected: &str| {
        let mut found = Found::default();
        search(source.parse().unwrap(), &mut found);
        let uses: Vec<_> = found.uses.iter().map(shown).collect();
        assert_eq!(uses.join(", "), expected, "{source}");
    };
    check(r#"t!(lang, "a-b")"#, "a-b()");
    check(r#"t!(self.lang(), "a", id = f(x, y), n = 1,)"#, "a(id n)");
    check(r#"sortie_text::t!(l, "a", x = t!(l, "b"))"#, "a(x), b()");
    check(
        r#"fn f() { if x { return Err(t!(l, "a", q = 1)); } }"#,
        "a(q)",
    );
    check(r#"text(lang, "a", &[("x", 1.into()), ("y", z)])"#, "a(x y)");
    check(r#"sortie_text::text(lang, "a", &[],)"#, "a()");
    check(r#"text(lang, "a", args)"#, "a(?)");
    check(r#"self.fail(Reason::Loop, "a", &[("x", y)])"#, "~a(x)");
    check(r#"self.notice("a", &[])"#, "~a()");
    // Other things of the same name, and ids that are chosen elsewhere.
    check(
        r#"sink.text(1, "a", &[]); fn text(a: A) {} ToolAnswer::text("a")"#,
        "",
    );
    check(r#"t!(lang, id); text(lang, id, &[("x", y)])"#, "");
    check(
        r#"assert!(x, "message"); format!("{}", "b"); run("git", &["log"])"#,
        "",
    );
}

#[test]
fn wrong_uses_are_found() {
    let catalogue = Catalogue::from([("a-b".to_owned(), BTreeSet::from(["x".to_owned()]))]);
    let check = |id: &str, names: &[&str], direct: bool, expected: Option<&str>| {
        let rendered = Use {
            id: id.to_owned(),
            arguments: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            direct,
        };
        assert_eq!(problem_of(&rendered, &catalogue).as_deref(), expected);
    };
    check("a-b", &["x"], true, None);
    check("c-d", &[], true, Some(r#"there is no message "c-d""#));
    check("c-d", &[], false, None);
    check("a-d", &[], false, Some(r#"there is no message "a-d""#));
    check("a-b", &[], false, Some(r#"a-b has {"x"} and is given {}"#));
    check(
        "a-b",
        &["x", "y"],
        true,
        Some(r#"a-b has {"x"} and is given {"x", "y"}"#),
    );
}
