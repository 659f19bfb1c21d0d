//! `oxkeeper snapshot check`: whether snapshots can be used, and what they contain.

use super::source::snapshot_file;
use crate::commands::output::{BAD, GOOD, UNKNOWN, code_or_unknown, conclude, count};
use crate::commands::progress::Watched;
use anyhow::{Result, bail};
use ox_inspect::locate;
use ox_inspect::snapshot_check::{SnapshotCheck, StoredDigest, check_snapshot};
use ox_store::StoreError;
use ox_store::disk::Disk;
use ox_store::names::SnapshotFile;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 if all snapshots are intact, 1 if one is damaged, 2 if one cannot be read.")]
pub(crate) struct Args {
    /// Snapshots, or directories with snapshots (dataDir, or version-2 in it)
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Print one JSON object per snapshot
    #[arg(long)]
    json: bool,
}

/// Checks all paths, even after one that cannot be read.
pub(super) fn run(args: &Args) -> ExitCode {
    conclude(|out| {
        let mut worst = GOOD;
        for path in &args.paths {
            let checked = files(path).and_then(|files| {
                files.iter().try_fold(GOOD, |worst, file| Ok(worst.max(check(file, args.json, out)?)))
            });
            worst = worst.max(code_or_unknown(checked));
        }
        Ok(worst)
    })
}

fn files(path: &Path) -> Result<Vec<SnapshotFile>> {
    let disk = Watched::new();
    if !locate::is_dir(&disk, path) {
        return Ok(vec![snapshot_file(path)?]);
    }
    let dir = locate::files_dir(&disk, path)?;
    let named = disk.list(&dir)?;
    let mut files: Vec<SnapshotFile> = named.iter().filter_map(|name| locate::snapshot_file(&dir.join(name))).collect();
    if files.is_empty() {
        bail!("no snapshots in {}\nhint: give dataDir, or version-2 in it", dir.display());
    }
    files.sort_by_key(|file| file.last);
    Ok(files)
}

fn check(file: &SnapshotFile, json: bool, out: &mut dyn Write) -> Result<u8> {
    let disk = Watched::new();
    let found = check_snapshot(&disk, file);
    disk.clear();
    let code = match &found {
        Ok(found) if matches!(found.stored_digest, StoredDigest::Differs(_)) => BAD,
        Ok(_) => GOOD,
        Err(error) if error.is_damage() => BAD,
        Err(_) => UNKNOWN,
    };
    if json {
        writeln!(out, "{}", in_json(file, &found, code))?;
        return Ok(code);
    }
    match found {
        Ok(found) => tell(file, &found, out)?,
        Err(error) if code == BAD => {
            writeln!(out, "{}: damaged", file.path.display())?;
            if let StoreError::Snapshot { source, .. } = &error {
                writeln!(out, "  {source}")?;
            } else {
                writeln!(out, "  {error}")?;
            }
            writeln!(
                out,
                "  A server skips it at start and uses the next older one, if the logs reach back to that one."
            )?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(code)
}

fn tell(file: &SnapshotFile, found: &SnapshotCheck, out: &mut dyn Write) -> Result<()> {
    let SnapshotCheck { contents, data_bytes, ephemerals, acls, reach, .. } = found;
    let differs = matches!(found.stored_digest, StoredDigest::Differs(_));
    writeln!(out, "{}: {}", file.path.display(), if differs { "damaged" } else { "good" })?;
    let (nodes, sessions) = (count(contents.nodes, "node"), count(contents.sessions, "session"));
    let (ephemerals, acls) = (count(*ephemerals as u64, "ephemeral"), count(*acls as u64, "access control list"));
    writeln!(out, "  {nodes} ({ephemerals}) with {data_bytes} bytes of data, {sessions}, {acls}")?;
    if *reach == file.last {
        writeln!(out, "  complete up to {reach}")?;
    } else {
        writeln!(
            out,
            "  complete up to {}, with parts of transactions up to {reach}: the logs from there are needed",
            file.last
        )?;
    }
    match found.stored_digest {
        StoredDigest::Fits => writeln!(out, "  digest {} matches", found.digest)?,
        StoredDigest::None => writeln!(out, "  no digest to compare with {}", found.digest)?,
        StoredDigest::Later(zxid) => {
            writeln!(out, "  digest of {zxid}: a server compares it when it has replayed the logs up to there")?
        }
        StoredDigest::Differs(stored) => writeln!(
            out,
            "  digest {} does not match the stored {stored}: its writer had a fault, or the file was changed\n  \
             A server uses it at start and counts a digest mismatch.",
            found.digest
        )?,
    }
    if let [first, rest @ ..] = &found.unresolved[..] {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        writeln!(out, "  access control lists missing: {first}{more}; the logs after it may contain them")?;
    }
    if found.dead_owners != 0 {
        writeln!(
            out,
            "  ephemeral nodes of {} that the snapshot does not contain; a server removes them at start",
            count(found.dead_owners as u64, "session")
        )?;
    }
    Ok(())
}

fn in_json(file: &SnapshotFile, found: &Result<SnapshotCheck, StoreError>, code: u8) -> serde_json::Value {
    let verdict = ["good", "damaged", "unreadable"][usize::from(code.min(2))];
    let (path, zxid) = (file.path.display().to_string(), file.last.to_string());
    match found {
        Ok(found) => json!({
            "file": path, "verdict": verdict, "zxid": zxid, "reach": found.reach.to_string(),
            "nodes": found.contents.nodes, "ephemerals": found.ephemerals, "sessions": found.contents.sessions,
            "acls": found.acls, "dataBytes": found.data_bytes, "bytes": found.contents.bytes,
            "digest": found.digest.to_string(),
            "storedDigest": match found.stored_digest {
                StoredDigest::None => "none",
                StoredDigest::Fits => "fits",
                StoredDigest::Differs(_) => "differs",
                StoredDigest::Later(_) => "later",
            },
            "unresolvedAcls": found.unresolved, "deadOwners": found.dead_owners,
        }),
        Err(error) => json!({ "file": path, "verdict": verdict, "zxid": zxid, "error": error.to_string() }),
    }
}
