//! Lets file work check policy for the objects that it has opened.

use std::fmt;
use std::path::Path;

/// The verdict of policy about one path; the error is a sentence with the reason.
pub(crate) type Verdict = Result<(), String>;

/// Checks policy for a path, relative to the workspace and without links.
pub(crate) struct PathGate(Box<dyn Fn(&Path) -> Verdict + Send + Sync>);

impl PathGate {
    /// Permits everything without a check.
    pub(crate) fn open() -> Self {
        Self::deciding(|_| Ok(()))
    }

    /// Creates a gate that decides by a function.
    pub(crate) fn deciding(decide: impl Fn(&Path) -> Verdict + Send + Sync + 'static) -> Self {
        Self(Box::new(decide))
    }

    /// Returns the verdict of policy about this path.
    pub(crate) fn judge(&self, path: &Path) -> Verdict {
        (self.0)(path)
    }
}

impl fmt::Debug for PathGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}
