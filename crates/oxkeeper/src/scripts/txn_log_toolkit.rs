//! `zkTxnLogToolkit.sh`: prints a log, writes a copy with correct checksums, or a copy up to a zxid.

use super::environment::ScriptEnvironment;
use super::options::{self, OptionSpec, ParsedOptions};
use super::print;
use crate::commands::output::conclude;
use anyhow::{Context, Result, bail};
use ox_inspect::dump::log::{LogFormat, dump_log};
use ox_inspect::log_copy::{AskForChoice, ChecksumChoice, chop_log, fix_checksums};
use ox_proto::Zxid;
use ox_store::disk::RealDisk;
use ox_store::log_reader::{LogHeader, LogReader};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const OPTIONS: [OptionSpec; 7] = [
    OptionSpec { short: 'c', long: "chop", takes_value: false },
    OptionSpec { short: 'd', long: "dump", takes_value: false },
    OptionSpec { short: 'h', long: "help", takes_value: false },
    OptionSpec { short: 'r', long: "recover", takes_value: false },
    OptionSpec { short: 'v', long: "verbose", takes_value: false },
    OptionSpec { short: 'y', long: "yes", takes_value: false },
    OptionSpec { short: 'z', long: "zxid", takes_value: true },
];

const USAGE: &str = "\
usage: TxnLogToolkit [-dhrvc] <txn_log_file_name> (-z <zxid>)
 -c,--chop         Chop mode. Chop txn file to a zxid.
 -d,--dump         Dump mode. Dump all entries of the log file with printing the content of a nodepath (default)
 -h,--help         Print help message
 -r,--recover      Recovery mode. Re-calculate CRC for broken entries.
 -v,--verbose      Be verbose in recovery mode: print all entries, not just fixed ones.
 -y,--yes          Non-interactive mode: repair all CRC errors without asking
 -z,--zxid <arg>   Used with chop. Zxid to which to chop.
";

pub(super) fn run(_: &ScriptEnvironment, words: &[String]) -> ExitCode {
    let refused = |error: &str| {
        crate::say(format_args!("{error}\n"));
        print(format_args!("{USAGE}"));
        ExitCode::FAILURE
    };
    let parsed = match options::parse(words, &OPTIONS) {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error),
    };
    let Some(file) = parsed.operands.first().map(PathBuf::from).filter(|_| !parsed.has('h')) else {
        print(format_args!("{USAGE}"));
        return if parsed.has('h') { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match LogReader::open(&RealDisk, &file).map(|log| log.header()) {
        Ok(LogHeader::Log { .. }) => (),
        Ok(LogHeader::Missing | LogHeader::BadMagic(_)) => {
            crate::say(format_args!("Invalid magic number for {name}"));
            return ExitCode::from(2);
        }
        Err(_) => {
            crate::say(format_args!("File doesn't exist or not readable: {}", file.display()));
            return ExitCode::FAILURE;
        }
    }
    if parsed.has('c') {
        return match parsed.value('z').map(zxid) {
            None => refused("Missing required option: z"),
            Some(None) => {
                refused("the argument of -z is not a zxid; give a decimal number, or a hexadecimal one with 0x")
            }
            Some(Some(zxid)) => conclude(|out| chop(&file, &name, zxid, out)),
        };
    }
    if parsed.has('r') { recover(&file, &parsed) } else { conclude(|out| dump(&file, out)) }
}

/// A number as Java decodes it.
fn zxid(text: &str) -> Option<Zxid> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    hex.map_or_else(|| text.parse().ok(), |digits| i64::from_str_radix(digits, 16).ok()).map(Zxid)
}

fn dump(file: &Path, out: &mut dyn Write) -> Result<u8> {
    let summary = dump_log(&RealDisk, file, LogFormat::Text, out)?;
    if summary.is_partial {
        out.flush()?;
        bail!("Last transaction was partial: the log is readable up to byte {}", summary.end);
    }
    Ok(0)
}

/// Compat: exit code 0, also if there is no such zxid.
fn chop(file: &Path, name: &str, zxid: Zxid, out: &mut dyn Write) -> Result<u8> {
    let target = sibling(file, &format!(".chopped{}", zxid.0));
    let mut copy = BufWriter::new(File::create(&target).with_context(|| format!("cannot write {}", target.display()))?);
    match chop_log(&RealDisk, file, zxid, out, &mut copy) {
        Ok(Some(records)) => {
            copy.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            writeln!(out, "Chopping at {} new log has {records} records", zxid.0)?;
        }
        Ok(None) => {
            drop(copy);
            std::fs::remove_file(&target)?; // a copy of the whole log would look like a chopped one
            writeln!(out, "Got exception: Failed to chop {name}")?;
        }
        Err(error) => {
            drop(copy);
            let _ = std::fs::remove_file(&target); // as above; the first error is the one that counts
            return Err(error.into());
        }
    }
    Ok(0)
}

fn recover(file: &Path, parsed: &ParsedOptions) -> ExitCode {
    let target = sibling(file, ".fixed");
    let Ok(copy) = OpenOptions::new().write(true).create_new(true).open(&target) else {
        crate::say(format_args!("Recovery file {} already exists or not writable", target.display()));
        return ExitCode::FAILURE;
    };
    let (mut copy, mut answers) = (BufWriter::new(copy), io::stdin().lock());
    let mut choose = |out: &mut dyn Write| ask(&mut answers, out);
    conclude(|out| {
        let choose: Option<&mut AskForChoice<'_>> = if parsed.has('y') { None } else { Some(&mut choose) };
        let fixed = fix_checksums(&RealDisk, file, parsed.has('v'), choose, out, &mut copy)?;
        let Some(fixed) = fixed else {
            out.flush()?;
            crate::say(format_args!("Recovery aborted."));
            return Ok(0);
        };
        copy.flush()?;
        copy.get_ref().sync_all()?;
        writeln!(out, "Recovery file {} has been written with {fixed} fixed CRC error(s)", target.display())?;
        Ok(0)
    })
}

/// Asks until there is an answer; the end of the input aborts.
fn ask(answers: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<ChecksumChoice> {
    loop {
        write!(out, "Would you like to fix it (Yes/No/Abort) ? ")?;
        out.flush()?;
        let mut answer = String::new();
        if answers.read_line(&mut answer)? == 0 {
            return Ok(ChecksumChoice::Abort);
        }
        match answer.trim_start().chars().next().map(|letter| letter.to_ascii_uppercase()) {
            Some('Y') => return Ok(ChecksumChoice::Fix),
            Some('N') => return Ok(ChecksumChoice::Keep),
            Some('A') => return Ok(ChecksumChoice::Abort),
            _ => (),
        }
    }
}

/// The file with this ending behind its name.
fn sibling(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
