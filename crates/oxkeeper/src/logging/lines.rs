//! The queue of log lines of one output, and the thread that writes them.
//!
//! One event is one line, whatever text of clients and peers it contains: control characters are escaped, and a long line
//! is cut; in JSON its texts are cut (S22).

use super::output::Output;
use ox_config::LogFileConfig;
use parking_lot::Mutex;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::ThreadId;
use std::time::Duration;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Queued lines beyond which further ones are dropped.
const LINES_WAITING_MAX: usize = 10_000;

/// Longer lines are cut, except those of the audit log, whose values are cut one by one. Texts of clients are short by
/// nature, or have been cut before.
const LINE_BYTES_MAX: usize = 4096;

/// The texts of a longer JSON object are cut, so that it remains one.
const JSON_TEXT_CHARS_MAX: usize = 1024;

/// How long the last lines may take when the process ends.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// Confirm that all earlier lines are written.
    Flush(SyncSender<()>),
    /// Look at the file that was set, and at whether it is to be opened again.
    FileChanged,
}

/// The queue. All clones share it.
#[derive(Clone)]
pub(crate) struct Lines {
    sender: SyncSender<Message>,
    dropped: DroppedLines,
    held: Arc<Mutex<Option<Held>>>,
    file: Arc<Mutex<FileChange>>,
    escaping: Escaping,
}

/// Counts lines that were not written.
#[derive(Clone, Default)]
struct DroppedLines {
    /// Those that found the queue full since the last one that was written.
    unreported: Arc<AtomicU64>,
    /// Those of all outputs since the start of the process.
    total: Arc<AtomicU64>,
}

/// What the thread has to do with its file before the next line.
#[derive(Default)]
struct FileChange {
    selected: Option<Option<LogFileConfig>>,
    is_reopened: bool,
}

/// Which characters of a line are escaped here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escaping {
    /// Those that JSON permits in texts, but that some readers take for the end of a line.
    Json,
    Controls,
    /// All controls but the escape sequences of colours; the formatter has escaped those of events.
    ControlsButColours,
}

/// Lines that wait until the start of the server has succeeded or failed.
struct Held {
    /// The thread that starts the server.
    starter: ThreadId,
    lines: Vec<HeldLine>,
}

struct HeldLine {
    text: Vec<u8>,
    level: Level,
    is_starters: bool,
}

impl Lines {
    /// Starts the thread that writes.
    pub(super) fn start(
        thread: &str,
        escaping: Escaping,
        output: Output,
        dropped_total: &Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let (sender, waiting) = sync_channel(LINES_WAITING_MAX);
        let dropped = DroppedLines { total: Arc::clone(dropped_total), ..DroppedLines::default() };
        let lines = Self { sender, dropped, held: Arc::default(), file: Arc::default(), escaping };
        let (dropped, file) = (lines.dropped.clone(), Arc::clone(&lines.file));
        let run = move || write_lines(&waiting, output, &dropped, &file);
        std::thread::Builder::new().name(thread.to_owned()).spawn(run)?;
        Ok(lines)
    }

    /// Selects the file of an output that has one.
    pub(super) fn set_file(&self, config: Option<LogFileConfig>) {
        self.file.lock().selected = Some(config);
        let _ = self.sender.try_send(Message::FileChanged); // with a full queue the thread looks anyway
    }

    /// Opens the file again.
    pub(super) fn reopen_file(&self) {
        self.file.lock().is_reopened = true;
        let _ = self.sender.try_send(Message::FileChanged);
    }

    /// Holds further lines back, for `limit` at most.
    pub(crate) fn hold(&self, limit: Duration) -> io::Result<()> {
        *self.held.lock() = Some(Held { starter: std::thread::current().id(), lines: Vec::new() });
        let lines = self.clone();
        std::thread::Builder::new().name("logging hold".to_owned()).spawn(move || {
            std::thread::sleep(limit);
            lines.release();
        })?;
        Ok(())
    }

    /// Drops held lines that a threshold does not let through.
    pub(super) fn limit_held(&self, threshold: LevelFilter) {
        self.held.lock().iter_mut().for_each(|held| held.lines.retain(|line| line.level <= threshold));
    }

    /// Writes held lines, and holds no more.
    pub(crate) fn release(&self) {
        let mut held = self.held.lock(); // other threads wait, so that the order is kept
        held.take().into_iter().flat_map(|held| held.lines).for_each(|line| self.send(line.text));
    }

    /// Writes the warnings and errors of the start, then the first screen in place of its other lines, then what other
    /// threads have logged meanwhile. Holds no more.
    pub(crate) fn release_with_screen(&self, screen: &str) {
        let mut held = self.held.lock(); // other threads wait, so that the order is kept
        let lines = held.take().into_iter().flat_map(|held| held.lines);
        let (of_start, others): (Vec<_>, Vec<_>) = lines.partition(|line| line.is_starters);
        let warnings = of_start.into_iter().filter(|line| line.level <= Level::WARN);
        warnings.for_each(|line| self.send(line.text));
        self.print(screen);
        others.into_iter().for_each(|line| self.send(line.text));
    }

    /// Returns the warnings and errors among the held lines, drops the others, and holds no more.
    pub(crate) fn take_held_warnings(&self) -> Vec<Vec<u8>> {
        let lines = self.held.lock().take().into_iter().flat_map(|held| held.lines);
        lines.filter(|line| line.level <= Level::WARN).map(|line| line.text).collect()
    }

    /// Queues text as a line of the log.
    pub(crate) fn print(&self, text: &str) {
        self.send(format!("{text}\n").into_bytes());
    }

    /// Waits until all lines are written, or for a second: a reader that is too slow misses the rest.
    pub(super) fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if self.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(LAST_LINES);
        }
    }

    fn put(&self, text: Vec<u8>, level: Level) {
        let mut held = self.held.lock();
        match &mut *held {
            Some(held) => {
                let is_starters = std::thread::current().id() == held.starter;
                held.lines.push(HeldLine { text, level, is_starters });
            }
            None => {
                drop(held);
                self.send(text);
            }
        }
    }

    /// Queues a line that ends with a line feed.
    pub(crate) fn send(&self, text: Vec<u8>) {
        if self.sender.try_send(Message::Line(text)).is_err() {
            self.dropped.unreported.fetch_add(1, Ordering::Relaxed);
            self.dropped.total.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, text: Vec::new(), level: Level::ERROR, is_cut: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        let is_cut = metadata.target() != ox_server::AUDIT_LOG_TARGET;
        Line { lines: self, text: Vec::new(), level: *metadata.level(), is_cut }
    }
}

/// A line that is queued when it is complete.
pub(crate) struct Line<'a> {
    lines: &'a Lines,
    text: Vec<u8>,
    level: Level,
    is_cut: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let bytes_max = if self.is_cut { LINE_BYTES_MAX } else { usize::MAX };
        let text = one_line(std::mem::take(&mut self.text), self.lines.escaping, bytes_max);
        self.lines.put(text, self.level);
    }
}

/// The text of an event as one line.
fn one_line(text: Vec<u8>, escaping: Escaping, bytes_max: usize) -> Vec<u8> {
    let is_plain = |byte: &u8| (0x20..0x7F).contains(byte);
    let body = text.strip_suffix(b"\n").unwrap_or(&text);
    if body.iter().all(is_plain) && body.len() <= bytes_max {
        return text;
    }
    let body = String::from_utf8_lossy(body);
    let mut line = match escaping {
        Escaping::Json => json_line(&body, bytes_max),
        Escaping::Controls | Escaping::ControlsButColours => text_line(&body, escaping, bytes_max),
    };
    line.push('\n');
    line.into_bytes()
}

fn text_line(body: &str, escaping: Escaping, bytes_max: usize) -> String {
    let mut line = String::with_capacity(body.len());
    for letter in body.chars() {
        if bytes_max < line.len() {
            line.push('…');
            break;
        }
        let is_colour = letter == '\u{1b}' && escaping == Escaping::ControlsButColours;
        if letter == '\t' || is_colour || !is_unprintable(letter) {
            line.push(letter);
        } else {
            line.extend(letter.escape_default());
        }
    }
    line
}

fn json_line(body: &str, bytes_max: usize) -> String {
    let is_long = bytes_max < body.len();
    let cut = is_long.then(|| serde_json::from_str(body).ok()).flatten().map(|mut object| {
        cut_texts(&mut object);
        object.to_string()
    });
    let mut line = String::with_capacity(body.len());
    for letter in cut.as_deref().unwrap_or(body).chars() {
        if is_unprintable(letter) {
            let _ = write!(line, "\\u{:04x}", u32::from(letter));
        } else {
            line.push(letter);
        }
    }
    line
}

fn cut_texts(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(JSON_TEXT_CHARS_MAX) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(values) => values.iter_mut().for_each(cut_texts),
        Value::Object(fields) => fields.values_mut().for_each(cut_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn is_unprintable(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')
}

fn write_lines(waiting: &Receiver<Message>, mut output: Output, dropped: &DroppedLines, file: &Mutex<FileChange>) {
    let count = |lines| _ = dropped.total.fetch_add(lines, Ordering::Relaxed);
    for message in waiting {
        let FileChange { selected, is_reopened } = std::mem::take(&mut *file.lock());
        if let Some(config) = selected {
            count(output.set_file(config));
        }
        if is_reopened {
            output.reopen();
        }
        match message {
            Message::Line(text) => count(output.write(text, dropped.unreported.swap(0, Ordering::Relaxed))),
            Message::Flush(done) => _ = done.try_send(()),
            Message::FileChanged => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, escaping: Escaping, expected: &str) {
        let line = one_line(text.as_bytes().to_vec(), escaping, 20);
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn s22_event_is_one_line_of_limited_length() {
        check("plain text\n", Escaping::Controls, "plain text\n");
        check("a\n2026 INFO b\n", Escaping::Controls, "a\\n2026 INFO b\n");
        check("a\r\u{85}\u{2028}\u{1b}[31mb\n", Escaping::Controls, "a\\r\\u{85}\\u{2028}\\u{1b}…\n");
        check("\u{1b}[1mbold\u{1b}[0m\u{7f}\n", Escaping::ControlsButColours, "\u{1b}[1mbold\u{1b}[0m\\u{7f}\n");
        check("ü\tß\n", Escaping::Controls, "ü\tß\n");
        check(&format!("{}\n", "x".repeat(50)), Escaping::Controls, &format!("{}…\n", "x".repeat(21)));
        check("{\"a\":\"a line\\n\"}\n", Escaping::Json, "{\"a\":\"a line\\n\"}\n");
        check("{\"a\":\"\u{85}\u{2028}ü\"}\n", Escaping::Json, "{\"a\":\"\\u0085\\u2028ü\"}\n");
        let json =
            |texts: &str| format!("{{\"fields\":{{\"message\":\"{texts}\",\"n\":7}},\"spans\":[\"{texts}\"]}}\n");
        let (long, cut) = ("ü\\n".repeat(600), "ü\\n".repeat(512) + "…");
        check(&json(&long), Escaping::Json, &json(&cut));
    }
}
