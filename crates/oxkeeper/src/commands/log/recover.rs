//! `oxkeeper log recover`: shows what can be saved of a damaged log, and writes it to a new file on request.

use super::check::{fault_json, tell_outlook};
use super::describe;
use crate::commands::output::{BAD, GOOD, conclude, count};
use crate::commands::progress::Watched;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use ox_inspect::locate;
use ox_inspect::log_check::{LogFault, LogFaultKind};
use ox_inspect::recover::{MarkerChoice, PlanAction, PlanStep, RecoverMode, RecoveryPlan};
use ox_store::marker::MARKER_NAME;
use ox_store::names::{VERSION_DIR, list};
use serde_json::{Value, json};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without -r or --write, writes nothing: it prints which records it would keep and drop, and whether a server would then start.
It never changes the log itself.
Exit code: 0 if there is nothing to recover or the new file was written, 1 if there is something to recover, 2 if the
recovery failed.")]
pub(crate) struct Args {
    /// A file such as version-2/log.1
    file: PathBuf,
    /// Which records to keep
    #[arg(long, value_enum, default_value_t = How::Cut)]
    mode: How,
    /// Write <FILE>.fixed, as Apache's toolkit does
    #[arg(short = 'r', long = "fixed")]
    fixed: bool,
    /// Write to this file
    #[arg(long, value_name = "OUT", conflicts_with = "fixed")]
    write: Option<PathBuf>,
    /// Write without asking; required without a terminal
    #[arg(short, long)]
    yes: bool,
    /// Write nothing (the default)
    #[arg(long, conflicts_with_all = ["fixed", "write"])]
    dry_run: bool,
    /// Where the snapshots are (dataDir), if not in the same directory
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// Print the plan as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    /// Keep everything before the first damage
    Cut,
    /// Omit damaged records and keep all others: transactions will be missing in between
    Skip,
    /// As skip, but write a new checksum for complete records with a wrong one, as Apache's toolkit does: their
    /// content may be wrong
    Fix,
}

/// Shows the plan, and executes it on request.
pub(super) fn run(args: &Args) -> ExitCode {
    conclude(|out| {
        let disk = Watched::new();
        if locate::is_dir(&disk, &args.file) {
            bail!("{0} is a directory\nhint: oxkeeper log check {0} shows which log is damaged", args.file.display());
        }
        let mode = match args.mode {
            How::Cut => RecoverMode::Cut,
            How::Skip => RecoverMode::Skip,
            How::Fix => RecoverMode::Fix,
        };
        let plan = RecoveryPlan::new(&disk, &args.file, mode)?;
        disk.clear();
        if args.json {
            writeln!(out, "{}", in_json(&plan))?;
        } else {
            tell(&plan, out)?;
        }
        if plan.is_unnecessary() || plan.check.is_empty {
            return Ok(GOOD);
        }
        let note = if args.json { MarkerChoice::Kept } else { foresee(&disk, args, &plan, out)? };
        let Some(target) = target(args) else {
            if !args.json {
                let (flag, file, fixed) = (mode_flag(mode), args.file.display(), fixed_name(&args.file));
                writeln!(
                    out,
                    "\nNothing was written. oxkeeper log recover -r{flag} {file} writes {}.",
                    fixed.display()
                )?;
            }
            return Ok(BAD);
        };
        out.flush()?;
        if !args.yes && !is_wanted(&target)? {
            writeln!(out, "Nothing was written.")?;
            return Ok(BAD);
        }
        write(&disk, args, &plan, (&target, note), out)
    })
}

fn target(args: &Args) -> Option<PathBuf> {
    args.write.clone().or_else(|| args.fixed.then(|| fixed_name(&args.file)))
}

fn fixed_name(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".fixed");
    name.into()
}

fn mode_flag(mode: RecoverMode) -> &'static str {
    match mode {
        RecoverMode::Cut => "",
        RecoverMode::Skip => " --mode skip",
        RecoverMode::Fix => " --mode fix",
    }
}

fn tell(plan: &RecoveryPlan, out: &mut dyn Write) -> Result<()> {
    let check = &plan.check;
    writeln!(out, "{}: {}", check.path.display(), describe::verdict(check.verdict()))?;
    if plan.is_unnecessary() || check.is_empty {
        writeln!(out, "  there is nothing to recover")?;
        return Ok(());
    }
    if let Some(text) = describe::header(check) {
        writeln!(out, "  new   header: {text}")?;
    }
    for PlanStep { bytes, records, fault, action } in &plan.steps {
        let word = match action {
            PlanAction::Keep => "keep",
            PlanAction::FixChecksum => "fix",
            PlanAction::Drop => "drop",
        };
        let mut text = format!("  {word:<4}  {}", describe::place(bytes));
        if let Some((number, zxids)) = records {
            text = format!("{text}: {}, {}", count(*number, "record"), describe::range(*zxids));
        }
        if let Some(fault) = fault {
            let missing = describe::missing(fault).map(|text| format!(" ({text})")).unwrap_or_default();
            text = format!("{text}: {}{missing}", describe::what(fault, check.is_copied));
        }
        writeln!(out, "{text}")?;
    }
    let told = |action| {
        plan.records(action).map(|(number, zxids)| format!("{}, {}", count(number, "record"), describe::range(zxids)))
    };
    write!(out, "Kept: {}.", told(&PlanAction::Keep).unwrap_or("no record".to_owned()))?;
    if let Some(fixed) = told(&PlanAction::FixChecksum) {
        write!(out, " Kept with a new checksum, right or wrong: {fixed}.")?;
    }
    let is_lost = |step: &&PlanStep| step.action == PlanAction::Drop && step.records.is_none();
    let lost: u64 = plan.steps.iter().filter(is_lost).map(|step| step.bytes.end - step.bytes.start).sum();
    match (told(&PlanAction::Drop), lost) {
        (None, 0) => writeln!(out, " Nothing is dropped.")?,
        (None, lost) => writeln!(out, " Dropped: {lost} damaged bytes.")?,
        (Some(records), 0) => writeln!(out, " Dropped: {records}.")?,
        (Some(records), lost) => writeln!(out, " Dropped: {records}, and {lost} damaged bytes.")?,
    }
    if plan.mode == RecoverMode::Cut && plan.records(&PlanAction::Drop).is_some() {
        writeln!(out, "  --mode skip would keep the good records after the damage too: a history with gaps")?;
        let is_loose = |fault: &LogFault| matches!(fault.kind, LogFaultKind::Bytes { loose: Some(_), .. });
        if check.faults().any(is_loose) {
            writeln!(out, "  --mode fix would keep records with a wrong checksum too: their content may be wrong")?;
        }
    }
    Ok(())
}

/// Predicts how a server would start with the new log in its directory, and whether the synced position must be
/// removed.
fn foresee(disk: &Watched, args: &Args, plan: &RecoveryPlan, out: &mut dyn Write) -> Result<MarkerChoice> {
    let dir = args.file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if plan.check.named.is_none() {
        return Ok(MarkerChoice::Kept);
    }
    let dirs = locate::dirs(disk, args.snapshots.as_deref().unwrap_or(dir), Some(dir))?;
    if list(disk, &dirs)?.snapshots.is_empty() {
        writeln!(out, "Without the snapshots it is unknown whether a server would start with it.")?;
        writeln!(out, "  hint: if they are in another directory, add --snapshots <dataDir>")?;
        return Ok(MarkerChoice::Kept);
    }
    let mut note = MarkerChoice::Kept;
    let mut outlook = plan.preview_start(disk, &dirs, note)?;
    if outlook.history.is_err() {
        let without = plan.preview_start(disk, &dirs, MarkerChoice::Deleted)?;
        if without.history.is_ok() {
            (note, outlook) = (MarkerChoice::Deleted, without);
        }
    }
    disk.clear();
    let what = match note {
        MarkerChoice::Kept => "With it in place".to_owned(),
        MarkerChoice::Deleted => {
            format!("With it in place, and {MARKER_NAME} deleted, because it records a dropped position")
        }
    };
    tell_outlook(&what, &outlook, out)?;
    if outlook.is_member {
        writeln!(
            out,
            "  hint: while the ensemble has a quorum, a member needs no recovery: the leader sends it a snapshot"
        )?;
    }
    Ok(note)
}

/// Asks for confirmation on a terminal.
fn is_wanted(target: &Path) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!(
            "cannot ask whether to write {}: there is no terminal\nhint: --yes writes it without asking",
            target.display()
        );
    }
    write!(io::stderr(), "Write {}? [y/N] ", target.display())?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the reply")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn write(
    disk: &Watched,
    args: &Args,
    plan: &RecoveryPlan,
    (target, note): (&Path, MarkerChoice),
    out: &mut dyn Write,
) -> Result<u8> {
    let written = match plan.write(disk, target) {
        Err(ox_store::StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            bail!(
                "Recovery file {} already exists\nhint: move it away, or give another name with --write",
                target.display()
            )
        }
        written => written?,
    };
    disk.clear();
    if args.json {
        return Ok(GOOD);
    }
    let number = written.records();
    writeln!(out, "\n{} was written: {}, {} bytes.", target.display(), count(number, "record"), written.length)?;
    let (file, target) = (args.file.display(), target.display());
    writeln!(out, "To use it: stop the server; move {file} out of its directory, and keep it; then")?;
    writeln!(out, "  mv {target} {file}")?;
    if note == MarkerChoice::Deleted {
        writeln!(out, "  rm {}", args.file.with_file_name(MARKER_NAME).display())?;
    }
    if args.file.parent().is_some_and(|dir| dir.ends_with(VERSION_DIR)) && target.to_string().ends_with(".fixed") {
        writeln!(out, "Do not leave both files there: Apache would read the second one as a log, too.")?;
    }
    Ok(GOOD)
}

fn in_json(plan: &RecoveryPlan) -> Value {
    let steps = plan.steps.iter().map(|PlanStep { bytes, records, fault, action }| {
        let action = match action {
            PlanAction::Keep => "keep",
            PlanAction::FixChecksum => "fix",
            PlanAction::Drop => "drop",
        };
        json!({
            "action": action, "from": bytes.start, "to": bytes.end,
            "records": records.map_or(0, |(count, _)| count),
            "first": records.map(|(_, (first, _))| first.to_string()),
            "last": records.map(|(_, (_, last))| last.to_string()),
            "fault": fault.as_ref().map(fault_json),
        })
    });
    json!({
        "file": plan.check.path.display().to_string(),
        "verdict": plan.check.verdict().as_str(),
        "newHeader": plan.new_header,
        "length": plan.length(),
        "steps": steps.collect::<Vec<_>>(),
    })
}
