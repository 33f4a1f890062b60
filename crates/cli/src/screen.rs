//! The lower part of a terminal: lines that change in place below lines that stay.
//!
//! Progress, prompts and the log all write through one [`Screen`], so that their output does not
//! interleave. Its lock guards a few lines and is never held across an await.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sortie_core::id::RunId;

use crate::output;
use crate::settings::Settings;

/// The width of lines if stderr is no terminal.
const PLAIN_COLUMNS: usize = 120;
/// The least width of lines: a narrower terminal has to wrap them.
const LEAST_COLUMNS: usize = 40;

/// The screen that shows progress.
#[derive(Debug)]
pub(crate) struct Screen {
    /// The lines that change in place; `None` if stderr is no terminal.
    live: Option<MultiProgress>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lines: BTreeMap<RunId, ProgressBar>,
    /// Status line below the progress lines.
    status: Option<ProgressBar>,
    /// Whether a prompt is shown: no line may change meanwhile.
    paused: bool,
    /// Lines to print after the pause.
    deferred: Vec<String>,
}

impl Screen {
    /// Returns the screen of this process.
    pub(crate) fn new(settings: &Settings) -> Self {
        let live = settings
            .terminal
            .progress
            .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        Self {
            live,
            state: Mutex::default(),
        }
    }

    /// Returns a screen that is no terminal.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            live: None,
            state: Mutex::default(),
        }
    }

    /// Whether lines can change in place.
    pub(crate) const fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Returns the width of lines.
    pub(crate) fn columns(&self) -> usize {
        if !self.is_live() {
            return PLAIN_COLUMNS;
        }
        let (_, columns) = console::Term::stderr().size();
        // The last column stays free: some terminals wrap when it is written.
        usize::from(columns).saturating_sub(1).max(LEAST_COLUMNS)
    }

    /// Prints a line that stays.
    pub(crate) fn line(&self, text: &str) {
        let mut state = self.lock();
        if state.paused {
            state.deferred.push(text.to_owned());
        } else {
            self.write(text);
        }
    }

    /// Shows or changes the line of a run.
    pub(crate) fn show(&self, run: RunId, text: String) {
        let Some(live) = &self.live else { return };
        let mut state = self.lock();
        if state.paused {
            return;
        }
        if let Some(line) = state.lines.get(&run) {
            line.set_message(text);
            return;
        }
        let line = match &state.status {
            Some(status) => live.insert_before(status, new_line()),
            None => live.add(new_line()),
        };
        line.set_message(text);
        state.lines.insert(run, line);
    }

    /// Removes the line of a run.
    pub(crate) fn hide(&self, run: RunId) {
        let line = self.lock().lines.remove(&run);
        if let (Some(live), Some(line)) = (&self.live, line) {
            line.finish_and_clear();
            live.remove(&line);
        }
    }

    /// Shows or changes the last line.
    pub(crate) fn status(&self, text: String) {
        let Some(live) = &self.live else { return };
        let mut state = self.lock();
        if !state.paused {
            state
                .status
                .get_or_insert_with(|| live.add(new_line()))
                .set_message(text);
        }
    }

    /// Removes all lines that change in place.
    pub(crate) fn clear(&self) {
        let Some(live) = &self.live else { return };
        let mut state = self.lock();
        let status = state.status.take();
        for line in std::mem::take(&mut state.lines).into_values().chain(status) {
            line.finish_and_clear();
            live.remove(&line);
        }
    }

    /// Returns the lines that were printed during a pause, for a caller that shows them itself.
    pub(crate) fn take_deferred(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().deferred)
    }

    /// Pauses the screen until the returned guard is dropped.
    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        self.clear();
        self.lock().paused = true;
        Pause {
            screen: Arc::clone(self),
        }
    }

    fn write(&self, text: &str) {
        match &self.live {
            // If the terminal is gone, the error cannot be shown.
            Some(live) => drop(live.println(output::for_terminal(text))),
            None => output::note(text),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a paused screen; dropping it resumes the screen.
#[derive(Debug)]
pub(crate) struct Pause {
    screen: Arc<Screen>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.screen.lock();
        state.paused = false;
        let deferred = std::mem::take(&mut state.deferred);
        for line in deferred {
            self.screen.write(&line);
        }
    }
}

fn new_line() -> ProgressBar {
    let line = ProgressBar::new_spinner();
    // The template is a valid constant; the default style would only look different.
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        line.set_style(style);
    }
    line
}
