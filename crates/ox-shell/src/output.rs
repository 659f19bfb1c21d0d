//! Where commands write: text, JSON and colours.
//!
//! Standard output is data, standard error is talk. Nothing is lost without colours, and whoever pipes the output or sets
//! `NO_COLOR` gets none. A reader that goes away ends the command that writes to it.

use crate::command_error::{FAILED, Failure};
use parking_lot::Mutex;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

/// The two streams. Clones write to the same ones.
#[derive(Clone)]
pub struct Output {
    streams: Arc<Mutex<Streams>>,
    is_terminal: bool,
    err_is_terminal: bool,
    out_colours: bool,
    err_colours: bool,
}

struct Streams {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// Takes what is said while the user edits a line, so that the line stays whole.
    editor: Option<Box<dyn Fn(String) + Send>>,
}

/// What colours mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// The name of a node or command.
    Name,
    /// A label before a value.
    Label,
    /// Something that happened.
    Event,
    /// Something that went wrong.
    Error,
    /// Something less important.
    Faint,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Name => "\x1b[36m",
            Self::Label => "\x1b[34m",
            Self::Event => "\x1b[33m",
            Self::Error => "\x1b[31m",
            Self::Faint => "\x1b[2m",
        }
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

impl Output {
    /// The streams of the program, with colours where they are terminals.
    pub fn standard() -> Self {
        let allowed = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|value| value != "dumb");
        let mut output = Self::new(Box::new(io::stdout()), Box::new(io::stderr()));
        output.is_terminal = io::stdout().is_terminal();
        output.err_is_terminal = io::stderr().is_terminal();
        output.out_colours = allowed && output.is_terminal;
        output.err_colours = allowed && output.err_is_terminal;
        output
    }

    /// Any two streams, without colours.
    pub fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        let streams = Streams { out, err, editor: None };
        let streams = Arc::new(Mutex::new(streams));
        Self { streams, is_terminal: false, err_is_terminal: false, out_colours: false, err_colours: false }
    }

    /// Whether data is coloured.
    pub fn has_colours(&self) -> bool {
        self.out_colours
    }

    /// Whether somebody reads the talk while it comes.
    pub fn talks_to_terminal(&self) -> bool {
        self.err_is_terminal
    }

    /// Text of data in a colour, if there are any.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if self.out_colours { format!("{}{text}\x1b[0m", paint.code()) } else { text.to_owned() }
    }

    /// Text of somebody else. At a terminal, what could move the cursor or worse is shown instead of done.
    pub fn foreign<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_terminal { harmless(text) } else { Cow::Borrowed(text) }
    }

    /// A line of data.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Data as it is. It is seen at the end of the line, or when the command is done.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.streams.lock().out.write_all(bytes).map_err(|error| unwritten(&error))
    }

    /// A value as JSON, on one line, or laid out for a terminal.
    pub fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = if self.out_colours { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        self.line(&text.map_err(|error| Failure::told(format!("cannot be written as JSON: {error}")))?)
    }

    /// Everything so far is seen.
    pub fn flush(&self) -> Result<(), Failure> {
        self.streams.lock().out.flush().map_err(|error| unwritten(&error))
    }

    /// A line of talk.
    pub fn say(&self, text: &str) {
        self.talk(None, text);
    }

    /// A line about what went wrong.
    pub fn complain(&self, text: &str) {
        self.talk(Some(Paint::Error), text);
    }

    fn talk(&self, paint: Option<Paint>, text: &str) {
        let text = if self.err_is_terminal { harmless(text) } else { Cow::Borrowed(text) };
        let text = match paint {
            Some(paint) if self.err_colours => format!("{}{text}\x1b[0m\n", paint.code()),
            _ => format!("{text}\n"),
        };
        let mut streams = self.streams.lock();
        let _ = streams.out.flush();
        let _ = streams.err.write_all(text.as_bytes()); // there is nobody else to tell
        let _ = streams.err.flush();
    }

    /// A question, behind which the answer is typed.
    pub fn ask(&self, question: &str) {
        let mut streams = self.streams.lock();
        let _ = streams.out.flush();
        let _ = streams.err.write_all(question.as_bytes());
        let _ = streams.err.flush();
    }

    /// Lines of data that come at any time, perhaps while the user edits a line.
    pub fn event(&self, text: &str) {
        let mut streams = self.streams.lock();
        match &streams.editor {
            Some(editor) => editor(text.trim_end_matches('\n').to_owned()),
            None => {
                let _ = streams.out.write_all(text.as_bytes());
                let _ = streams.out.flush();
            }
        }
    }

    /// From now on a user edits a line: events go to the editor. `None` when the line is done.
    pub fn set_editor(&self, editor: Option<Box<dyn Fn(String) + Send>>) {
        self.streams.lock().editor = editor;
    }
}

fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmful = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let shown = |letter: char| match is_harmful(letter) {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// A reader that has seen enough goes away, which is nothing to complain about. A disk that is full is.
fn unwritten(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::Silent(FAILED);
    }
    Failure::told(format!("Standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_do_not_obey_data() {
        let mut out = Output::new(Box::new(io::sink()), Box::new(io::sink()));
        let text = "a\x1b[2J\u{9b}b\tc\nd";
        assert_eq!(out.foreign(text), text, "whoever reads a pipe wants the bytes");
        out.is_terminal = true;
        assert_eq!(out.foreign(text), "a\\u{1b}[2J\\u{9b}b\tc\nd");
    }

    #[test]
    fn a_full_disk_is_told_and_a_reader_who_left_is_not() {
        struct Broken(io::ErrorKind);
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(self.0.into())
            }
        }
        let out = |kind| Output::new(Box::new(Broken(kind)), Box::new(io::sink()));
        let gone = out(io::ErrorKind::BrokenPipe);
        assert_eq!((gone.line("x"), gone.flush()), (Err(Failure::Silent(FAILED)), Err(Failure::Silent(FAILED))));
        let full = out(io::ErrorKind::StorageFull);
        let told = Err(Failure::told("Standard output: no storage space"));
        assert_eq!((full.line("x"), full.flush()), (told.clone(), told));
    }
}
