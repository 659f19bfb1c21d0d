//! Describes the faults of a log in English.

use ox_inspect::log_check::{LogCheck, LogFault, LogFaultKind, LogVerdict};
use ox_proto::Zxid;
use ox_store::log_reader::LogHeader;
use ox_store::log_tail::TailVerdict;
use std::ops::Range;

/// As `bytes 16 to 345`, with an exclusive end.
pub(super) fn place(bytes: &Range<u64>) -> String {
    if bytes.is_empty() { format!("byte {}", bytes.start) } else { format!("bytes {} to {}", bytes.start, bytes.end) }
}

/// As `0xe to 0x19`, with an inclusive end.
pub(super) fn range((first, last): (Zxid, Zxid)) -> String {
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

/// The fault of the file header, if any.
pub(super) fn header(check: &LogCheck) -> Option<String> {
    match check.header {
        LogHeader::Log { version: 2, .. } => None,
        LogHeader::Log { version, .. } => {
            Some(format!("the file header has version {version} instead of 2; the log is read as version 2"))
        }
        LogHeader::Missing if check.is_empty => None,
        LogHeader::Missing => Some("the file header is missing, and records follow: no server starts with it".into()),
        LogHeader::BadMagic(magic) => Some(format!(
            "the file header begins with {magic:#010x} instead of ZKLG: this is not a log, or its header is damaged"
        )),
    }
}

/// The kind of fault. Nothing is known about acknowledgements if the directory is a copy of a running server.
pub(super) fn what(fault: &LogFault, is_copied: bool) -> String {
    match &fault.kind {
        LogFaultKind::Bytes { verdict: TailVerdict::Torn, .. } if is_copied => {
            "an incomplete record: the end of the log was not copied, or was removed".into()
        }
        LogFaultKind::Bytes { verdict: TailVerdict::Torn, .. } => {
            "an incomplete append that was never acknowledged".into()
        }
        LogFaultKind::Bytes { verdict: TailVerdict::InDoubt, damage, .. } => {
            format!("most likely an incomplete append: {damage}")
        }
        LogFaultKind::Bytes { loose: Some((_, zxid)), .. } => {
            format!("the record of {zxid} is complete, but its checksum is wrong")
        }
        LogFaultKind::Bytes { damage, .. } | LogFaultKind::Record(damage) => damage.to_string(),
        LogFaultKind::Gap => "transactions are missing".into(),
    }
}

/// The transactions that are missing because of a fault.
pub(super) fn missing(fault: &LogFault) -> Option<String> {
    let after = fault.after?;
    let Some(before) = fault.before else { return Some(format!("after {after}")) };
    if before.follows(after) {
        return Some(format!("between {after} and {before}: no transaction is missing"));
    }
    if after.epoch() != before.epoch() {
        return Some(format!("between {after} and {before}: the end of an epoch may be missing"));
    }
    let hidden = (Zxid(after.0 + 1), Zxid(before.0 - 1));
    Some(format!("{} {} missing", range(hidden), if hidden.0 == hidden.1 { "is" } else { "are" }))
}

/// How a server reacts to a fault.
pub(super) fn consequence(fault: &LogFault, is_copied: bool) -> String {
    match &fault.kind {
        LogFaultKind::Bytes { verdict: TailVerdict::Torn, .. } if !is_copied => "A server truncates it at start if this is the newest log.".into(),
        LogFaultKind::Bytes { verdict: TailVerdict::InDoubt | TailVerdict::Torn, .. } => {
            "A standalone server truncates it at start if this is the newest log; an ensemble member waits for a leader.".into()
        }
        LogFaultKind::Bytes { ends_for_apache: true, .. } if fault.before.is_some() => {
            "No server starts with it unless a snapshot covers it. (Apache takes it for the end of the log and silently loses the rest.)"
                .into()
        }
        LogFaultKind::Bytes { .. } | LogFaultKind::Record(_) | LogFaultKind::Gap => {
            "No server starts with it unless a snapshot covers it.".into()
        }
    }
}

pub(super) fn verdict(verdict: LogVerdict) -> &'static str {
    match verdict {
        LogVerdict::Clean => "clean",
        LogVerdict::Empty => "clean and empty: it contains no record",
        LogVerdict::Torn => "torn at its end",
        LogVerdict::InDoubt => "most likely torn at its end",
        LogVerdict::Damaged => "damaged",
    }
}
