//! Output of commands: text, JSON and colours.
//!
//! Data goes to standard output, messages go to standard error. Colours carry no information of their own, and are off
//! for pipes and with `NO_COLOR`. A command ends when the reader of its output closes the pipe.

use crate::command_error::{CommandError, FAILED};
use parking_lot::Mutex;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

/// Standard output and standard error. Clones share the streams.
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
    /// Receives messages while the user edits a line, so that the line stays intact.
    editor: Option<Box<dyn Fn(String) + Send>>,
}

/// Meanings that are shown by colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// The name of a node or command.
    Name,
    /// A label before a value.
    Label,
    /// A watch or connection event.
    Event,
    /// The text of an error.
    Error,
    /// Text of secondary importance.
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
    /// The streams of the process, with colours on terminals.
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

    /// Two arbitrary streams, without colours.
    pub fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        let streams = Streams { out, err, editor: None };
        let streams = Arc::new(Mutex::new(streams));
        Self { streams, is_terminal: false, err_is_terminal: false, out_colours: false, err_colours: false }
    }

    /// Whether standard output is coloured.
    pub fn has_colours(&self) -> bool {
        self.out_colours
    }

    /// Whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The width of the terminal in columns; `None` if standard output is none.
    pub fn width(&self) -> Option<usize> {
        self.size().map(|(columns, _)| columns)
    }

    /// The columns and rows of the terminal; `None` if standard output is none.
    pub fn size(&self) -> Option<(usize, usize)> {
        let size = self.is_terminal.then(|| crossterm::terminal::size().ok())??;
        Some((usize::from(size.0).max(1), usize::from(size.1).max(1)))
    }

    /// Whether standard error is a terminal.
    pub fn stderr_is_terminal(&self) -> bool {
        self.err_is_terminal
    }

    /// Colours text of standard output, if colours are on.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if self.out_colours { format!("{}{text}\x1b[0m", paint.code()) } else { text.to_owned() }
    }

    /// Escapes untrusted text: on a terminal, control characters are shown instead of executed.
    pub fn escape_untrusted<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_terminal { escape_controls(text) } else { Cow::Borrowed(text) }
    }

    /// Writes a line to standard output.
    pub fn line(&self, text: &str) -> Result<(), CommandError> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes raw bytes to standard output. They are flushed at the end of the line or of the command.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), CommandError> {
        self.streams.lock().out.write_all(bytes).map_err(|error| write_error(&error))
    }

    /// Writes a value as JSON: on one line, or indented on a terminal.
    pub fn json(&self, value: &impl Serialize) -> Result<(), CommandError> {
        let text = if self.out_colours { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        self.line(&text.map_err(|error| CommandError::message(format!("cannot be written as JSON: {error}")))?)
    }

    /// Flushes everything written to standard output.
    pub fn flush(&self) -> Result<(), CommandError> {
        self.streams.lock().out.flush().map_err(|error| write_error(&error))
    }

    /// Writes a message to standard error.
    pub fn info(&self, text: &str) {
        self.write_err(None, text);
    }

    /// Writes an error message to standard error.
    pub fn error(&self, text: &str) {
        self.write_err(Some(Paint::Error), text);
    }

    fn write_err(&self, paint: Option<Paint>, text: &str) {
        let text = if self.err_is_terminal { escape_controls(text) } else { Cow::Borrowed(text) };
        let text = match paint {
            Some(paint) if self.err_colours => format!("{}{text}\x1b[0m\n", paint.code()),
            _ => format!("{text}\n"),
        };
        let mut streams = self.streams.lock();
        let _ = streams.out.flush();
        let _ = streams.err.write_all(text.as_bytes()); // a failure cannot be reported anywhere
        let _ = streams.err.flush();
    }

    /// Writes text to standard error without a newline, for prompts and progress.
    pub fn write_raw(&self, text: &str) {
        let mut streams = self.streams.lock();
        let _ = streams.out.flush();
        let _ = streams.err.write_all(text.as_bytes());
        let _ = streams.err.flush();
    }

    /// Writes event lines, possibly while the user edits a line.
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

    /// Redirects events to the line editor while a line is edited; `None` ends that.
    pub fn set_editor(&self, editor: Option<Box<dyn Fn(String) + Send>>) {
        self.streams.lock().editor = editor;
    }
}

fn escape_controls(text: &str) -> Cow<'_, str> {
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

/// A closed pipe is not an error to report; a full disk is.
fn write_error(error: &io::Error) -> CommandError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CommandError::Silent(FAILED);
    }
    CommandError::message(format!("Standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_on_terminals() {
        let mut out = Output::new(Box::new(io::sink()), Box::new(io::sink()));
        let text = "a\x1b[2J\u{9b}b\tc\nd";
        assert_eq!(out.escape_untrusted(text), text, "pipes receive unchanged bytes");
        out.is_terminal = true;
        assert_eq!(out.escape_untrusted(text), "a\\u{1b}[2J\\u{9b}b\tc\nd");
    }

    #[test]
    fn full_disk_is_reported_closed_pipe_is_not() {
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
        assert_eq!(
            (gone.line("x"), gone.flush()),
            (Err(CommandError::Silent(FAILED)), Err(CommandError::Silent(FAILED)))
        );
        let full = out(io::ErrorKind::StorageFull);
        let reported = Err(CommandError::message("Standard output: no storage space"));
        assert_eq!((full.line("x"), full.flush()), (reported.clone(), reported));
    }
}
