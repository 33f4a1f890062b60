//! The table of files that a command must not change: files that affect what *other* programs do,
//! outside the sandbox and without a person's request (P15).
//!
//! Left out on purpose: files that act only when a person builds or installs the project
//! (`package.json`, `.npmrc`, `Makefile`, `build.rs`, `.cargo/config.toml`, workflows of a forge).
//! Writing those is the work of a coding agent, and its reviewer reads them like any other code.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A path that a command must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// The path relative to the workspace.
    pub path: PathBuf,
    /// How the path is protected while it does not exist.
    pub absent: WhileAbsent,
}

/// How a missing path is kept from being created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileAbsent {
    /// An empty folder stands in its place while commands run. Git does not see empty folders, and
    /// removing one loses nothing.
    StandIn,
    /// A file with this content stands in its place while commands run: programs outside the
    /// sandbox treat it like a missing file.
    File(&'static str),
    /// Whatever appears is moved aside when the command has ended. For names where a folder would
    /// disturb programs outside the sandbox.
    Watch,
}

/// One row of the table of protected names.
struct Row {
    name: &'static str,
    absent: WhileAbsent,
    /// Whether programs act on the name in any folder that a person opens or enters, and not only
    /// at the top of a project. File tools never write such a name.
    anywhere: bool,
}

const fn covered(name: &'static str) -> Row {
    Row {
        name,
        absent: WhileAbsent::StandIn,
        anywhere: true,
    }
}

/// Returns a row that is watched. Each stand-in costs two mounts per command, so rarely used names
/// are watched, including folders.
const fn watched(name: &'static str) -> Row {
    Row {
        name,
        absent: WhileAbsent::Watch,
        anywhere: true,
    }
}

const fn watched_at_top(name: &'static str) -> Row {
    Row {
        name,
        absent: WhileAbsent::Watch,
        anywhere: false,
    }
}

/// The content of a `commondir` that git treats like a missing file: the common folder of a git
/// folder is the folder itself.
const SAME_FOLDER: &str = ".\n";

/// Files that a person's programs obey without a request: agents, editors, shells and git hooks. A
/// name belongs here if a program reads it because a folder is opened or entered, or because git is
/// used, and it can make that program run another one. Files that are only text for a model
/// (`AGENTS.md`, `CLAUDE.md`), only formatting (`.editorconfig`), or act only when a project is
/// built do not belong here.
const ROWS: &[Row] = &[
    // Agents and tools that Sortie or other programs start next, and their permissions.
    covered(".sortie"),
    covered("sortie.toml"),
    covered(".claude"),
    covered(".agents"),
    covered(".codex"),
    covered(".gemini"),
    covered(".qwen"),
    covered(".opencode"),
    watched("opencode.json"),
    watched("opencode.jsonc"),
    covered(".mcp.json"),
    covered(".roo"),
    watched(".roomodes"),
    watched(".cline"),
    watched(".clinerules"),
    watched(".kilocode"),
    covered(".kiro"),
    covered(".windsurf"),
    covered(".continue"),
    watched(".continuerc.json"),
    covered(".amazonq"),
    watched(".augment"),
    watched(".junie"),
    watched(".trae"),
    watched(".goose"),
    watched(".crush"),
    watched(".crush.json"),
    watched("crush.json"),
    watched(".aider.conf.yml"),
    watched(".factory"),
    watched(".copilot"),
    // Editors and environments run tasks and start servers from these when a folder is opened.
    covered(".cursor"),
    covered(".vscode"),
    watched(".vs"),
    covered(".idea"),
    watched(".fleet"),
    covered(".zed"),
    watched(".theia"),
    covered(".helix"),
    watched(".nvim"),
    covered(".devcontainer"),
    watched(".devcontainer.json"),
    watched(".gitpod.yml"),
    watched(".nvim.lua"),
    watched(".nvimrc"),
    watched(".exrc"),
    watched(".vimrc"),
    watched(".gvimrc"),
    watched(".lvimrc"),
    watched(".local.vimrc"),
    watched(".dir-locals.el"),
    watched(".dir-locals-2.el"),
    // Run when a person's shell enters the folder.
    covered(".envrc"),
    watched(".env.fish"),
    watched(".autoenv"),
    watched(".autoenv.zsh"),
    watched(".mise"),
    watched(".mise.toml"),
    watched(".mise.local.toml"),
    watched("mise.toml"),
    watched("mise.local.toml"),
    watched(".hermit"),
    watched("devenv.local.nix"),
    // Git hooks by another name: they act at the top of a repository.
    covered(".husky"),
    watched_at_top(".huskyrc"),
    watched_at_top(".pre-commit-config.yaml"),
    watched_at_top(".pre-commit-config.yml"),
    watched_at_top("lefthook.yml"),
    watched_at_top("lefthook.yaml"),
    watched_at_top("lefthook.toml"),
    watched_at_top("lefthook.json"),
    watched_at_top(".lefthook.yml"),
    watched_at_top(".lefthook.yaml"),
    watched_at_top(".lefthook.toml"),
    watched_at_top(".lefthook.json"),
    watched_at_top("lefthook-local.yml"),
    watched_at_top("lefthook-local.yaml"),
    watched_at_top(".lefthook-local.yml"),
    watched_at_top(".lefthook-local.yaml"),
    watched_at_top(".lefthookrc"),
    watched(".lefthook"),
    watched(".lefthook-local"),
    watched_at_top(".overcommit.yml"),
    watched(".git-hooks"),
    // Settings of other version control systems, which run the programs that they name.
    watched(".hg"),
    watched(".sl"),
    watched(".jj"),
    watched(".bzr"),
];

/// Name suffixes of files that open a whole project in an editor.
const ENDINGS: &[&str] = &[".code-workspace", ".sublime-project"];

/// Names inside the git folder of the workspace, and inside any other git folder that a command can
/// reach.
///
/// A hook, a filter or a monitor in `config` or `hooks` runs at the next `git status` of a person.
/// `modules` and `worktrees` contain git folders of submodules and linked worktrees; no new one can
/// be created there. Git reads `config.worktree` only where a setting enables it, and an empty one
/// sets nothing. `commondir` names another folder as the one with settings and hooks.
pub(crate) const IN_GIT_FOLDER: &[(&str, WhileAbsent)] = &[
    ("hooks", WhileAbsent::StandIn),
    ("config", WhileAbsent::StandIn),
    ("modules", WhileAbsent::StandIn),
    ("worktrees", WhileAbsent::StandIn),
    ("config.worktree", WhileAbsent::File("")),
    ("commondir", WhileAbsent::File(SAME_FOLDER)),
];

/// Names inside the small folder of a linked worktree, which has neither hooks nor settings.
pub(crate) const IN_LINKED_FOLDER: &[(&str, WhileAbsent)] = &[
    ("modules", WhileAbsent::StandIn),
    ("config.worktree", WhileAbsent::File("")),
    ("commondir", WhileAbsent::Watch),
    ("gitdir", WhileAbsent::Watch),
];

/// Files of a home folder that programs run or obey when a person logs in, opens a shell, a
/// terminal or an editor, or starts a command. A stand-in could lock a person out, so these are
/// watched.
pub(crate) const IN_HOME: &[&str] = &[
    ".ackrc",
    ".bash_aliases",
    ".bash_completion",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".bashrc.d",
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".config/alacritty",
    ".config/atuin",
    ".config/autostart",
    ".config/autostart-scripts",
    ".config/bash",
    ".config/direnv",
    ".config/emacs",
    ".config/environment.d",
    ".config/fish",
    ".config/foot",
    ".config/ghostty",
    ".config/git",
    ".config/helix",
    ".config/hypr",
    ".config/i3",
    ".config/kitty",
    ".config/lazygit",
    ".config/mise",
    ".config/nushell",
    ".config/nvim",
    ".config/plasma-workspace",
    ".config/starship.toml",
    ".config/sway",
    ".config/systemd",
    ".config/tmux",
    ".config/user-tmpfiles.d",
    ".config/vim",
    ".config/wezterm",
    ".config/zed",
    ".config/zellij",
    ".config/zsh",
    ".config/Code",
    ".cshrc",
    ".doom.d",
    ".emacs",
    ".emacs.d",
    ".emacs.el",
    ".gdbinit",
    ".gdbearlyinit",
    ".gitconfig",
    ".gvimrc",
    ".hgrc",
    ".ideavimrc",
    ".inputrc",
    ".irbrc",
    ".kshrc",
    ".lesskey",
    ".lldbinit",
    ".local/bin",
    ".local/share/applications",
    ".local/share/bash-completion",
    ".local/share/dbus-1",
    ".local/share/fish",
    ".local/share/nvim",
    ".local/share/systemd",
    ".login",
    ".logout",
    ".mkshrc",
    ".nvimrc",
    ".oh-my-zsh",
    ".pam_environment",
    ".pdbrc",
    ".profile",
    ".psqlrc",
    ".pythonrc",
    ".screenrc",
    ".spacemacs",
    ".spacemacs.d",
    ".ssh",
    ".tclshrc",
    ".tcshrc",
    ".tmux",
    ".tmux.conf",
    ".vim",
    ".vimrc",
    ".wezterm.lua",
    ".xinitrc",
    ".xprofile",
    ".xserverrc",
    ".xsession",
    ".xsessionrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zsh",
    ".zshenv",
    ".zshrc",
    "bin",
];

/// Returns the protected paths that every policy starts from.
pub fn usual() -> Vec<Protected> {
    let named = ROWS.iter().map(|row| Protected {
        path: PathBuf::from(row.name),
        absent: row.absent,
    });
    let in_git = IN_GIT_FOLDER.iter().map(|(name, absent)| Protected {
        path: Path::new(".git").join(name),
        absent: *absent,
    });
    named.chain(in_git).collect()
}

/// Returns whether programs act on a file or folder of this name in any folder.
pub fn acts_in_any_folder(name: &OsStr) -> bool {
    let mut rows = ROWS.iter().filter(|row| row.anywhere);
    let ends = |ending: &&str| {
        let (name, ending) = (name.as_encoded_bytes(), ending.as_bytes());
        let start = name.len().checked_sub(ending.len());
        start.is_some_and(|start| name[start..].eq_ignore_ascii_case(ending))
    };
    // Some file systems ignore case.
    rows.any(|row| name.eq_ignore_ascii_case(row.name)) || ENDINGS.iter().any(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_there_once() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.extend(IN_HOME);
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        // These act both in a home folder and in a project.
        let both = [".gvimrc", ".nvimrc", ".vimrc"];
        assert_eq!(all, names.len() + both.len());
    }

    #[test]
    fn names_of_ordinary_work_are_not_protected() {
        for name in [
            "AGENTS.md",
            "CLAUDE.md",
            "package.json",
            "Makefile",
            "build.rs",
            ".gitignore",
            ".gitattributes",
            ".gitmodules",
            ".editorconfig",
            ".prettierrc",
            ".eslintrc.json",
            ".github",
            ".npmrc",
            ".env",
            ".tool-versions",
            "config",
            "hooks",
            "HEAD",
            ".cargo",
        ] {
            assert!(!acts_in_any_folder(OsStr::new(name)), "{name}");
            assert!(
                !usual().iter().any(|one| one.path == Path::new(name)),
                "{name}"
            );
        }
        for name in [".envrc", ".VSCode", "a.code-workspace", ".claude"] {
            assert!(acts_in_any_folder(OsStr::new(name)), "{name}");
        }
    }
}
