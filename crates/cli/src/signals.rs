//! The signals that stop the process.

use std::io;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The user wants to stop the runs (Ctrl-C).
    Interrupt,
    /// The process has to exit; its runs may continue later.
    Terminate,
}

/// The signals of this process, received from the moment this value exists.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Stream,
    terminate: Stream,
    hang_up: Stream,
    /// `Ctrl-\`. Its default action would leave the terminal without echo.
    quit: Stream,
}

impl Signals {
    /// Installs the handlers, which replace the default action of ending the process.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Returns the next signal. Cancel-safe: none is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.hang_up.recv() => Signal::Terminate,
            _ = self.quit.recv() => Signal::Terminate,
        }
    }
}
