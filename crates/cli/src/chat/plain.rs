//! The conversation without a live area: whole lines in, whole replies out.

use std::io::{self, Write as _};

use sortie_core::run::RunRecord;
use sortie_runtime::NewRun;
use sortie_text::t;

use super::Start;
use crate::commands::run::read_stdin;
use crate::exit::Exit;
use crate::follow::{Follow, Goal, Stopped, Stream};
use crate::keyboard::{Keyboard, Line, Pressed, put_back};
use crate::output;
use crate::problem::Problem;
use crate::report;
use crate::signals::Signal;

/// Reads the one message of a pipe.
pub(super) fn whole_input() -> Result<String, Problem> {
    let text = read_stdin()?;
    match text.trim() {
        "" => Err(Problem::EmptyInput),
        text => Ok(text.to_owned()),
    }
}

/// Sends one message and prints the reply.
pub(super) async fn one_message(mut start: Start<'_>, message: String) -> Result<Exit, Problem> {
    let ended = turn(&mut start, message).await;
    let session = start.template.session.to_string();
    let lang = start.settings.lang;
    start.engine.shut_down().await;
    let exit = ended?;
    output::note(&t!(lang, "chat-return", id = session));
    Ok(exit)
}

/// Reads messages line by line until the end of the input.
pub(super) async fn lines(mut start: Start<'_>) -> Result<Exit, Problem> {
    let lang = start.settings.lang;
    output::note(&t!(lang, "chat-plain"));
    let mut exit = Exit::Ok;
    loop {
        let line = tokio::select! {
            line = typed_line() => line,
            signal = start.signals.next() => {
                if signal == Signal::Terminate {
                    exit = Exit::Terminated;
                }
                None
            }
        };
        let Some(line) = line else {
            break;
        };
        match line.trim() {
            "" => {}
            "/quit" | "/exit" => break,
            "/help" => output::note(&t!(lang, "chat-plain")),
            message => {
                if let Err(problem) = turn(&mut start, message.to_owned()).await {
                    problem.report(lang);
                }
            }
        }
    }
    let session = start.template.session.to_string();
    start.engine.shut_down().await;
    output::note(&t!(lang, "chat-return", id = session));
    Ok(exit)
}

/// Sends a message, waits for the turn and prints its reply.
async fn turn(start: &mut Start<'_>, message: String) -> Result<Exit, Problem> {
    let since = start.engine.now();
    let mut feed = start.engine.listen().await?;
    let new = NewRun {
        task: message,
        ..start.template.clone()
    };
    let run = start.engine.send_message(new).await?.run;
    let follow = Follow::new(
        start.settings,
        start.screen,
        &start.engine,
        Goal::Tree(run),
        Stream::Off,
        since,
    );
    match follow.until_ended(&mut feed, &mut start.signals).await? {
        Stopped::Ended | Stopped::Cancelled => {
            let record: RunRecord = start.engine.get(run).await?;
            report::ended(start.settings, &start.engine, &record).await?;
            Ok(Exit::of(&record))
        }
        Stopped::Abandoned => Ok(Exit::Cancelled),
        Stopped::Terminated | Stopped::ServerGone => Ok(Exit::Terminated),
    }
}

/// Reads a line; `None` at the end of the input. The keyboard is closed again, because prompts of a
/// turn open it too.
async fn typed_line() -> Option<String> {
    let mut keyboard = Keyboard::open_for_editing();
    let echoes = keyboard.needs_echo();
    let mut line = Line::default();
    write("> ");
    loop {
        let mut keys = keyboard.keys().await?.into_iter();
        while let Some(key) = keys.next() {
            let mut echo = String::new();
            let pressed = line.press(key, &mut echo);
            if echoes {
                write(&echo);
            }
            match pressed {
                Pressed::Goes => {}
                Pressed::Ended(text) => {
                    // Lines that were typed or pasted ahead are the next messages.
                    put_back(keys.collect());
                    return Some(text);
                }
                Pressed::Closed => return None,
            }
        }
    }
}

fn write(text: &str) {
    let mut stream = io::stderr().lock();
    // If the terminal is gone, the next read ends the conversation.
    stream.write_all(text.as_bytes()).ok();
    stream.flush().ok();
}
