//! What a shell command is started in.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use sortie_core::ToolFailure;

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The folder it works on.
    pub workspace: PathBuf,
}

/// Turns a program to start into the one that is really started.
///
/// Implementers guarantee that the program they return runs the given one under their rules, and
/// that they refuse, rather than let it run without them, where the rules cannot be applied.
pub trait Sandbox: Send + Sync + fmt::Debug {
    /// The program that is really started.
    fn confine(&self, request: ExecRequest) -> Result<ExecRequest, ToolFailure>;
}

/// No sandbox: an operator's explicit choice.
#[derive(Clone, Copy, Debug)]
pub struct Unconfined;

impl Sandbox for Unconfined {
    fn confine(&self, request: ExecRequest) -> Result<ExecRequest, ToolFailure> {
        Ok(request)
    }
}
