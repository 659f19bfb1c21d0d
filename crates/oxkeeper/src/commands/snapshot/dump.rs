//! `oxkeeper snapshot dump`: prints every node with its metadata, then the sessions.

use super::source::snapshot_file;
use crate::commands::output::{BAD, GOOD, complain, conclude};
use ox_inspect::dump::snapshot::{SnapshotFormat, dump_snapshot};
use ox_store::disk::RealDisk;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file such as version-2/snapshot.0, also .gz and .snappy
    file: PathBuf,
    /// Print the data of each node, in base64
    #[arg(short, long, conflicts_with_all = ["json", "ncdu"])]
    data: bool,
    /// Print one JSON object per line
    #[arg(long, conflicts_with = "ncdu")]
    json: bool,
    /// Print the export format of ncdu, as Apache's toolkit does
    #[arg(long)]
    ncdu: bool,
}

/// Prints a snapshot; a damaged one as far as it can be read.
pub(super) fn run(Args { file, data, json, ncdu }: &Args) -> ExitCode {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let format = match (data, json, ncdu) {
        (true, ..) => SnapshotFormat::TextWithData,
        (_, true, _) => SnapshotFormat::Json,
        (.., true) => SnapshotFormat::Ncdu { now_ms: i64::try_from(now_ms).unwrap_or(i64::MAX) },
        _ => SnapshotFormat::Text,
    };
    dump_as_apache(file, format)
}

/// Prints a snapshot in one of the formats.
pub(crate) fn dump_as_apache(file: &Path, format: SnapshotFormat) -> ExitCode {
    conclude(|out| match dump_snapshot(&RealDisk, &snapshot_file(file)?, format, out) {
        Ok(_) => Ok(GOOD),
        Err(error @ ox_store::StoreError::Io { .. }) => Err(error.into()),
        Err(damage) => {
            out.flush()?;
            complain(&damage.into());
            Ok(BAD)
        }
    })
}
