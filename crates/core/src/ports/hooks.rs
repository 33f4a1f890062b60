//! The port to hooks: runs their commands and sends their letters.

use std::fmt;
use std::path::Path;

use async_trait::async_trait;

use crate::hook::{HookOutput, Letter};
use crate::time::Timestamp;

/// Runs the commands of hooks and delivers letters to them. Implementers guarantee that a command ends
/// when the returned future is dropped, or when this process ends, and that its output is bounded.
#[async_trait]
pub trait Hooks: Send + Sync + fmt::Debug {
    /// Runs the command of a hook with this input, in this folder. The error says why it gave no
    /// answer.
    async fn run(&self, hook: &str, input: &str, folder: &Path) -> Result<HookOutput, String>;
    /// Delivers a letter at this time. `Ok` means that the receiver has accepted it.
    async fn deliver(&self, hook: &str, letter: &Letter, now: Timestamp) -> Result<(), String>;
}

/// The port of a runtime without hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

#[async_trait]
impl Hooks for NoHooks {
    async fn run(&self, hook: &str, _input: &str, _folder: &Path) -> Result<HookOutput, String> {
        Err(format!("there is no hook {hook}"))
    }

    async fn deliver(&self, hook: &str, _letter: &Letter, _now: Timestamp) -> Result<(), String> {
        Err(format!("there is no hook {hook}"))
    }
}
