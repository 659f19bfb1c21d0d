//! Settings of the server's log: Apache's properties of its logging configuration, and the levels of Oxkeeper.

use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;
use crate::error::{Cause, ErrorCollector};
use crate::settings::Settings;

/// The outputs of the server's log, and what each shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A level, and levels of modules, as in `info,ox_server=debug`; `None` if the configuration does not set any.
    pub levels: Option<String>,
    /// The least important lines on the console; `None` shows whatever `levels` let through.
    pub console_threshold: Option<LogLevel>,
    pub file: Option<LogFileConfig>,
}

/// A file that is rotated by size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFileConfig {
    pub path: PathBuf,
    /// The file is rotated when it would become larger.
    pub bytes_max: u64,
    /// Rotated files to keep.
    pub backups: u32,
    /// The least important lines in the file; `None` writes whatever the levels let through.
    pub threshold: Option<LogLevel>,
}

/// Levels from silent to the most detailed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// A level in any case, by its name here or in Java's libraries.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "off" => Self::Off,
            "error" | "fatal" => Self::Error,
            "warn" | "warning" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            "trace" | "all" => Self::Trace,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

const LEVELS: &str = "oxkeeper.log.levels";
const FILE: &str = "log.file";
const FILE_BYTES: &str = "log.maxfilesize";
const BACKUPS: &str = "log.maxbackupindex";
/// Smaller files would be rotated with almost every line.
const FILE_BYTES_MIN: u64 = 4096;
const BACKUPS_MAX: i32 = 1000;

/// Checks levels such as `info,ox_server=debug`. An error names the part that is wrong.
pub fn check_log_levels(levels: &str) -> Result<(), String> {
    for directive in levels.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        let (module, level) =
            directive.rsplit_once('=').map_or((None, directive), |(module, level)| (Some(module), level));
        let is_module = |name: &str| {
            !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_:".contains(letter))
        };
        if LogLevel::parse(level.trim()).is_none() {
            return Err(format!(
                "`{level}` is not a log level: use off, error, warn, info, debug or trace, alone or as in \
                 info,ox_server=debug"
            ));
        }
        if !module.is_none_or(|name| is_module(name.trim())) {
            return Err(format!("`{}` is not a module: use a name such as ox_server", module.unwrap_or_default()));
        }
    }
    Ok(())
}

/// Refuses levels that would silence or flood the log by a misspelling. Apache's keys are never refused.
pub(crate) fn check(settings: &Settings, errors: &mut ErrorCollector) {
    let Some(text) = settings.text(LEVELS) else { return };
    if let Err(why) = check_log_levels(&text) {
        errors.add(settings.place_of(LEVELS).error(Cause::LogLevels(why)));
    }
}

impl LogConfig {
    pub(crate) fn from_checked(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let console_threshold = threshold("console.threshold", settings, diagnostics);
        let name = settings.text(FILE).filter(|name| !name.is_empty());
        let file = name.map(|name| LogFileConfig {
            path: Path::new(&settings.text("log.dir").unwrap_or_default()).join(name),
            bytes_max: file_bytes(settings, diagnostics),
            backups: backups(settings, diagnostics),
            threshold: threshold("log.threshold", settings, diagnostics),
        });
        Self { levels: settings.text(LEVELS), console_threshold, file }
    }
}

/// Compat: a level that is none counts as unset, and is no error.
fn threshold(key: &'static str, settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> Option<LogLevel> {
    let text = settings.text(key).filter(|text| !text.is_empty())?;
    let level = LogLevel::parse(&text);
    if level.is_none() {
        let hint = "is not a log level and has no effect; use TRACE, DEBUG, INFO, WARN, ERROR or OFF";
        diagnostics.push(Diagnostic::warn(settings.place_of(key), format!("{key}: {text} {hint}")));
    }
    level
}

fn file_bytes(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> u64 {
    let text = settings.text(FILE_BYTES).unwrap_or_default();
    match parse_bytes(&text) {
        Some(bytes) if FILE_BYTES_MIN <= bytes => bytes,
        other => {
            let used = if other.is_some() { FILE_BYTES_MIN } else { FILE_BYTES_DEFAULT };
            let text = format!("{FILE_BYTES}: {text} is not a size from 4KB on; using {used} bytes");
            diagnostics.push(Diagnostic::warn(settings.place_of(FILE_BYTES), text));
            used
        }
    }
}

/// The default in the key table.
const FILE_BYTES_DEFAULT: u64 = 256 << 20;

fn backups(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> u32 {
    let given = settings.int(BACKUPS);
    let used = given.clamp(0, BACKUPS_MAX);
    if used != given {
        let text = format!("{BACKUPS}: {given} is not in 0 to {BACKUPS_MAX}; using {used}");
        diagnostics.push(Diagnostic::warn(settings.place_of(BACKUPS), text));
    }
    used.unsigned_abs()
}

/// A size as Java's logging libraries read it: a number, with KB, MB or GB or without a unit.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_by_java() {
        let cases = [
            ("256MB", Some(256 << 20)),
            ("10 kb", Some(10 << 10)),
            ("5", Some(5)),
            ("2GB", Some(2 << 30)),
            ("x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
        assert_eq!(parse_bytes("99999999999999GB"), None, "more than 64 bits");
    }

    #[test]
    fn misspelt_levels_are_refused() {
        for good in ["", "info", "WARN,ox_server=debug", "ox_server::io = trace , error"] {
            assert_eq!(check_log_levels(good), Ok(()), "{good}");
        }
        for bad in ["inf", "ox_server=loud", "ox server=info", "=info"] {
            assert!(check_log_levels(bad).is_err(), "{bad}");
        }
    }
}
