//! Programs that start the command in their own arguments, and how their options are read.

use crate::script::Word;

/// How a program starts another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The remaining words are the program and its arguments.
    Words,
    /// The remaining words are joined and read by a shell.
    Line,
}

/// One program that starts another.
#[derive(Debug)]
pub(crate) struct Wrapper {
    names: &'static [&'static str],
    /// Short options without a value.
    flags: &'static str,
    /// Short options with a value.
    valued: &'static str,
    long_flags: &'static [&'static str],
    long_valued: &'static [&'static str],
    /// How many words stand between the options and the command.
    operands: usize,
    pub(crate) runs: Runs,
    /// Whether `NAME=value` may stand before the command.
    pub(crate) assigns: bool,
}

const PLAIN: Wrapper = Wrapper {
    names: &[],
    flags: "",
    valued: "",
    long_flags: &[],
    long_valued: &[],
    operands: 0,
    runs: Runs::Words,
    assigns: false,
};

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["nohup", "builtin", "busybox", "toybox", "fakeroot"],
        ..PLAIN
    },
    Wrapper {
        names: &["env"],
        flags: "iv0",
        valued: "uC",
        long_flags: &["ignore-environment", "null", "debug"],
        long_valued: &["unset", "chdir"],
        assigns: true,
        ..PLAIN
    },
    Wrapper {
        names: &["sudo"],
        flags: "ABbEeHiKklNnPSsVv",
        valued: "CDghpRrTtUu",
        long_flags: &[
            "askpass",
            "background",
            "bell",
            "edit",
            "login",
            "non-interactive",
            "preserve-env",
            "preserve-groups",
            "reset-timestamp",
            "set-home",
            "shell",
            "stdin",
        ],
        long_valued: &[
            "chdir",
            "chroot",
            "close-from",
            "command-timeout",
            "group",
            "host",
            "other-user",
            "prompt",
            "role",
            "type",
            "user",
        ],
        assigns: true,
        ..PLAIN
    },
    Wrapper {
        names: &["doas"],
        flags: "Lns",
        valued: "aCu",
        ..PLAIN
    },
    Wrapper {
        names: &["pkexec"],
        long_valued: &["user"],
        ..PLAIN
    },
    Wrapper {
        names: &["setsid"],
        flags: "cfw",
        long_flags: &["ctty", "fork", "wait"],
        ..PLAIN
    },
    Wrapper {
        names: &["nice"],
        flags: "0123456789",
        valued: "n",
        long_valued: &["adjustment"],
        ..PLAIN
    },
    Wrapper {
        names: &["ionice"],
        flags: "t",
        valued: "cn",
        long_flags: &["ignore"],
        long_valued: &["class", "classdata"],
        ..PLAIN
    },
    Wrapper {
        names: &["timeout"],
        flags: "vfp",
        valued: "ks",
        long_flags: &["foreground", "preserve-status", "verbose"],
        long_valued: &["kill-after", "signal"],
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["time"],
        flags: "apqv",
        valued: "fo",
        long_flags: &["append", "portability", "quiet", "verbose"],
        long_valued: &["format", "output"],
        ..PLAIN
    },
    Wrapper {
        names: &["stdbuf"],
        valued: "eio",
        long_valued: &["error", "input", "output"],
        ..PLAIN
    },
    Wrapper {
        names: &["command"],
        flags: "p",
        ..PLAIN
    },
    Wrapper {
        names: &["exec"],
        flags: "cl",
        valued: "a",
        ..PLAIN
    },
    Wrapper {
        names: &["chroot"],
        long_flags: &["skip-chdir"],
        long_valued: &["groups", "userspec"],
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["taskset"],
        flags: "ac",
        long_flags: &["all-tasks", "cpu-list"],
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["flock"],
        flags: "Feonsux",
        valued: "Ew",
        long_flags: &["close", "exclusive", "nonblock", "shared", "unlock"],
        long_valued: &["timeout", "wait"],
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["strace", "ltrace"],
        flags: "CcdFfhiqrTtvxyZz",
        valued: "abEeIOoPpSsuX",
        ..PLAIN
    },
    Wrapper {
        names: &["caffeinate"],
        flags: "dimsu",
        valued: "tw",
        ..PLAIN
    },
    Wrapper {
        names: &["unshare"],
        flags: "CfimnprTUu",
        long_flags: &[
            "fork",
            "ipc",
            "map-root-user",
            "mount",
            "net",
            "pid",
            "user",
        ],
        ..PLAIN
    },
    Wrapper {
        names: &["xargs"],
        flags: "0oprtx",
        valued: "adEILnPs",
        long_flags: &[
            "interactive",
            "no-run-if-empty",
            "null",
            "open-tty",
            "verbose",
        ],
        long_valued: &[
            "arg-file",
            "delimiter",
            "max-args",
            "max-chars",
            "max-procs",
        ],
        ..PLAIN
    },
    Wrapper {
        names: &["watch"],
        flags: "bcdegprtwx",
        valued: "nq",
        long_flags: &[
            "beep",
            "color",
            "differences",
            "errexit",
            "exec",
            "no-title",
            "precise",
        ],
        long_valued: &["interval"],
        runs: Runs::Line,
        ..PLAIN
    },
    Wrapper {
        names: &["ssh"],
        flags: "46AaCfGgKkMNnqsTtVvXxYy",
        valued: "BbcDEeFIiJLlmOopQRSWw",
        operands: 1,
        runs: Runs::Line,
        ..PLAIN
    },
    Wrapper {
        names: &["parallel"],
        flags: "0kmqtuvX",
        valued: "ajILNn",
        long_flags: &[
            "bar",
            "dry-run",
            "eta",
            "keep-order",
            "null",
            "progress",
            "verbose",
        ],
        long_valued: &["arg-file", "delay", "jobs", "joblog", "retries", "timeout"],
        runs: Runs::Line,
        ..PLAIN
    },
];

/// Finds the wrapper of this name.
pub(crate) fn find(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS
        .iter()
        .find(|wrapper| wrapper.names.contains(&name))
}

/// Where the inner command begins, and whether that is certain.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) rest: &'a [Word],
    pub(crate) certain: bool,
}

impl Wrapper {
    /// Skips the options and operands before the inner command.
    pub(crate) fn skip<'a>(&self, arguments: &'a [Word]) -> Start<'a> {
        let mut rest = arguments;
        let mut certain = true;
        while let Some((word, after)) = rest.split_first() {
            let taken = match word {
                Word::Known(text) => self.option(text),
                // It may become anything, options included.
                Word::Unknown(_) => Taken::Nothing,
            };
            match taken {
                Taken::Nothing => break,
                Taken::End => {
                    rest = after;
                    break;
                }
                Taken::Flag => rest = after,
                Taken::WithNext => rest = after.get(1..).unwrap_or_default(),
                Taken::Strange => {
                    certain = false;
                    rest = after;
                }
            }
        }
        let skipped = rest.get(..self.operands).unwrap_or(rest);
        certain &= skipped.iter().all(|word| word.known().is_some());
        Start {
            rest: rest.get(self.operands..).unwrap_or_default(),
            certain,
        }
    }

    fn option(&self, text: &str) -> Taken {
        if text == "--" {
            return Taken::End;
        }
        if let Some(long) = text.strip_prefix("--") {
            return match long.split_once('=') {
                Some((name, _)) if self.long_valued.contains(&name) => Taken::Flag,
                None if self.long_valued.contains(&long) => Taken::WithNext,
                _ if self
                    .long_flags
                    .contains(&long.split('=').next().unwrap_or(long)) =>
                {
                    Taken::Flag
                }
                _ => Taken::Strange,
            };
        }
        match text.strip_prefix('-') {
            Some("") if self.assigns => Taken::Flag,
            Some("") | None => Taken::Nothing,
            Some(cluster) => self.cluster(cluster),
        }
    }

    fn cluster(&self, cluster: &str) -> Taken {
        let mut letters = cluster.chars();
        while let Some(letter) = letters.next() {
            if self.valued.contains(letter) {
                let attached = !letters.as_str().is_empty();
                return if attached {
                    Taken::Flag
                } else {
                    Taken::WithNext
                };
            }
            if !self.flags.contains(letter) {
                return Taken::Strange;
            }
        }
        Taken::Flag
    }
}

/// What an option takes with it.
enum Taken {
    Nothing,
    End,
    Flag,
    WithNext,
    Strange,
}
