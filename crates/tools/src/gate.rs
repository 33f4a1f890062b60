//! Lets file work ask policy about the objects that it has opened.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

/// The verdict of policy about one path; the error is a sentence with the reason.
pub(crate) type Verdict = Result<(), String>;

/// Asks policy about paths, relative to the workspace and without links.
pub(crate) struct PathGate(Box<dyn Fn(Vec<PathBuf>) -> Vec<Verdict> + Send + Sync>);

/// A request of blocking work for verdicts about paths. The policy is borrowed from the call, which
/// the thread of the work may outlive; so the call itself answers while it exists.
#[derive(Debug)]
pub(crate) struct PathCheck {
    pub(crate) paths: Vec<PathBuf>,
    /// Receives the verdicts, one for each path.
    pub(crate) answer: oneshot::Sender<Vec<Verdict>>,
}

impl PathGate {
    /// Permits everything without a check.
    pub(crate) fn open() -> Self {
        Self::deciding(|_| Ok(()))
    }

    /// Creates a gate that decides by a function.
    pub(crate) fn deciding(decide: impl Fn(&Path) -> Verdict + Send + Sync + 'static) -> Self {
        Self(Box::new(move |paths| {
            paths.iter().map(|path| decide(path)).collect()
        }))
    }

    /// Creates a gate that sends paths to the receiver of the channel for a decision; denies everything once the receiver is
    /// dropped.
    pub(crate) fn over_channel(checks: mpsc::Sender<PathCheck>) -> Self {
        Self(Box::new(move |paths| {
            let count = paths.len();
            let (answer, verdicts) = oneshot::channel();
            let sent = checks.blocking_send(PathCheck { paths, answer }).is_ok();
            let verdicts = sent.then(|| verdicts.blocking_recv().ok()).flatten();
            let verdicts = verdicts.filter(|verdicts| verdicts.len() == count);
            verdicts.unwrap_or_else(|| vec![Err("the call was stopped".to_owned()); count])
        }))
    }

    /// Returns the verdict of policy about this path.
    pub(crate) fn judge(&self, path: &Path) -> Verdict {
        let verdicts = self.judge_all(vec![path.to_owned()]);
        verdicts.into_iter().collect()
    }

    /// Returns the verdict of policy about each of these paths.
    pub(crate) fn judge_all(&self, paths: Vec<PathBuf>) -> Vec<Verdict> {
        (self.0)(paths)
    }
}

impl fmt::Debug for PathGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}
