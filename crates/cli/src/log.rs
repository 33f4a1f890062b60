//! The diagnostic log, written to stderr above the lines that change in place.

use std::io;
use std::sync::Arc;

use sortie_config::LogFormat;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::screen::Screen;
use crate::settings::Settings;

/// Starts the log. `SORTIE_LOG` overrides `-v`; without either, only errors are logged.
pub(crate) fn start(settings: &Settings, verbose: u8, screen: &Arc<Screen>) {
    let filter = settings.log.as_deref().unwrap_or(match verbose {
        0 => "error",
        1 => "info,sortie=debug",
        _ => "debug,sortie=trace",
    });
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_ansi(false)
        .with_writer(ToScreen(Arc::clone(screen)));
    match settings.log_format {
        LogFormat::Text => log.with_target(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

#[derive(Clone, Debug)]
struct ToScreen(Arc<Screen>);

impl<'a> MakeWriter<'a> for ToScreen {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            screen: &self.0,
            bytes: Vec::new(),
        }
    }
}

/// One log record, printed when it is complete.
#[derive(Debug)]
struct Line<'a> {
    screen: &'a Screen,
    bytes: Vec<u8>,
}

impl io::Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes);
        if !text.trim().is_empty() {
            self.screen.line(text.trim_end());
        }
    }
}
