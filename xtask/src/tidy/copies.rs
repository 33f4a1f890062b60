//! Checks that each rule of `crates/base` is implemented once: a second copy could give other
//! results.

use super::sources::{is_shipped, is_test, lines_of_code};

/// A shared rule, and the text by which another implementation is recognised.
struct Rule {
    /// The file that implements the rule.
    home: &'static str,
    /// Text that only an implementation contains. Written in two parts, as this file is checked too.
    marks: &'static [&'static str],
    /// Files that contain the text for another reason.
    except: &'static [&'static str],
}

const RULES: [Rule; 10] = [
    Rule {
        home: "crates/base/src/secret.rs",
        marks: &[concat!("struct ", "Secret")],
        except: &[],
    },
    Rule {
        home: "crates/base/src/redact.rs",
        marks: &[
            concat!("struct ", "Redactor"),
            concat!("\"[", "redacted]\""),
        ],
        except: &[],
    },
    Rule {
        home: "crates/base/src/wildcard.rs",
        marks: &[concat!("struct ", "Wildcard"), concat!("fn ", "wildcard")],
        except: &[],
    },
    Rule {
        home: "crates/base/src/truncate.rs",
        marks: &[
            concat!("char_indices()", ".nth("),
            concat!("floor_char_", "boundary"),
            concat!("push", "('…')"),
        ],
        except: &[],
    },
    Rule {
        home: "crates/base/src/atomic_file.rs",
        marks: &[
            concat!(".persist", "("),
            concat!("fs::", "rename("),
            concat!("OFlags::", "EXCL"),
        ],
        // The first moves a folder out of the way, the second copies a file to another file system.
        except: &[
            "crates/cli/src/serving.rs",
            "crates/worktree/src/relocate.rs",
        ],
    },
    Rule {
        home: "crates/base/src/private_files.rs",
        marks: &[concat!("OTHERS_", "WRITE"), concat!("0o", "022")],
        except: &[],
    },
    Rule {
        home: "crates/base/src/beneath.rs",
        marks: &[concat!("openat", "2(")],
        // Opens a path without links from the root, and may create the file.
        except: &["crates/runtime/src/sinks.rs"],
    },
    Rule {
        home: "crates/base/src/sse.rs",
        marks: &[
            concat!("\"data\"", " =>"),
            concat!("strip_prefix(\"", "data:"),
        ],
        except: &[],
    },
    Rule {
        home: "crates/base/src/nearest.rs",
        marks: &[concat!("str", "sim::"), concat!("fn ", "levenshtein")],
        except: &[],
    },
    Rule {
        home: "crates/base/src/token_bucket.rs",
        marks: &[
            concat!("struct ", "TokenBucket"),
            concat!("struct ", "Bucket"),
        ],
        except: &[],
    },
];

/// Returns every second copy of a shared rule, as `path:line: what`.
pub(super) fn judge(path: &str, text: &str) -> Vec<String> {
    if !path.ends_with(".rs") || !is_shipped(path) || is_test(path) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for rule in &RULES {
        if path == rule.home || rule.except.contains(&path) {
            continue;
        }
        for (index, line) in text.lines().take(lines_of_code(text)).enumerate() {
            if let Some(mark) = rule.marks.iter().find(|mark| line.contains(**mark)) {
                problems.push(format!(
                    "{path}:{}: `{mark}` repeats the rule in {}; use that one",
                    index + 1,
                    rule.home
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::place;

    #[test]
    fn a_second_copy_of_each_rule_is_reported() {
        for rule in &RULES {
            for mark in rule.marks {
                let text = format!("one\n    {mark}\n");
                let expected = format!(
                    "crates/cli/src/a.rs:2: `{mark}` repeats the rule in {}; use that one",
                    rule.home
                );
                assert_eq!(judge("crates/cli/src/a.rs", &text), [expected]);
                for path in [rule.home, "crates/cli/tests/it/a.rs", "docs/a.md"]
                    .iter()
                    .chain(rule.except)
                {
                    assert_eq!(judge(path, &text), [""; 0], "{path}");
                }
                let tested = format!("\n#[cfg(test)]\nmod tests {{\n{text}");
                assert_eq!(judge("crates/cli/src/a.rs", &tested), [""; 0]);
            }
        }
    }

    #[test]
    fn every_rule_has_its_home_and_needs_its_exceptions() {
        for rule in &RULES {
            for path in [rule.home].iter().chain(rule.except) {
                let text = fs::read_to_string(place::root().join(path)).unwrap();
                let has_mark = rule.marks.iter().any(|mark| text.contains(mark));
                assert!(has_mark, "{path} has none of {:?}", rule.marks);
            }
        }
    }
}
