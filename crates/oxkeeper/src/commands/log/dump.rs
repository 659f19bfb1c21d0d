//! `oxkeeper log dump`: prints one line per transaction.

use crate::commands::output::{BAD, GOOD, complain, conclude};
use anyhow::{Result, anyhow, bail};
use ox_inspect::dump::log::{LogFormat, dump_log};
use ox_inspect::locate;
use ox_store::disk::RealDisk;
use ox_store::names::{Dirs, list};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file such as version-2/log.1, or a directory with logs (dataLogDir, or version-2 in it)
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Prints a log, or all logs of a directory in their order; a damaged one as far as it can be read.
pub(super) fn run(Args { file, json }: &Args) -> ExitCode {
    let format = if *json { LogFormat::Json } else { LogFormat::Text };
    conclude(|out| {
        if !locate::is_dir(&RealDisk, file) {
            return dump(file, format, out);
        }
        let dir = locate::files_dir(&RealDisk, file)?;
        let logs = list(&RealDisk, &Dirs { snapshots: dir.clone(), logs: dir.clone() })?.logs;
        if logs.is_empty() {
            bail!("no logs in {}\nhint: give dataLogDir (dataDir if it is not set), or version-2 in it", dir.display());
        }
        logs.iter().try_fold(GOOD, |worst, log| Ok(worst.max(dump(&log.path, format, out)?)))
    })
}

fn dump(file: &Path, format: LogFormat, out: &mut dyn Write) -> Result<u8> {
    let summary = dump_log(&RealDisk, file, format, out)?;
    if summary.damaged == 0 && !summary.is_partial {
        return Ok(GOOD);
    }
    out.flush()?;
    let (damaged, end) = (summary.damaged, summary.end);
    complain(&anyhow!(
        "{0} is damaged: {damaged} wrong checksums, readable up to byte {end}\nhint: oxkeeper log check {0} shows details",
        file.display()
    ));
    Ok(BAD)
}
