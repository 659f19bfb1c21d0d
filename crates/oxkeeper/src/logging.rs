//! Logs to stderr: as text, as JSON, or in Apache's line layout.
//!
//! A separate thread writes the lines, so that a pipe without a reader does not stop the server. When too many lines
//! are queued, further ones are counted and dropped. A line that cannot be written is dropped too: logging never
//! fails, and panics are logged in the same way.

mod lines;
mod zookeeper_layout;

pub(crate) use lines::Lines;
pub(crate) use zookeeper_layout::set_my_id;

use crate::terminal;
use clap::ValueEnum;
use lines::Escaping;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::PanicHookInfo;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
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

/// The filter that leaves out Apache's lines about environment and settings, unless they are asked for.
fn whole_filter(filter: &str, format: Format) -> String {
    let target = ox_server::SETTINGS_LOG_TARGET;
    let filter = if filter.is_empty() { "info" } else { filter };
    let is_detailed = |directive: &str| directive.parse::<LevelFilter>().is_ok_and(|level| LevelFilter::INFO < level);
    if format == Format::Zookeeper || filter.contains(target) || filter.split(',').any(is_detailed) {
        filter.to_owned()
    } else {
        format!("{filter},{target}=warn")
    }
}

/// Sets up logging with a checked filter. Lines are written as long as the returned value lives.
pub(crate) fn init(filter: &str, format: Format) -> Result<Logging, String> {
    let targets: Targets = whole_filter(filter, format).parse().map_err(|error| format!("--log {filter}: {error}"))?;
    let has_colours = terminal::has_colours(&io::stderr());
    let escaping = match format {
        Format::Json => Escaping::Done,
        Format::Text if has_colours => Escaping::ControlsButColours,
        Format::Text | Format::Zookeeper => Escaping::Controls,
    };
    let lines = Lines::start(escaping).map_err(|error| format!("cannot start the logging thread: {error}"))?;
    let filtered = tracing_subscriber::registry().with(targets);
    let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone()).log_internal_errors(false);
    match format {
        Format::Text => filtered.with(layer.with_ansi(has_colours)).init(),
        Format::Json => filtered.with(layer.json()).init(),
        Format::Zookeeper => filtered.with(layer.event_format(ZookeeperLayout)).init(),
    }
    let for_panics = lines.clone();
    std::panic::set_hook(Box::new(move |panic| log_panic(panic, &for_panics)));
    Ok(Logging(lines))
}

/// Logs a panic. The default hook would write to stderr directly and block on a slow reader.
fn log_panic(panic: &PanicHookInfo<'_>, lines: &Lines) {
    let trace = Backtrace::capture();
    let is_captured = trace.status() == BacktraceStatus::Captured;
    let text = if is_captured { format!("{panic}\n{trace}") } else { panic.to_string() };
    text.lines().for_each(|line| tracing::error!("{line}"));
    lines.release();
    lines.flush();
}

/// Flushes the last lines when it is dropped.
pub(crate) struct Logging(pub(crate) Lines);

impl Drop for Logging {
    fn drop(&mut self) {
        self.0.release();
        self.0.flush();
    }
}
