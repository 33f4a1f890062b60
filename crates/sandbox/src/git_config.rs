//! Git configuration files: parsing them, and the subset that makes git run no program.
//!
//! The subset is an allow list. A setting that is not on it may start a program in some version of
//! git (`core.fsmonitor`, `diff.external`, `filter.*`, `alias.*`, `include.path`, …), so it is
//! dropped. The reduced text is always rewritten from the parsed entries, in one canonical form:
//! where this parser and git's disagree about a text, git never sees that text.

use std::fmt::Write as _;

/// The longest value that is kept. Longer values are not ordinary data.
const MAX_VALUE_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Always in lower case.
    pub(crate) section: String,
    pub(crate) subsection: Option<String>,
    /// In its original spelling.
    pub(crate) key: String,
    /// `None` if only the key is present, which means true.
    pub(crate) value: Option<String>,
}

impl Entry {
    /// Returns the name for display and comparison: `section.subsection.key`, with the key in lower
    /// case.
    pub(crate) fn name(&self) -> String {
        let key = self.key.to_ascii_lowercase();
        match &self.subsection {
            Some(subsection) => format!("{}.{subsection}.{key}", self.section),
            None => format!("{}.{key}", self.section),
        }
    }
}

/// The parsed content of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) entries: Vec<Entry>,
    /// Whether the whole text was parsed. Git gives up at the first syntax error.
    pub(crate) whole: bool,
}

/// Parses settings up to the first syntax error.
pub(crate) fn parse(text: &str) -> Settings {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n");
    let mut parser = Parser {
        chars: text.chars().peekable(),
        section: None,
        entries: Vec::new(),
    };
    let whole = parser.run().is_some();
    Settings {
        entries: parser.entries,
        whole,
    }
}

struct Parser<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    section: Option<(String, Option<String>)>,
    entries: Vec<Entry>,
}

impl Parser<'_> {
    /// Parses all lines; returns `None` at the first syntax error.
    fn run(&mut self) -> Option<()> {
        while let Some(next) = self.chars.next() {
            match next {
                ' ' | '\t' | '\n' => {}
                '#' | ';' => self.skip_line(),
                '[' => self.header()?,
                first if first.is_ascii_alphabetic() => self.entry(first)?,
                _ => return None,
            }
        }
        Some(())
    }

    fn skip_line(&mut self) {
        for next in self.chars.by_ref() {
            if next == '\n' {
                break;
            }
        }
    }

    fn header(&mut self) -> Option<()> {
        let mut name = String::new();
        loop {
            match self.chars.next()? {
                ']' => {
                    // The deprecated spelling: `[section.subsection]`.
                    let name = name.to_ascii_lowercase();
                    self.section = Some(match name.split_once('.') {
                        Some((section, sub)) => (section.to_owned(), Some(sub.to_owned())),
                        None => (name, None),
                    });
                    return Some(());
                }
                ' ' | '\t' => break,
                next if next.is_ascii_alphanumeric() || matches!(next, '-' | '.') => {
                    name.push(next);
                }
                _ => return None,
            }
        }
        while self
            .chars
            .next_if(|next| matches!(next, ' ' | '\t'))
            .is_some()
        {}
        self.chars.next_if_eq(&'"')?;
        let mut subsection = String::new();
        loop {
            match self.chars.next()? {
                '"' => break,
                '\n' => return None,
                '\\' => subsection.push(self.chars.next().filter(|next| *next != '\n')?),
                next => subsection.push(next),
            }
        }
        self.chars.next_if_eq(&']')?;
        self.section = Some((name.to_ascii_lowercase(), Some(subsection)));
        Some(())
    }

    fn entry(&mut self, first: char) -> Option<()> {
        let (section, subsection) = self.section.clone()?;
        let mut key = String::from(first);
        while let Some(next) = self
            .chars
            .next_if(|next| next.is_ascii_alphanumeric() || *next == '-')
        {
            key.push(next);
        }
        while self
            .chars
            .next_if(|next| matches!(next, ' ' | '\t'))
            .is_some()
        {}
        let value = match self.chars.next() {
            None | Some('\n') => None,
            Some('=') => Some(self.value()?),
            Some(_) => return None,
        };
        self.entries.push(Entry {
            section,
            subsection,
            key,
            value,
        });
        Some(())
    }

    fn value(&mut self) -> Option<String> {
        let mut value = String::new();
        // Spaces count only between other characters.
        let mut spaces = String::new();
        let mut quoted = false;
        while let Some(next) = self.chars.next() {
            let plain = match next {
                '\n' if quoted => return None,
                '\n' => return Some(value),
                ' ' | '\t' if !quoted => {
                    if !value.is_empty() {
                        spaces.push(next);
                    }
                    continue;
                }
                '#' | ';' if !quoted => {
                    self.skip_line();
                    return Some(value);
                }
                '"' => {
                    quoted = !quoted;
                    continue;
                }
                '\\' => match self.chars.next()? {
                    '\n' => continue,
                    't' => '\t',
                    'n' => '\n',
                    'b' => '\u{8}',
                    other @ ('\\' | '"') => other,
                    _ => return None,
                },
                other => other,
            };
            value.push_str(&std::mem::take(&mut spaces));
            value.push(plain);
        }
        (!quoted).then_some(value)
    }
}

/// The condition on a value under which its setting is harmless.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// Any text: git only displays, stores or compares it.
    Text,
    /// A boolean or a number.
    Plain,
    /// One of these words, or a boolean.
    Word(&'static [&'static str]),
    /// A URL that git reaches without a program that the settings name.
    Address,
}

/// One section of the allow list.
struct Allowed {
    section: &'static str,
    subsection: bool,
    keys: &'static [(&'static str, Check)],
}

use Check::{Address, Plain, Text, Word};

/// Settings that never make git run a program. `core.worktree` is not among them: it lets a
/// repository write to any folder of the user.
const ALLOWED: &[Allowed] = &[
    Allowed {
        section: "core",
        subsection: false,
        keys: &[
            ("repositoryformatversion", Plain),
            ("filemode", Plain),
            ("bare", Plain),
            ("logallrefupdates", Word(&["always"])),
            ("ignorecase", Plain),
            ("precomposeunicode", Plain),
            ("symlinks", Plain),
            ("autocrlf", Word(&["input"])),
            ("eol", Word(&["lf", "crlf", "native"])),
            ("safecrlf", Word(&["warn"])),
            ("quotepath", Plain),
            ("abbrev", Word(&["auto"])),
            ("longpaths", Plain),
        ],
    },
    Allowed {
        section: "extensions",
        subsection: false,
        keys: &[
            ("objectformat", Word(&["sha1", "sha256"])),
            ("refstorage", Word(&["files", "reftable"])),
            ("relativeworktrees", Plain),
        ],
    },
    Allowed {
        section: "user",
        subsection: false,
        keys: &[("name", Text), ("email", Text)],
    },
    Allowed {
        section: "author",
        subsection: false,
        keys: &[("name", Text), ("email", Text)],
    },
    Allowed {
        section: "committer",
        subsection: false,
        keys: &[("name", Text), ("email", Text)],
    },
    Allowed {
        section: "init",
        subsection: false,
        keys: &[("defaultbranch", Text)],
    },
    Allowed {
        section: "remote",
        subsection: true,
        keys: &[
            ("url", Address),
            ("pushurl", Address),
            ("fetch", Text),
            ("push", Text),
            ("tagopt", Word(&["--tags", "--no-tags"])),
            ("prune", Plain),
            ("mirror", Plain),
        ],
    },
    Allowed {
        section: "branch",
        subsection: true,
        keys: &[
            ("remote", Text),
            ("pushremote", Text),
            ("merge", Text),
            ("description", Text),
            ("rebase", Word(&["merges"])),
        ],
    },
    Allowed {
        section: "submodule",
        subsection: true,
        keys: &[
            ("url", Address),
            ("active", Plain),
            ("branch", Text),
            ("path", Text),
            ("ignore", Word(&["all", "dirty", "untracked", "none"])),
        ],
    },
    Allowed {
        section: "pull",
        subsection: false,
        keys: &[("rebase", Word(&["merges"])), ("ff", Word(&["only"]))],
    },
    Allowed {
        section: "push",
        subsection: false,
        keys: &[
            (
                "default",
                Word(&["nothing", "current", "upstream", "simple", "matching"]),
            ),
            ("autosetupremote", Plain),
        ],
    },
    Allowed {
        section: "merge",
        subsection: false,
        keys: &[("ff", Word(&["only"]))],
    },
    Allowed {
        section: "commit",
        subsection: false,
        // Signing starts a program; settings may only disable it.
        keys: &[("gpgsign", Word(&["false"]))],
    },
    Allowed {
        section: "tag",
        subsection: false,
        keys: &[("gpgsign", Word(&["false"]))],
    },
    Allowed {
        section: "gc",
        subsection: false,
        keys: &[("auto", Plain)],
    },
    Allowed {
        section: "advice",
        subsection: false,
        keys: &[
            ("detachedhead", Plain),
            ("defaultbranchname", Plain),
            ("addembeddedrepo", Plain),
        ],
    },
    Allowed {
        section: "receive",
        subsection: false,
        keys: &[
            (
                "denycurrentbranch",
                Word(&["ignore", "warn", "refuse", "updateinstead"]),
            ),
            ("denynonfastforwards", Plain),
        ],
    },
];

/// Returns whether a setting is data only: git runs no program and reads no other settings because
/// of it.
pub(crate) fn is_data(entry: &Entry) -> bool {
    let value = entry.value.as_deref().unwrap_or("true");
    let plain = |text: &str| text.len() <= MAX_VALUE_BYTES && !text.chars().any(char::is_control);
    if !plain(value) || !entry.subsection.as_deref().is_none_or(plain) {
        return false;
    }
    let mut sections = ALLOWED.iter().filter(|allowed| {
        allowed.section == entry.section && allowed.subsection == entry.subsection.is_some()
    });
    let key = entry.key.to_ascii_lowercase();
    sections.any(|allowed| {
        let mut keys = allowed.keys.iter();
        keys.any(|(name, check)| *name == key && fits(*check, value))
    })
}

fn fits(check: Check, value: &str) -> bool {
    let word = value.to_ascii_lowercase();
    let truth = matches!(
        word.as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off"
    );
    let number =
        !word.is_empty() && word.len() <= 9 && word.bytes().all(|byte| byte.is_ascii_digit());
    match check {
        Text => true,
        Plain => truth || number,
        // `false` alone disables a feature; the other words permit a boolean as well.
        Word(["false"]) => word == "false",
        Word(words) => words.contains(&word.as_str()) || truth || number,
        Address => is_address(value),
    }
}

/// Returns whether a URL names a location and no program: `ext::sh -c …` and other remote helpers
/// contain `::`, and a leading dash makes it an option.
fn is_address(value: &str) -> bool {
    !value.contains("::") && !value.starts_with('-')
}

/// Settings reduced to data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reduced {
    pub(crate) text: String,
    /// The names of the dropped settings; `?` for text that could not be parsed.
    pub(crate) dropped: Vec<String>,
}

/// Reduces settings to those that never make git run a program.
pub(crate) fn reduce(text: &str) -> Reduced {
    let settings = parse(text);
    let mut reduced = Reduced {
        text: String::new(),
        dropped: Vec::new(),
    };
    let mut last = None;
    for entry in &settings.entries {
        if !is_data(entry) {
            reduced.dropped.push(entry.name());
            continue;
        }
        let section = (&entry.section, &entry.subsection);
        if last != Some(section) {
            let header = match &entry.subsection {
                Some(name) => format!("[{} \"{}\"]", entry.section, escaped(name)),
                None => format!("[{}]", entry.section),
            };
            reduced.text.push_str(&header);
            reduced.text.push('\n');
            last = Some(section);
        }
        let value = entry.value.as_deref().unwrap_or("true");
        let value = if needs_quotes(value) {
            format!("\"{}\"", escaped(value))
        } else {
            escaped(value)
        };
        // Writing into a `String` does not fail.
        writeln!(reduced.text, "\t{} = {value}", entry.key).ok();
    }
    if !settings.whole {
        reduced.dropped.push("?".to_owned());
    }
    reduced
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn needs_quotes(value: &str) -> bool {
    value.starts_with(' ') || value.ends_with(' ') || value.contains(['#', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(section: &str, sub: Option<&str>, key: &str, value: Option<&str>) -> Entry {
        Entry {
            section: section.into(),
            subsection: sub.map(Into::into),
            key: key.into(),
            value: value.map(Into::into),
        }
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "\u{feff}; x\n[Core] bare = false # no\r\n\tfsMonitor = \"a \\\"b\\\" ; c\" d \n\
            [remote \"o\\\"r \\\\x\"]\nurl=a\\\nb\n[alias]\nx\n[filter.LFS]\n clean = git  lfs\n";
        let settings = parse(text);
        assert!(settings.whole);
        assert_eq!(
            settings.entries,
            [
                entry("core", None, "bare", Some("false")),
                entry("core", None, "fsMonitor", Some("a \"b\" ; c d")),
                entry("remote", Some("o\"r \\x"), "url", Some("ab")),
                entry("alias", None, "x", None),
                entry("filter", Some("lfs"), "clean", Some("git  lfs")),
            ]
        );
        for wrong in [
            "x = 1",
            "[core\nx = 1",
            "[core]\n1x",
            "[core]\nx = \"a",
            "[a \"b\n\"]",
        ] {
            assert!(!parse(wrong).whole, "{wrong}");
        }
    }

    #[test]
    fn what_git_init_and_clone_write_is_kept_byte_for_byte() {
        let text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
            \tlogallrefupdates = true\n[remote \"origin\"]\n\turl = https://host/a.git\n\
            \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\
            \tmerge = refs/heads/main\n[user]\n\tname = 分 析\n\temail = a@b\n";
        let reduced = reduce(text);
        assert_eq!(reduced.text, text);
        assert_eq!(reduced.dropped, Vec::<String>::new());
    }

    #[test]
    fn settings_that_run_a_program_are_dropped() {
        let text = "[core]\n\tbare = false\n\tfsmonitor = x\n\thooksPath = x\n\tpager = x\n\
            \tworktree = /home\n[diff]\n\texternal = x\n[diff \"a\"]\n\ttextconv = x\n\
            [filter \"a\"]\n\tclean = x\n[alias]\n\tstatus = !x\n[include]\n\tpath = x\n\
            [includeIf \"gitdir:/\"]\n\tpath = x\n[extensions]\n\tworktreeConfig = true\n\
            [remote \"o\"]\n\turl = ext::sh -c x\n\tuploadpack = x\n\turl = -x\n\
            [submodule \"a\"]\n\tupdate = !x\n[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = x\n\
            [credential]\n\thelper = !x\n[core]\n\tsshCommand = x\n[user]\n\tname = \"a\\nb\"\n";
        let reduced = reduce(text);
        assert_eq!(reduced.text, "[core]\n\tbare = false\n");
        assert_eq!(reduced.dropped.len(), 20);
    }

    #[test]
    fn kept_settings_survive_a_round_trip() {
        let awkward = entry("remote", Some("a\"b\\c]"), "url", Some(" x # \"y\" \\ ; "));
        let text = "[remote \"a\\\"b\\\\c]\"]\n url = \" x # \\\"y\\\" \\\\ ; \"\n";
        assert_eq!(parse(text).entries, std::slice::from_ref(&awkward));
        let reduced = reduce(text);
        assert_eq!(parse(&reduced.text).entries, [awkward]);
        assert_eq!(reduce(&reduced.text).text, reduced.text);
    }
}
