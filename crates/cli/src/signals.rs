//! How the operating system tells the process to stop.

use std::io;

/// What the process was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A person wants the work stopped (Ctrl-C).
    Interrupt,
    /// The process has to go; the work may go on later.
    Terminate,
}

pub(crate) use platform::Signals;

#[cfg(unix)]
mod platform {
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    use super::{Signal, io};

    /// The signals of this process, from the moment this exists.
    #[derive(Debug)]
    pub(crate) struct Signals {
        interrupt: Stream,
        terminate: Stream,
        hang_up: Stream,
        /// `Ctrl-\`. Its default action would leave the terminal without echo.
        quit: Stream,
    }

    impl Signals {
        /// Listens from now on, instead of dying.
        pub(crate) fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hang_up: signal(SignalKind::hangup())?,
                quit: signal(SignalKind::quit())?,
            })
        }

        /// The next one. Nothing is lost if the future is dropped.
        pub(crate) async fn next(&mut self) -> Signal {
            tokio::select! {
                _ = self.interrupt.recv() => Signal::Interrupt,
                _ = self.terminate.recv() => Signal::Terminate,
                _ = self.hang_up.recv() => Signal::Terminate,
                _ = self.quit.recv() => Signal::Terminate,
            }
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use super::{Signal, io};

    /// The signals of this process: only Ctrl-C here.
    #[derive(Debug)]
    pub(crate) struct Signals;

    impl Signals {
        /// Listens from now on.
        pub(crate) fn listen() -> io::Result<Self> {
            Ok(Self)
        }

        /// The next one.
        pub(crate) async fn next(&mut self) -> Signal {
            if tokio::signal::ctrl_c().await.is_err() {
                // Nobody will ever tell: wait with the rest.
                std::future::pending::<()>().await;
            }
            Signal::Interrupt
        }
    }
}
