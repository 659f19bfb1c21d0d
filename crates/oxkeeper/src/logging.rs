//! Logs to stderr, as text or JSON.
//!
//! A separate thread writes the lines, so that a pipe without a reader does not stop the server. When too many lines
//! are queued, further ones are counted and dropped. A line that cannot be written is dropped too: logging never
//! fails, and panics are logged in the same way.

use clap::ValueEnum;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Queued lines beyond which further ones are dropped.
const LINES_WAITING_MAX: usize = 10_000;

/// How long the last lines may take when the process ends.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    /// One JSON object per line.
    Json,
}

/// Checks a filter: a level, or directives such as `info,ox_server=debug`. The tracing library would take a misspelt
/// level for a module name and log nothing.
pub(crate) fn check_filter(filter: &str) -> Result<String, String> {
    for directive in filter.split(',').filter(|directive| !directive.is_empty()) {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        if level.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "`{level}` is not a log level: use off, error, warn, info, debug or trace, alone or as in \
                 info,ox_server=debug"
            ));
        }
    }
    Ok(filter.to_owned())
}

/// Sets up logging with a checked filter. Lines are written as long as the returned value lives.
pub(crate) fn init(filter: &str, format: Format) -> Result<Logging, String> {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse(filter)
        .map_err(|error| format!("--log {filter}: {error}"))?;
    let (sender, waiting) = sync_channel(LINES_WAITING_MAX);
    let lines = Lines { sender: sender.clone(), lost: Arc::default() };
    let lost = Arc::clone(&lines.lost);
    let spawned = std::thread::Builder::new().name("logging".to_owned()).spawn(move || write_lines(&waiting, &lost));
    spawned.map_err(|error| format!("cannot start the logging thread: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines).log_internal_errors(false);
    match format {
        Format::Text => builder.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init(),
        Format::Json => builder.json().init(),
    }
    let for_panics = sender.clone();
    std::panic::set_hook(Box::new(move |panic| log_panic(panic, &for_panics)));
    Ok(Logging(sender))
}

/// Logs a panic. The default hook would write to stderr directly and block on a slow reader.
fn log_panic(panic: &PanicHookInfo<'_>, sender: &SyncSender<Said>) {
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        tracing::error!("{panic}\n{trace}");
    } else {
        tracing::error!("{panic}");
    }
    wait_until_written(sender);
}

/// Flushes the last lines when it is dropped.
pub(crate) struct Logging(SyncSender<Said>);

impl Drop for Logging {
    fn drop(&mut self) {
        wait_until_written(&self.0);
    }
}

fn wait_until_written(sender: &SyncSender<Said>) {
    let (done, is_done) = sync_channel(1);
    if sender.try_send(Said::Everything(done)).is_ok() {
        let _ = is_done.recv_timeout(LAST_LINES); // a reader that is too slow misses them
    }
}

enum Said {
    Line(Vec<u8>),
    /// Confirm that all earlier lines are written.
    Everything(SyncSender<()>),
}

/// The sender to the thread that writes.
struct Lines {
    sender: SyncSender<Said>,
    lost: Arc<AtomicU64>,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, text: Vec::new() }
    }
}

/// A line that is queued when it is complete.
struct Line<'a> {
    lines: &'a Lines,
    text: Vec<u8>,
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
        if self.lines.sender.try_send(Said::Line(std::mem::take(&mut self.text))).is_err() {
            self.lines.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_lines(waiting: &Receiver<Said>, lost: &AtomicU64) {
    let mut stderr = io::stderr();
    for said in waiting {
        match said {
            Said::Line(text) => {
                let _ = stderr.write_all(&text); // there is no other place to report the failure
                let lost = lost.swap(0, Ordering::Relaxed);
                if lost != 0 {
                    let _ = writeln!(stderr, "{lost} log lines dropped: the reader of stderr was too slow");
                }
            }
            Said::Everything(done) => _ = done.try_send(()),
        }
    }
}
