//! Where file work asks policy about what it has really opened.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

/// What policy says about one path; the sentence says why not.
pub(crate) type Verdict = Result<(), String>;

/// Asks about paths, relative to the workspace and without links.
pub(crate) struct Gate(Box<dyn Fn(Vec<PathBuf>) -> Vec<Verdict> + Send + Sync>);

/// Paths that blocking work waits to hear about. A policy is borrowed from the call, which the
/// thread of the work may outlive; so the call itself answers, as long as there is one.
#[derive(Debug)]
pub(crate) struct Question {
    /// Which ones.
    pub(crate) paths: Vec<PathBuf>,
    /// Where the verdicts go, one for each.
    pub(crate) answer: oneshot::Sender<Vec<Verdict>>,
}

impl Gate {
    /// Permits everything without a check.
    pub(crate) fn open() -> Self {
        Self::deciding(|_| Ok(()))
    }

    /// Decides by itself.
    pub(crate) fn deciding(decide: impl Fn(&Path) -> Verdict + Send + Sync + 'static) -> Self {
        Self(Box::new(move |paths| {
            paths.iter().map(|path| decide(path)).collect()
        }))
    }

    /// Asks the holder of the other end; denies everything once that end is dropped.
    pub(crate) fn asking(questions: mpsc::Sender<Question>) -> Self {
        Self(Box::new(move |paths| {
            let count = paths.len();
            let (answer, verdicts) = oneshot::channel();
            let asked = questions.blocking_send(Question { paths, answer }).is_ok();
            let verdicts = asked.then(|| verdicts.blocking_recv().ok()).flatten();
            let verdicts = verdicts.filter(|verdicts| verdicts.len() == count);
            verdicts.unwrap_or_else(|| vec![Err("the call was stopped".to_owned()); count])
        }))
    }

    /// What policy says about this path.
    pub(crate) fn judge(&self, path: &Path) -> Verdict {
        let verdicts = self.judge_all(vec![path.to_owned()]);
        verdicts.into_iter().collect()
    }

    /// What policy says about each of these paths.
    pub(crate) fn judge_all(&self, paths: Vec<PathBuf>) -> Vec<Verdict> {
        (self.0)(paths)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}
