//! Recovering a damaged log: first a plan of what is kept and dropped, then a new file.
//!
//! The original is never changed. The new file is written completely, synced, and checked before success is reported.

use crate::log_check::{LogCheck, LogFault, LogFaultKind, LogPiece, check_log};
use ox_proto::Zxid;
use ox_proto::log_frame::{HEAD_BYTES, begin_log_frame, end_log_frame};
use ox_store::disk::{Disk, DiskFile, DiskLock, DiskSpace, FileIdentity, OpenMode, copy_bytes, read_full};
use ox_store::log_reader::{LOG_HEADER_BYTES, LogHeader, log_header};
use ox_store::marker::MARKER_NAME;
use ox_store::names::Dirs;
use ox_store::start_preview::{StartPreview, preview_start};
use ox_store::{IoContext, StoreError};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How much a recovery keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoverMode {
    /// The records before the first fault: nothing is missing between them.
    #[default]
    Cut,
    /// All intact records: transactions may be missing between them.
    Skip,
    /// In addition, records that are complete except for their checksum, with a new one: their contents may be wrong.
    Fix,
}

/// Whether the operator deletes `oxk.synced`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerChoice {
    Kept,
    Deleted,
}

/// What happens to a part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanAction {
    /// Copy to the new log unchanged.
    Keep,
    /// Copy with a new checksum.
    FixChecksum,
    Drop,
}

/// A part of the log, and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// The range in the log; the header is not a part.
    pub bytes: Range<u64>,
    /// The number of intact records, with the first and last zxid.
    pub records: Option<(u64, (Zxid, Zxid))>,
    pub fault: Option<LogFault>,
    pub action: PlanAction,
}

/// What a recovery would do.
#[derive(Clone, Debug)]
pub struct RecoveryPlan {
    pub check: LogCheck,
    pub mode: RecoverMode,
    /// The parts of the log, in order.
    pub steps: Vec<PlanStep>,
    /// The header is damaged and is written again.
    pub new_header: bool,
}

impl RecoveryPlan {
    /// Checks a log and decides for each part.
    pub fn new(disk: &dyn Disk, path: &Path, mode: RecoverMode) -> Result<Self, StoreError> {
        let check = check_log(disk, path)?;
        let mut steps: Vec<PlanStep> = Vec::new();
        let mut is_over = false;
        for piece in &check.pieces {
            match piece {
                LogPiece::Records { bytes, count, zxids } => {
                    let action = if is_over { PlanAction::Drop } else { PlanAction::Keep };
                    steps.push(PlanStep { bytes: bytes.clone(), records: Some((*count, *zxids)), fault: None, action });
                }
                LogPiece::Fault(fault) => {
                    is_over |= mode == RecoverMode::Cut;
                    steps.extend(fault_steps(fault, mode, is_over));
                }
            }
        }
        if check.is_incomplete {
            let start = steps.last().map_or(LOG_HEADER_BYTES, |step| step.bytes.end);
            let bytes = start..check.length;
            steps.push(PlanStep { bytes, records: None, fault: None, action: PlanAction::Drop });
        }
        let new_header = !matches!(check.header, LogHeader::Log { .. });
        Ok(Self { check, mode, steps, new_header })
    }

    /// Whether the log needs no recovery.
    pub fn is_unnecessary(&self) -> bool {
        !self.new_header && self.steps.iter().all(|step| step.fault.is_none() && step.action == PlanAction::Keep)
    }

    /// The number of intact records with this action, with the first and last zxid.
    pub fn records(&self, action: &PlanAction) -> Option<(u64, (Zxid, Zxid))> {
        let mut runs = self.steps.iter().filter(|step| step.action == *action).filter_map(|step| step.records);
        let (first, (from, to)) = runs.next()?;
        Some(runs.fold((first, (from, to)), |(count, (from, _)), (more, (_, to))| (count + more, (from, to))))
    }

    /// The length of the new file.
    pub fn length(&self) -> u64 {
        let kept = self.steps.iter().filter(|step| step.action != PlanAction::Drop);
        LOG_HEADER_BYTES + kept.map(|step| step.bytes.end - step.bytes.start).sum::<u64>()
    }

    /// Writes the new log durably and returns the result of checking it. `out` must not exist.
    pub fn write(&self, disk: &dyn Disk, out: &Path) -> Result<LogCheck, StoreError> {
        let view = self.view(disk)?;
        let target = disk.open(out, OpenMode::CreateNew).context("create", out)?;
        let copied = copy_bytes(&view, &self.check.path, 0..view.length, |bytes, at| {
            target.write_all_at(bytes, at).context("write", out)
        });
        if let Err(error) = copied.and_then(|()| target.sync_all().context("fsync", out)) {
            _ = disk.remove(out);
            return Err(error);
        }
        let dir = parent(out);
        disk.sync_dir(dir).context("fsync directory", dir)?;
        check_log(disk, out)
    }

    /// The new log, as a virtual file.
    fn view(&self, disk: &dyn Disk) -> Result<VirtualLog, StoreError> {
        let path = &self.check.path;
        let source = disk.open(path, OpenMode::Read).context("open", path)?;
        let mut view = VirtualLog { source, parts: Vec::new(), length: 0 };
        let before = if let LogHeader::Log { dbid, .. } = self.check.header { Zxid(dbid) } else { Zxid::ZERO };
        view.push(VirtualPart::Bytes(log_header(before).to_vec()));
        for step in &self.steps {
            match step.action {
                PlanAction::Drop => (),
                PlanAction::Keep => view.push(VirtualPart::Range(step.bytes.clone())),
                PlanAction::FixChecksum => {
                    let Range { start, end } = step.bytes;
                    let mut frame = vec![0; usize::try_from(end - start).unwrap_or(usize::MAX)];
                    read_full(&*view.source, &mut frame, start).context("read", path)?;
                    let mut fixed = Vec::with_capacity(frame.len());
                    let mark = begin_log_frame(&mut fixed);
                    fixed.extend_from_slice(&frame[HEAD_BYTES..frame.len() - 1]);
                    end_log_frame(&mut fixed, mark);
                    view.push(VirtualPart::Bytes(fixed));
                }
            }
        }
        Ok(view)
    }

    /// The result of a start in `dirs` if the new log replaced the old one, with or without the marker, whose position
    /// may cover dropped records.
    pub fn preview_start(&self, disk: &dyn Disk, dirs: &Dirs, note: MarkerChoice) -> Result<StartPreview, StoreError> {
        let dir = parent(&self.check.path);
        let dir = disk.canonical(dir).context("open", dir)?;
        let hidden = dir.join(self.check.path.file_name().unwrap_or_default());
        let deleted = (note == MarkerChoice::Deleted).then(|| dirs.logs.join(MARKER_NAME));
        preview_start(&RecoveredDisk { disk, hidden, deleted, plan: self }, dirs)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A virtual file composed of parts of another.
struct VirtualLog {
    source: Box<dyn DiskFile>,
    /// With their offsets in the virtual file.
    parts: Vec<(u64, VirtualPart)>,
    length: u64,
}

enum VirtualPart {
    Bytes(Vec<u8>),
    Range(Range<u64>),
}

impl VirtualLog {
    fn push(&mut self, part: VirtualPart) {
        let size = match &part {
            VirtualPart::Bytes(bytes) => bytes.len() as u64,
            VirtualPart::Range(range) => range.end - range.start,
        };
        self.parts.push((self.length, part));
        self.length += size;
    }
}

impl DiskFile for VirtualLog {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let index = self.parts.partition_point(|(start, _)| *start <= offset);
        let Some((start, part)) = self.parts.get(index.wrapping_sub(1)).filter(|_| offset < self.length) else {
            return Ok(0);
        };
        let skip = offset - start;
        match part {
            VirtualPart::Bytes(bytes) => {
                let rest = &bytes[usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len())..];
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            VirtualPart::Range(range) => {
                let left = usize::try_from(range.end - range.start - skip).unwrap_or(usize::MAX);
                let count = left.min(buffer.len());
                self.source.read_at(&mut buffer[..count], range.start + skip)
            }
        }
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok((offset < self.length).then_some(offset))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.source.identity()
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(READ_ONLY.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(READ_ONLY.into())
    }

    fn preallocate(&self, _: u64) -> io::Result<bool> {
        Err(READ_ONLY.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(READ_ONLY.into())
    }

    fn sync_all(&self) -> io::Result<()> {
        Err(READ_ONLY.into())
    }
}

const READ_ONLY: io::ErrorKind = io::ErrorKind::ReadOnlyFilesystem;

/// The parts of a fault: dropped, except for a record that only needs a new checksum.
fn fault_steps(fault: &LogFault, mode: RecoverMode, is_over: bool) -> Vec<PlanStep> {
    let dropped = |bytes: Range<u64>, fault| PlanStep { bytes, records: None, fault, action: PlanAction::Drop };
    match fault.kind {
        LogFaultKind::Bytes { loose: Some((end, zxid)), .. } if mode == RecoverMode::Fix && !is_over => {
            let bytes = fault.bytes.start..end;
            let records = Some((1, (zxid, zxid)));
            let fixed = PlanStep { bytes, records, fault: Some(fault.clone()), action: PlanAction::FixChecksum };
            let rest = end..fault.bytes.end;
            std::iter::once(fixed).chain((!rest.is_empty()).then(|| dropped(rest, None))).collect()
        }
        LogFaultKind::Bytes { .. } | LogFaultKind::Record(_) | LogFaultKind::Gap => {
            vec![dropped(fault.bytes.clone(), Some(fault.clone()))]
        }
    }
}

/// A read-only view of a disk on which the log is recovered.
struct RecoveredDisk<'a> {
    disk: &'a dyn Disk,
    /// The damaged log, which the recovered one replaces.
    hidden: PathBuf,
    deleted: Option<PathBuf>,
    plan: &'a RecoveryPlan,
}

impl Disk for RecoveredDisk<'_> {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        match how {
            OpenMode::Read if path == self.hidden => Ok(Box::new(self.plan.view(self.disk).map_err(io::Error::other)?)),
            OpenMode::Read if Some(path) == self.deleted.as_deref() => Err(io::ErrorKind::NotFound.into()),
            OpenMode::Read => self.disk.open(path, how),
            OpenMode::Write | OpenMode::CreateNew | OpenMode::Create => Err(READ_ONLY.into()),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(READ_ONLY.into())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(READ_ONLY.into())
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(READ_ONLY.into())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(READ_ONLY.into())
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.canonical(path)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.disk.space(dir)
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn DiskLock>> {
        Err(READ_ONLY.into())
    }
}
