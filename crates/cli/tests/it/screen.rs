//! The binary on a real pseudo-terminal, read back through a terminal emulator.

use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rexpect::process::PtyProcess;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::world::World;

/// The longest time of a step; one that takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Lines of scrollback that the emulator keeps.
const SCROLLBACK: usize = 500;

/// The binary at a terminal, and what the terminal shows.
pub(crate) struct Screen {
    process: PtyProcess,
    pub(crate) keyboard: std::fs::File,
    output: mpsc::Receiver<Vec<u8>>,
    pub(crate) emulator: vt100::Parser,
    pub(crate) raw: Vec<u8>,
    ended: bool,
}

impl Screen {
    pub(crate) fn open(world: &World, arguments: &[&str]) -> Self {
        Self::sized(world, arguments, (24, 80), "xterm-256color")
    }

    pub(crate) fn sized(world: &World, arguments: &[&str], size: (u16, u16), term: &str) -> Self {
        let mut command = world.command(arguments);
        command
            .env("TERM", term)
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit());
        let process = PtyProcess::new(command).unwrap();
        let keyboard = process.get_file_handle().unwrap();
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // The terminal reports an error once the process has closed it.
            while let Ok(read) = reader.read(&mut chunk) {
                if read == 0 || sender.send(chunk[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let screen = Self {
            process,
            keyboard,
            output,
            emulator: vt100::Parser::new(cells(size.0), cells(size.1), SCROLLBACK),
            raw: Vec::new(),
            ended: false,
        };
        screen.announce(size);
        screen
    }

    fn announce(&self, (rows, columns): (u16, u16)) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.keyboard, size).unwrap();
    }

    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        self.emulator
            .screen_mut()
            .set_size(cells(size.0), cells(size.1));
        self.announce(size);
    }

    /// Presses keys, without waiting for anything.
    pub(crate) fn presses(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Types into the conversation once the program reads keys: until then, the terminal edits lines by itself.
    pub(crate) fn types(&mut self, keys: &str) {
        self.until("the input", |text| {
            text.contains("· /help") || text.contains("Each line") || text.contains("Press Ctrl-C")
        });
        self.presses(keys);
    }

    pub(crate) fn text(&self) -> String {
        self.emulator.screen().contents()
    }

    /// Waits until the screen fulfils a condition.
    pub(crate) fn until(&mut self, what: &str, happened: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !happened(&self.text()) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => {
                    self.emulator.process(&bytes);
                    self.raw.extend(bytes);
                }
                Err(error) => panic!("{error} while waiting for {what}:\n{}", self.text()),
            }
        }
    }

    /// Waits until the process has written this, shown or not.
    pub(crate) fn writes(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&self.raw).contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let bytes = self.output.recv_timeout(left).unwrap();
            self.emulator.process(&bytes);
            self.raw.extend(bytes);
        }
    }

    pub(crate) fn shows(&mut self, text: &str) {
        self.until(text, |screen| screen.contains(text));
    }

    /// Waits until the input is exactly this.
    pub(crate) fn has_input(&mut self, text: &str) {
        let line = format!("> {text}");
        self.until(&line, |screen| {
            screen.lines().any(|row| row.trim_end() == line.trim_end())
        });
    }

    /// Waits for the end of the process; returns its exit code.
    pub(crate) fn exit_code(&mut self) -> i32 {
        let mut keeps = false;
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => {
                    self.emulator.process(&bytes);
                    self.raw.extend(bytes);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("the process did not end:\n{}", self.text());
                }
            }
            // A reply is on the screen a moment before its turn has ended.
            if !keeps && self.text().contains("[k] keep them") {
                keeps = true;
                self.keyboard.write_all(b"k").unwrap();
            }
        }
        self.ended = true;
        let status = self.process.wait().unwrap();
        let rexpect::process::WaitStatus::Exited(_, code) = status else {
            panic!("{status:?}");
        };
        code
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if !self.ended {
            self.process.set_kill_timeout(Some(1_000));
        }
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}
