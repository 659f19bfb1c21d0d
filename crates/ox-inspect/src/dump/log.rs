//! A log as text: one line per transaction.
//!
//! Unlike recovery, a dump continues after a record with a wrong checksum, and marks it, because its purpose is to show
//! damage.

use super::date::short_date;
use super::json::{acl_entries, base64, hex};
use ox_proto::log_frame::{END_BYTE, HEAD_BYTES, OVERHEAD_BYTES};
use ox_proto::txn::{CreateKind, CreateTxn, Record, Txn, TxnHeader};
use ox_proto::{OpCode, RawAcls, Reader, Zxid};
use ox_store::disk::{Disk, DiskFile, OpenMode, read_full};
use ox_store::log_reader::{LOG_HEADER_BYTES, LogHeader, LogReader};
use ox_store::{Damage, IoContext, StoreError};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// The output format of a log dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The format of Apache's transaction log toolkit.
    Text,
    /// One JSON object per line.
    Json,
}

/// The result of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// The number of complete records.
    pub records: u64,
    /// The number of records with a wrong checksum.
    pub damaged: u64,
    /// The offset after the last record.
    pub end: u64,
    /// Bytes that are not a record follow.
    pub is_partial: bool,
}

pub fn dump_log(
    disk: &dyn Disk,
    path: &Path,
    format: LogFormat,
    out: &mut dyn Write,
) -> Result<LogSummary, StoreError> {
    check_header(disk, path)?;
    if format == LogFormat::Text {
        begin_text(disk, path, out)?;
    }
    let file = disk.open(path, OpenMode::Read).context("open", path)?;
    let mut frames = Frames::new(&*file, path)?;
    let mut summary = LogSummary { end: LOG_HEADER_BYTES, ..LogSummary::default() };
    while let Some(frame) = frames.next(path)? {
        let text = match format {
            LogFormat::Text => text_lines(&frame),
            LogFormat::Json => json_line(&frame),
        };
        out.write_all(text.as_bytes()).context("print", path)?;
        summary.damaged += u64::from(!frame.fits());
        if !frame.is_ended {
            summary.is_partial = true;
            return Ok(summary);
        }
        summary.records += 1;
        summary.end = frames.offset;
    }
    summary.is_partial = frames.has_more(path)?;
    if format == LogFormat::Text {
        writeln!(out, "EOF reached after {} txns.", summary.records).context("print", path)?;
    }
    Ok(summary)
}

/// The format version and the id of the database.
fn check_header(disk: &dyn Disk, path: &Path) -> Result<(u32, i64), StoreError> {
    match LogReader::open(disk, path)?.header() {
        LogHeader::Log { version, dbid } => Ok((version, dbid)),
        LogHeader::Missing => Err(unreadable(path, Damage::NoHeader)),
        LogHeader::BadMagic(_) => Err(unreadable(path, Damage::BadMagic)),
    }
}

/// Prints the first line of Apache's toolkit.
pub(crate) fn begin_text(disk: &dyn Disk, path: &Path, out: &mut dyn Write) -> Result<(), StoreError> {
    let (version, dbid) = check_header(disk, path)?;
    let line = format!("ZooKeeper Transactional Log File with dbid {dbid} txnlog format version {version}");
    writeln!(out, "{line}").context("print", path)
}

fn unreadable(path: &Path, damage: Damage) -> StoreError {
    StoreError::Corrupt { path: path.to_owned(), offset: 0, after: Zxid::ZERO, damage }
}

/// A frame, whether or not its checksum matches.
pub(crate) struct RawFrame {
    pub(crate) record: Vec<u8>,
    pub(crate) checksum: i64,
    /// The end byte is present; without it, nothing further can be read.
    pub(crate) is_ended: bool,
}

impl RawFrame {
    pub(crate) fn right_checksum(&self) -> i64 {
        i64::from(simd_adler32::adler32(&self.record.as_slice()))
    }

    pub(crate) fn fits(&self) -> bool {
        self.checksum == self.right_checksum()
    }
}

/// The frames of a log, in their order.
pub(crate) struct Frames<'a> {
    file: &'a dyn DiskFile,
    length: u64,
    offset: u64,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, path: &Path) -> Result<Self, StoreError> {
        Ok(Self { file, length: file.len().context("stat", path)?, offset: LOG_HEADER_BYTES })
    }

    pub(crate) fn next(&mut self, path: &Path) -> Result<Option<RawFrame>, StoreError> {
        let mut head = [0; HEAD_BYTES];
        let count = read_full(self.file, &mut head, self.offset).context("read", path)?;
        let length = head.last_chunk().map_or(0, |word| i32::from_be_bytes(*word));
        let left = usize::try_from(self.length - self.offset).unwrap_or(usize::MAX);
        let size = usize::try_from(length).unwrap_or(0);
        if count < HEAD_BYTES || size == 0 || left < size + HEAD_BYTES {
            return Ok(None);
        }
        let mut record = vec![0; size + 1];
        read_full(self.file, &mut record, self.offset + HEAD_BYTES as u64).context("read", path)?;
        let is_ended = record.pop() == Some(END_BYTE);
        self.offset += (size + OVERHEAD_BYTES) as u64;
        let checksum = head.first_chunk().map_or(0, |word| i64::from_be_bytes(*word));
        Ok(Some(RawFrame { record, checksum, is_ended }))
    }

    /// Whether anything but zeros follows.
    fn has_more(&self, path: &Path) -> Result<bool, StoreError> {
        let mut rest = vec![0; usize::try_from(self.length - self.offset).unwrap_or(usize::MAX)];
        let count = read_full(self.file, &mut rest, self.offset).context("read", path)?;
        Ok(rest[..count].iter().any(|byte| *byte != 0))
    }
}

// Compat: a record with a wrong checksum is printed twice, marked and unmarked.
fn text_lines(frame: &RawFrame) -> String {
    let line = text_line(&frame.record);
    if frame.fits() { line } else { format!("CRC ERROR - {line}{line}") }
}

pub(crate) fn text_line(bytes: &[u8]) -> String {
    let Ok(header) = Reader::from_disk(bytes).get::<TxnHeader>() else { return "unreadable record\n".into() };
    let TxnHeader { session, cxid, zxid, time_ms, kind } = header;
    let mut line = short_date(time_ms);
    _ = write!(line, " session {session} cxid {cxid:#x} zxid {zxid} {}", op_name(kind));
    match Record::decode(bytes) {
        Ok(Record { txn: Txn::Multi(_), .. }) => put_multi(&mut line, bytes),
        Ok(record) => put_txn(&mut line, &record.txn),
        Err(error) => _ = write!(line, " ({error})"),
    }
    line.push('\n');
    line
}

fn op_name(kind: i32) -> String {
    let name = match OpCode::try_from(kind) {
        Ok(OpCode::CreateSession) => "createSession",
        Ok(OpCode::CloseSession) => "closeSession",
        Ok(OpCode::Error) => "error",
        Ok(OpCode::Create) => "create",
        Ok(OpCode::Create2) => "create2",
        Ok(OpCode::CreateContainer) => "createContainer",
        Ok(OpCode::CreateTtl) => "createTTL",
        Ok(OpCode::Delete) => "delete",
        Ok(OpCode::DeleteContainer) => "deleteContainer",
        Ok(OpCode::SetData) => "setData",
        Ok(OpCode::Reconfig) => "reconfig",
        Ok(OpCode::SetAcl) => "setACL",
        Ok(OpCode::Check) => "check",
        Ok(OpCode::Multi) => "multi",
        _ => return format!("unknown {kind}"),
    };
    name.into()
}

fn put_txn(line: &mut String, txn: &Txn<'_>) {
    _ = match txn {
        Txn::CreateSession { timeout_ms } => write!(line, " {timeout_ms}"),
        Txn::CloseSession { paths: None } | Txn::Multi(_) => Ok(()),
        Txn::CloseSession { paths: Some(paths) } => {
            let paths: Vec<String> = paths.iter().map(|path| csv(path)).collect();
            write!(line, " v{{{}}}", paths.join(","))
        }
        Txn::Error { err } => write!(line, " {err}"),
        Txn::Create(create) => write!(line, " {}", create_text(create)),
        Txn::Delete { path } | Txn::DeleteContainer { path } => write!(line, " {}", csv(path)),
        Txn::SetData { path, data, version } | Txn::Reconfig { path, data, version } => {
            write!(line, " {path},{},{version}", lossy(*data))
        }
        Txn::SetAcl { path, acl, version } => write!(line, " {},{},{version}", csv(path), acl_csv(*acl)),
        Txn::Check { path, version } => write!(line, " {path},{version}"),
    };
}

fn create_text(create: &CreateTxn<'_>) -> String {
    let CreateTxn { kind, path, data, acl, parent_cversion } = create;
    // Compat: Java ends each ACL entry with a newline.
    let entries: Vec<String> = acl
        .to_stored()
        .iter()
        .map(|acl| format!("{},s{{{},{}}}\n", acl.perms, csv(&acl.scheme), csv(&acl.id)))
        .collect();
    let start = format!("{path},{},[{}]", lossy(*data), entries.join(", "));
    match kind {
        CreateKind::Create { ephemeral } | CreateKind::Create2 { ephemeral } => {
            format!("{start},{ephemeral},{parent_cversion}")
        }
        CreateKind::Container => format!("{start},{parent_cversion}"),
        CreateKind::Ttl { ttl_ms } => format!("{start},{parent_cversion},{ttl_ms}"),
    }
}

// Compat: the elements of a multi are printed as raw bytes.
fn put_multi(line: &mut String, bytes: &[u8]) {
    for (index, (kind, body)) in multi_elements(bytes).into_iter().enumerate() {
        let separator = if index == 0 { ' ' } else { ';' };
        _ = write!(line, "{separator}{}:{}", op_name(kind), String::from_utf8_lossy(body));
    }
}

fn multi_elements(bytes: &[u8]) -> Vec<(i32, &[u8])> {
    let mut from = Reader::from_disk(bytes);
    let mut elements = Vec::new();
    let count = from.get::<TxnHeader>().and_then(|_| from.count()).ok().flatten().unwrap_or(0);
    for _ in 0..count {
        let (Ok(kind), Ok(body)) = (from.get::<i32>(), from.get::<Option<&[u8]>>()) else { break };
        elements.push((kind, body.unwrap_or_default()));
    }
    elements
}

/// The text in jute's CSV form.
fn csv(text: &str) -> String {
    let mut out = String::from("'");
    for letter in text.chars() {
        match letter {
            '\0' => out.push_str("%00"),
            '\n' => out.push_str("%0A"),
            '\r' => out.push_str("%0D"),
            ',' => out.push_str("%2C"),
            '}' => out.push_str("%7D"),
            '%' => out.push_str("%25"),
            _ => out.push(letter),
        }
    }
    out
}

fn acl_csv(acls: RawAcls<'_>) -> String {
    let entry = |acl: &ox_proto::Acl| format!("s{{{},s{{{},{}}}}}", acl.perms, csv(&acl.scheme), csv(&acl.id));
    let entries: Vec<String> = acls.to_stored().iter().map(entry).collect();
    format!("v{{{}}}", entries.join(","))
}

fn lossy(data: Option<&[u8]>) -> String {
    data.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

fn json_line(frame: &RawFrame) -> String {
    serde_json::to_string(&FrameJson(frame)).expect("strings and numbers can be serialised") + "\n"
}

struct FrameJson<'a>(&'a RawFrame);

impl Serialize for FrameJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RawFrame { record, is_ended, .. } = self.0;
        let mut object = serializer.serialize_map(None)?;
        match Record::decode(record) {
            Ok(record) => {
                let TxnHeader { session, cxid, zxid, time_ms, kind } = record.header;
                object.serialize_entry("zxid", &hex(zxid.0))?;
                object.serialize_entry("session", &hex(session.0))?;
                object.serialize_entry("cxid", &cxid)?;
                object.serialize_entry("time", &time_ms)?;
                object.serialize_entry("type", &op_name(kind))?;
                put_json(&mut object, &record.txn)?;
                if let Some(digest) = record.digest {
                    object.serialize_entry("digest", &digest.tree_digest)?;
                }
            }
            Err(error) => {
                object.serialize_entry("error", &error.to_string())?;
                object.serialize_entry("record", &base64(Some(record)))?;
            }
        }
        if !self.0.fits() {
            object.serialize_entry("checksumFits", &false)?;
        }
        if !is_ended {
            object.serialize_entry("isEnded", &false)?;
        }
        object.end()
    }
}

/// An operation of a multi.
struct ElementJson<'a>(&'a Txn<'a>);

impl Serialize for ElementJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("type", &op_name(self.0.kind().code()))?;
        put_json(&mut object, self.0)?;
        object.end()
    }
}

fn put_json<M: SerializeMap>(object: &mut M, txn: &Txn<'_>) -> Result<(), M::Error> {
    match txn {
        Txn::CreateSession { timeout_ms } => object.serialize_entry("timeout", timeout_ms),
        Txn::CloseSession { paths: None } => Ok(()),
        Txn::CloseSession { paths: Some(paths) } => object.serialize_entry("paths", paths),
        Txn::Error { err } => object.serialize_entry("err", err),
        Txn::Create(create) => {
            object.serialize_entry("path", &create.path)?;
            object.serialize_entry("data", &base64(create.data))?;
            object.serialize_entry("acl", &acl_entries(create.acl))?;
            object.serialize_entry("parentCversion", &create.parent_cversion)?;
            match create.kind {
                CreateKind::Create { ephemeral } | CreateKind::Create2 { ephemeral } => {
                    object.serialize_entry("ephemeral", &ephemeral)
                }
                CreateKind::Container => Ok(()),
                CreateKind::Ttl { ttl_ms } => object.serialize_entry("ttl", &ttl_ms),
            }
        }
        Txn::Delete { path } | Txn::DeleteContainer { path } => object.serialize_entry("path", path),
        Txn::SetData { path, data, version } | Txn::Reconfig { path, data, version } => {
            object.serialize_entry("path", path)?;
            object.serialize_entry("data", &base64(*data))?;
            object.serialize_entry("version", version)
        }
        Txn::SetAcl { path, acl, version } => {
            object.serialize_entry("path", path)?;
            object.serialize_entry("acl", &acl_entries(*acl))?;
            object.serialize_entry("version", version)
        }
        Txn::Check { path, version } => {
            object.serialize_entry("path", path)?;
            object.serialize_entry("version", version)
        }
        Txn::Multi(elements) => object.serialize_entry("ops", &elements.iter().map(ElementJson).collect::<Vec<_>>()),
    }
}
