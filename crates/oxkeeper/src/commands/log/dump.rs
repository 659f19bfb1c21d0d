//! `oxkeeper log dump`: prints one line per transaction.

use crate::commands::output::{BAD, GOOD, complain, conclude};
use anyhow::anyhow;
use ox_inspect::dump::log::{LogFormat, dump_log};
use ox_store::disk::RealDisk;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file such as version-2/log.1
    file: PathBuf,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Prints a log; a damaged one as far as it can be read.
pub(super) fn run(Args { file, json }: &Args) -> ExitCode {
    let format = if *json { LogFormat::Json } else { LogFormat::Text };
    conclude(|out| {
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
    })
}
