//! `oxkeeper log check`: whether logs are complete, and whether a server would start with a directory.

use super::describe;
use crate::commands::output::{BAD, GOOD, UNKNOWN, code_or_unknown, complain, conclude, count};
use crate::commands::progress::Watched;
use anyhow::{Result, bail};
use ox_inspect::dump::utc;
use ox_inspect::locate;
use ox_inspect::log_check::{LogCheck, LogFault, LogFaultKind, LogVerdict, check_log, check_log_of};
use ox_proto::Zxid;
use ox_store::StoreError;
use ox_store::log_reader::LogHeader;
use ox_store::names::{Dirs, LogFile, list};
use ox_store::start_preview::{PreviewedHistory, StartPreview, preview_start};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
For a directory, also prints whether a server with default settings would start with it. Changes nothing.
Exit code: 0 if everything is intact, 1 if something is damaged or torn, 2 if something cannot be read, 3 for an intact
copy of a running server, as a backup is.")]
pub(crate) struct Args {
    /// Logs, or directories with logs (dataLogDir, or version-2 in it)
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Where the snapshots are (dataDir), if not in the same directory
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// Print one JSON object per log and per directory
    #[arg(long)]
    json: bool,
}

/// Checks all paths, even after one that cannot be read.
pub(super) fn run(args: &Args) -> ExitCode {
    conclude(|out| {
        let mut total = Total::default();
        let mut worst = GOOD;
        for path in &args.paths {
            let checked = if locate::is_dir(&Watched::new(), path) {
                directory(path, args, &mut total, out)
            } else {
                file(path, None, args.json, &mut total, out).map(code)
            };
            worst = worse(worst, code_or_unknown(checked));
        }
        if !args.json && 1 < args.paths.len() {
            total.print(out)?;
        }
        Ok(worst)
    })
}

/// An intact copy of a running server.
const COPY: u8 = 3;

/// The more serious one of two exit codes.
fn worse(one: u8, other: u8) -> u8 {
    let rank = |code: u8| [GOOD, COPY, BAD, UNKNOWN].iter().position(|known| *known == code);
    if rank(one) < rank(other) { other } else { one }
}

fn code(verdict: LogVerdict) -> u8 {
    if verdict.is_good() { GOOD } else { BAD }
}

#[derive(Default)]
struct Total {
    files: u64,
    clean: u64,
    torn: u64,
    damaged: u64,
}

impl Total {
    /// Prints the numbers of several logs.
    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let Self { files, clean, torn, damaged } = *self;
        if 1 < files {
            writeln!(out, "{}: {clean} clean, {torn} torn, {damaged} damaged", count(files, "log"))?;
        }
        Ok(())
    }
}

fn file(path: &Path, dirs: Option<&Dirs>, json: bool, total: &mut Total, out: &mut dyn Write) -> Result<LogVerdict> {
    let disk = Watched::new();
    let check = match dirs {
        Some(dirs) => check_log_of(&disk, path, dirs)?,
        None => check_log(&disk, path)?,
    };
    disk.clear();
    if check.named.is_none() && matches!(check.header, LogHeader::BadMagic(_)) {
        bail!("{} is not a log: neither its name (log.ZXID) nor its content is that of one", path.display());
    }
    let verdict = check.verdict();
    total.files += 1;
    match verdict {
        LogVerdict::Clean | LogVerdict::Empty => total.clean += 1,
        LogVerdict::Torn | LogVerdict::InDoubt => total.torn += 1,
        LogVerdict::Damaged => total.damaged += 1,
    }
    if json {
        writeln!(out, "{}", in_json(&check))?;
    } else {
        tell(&check, out)?;
    }
    Ok(verdict)
}

fn tell(check: &LogCheck, out: &mut dyn Write) -> Result<()> {
    let (path, verdict) = (check.path.display(), check.verdict());
    writeln!(out, "{path}: {}", describe::verdict(verdict))?;
    if let Some(zxids) = check.zxids() {
        let times =
            check.times_ms.map(|(first, last)| format!(", {} to {}", utc(first), utc(last))).unwrap_or_default();
        writeln!(out, "  {}, {}{times}", count(check.records(), "good record"), describe::range(zxids))?;
    }
    if let Some(text) = describe::header(check) {
        writeln!(out, "  {text}")?;
    }
    if let (Some(named), Some((first, _))) = (check.named, check.zxids())
        && named != first
    {
        writeln!(out, "  the file name says {named}, but the first record is {first}")?;
    }
    for fault in check.faults() {
        let missing = describe::missing(fault).map(|text| format!(" ({text})")).unwrap_or_default();
        let what = describe::what(fault, check.is_copied);
        writeln!(out, "  {}: {what}{missing}", describe::place(&fault.bytes))?;
    }
    if let Some(fault) = check.faults().next() {
        writeln!(out, "  {}", describe::consequence(fault, check.is_copied))?;
    }
    if check.is_incomplete {
        writeln!(out, "  further faults were not examined")?;
    }
    if verdict == LogVerdict::Damaged {
        writeln!(out, "  hint: oxkeeper log recover {path} shows what can be saved")?;
    }
    Ok(())
}

fn directory(path: &Path, args: &Args, total: &mut Total, out: &mut dyn Write) -> Result<u8> {
    let disk = Watched::new();
    let dirs = locate::dirs(&disk, args.snapshots.as_deref().unwrap_or(path), Some(path))?;
    let listing = list(&disk, &dirs)?;
    if listing.logs.is_empty() && listing.snapshots.is_empty() {
        bail!(
            "no logs in {}\nhint: give dataLogDir (dataDir if it is not set), or version-2 in it",
            dirs.logs.display()
        );
    }
    let (mut worst, mut bad, mut is_torn_only) = (GOOD, Vec::new(), true);
    for LogFile { path, .. } in &listing.logs {
        match file(path, Some(&dirs), args.json, total, out) {
            Ok(verdict) if verdict.is_good() => (),
            Ok(verdict) => {
                worst = worse(worst, BAD);
                is_torn_only &= matches!(verdict, LogVerdict::Torn | LogVerdict::InDoubt);
                bad.push(path);
            }
            Err(error) => {
                complain(&error);
                worst = UNKNOWN;
            }
        }
    }
    // The verdict on a single directory is last.
    if !args.json && args.paths.len() == 1 {
        total.print(out)?;
    }
    if listing.snapshots.is_empty() && args.snapshots.is_none() {
        if !args.json {
            writeln!(out, "{}: no snapshots here, so it is unknown whether a server would start", dirs.logs.display())?;
            writeln!(out, "  hint: if they are in another directory, add --snapshots <dataDir>")?;
        }
        return Ok(worst);
    }
    let outlook = preview_start(&disk, &dirs)?;
    disk.clear();
    let is_good = outlook.history.as_ref().is_ok_and(|history| history.cut.is_none());
    let copied_up_to = intact_copy(&outlook).filter(|_| is_torn_only && worst != UNKNOWN);
    if args.json {
        writeln!(out, "{}", outlook_json(&dirs, &outlook, copied_up_to))?;
    } else {
        tell_outlook(&dirs.logs.display().to_string(), &outlook, out)?;
        if let Ok(history) = &outlook.history {
            let cut = history.cut.as_ref().map(|(path, ..)| path);
            for path in bad.into_iter().filter(|path| Some(*path) != cut) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                writeln!(out, "  the fault of {name} does not matter: a snapshot or the next log covers it")?;
            }
        }
    }
    let Some(last) = copied_up_to else { return Ok(worse(worst, if is_good { GOOD } else { BAD })) };
    if !args.json {
        writeln!(out, "{}: an intact copy of a running server, up to {last}", dirs.logs.display())?;
    }
    Ok(COPY)
}

/// The last zxid of a copy of a running server from which nothing but its end may be missing.
fn intact_copy(outlook: &StartPreview) -> Option<Zxid> {
    match &outlook.history {
        Ok(history) => history.is_copied.then_some(history.last),
        Err(StoreError::Copied { last, .. }) => Some(*last),
        Err(_) => None,
    }
}

/// Prints whether a server would start, and at which zxid.
pub(super) fn tell_outlook(what: &str, outlook: &StartPreview, out: &mut dyn Write) -> Result<()> {
    let who = if outlook.is_member { "an ensemble member" } else { "a server" };
    match &outlook.history {
        Ok(history) => {
            writeln!(out, "{what}: {who} would start with it")?;
            tell_history(history, out)?;
        }
        Err(error) => {
            let would = if outlook.is_member {
                "would not use it, and would wait for a leader's snapshot"
            } else {
                "would not start with it"
            };
            writeln!(out, "{what}: {who} {would}")?;
            writeln!(out, "  {error}")?;
            if let Some(remedy) = remedy(outlook, error) {
                writeln!(out, "  hint: {remedy}")?;
            }
        }
    }
    if let Some(reason) = &outlook.quarantine {
        writeln!(out, "  quarantined since an earlier start, until a leader sends a snapshot: {reason}")?;
        writeln!(out, "  hint: without a leader, only a start with oxkeeper.recovery.onDamage=accept ends that, too")?;
    }
    Ok(())
}

fn remedy(outlook: &StartPreview, error: &StoreError) -> Option<&'static str> {
    if outlook.quarantine.is_some() { error.remedy_in_quarantine() } else { error.remedy() }
}

fn tell_history(history: &PreviewedHistory, out: &mut dyn Write) -> Result<()> {
    let from = match &history.snapshot {
        Some(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        None => "nothing".to_owned(),
    };
    let replayed = count(history.replayed, "transaction");
    writeln!(out, "  from {from} and {replayed} after it, up to {}", history.last)?;
    if let Some((path, offset, lost)) = &history.cut {
        let lost = lost.map(|zxid| format!(", with complete records up to {zxid}")).unwrap_or_default();
        writeln!(out, "  it would truncate {} at byte {offset}{lost}", path.display())?;
    }
    for rejected in &history.rejected {
        writeln!(out, "  {} cannot be used: {}", rejected.path.display(), rejected.reason)?;
    }
    if let (compared, mismatches @ 1..) = history.digests {
        writeln!(
            out,
            "  {mismatches} of {compared} digests do not match: their writer had a fault, or the files were changed"
        )?;
    }
    for warning in &history.warnings {
        writeln!(out, "  {warning}")?;
    }
    Ok(())
}

fn in_json(check: &LogCheck) -> Value {
    let zxids = check.zxids();
    json!({
        "file": check.path.display().to_string(),
        "verdict": check.verdict().as_str(),
        "records": check.records(),
        "first": zxids.map(|(first, _)| first.to_string()),
        "last": zxids.map(|(_, last)| last.to_string()),
        "timesMs": check.times_ms.map(|(first, last)| [first, last]),
        "length": check.length,
        "padding": check.padding,
        "synced": check.synced,
        "header": describe::header(check),
        "faults": check.faults().map(fault_json).collect::<Vec<_>>(),
        "incomplete": check.is_incomplete,
    })
}

pub(super) fn fault_json(fault: &LogFault) -> Value {
    let kind = match fault.kind {
        LogFaultKind::Bytes { .. } => "bytes",
        LogFaultKind::Record(_) => "record",
        LogFaultKind::Gap => "gap",
    };
    json!({
        "kind": kind,
        "from": fault.bytes.start,
        "to": fault.bytes.end,
        "after": fault.after.map(|zxid| zxid.to_string()),
        "before": fault.before.map(|zxid| zxid.to_string()),
        "what": describe::what(fault, false),
    })
}

fn outlook_json(dirs: &Dirs, outlook: &StartPreview, copied_up_to: Option<Zxid>) -> Value {
    let dir = dirs.logs.display().to_string();
    let copy = copied_up_to.map(|zxid| zxid.to_string());
    match &outlook.history {
        Ok(history) => json!({
            "directory": dir, "starts": true, "member": outlook.is_member, "quarantine": outlook.quarantine,
            "snapshot": history.snapshot.as_ref().map(|path| path.display().to_string()),
            "replayed": history.replayed, "last": history.last.to_string(),
            "cut": history.cut.as_ref().map(|(path, offset, _)| json!({ "file": path.display().to_string(), "at": offset })),
            "rejected": history.rejected.iter().map(|one| one.reason.to_string()).collect::<Vec<_>>(),
            "digests": { "compared": history.digests.0, "mismatches": history.digests.1 },
            "warnings": history.warnings, "intactCopyUpTo": copy,
        }),
        Err(error) => json!({
            "directory": dir, "starts": false, "member": outlook.is_member, "quarantine": outlook.quarantine,
            "error": error.to_string(), "hint": remedy(outlook, error), "intactCopyUpTo": copy,
        }),
    }
}
