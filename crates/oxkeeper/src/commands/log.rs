//! `oxkeeper log` and `oxkeeper snapshot`: what is in the files.

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use ox_store::Error;
use ox_store::disk::RealDisk;
use ox_store::dump::log::{LogFormat, dump_log};
use ox_store::dump::snapshot::{SnapshotFormat, dump_snapshot};
use ox_store::names::{Name, SnapshotFile, parse_name};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What to do with a transaction log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Print every transaction, in the format of Apache's toolkit
    Dump {
        /// A file such as version-2/log.1
        file: PathBuf,
        /// One JSON object per line instead
        #[arg(long)]
        json: bool,
    },
}

/// What to do with a snapshot.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Print sessions and nodes, in the format of Apache's toolkit
    Dump {
        /// A file such as version-2/snapshot.0, also .gz and .snappy
        file: PathBuf,
        /// With the data of each node, in base64
        #[arg(short, long, conflicts_with_all = ["json", "ncdu"])]
        data: bool,
        /// One JSON object per line instead
        #[arg(long, conflicts_with = "ncdu")]
        json: bool,
        /// The export format of ncdu, as Apache's toolkit writes it
        #[arg(long)]
        ncdu: bool,
    },
}

/// Runs a log command.
pub(crate) fn log(command: &LogCommand) -> Result<()> {
    let LogCommand::Dump { file, json } = command;
    let format = if *json { LogFormat::Json } else { LogFormat::Text };
    let Some(summary) = print(|out| dump_log(&RealDisk, file, format, out))? else { return Ok(()) };
    if summary.damaged != 0 || summary.is_partial {
        let (damaged, end) = (summary.damaged, summary.end);
        bail!("{} is damaged: {damaged} bad checksums, in order up to byte {end}", file.display());
    }
    Ok(())
}

/// Runs a snapshot command.
pub(crate) fn snapshot(command: &SnapshotCommand) -> Result<()> {
    let SnapshotCommand::Dump { file, data, json, ncdu } = command;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let format = match (data, json, ncdu) {
        (true, ..) => SnapshotFormat::TextWithData,
        (_, true, _) => SnapshotFormat::Json,
        (.., true) => SnapshotFormat::Ncdu { now_ms: i64::try_from(now_ms).unwrap_or(i64::MAX) },
        _ => SnapshotFormat::Text,
    };
    let file = snapshot_file(file)?;
    print(|out| dump_snapshot(&RealDisk, &file, format, out))?;
    Ok(())
}

/// A snapshot's zxid and compression are in its name.
fn snapshot_file(path: &Path) -> Result<SnapshotFile> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match parse_name(name) {
        Name::Snapshot(last, compression) => Ok(SnapshotFile { path: path.to_owned(), last, compression }),
        Name::Log(_) | Name::Strange | Name::Unfinished | Name::Old | Name::Other => {
            bail!("{} is not named like a snapshot\nhint: snapshot.<zxid in hex>[.gz|.snappy]", path.display())
        }
    }
}

/// Prints through a buffer; what is there before an error, too. `None` when the reader has seen enough, as `head` has.
fn print<T>(body: impl FnOnce(&mut dyn Write) -> Result<T, Error>) -> Result<Option<T>> {
    let mut out = BufWriter::new(io::stdout().lock());
    let result = body(&mut out);
    let is_enough = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    match (result, out.flush()) {
        (Err(Error::Io { source, .. }), _) if is_enough(&source) => Ok(None),
        (_, Err(error)) if is_enough(&error) => Ok(None),
        (Ok(_), Err(error)) => Err(error).context("print"),
        (result, _) => Ok(result.map(Some)?),
    }
}
