//! Logs to the console and to a file that rotates: as text, as JSON, or in Apache's line layout.
//!
//! Separate threads write the lines, so that neither a pipe without a reader nor a slow disk stops the server. When too
//! many lines are queued, further ones are counted and dropped. A line that cannot be written is dropped too: logging
//! never fails, and panics are logged in the same way. A metric counts all dropped lines. Levels and the file can be
//! changed while the server runs.

mod levels;
mod lines;
mod output;
mod zookeeper_layout;

pub(crate) use levels::LevelChange;
pub(crate) use lines::Lines;
pub(crate) use zookeeper_layout::set_my_id;

use crate::terminal;
use clap::ValueEnum;
use levels::Levels;
use lines::Escaping;
use output::{LogFileOutput, Output};
use ox_config::{LogConfig, LogLevel};
use parking_lot::Mutex;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tracing::Subscriber;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use zookeeper_layout::ZookeeperLayout;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    /// One JSON object per line.
    Json,
    /// Apache ZooKeeper's layout, with the lines about environment and settings that Apache logs at the start.
    Zookeeper,
}

/// The stream of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Console {
    Stderr,
    /// As Apache's server logs.
    Stdout,
}

/// Checks levels of the command line.
pub(crate) fn check_filter(filter: &str) -> Result<String, String> {
    ox_config::check_log_levels(filter).map(|()| filter.to_owned())
}

/// Sets up logging. `levels` are those of the command line, which override the configuration's. Lines are written as
/// long as the returned value lives.
pub(crate) fn init(levels: Option<&str>, format: Format, console: Console) -> Result<LogGuard, String> {
    let has_colours = match console {
        Console::Stderr => terminal::has_colours(&io::stderr()),
        Console::Stdout => terminal::has_colours(&io::stdout()),
    };
    let console_escaping = match format {
        Format::Json => Escaping::Json,
        Format::Text if has_colours => Escaping::ControlsButColours,
        Format::Text | Format::Zookeeper => Escaping::Controls,
    };
    let file_escaping = if format == Format::Json { Escaping::Json } else { Escaping::Controls };
    let cannot_start = |error| format!("cannot start a logging thread: {error}");
    let dropped = Arc::<AtomicU64>::default();
    let start = |thread, escaping, output| Lines::start(thread, escaping, output, &dropped).map_err(cannot_start);
    let console = start("logging", console_escaping, Output::Console(console))?;
    let file = start("log file", file_escaping, Output::File(LogFileOutput::default()))?;
    let (filter, change_levels) = reload::Layer::new(Levels::new(levels, format).targets());
    let (console_filter, change_console) = reload::Layer::new(LevelFilter::TRACE);
    let (file_filter, change_file) = reload::Layer::new(LevelFilter::TRACE);
    tracing_subscriber::registry()
        .with(filter)
        .with(layer(&console, format, has_colours).with_filter(console_filter))
        .with(layer(&file, format, false).with_filter(file_filter))
        .init();
    let for_panics = [console.clone(), file.clone()];
    std::panic::set_hook(Box::new(move |panic| log_panic(panic, &for_panics)));
    Ok(LogGuard(Logging(Arc::new(LogControl {
        console,
        file,
        dropped,
        levels: Mutex::new(Levels::new(levels, format)),
        // Errors would mean that the subscriber is gone, which lives as long as the process.
        change_levels: Box::new(move |targets| _ = change_levels.reload(targets)),
        change_console: Box::new(move |level| _ = change_console.reload(level)),
        change_file: Box::new(move |level| _ = change_file.reload(level)),
    }))))
}

/// The lines of one output.
fn layer<S>(lines: &Lines, format: Format, has_colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone()).log_internal_errors(false);
    match format {
        Format::Text => layer.with_ansi(has_colours).boxed(),
        Format::Json => layer.json().boxed(),
        Format::Zookeeper => layer.event_format(ZookeeperLayout).boxed(),
    }
}

/// Logs a panic. The default hook would write to stderr directly and block on a slow reader.
fn log_panic(panic: &PanicHookInfo<'_>, outputs: &[Lines]) {
    let trace = Backtrace::capture();
    let is_captured = trace.status() == BacktraceStatus::Captured;
    let text = if is_captured { format!("{panic}\n{trace}") } else { panic.to_string() };
    text.lines().for_each(|line| tracing::error!("{line}"));
    for lines in outputs {
        lines.release();
        lines.flush();
    }
}

/// Changes the log while the server runs. All clones share it.
#[derive(Clone)]
pub(crate) struct Logging(Arc<LogControl>);

struct LogControl {
    console: Lines,
    file: Lines,
    /// Lines that were dropped since the start of the process.
    dropped: Arc<AtomicU64>,
    levels: Mutex<Levels>,
    change_levels: Box<dyn Fn(tracing_subscriber::filter::Targets) + Send + Sync>,
    change_console: Box<dyn Fn(LevelFilter) + Send + Sync>,
    change_file: Box<dyn Fn(LevelFilter) + Send + Sync>,
}

impl Logging {
    /// The lines of the console.
    pub(crate) fn console(&self) -> &Lines {
        &self.0.console
    }

    /// Applies a configuration: at the start, and when it was read again. Levels that were changed meanwhile stay, unless
    /// the configuration sets others than before.
    pub(crate) fn configure(&self, config: &LogConfig) {
        let control = &*self.0;
        let file_threshold = config.file.as_ref().map(|file| file.threshold);
        let filter = |threshold: Option<LogLevel>| threshold.map_or(LevelFilter::TRACE, levels::filter_of);
        (control.change_console)(filter(config.console_threshold));
        control.console.limit_held(filter(config.console_threshold));
        (control.change_file)(file_threshold.map_or(LevelFilter::OFF, filter));
        control.file.set_file(config.file.clone());
        let mut levels = control.levels.lock();
        if levels.configure(config) {
            (control.change_levels)(levels.targets());
        }
    }

    /// Changes the level of a module, or of all others, until the end of the process. Returns the levels.
    pub(crate) fn change_level(&self, change: &LevelChange) -> Result<String, String> {
        let mut levels = self.0.levels.lock();
        levels.change(change)?;
        (self.0.change_levels)(levels.targets());
        let text = levels.to_string();
        tracing::info!(levels = text, "log levels changed");
        Ok(text)
    }

    /// The levels, in the syntax of `--log`.
    pub(crate) fn levels(&self) -> String {
        self.0.levels.lock().to_string()
    }

    /// Counts the lines that were dropped since the start of the process.
    pub(crate) fn dropped_lines(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.dropped)
    }

    /// Opens the log file again, because it was renamed or removed.
    pub(crate) fn reopen(&self) {
        self.0.file.reopen_file();
    }
}

/// Flushes the last lines when it is dropped.
pub(crate) struct LogGuard(pub(crate) Logging);

impl Drop for LogGuard {
    fn drop(&mut self) {
        let LogControl { console, file, .. } = &*self.0.0;
        console.release();
        console.flush();
        file.flush();
    }
}
