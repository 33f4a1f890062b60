//! Summarises the changes between two commits, for people and models.

use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::At as _;
use crate::git::{Call, Git};
use crate::own_git::OwnGit;
use crate::{Result, WorktreeError};

/// The most bytes of a diff that are returned as text.
pub const MAX_DIFF_BYTES: usize = 64 << 10;
/// The most files that are listed individually.
pub const MAX_LISTED_FILES: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    pub path: String,
    /// The earlier path, if the file was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// The numbers of added and removed lines; `None` if it is not text.
    pub lines: Option<(u64, u64)>,
}

/// The summary of the changes.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) files: Vec<ChangedFile>,
    pub(crate) file_count: usize,
    pub(crate) insertions: u64,
    pub(crate) deletions: u64,
    pub(crate) diff: String,
    pub(crate) is_diff_cut: bool,
}

/// Two commits, and the git folder to read them with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between<'a> {
    pub(crate) git: &'a Git,
    pub(crate) own: &'a OwnGit,
    pub(crate) base: &'a str,
    pub(crate) commit: &'a str,
}

impl Between<'_> {
    fn call(&self, options: &[&str]) -> Call<'_> {
        let call = self.git.on(&self.own.dir);
        let call = call.args(["diff-tree", "-r", "--no-ext-diff", "--no-textconv", "-M"]);
        call.args(options).args([self.base, self.commit, "--"])
    }

    /// Counts the changes and returns the beginning of the diff.
    pub(crate) async fn summary(&self) -> Result<Summary> {
        let numbers = self.call(&["--numstat", "-z"]).output().await?;
        let mut files = parse(&numbers).ok_or_else(|| WorktreeError::Strange {
            what: "diff-tree".to_owned(),
        })?;
        let (diff, is_diff_cut) = self.text().await?;
        let sum = |pick: fn(&(u64, u64)) -> u64| {
            let lines = files.iter().filter_map(|file| file.lines.as_ref());
            lines.map(pick).sum()
        };
        let (insertions, deletions) = (sum(|lines| lines.0), sum(|lines| lines.1));
        let file_count = files.len();
        files.truncate(MAX_LISTED_FILES);
        Ok(Summary {
            files,
            file_count,
            insertions,
            deletions,
            diff,
            is_diff_cut,
        })
    }

    /// Returns the beginning of the diff, up to a whole line; `true` if there is more.
    pub(crate) async fn text(&self) -> Result<(String, bool)> {
        let answer = self.call(&["-p"]).beginning(MAX_DIFF_BYTES).await?;
        let mut bytes = answer.output;
        if answer.is_cut {
            let end = bytes.iter().rposition(|byte| *byte == b'\n');
            bytes.truncate(end.map_or(bytes.len(), |at| at + 1));
        }
        Ok((String::from_utf8_lossy(&bytes).into_owned(), answer.is_cut))
    }

    /// Writes the complete diff as a patch.
    pub(crate) async fn patch(&self, path: &Path) -> Result<()> {
        let file = File::create(path).at("write", path)?;
        let call = self.call(&["-p", "--binary", "--full-index"]);
        call.output_to(file).await
    }
}

/// Parses `added<TAB>removed<TAB>path<NUL>`, or `added<TAB>removed<TAB><NUL>before<NUL>path<NUL>`
/// for a move.
fn parse(bytes: &[u8]) -> Option<Vec<ChangedFile>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut files = Vec::new();
    let mut parts = bytes.split(|byte| *byte == 0);
    while let Some(part) = parts.next() {
        if part.is_empty() {
            break;
        }
        let mut fields = part.splitn(3, |byte| *byte == b'\t');
        let (came, went, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (moved_from, path) = if path.is_empty() {
            (Some(text(parts.next()?)), text(parts.next()?))
        } else {
            (None, text(path))
        };
        files.push(ChangedFile {
            path,
            moved_from,
            lines: number(came).zip(number(went)),
        });
    }
    Some(files)
}

fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        let show = |bytes: &[u8]| -> String {
            let files = parse(bytes).expect("well formed");
            let lines = files.iter().map(|file| {
                let from = file.moved_from.as_deref().unwrap_or("-");
                format!("{:?} {from:?} {:?}\n", file.path, file.lines)
            });
            lines.collect()
        };
        assert_eq!(show(b""), "");
        assert_eq!(
            show(b"1\t2\ta b\0-\t-\tpicture\x000\t0\t\0old\0new\0"),
            "\"a b\" \"-\" Some((1, 2))\n\"picture\" \"-\" None\n\"new\" \"old\" Some((0, 0))\n"
        );
        assert_eq!(
            show(b"3\t0\ttab\tin name\0"),
            "\"tab\\tin name\" \"-\" Some((3, 0))\n"
        );
        assert!(parse(b"nonsense\0").is_none());
    }
}
