//! `zkCleanup.sh`: removes old snapshots and logs, as Apache's `PurgeTxnLog`.

use super::environment::ScriptEnvironment;
use super::file_settings::FileSettings;
use super::print;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ox_store::disk::RealDisk;
use ox_store::names::Dirs;
use ox_store::purge::{RETAIN_MIN, purge_offline};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

const USAGE: &str = "\
Usage:
PurgeTxnLog dataLogDir [snapDir] -n count
\tdataLogDir -- path to the txn log directory
\tsnapDir -- path to the snapshot directory
\tcount -- the number of old snaps/logs you want to keep, value should be greater than or equal to 3
";

pub(super) fn run(environment: &ScriptEnvironment, words: &[String]) -> ExitCode {
    let config = &environment.config;
    let settings = match FileSettings::read(config) {
        Ok(settings) => settings,
        Err(error) => {
            crate::say(format_args!("error: cannot read {}: {error}", config.display()));
            return ExitCode::FAILURE;
        }
    };
    let data = settings.get("dataDir").unwrap_or_default();
    let logs = settings.get("dataLogDir").unwrap_or(data);
    let keep = match words {
        [option, count] if option == "-n" => count_of(count),
        _ => Err(String::new()),
    };
    let keep = keep.and_then(|keep| {
        exists(logs)?;
        exists(data).map(|()| keep)
    });
    match keep {
        Ok(keep) => purge(Path::new(logs), Path::new(data), keep),
        Err(error) => {
            if !error.is_empty() {
                crate::say(format_args!("{error}"));
            }
            print(format_args!("{USAGE}"));
            ExitCode::FAILURE
        }
    }
}

fn count_of(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|_| format!("'{text}' can not be parsed to integer."))?;
    if count < RETAIN_MIN { Err(format!("count should be greater than or equal to {RETAIN_MIN}")) } else { Ok(count) }
}

fn exists(directory: &str) -> Result<(), String> {
    let path = std::path::absolute(directory).unwrap_or_else(|_| PathBuf::from(directory));
    if path.is_dir() { Ok(()) } else { Err(format!("Path '{}' does not exist. ", path.display())) }
}

fn purge(logs: &Path, data: &Path, keep: usize) -> ExitCode {
    let dirs = Dirs { snapshots: data.join("version-2"), logs: logs.join("version-2") };
    let times = [&dirs.snapshots, &dirs.logs].map(|directory| times(directory)).into_iter().flatten();
    let times: BTreeMap<PathBuf, SystemTime> = times.collect();
    let purged = match purge_offline(&RealDisk, &dirs, keep) {
        Ok(purged) => purged,
        Err(error) => {
            crate::commands::output::complain(&error.into());
            return ExitCode::FAILURE;
        }
    };
    for path in &purged.removed {
        let time = times.get(path).copied().unwrap_or(SystemTime::UNIX_EPOCH);
        print(format_args!("Removing file: {}\t{}\n", local_date(time), path.display()));
    }
    for (path, error) in &purged.failed {
        crate::say(format_args!("Failed to remove {}: {error}", path.display()));
    }
    if purged.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// When the files of a directory were changed.
fn times(directory: &Path) -> Vec<(PathBuf, SystemTime)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.modified().ok()?))).collect()
}

/// In Java's default format and the local time zone: `Nov 15, 2026, 6:45:16 AM`.
fn local_date(time: SystemTime) -> String {
    let date = Timestamp::try_from(time).unwrap_or_default().to_zoned(TimeZone::system());
    date.strftime("%b %-d, %Y, %-I:%M:%S %p").to_string()
}
