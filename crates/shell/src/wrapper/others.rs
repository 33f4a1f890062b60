//! Programs that start a command only with certain subcommands or options.

/// Programs with a subcommand, of one or two words, that starts the command after it, and the
/// number of words between the two. With an empty subcommand the program itself starts the command.
pub(crate) const MANAGERS: &[(&str, &str, usize)] = &[
    ("asdf", "exec", 0),
    ("bun", "x", 0),
    ("bunx", "", 0),
    ("bundle", "exec", 0),
    ("conda", "run", 0),
    ("direnv", "exec", 1),
    ("hatch", "run", 0),
    ("ip", "netns exec", 1),
    ("ip", "vrf exec", 1),
    ("mamba", "run", 0),
    ("mise", "exec", 0),
    ("mise", "x", 0),
    ("npm", "exec", 0),
    ("npm", "x", 0),
    ("npx", "", 0),
    ("pdm", "run", 0),
    ("perf", "record", 0),
    ("perf", "stat", 0),
    ("perf", "trace", 0),
    ("pipenv", "run", 0),
    ("pipx", "run", 0),
    ("pixi", "run", 0),
    ("pnpm", "dlx", 0),
    ("pnpm", "exec", 0),
    ("poetry", "run", 0),
    ("rustup", "run", 1),
    ("rye", "run", 0),
    ("uv", "run", 0),
    ("uv", "tool run", 0),
    ("uvx", "", 0),
    ("yarn", "exec", 0),
];

/// Programs, their short options with other values, and their options whose value is a command.
pub(crate) const OPTION_TEXTS: &[(&str, &str, &[&str])] = &[
    ("less", "", &["--lessopen"]),
    ("man", "CEHLMRSTXZemprs", &["-P", "--pager"]),
    ("rsync", "@BMTf", &["-e", "--rsh", "--rsync-path"]),
    ("sort", "", &["--compress-program"]),
    ("split", "", &["--filter"]),
    (
        "tar",
        "CHKLNTVXbfg",
        &[
            "-F",
            "-I",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rmt-command",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ],
    ),
    ("zip", "", &["-TT", "--unzip-command"]),
];

/// Programs that start commands in ways that this crate does not parse.
pub(crate) const UNREAD: &[&str] = &[
    "at",
    "batch",
    "capsh",
    "execlineb",
    "expect",
    "gdb",
    "hyperfine",
    "lldb",
    "newgrp",
    "pee",
    "mispipe",
    "screen",
    "tmux",
    "zellij",
];
