//! A good log out of a bad one: what is kept and what is dropped, first as a plan, then as a new file.
//!
//! The original is never touched. The new file is written whole, synced, and checked like any other before it is called
//! good.

use super::history::{Outlook, foresee};
use super::log::{Fault, FaultKind, LogCheck, Piece, check_log};
use crate::disk::{Disk, DiskFile, DiskLock, DiskSpace, FileIdentity, Open, read_full};
use crate::error::{Error, IoContext};
use crate::log_reader::{LOG_HEADER_BYTES, LogHeader, log_header};
use crate::marker::MARKER_NAME;
use crate::names::Dirs;
use crate::recovery::repair::copy_bytes;
use ox_proto::Zxid;
use ox_proto::log_frame::{HEAD_BYTES, begin_log_frame, end_log_frame};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How far a recovery goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Keeps what comes before the first fault: nothing that is kept is in doubt, and nothing is missing in between.
    #[default]
    Cut,
    /// Leaves out what is damaged and keeps all good records: transactions are missing in between.
    Skip,
    /// Also keeps records that are whole but for their checksum, with a new one: their content may be wrong.
    Fix,
}

/// What becomes of `oxk.synced`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncedNote {
    /// It stays.
    Kept,
    /// The operator deletes it.
    Deleted,
}

/// What becomes of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is copied as it is.
    Kept,
    /// It is copied with a new checksum.
    Fixed,
    /// It is left out.
    Dropped,
}

/// A part of the log and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where; the header is no part.
    pub bytes: Range<u64>,
    /// Its good records: how many, first and last zxid.
    pub records: Option<(u64, (Zxid, Zxid))>,
    /// What is wrong with it.
    pub fault: Option<Fault>,
    /// What becomes of it.
    pub fate: Fate,
}

/// What a recovery would do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was found.
    pub check: LogCheck,
    /// How far it goes.
    pub mode: Mode,
    /// Part by part.
    pub steps: Vec<Step>,
    /// The header is written anew.
    pub new_header: bool,
}

impl Plan {
    /// Looks at a log and decides.
    pub fn new(disk: &dyn Disk, path: &Path, mode: Mode) -> Result<Self, Error> {
        let check = check_log(disk, path)?;
        let mut steps: Vec<Step> = Vec::new();
        let mut is_over = false;
        for piece in &check.pieces {
            match piece {
                Piece::Records { bytes, count, zxids } => {
                    let fate = if is_over { Fate::Dropped } else { Fate::Kept };
                    steps.push(Step { bytes: bytes.clone(), records: Some((*count, *zxids)), fault: None, fate });
                }
                Piece::Fault(fault) => {
                    is_over |= mode == Mode::Cut;
                    steps.extend(fault_steps(fault, mode, is_over));
                }
            }
        }
        if check.gave_up {
            let start = steps.last().map_or(LOG_HEADER_BYTES, |step| step.bytes.end);
            let bytes = start..check.length;
            steps.push(Step { bytes, records: None, fault: None, fate: Fate::Dropped });
        }
        let new_header = !matches!(check.header, LogHeader::Log { .. });
        Ok(Self { check, mode, steps, new_header })
    }

    /// There is nothing to recover.
    pub fn is_needless(&self) -> bool {
        !self.new_header && self.steps.iter().all(|step| step.fault.is_none() && step.fate == Fate::Kept)
    }

    /// Good records with this fate: how many, the first and the last zxid.
    pub fn records(&self, fate: &Fate) -> Option<(u64, (Zxid, Zxid))> {
        let mut runs = self.steps.iter().filter(|step| step.fate == *fate).filter_map(|step| step.records);
        let (first, (from, to)) = runs.next()?;
        Some(runs.fold((first, (from, to)), |(count, (from, _)), (more, (_, to))| (count + more, (from, to))))
    }

    /// Length of the new file.
    pub fn length(&self) -> u64 {
        let kept = self.steps.iter().filter(|step| step.fate != Fate::Dropped);
        LOG_HEADER_BYTES + kept.map(|step| step.bytes.end - step.bytes.start).sum::<u64>()
    }

    /// Writes the new log, durably; `out` must not exist. Tells what is in it.
    pub fn write(&self, disk: &dyn Disk, out: &Path) -> Result<LogCheck, Error> {
        let view = self.view(disk)?;
        let target = disk.open(out, Open::CreateNew).context("create", out)?;
        let copied = copy_bytes(&view, &self.check.path, 0..view.length, |bytes, at| {
            target.write_all_at(bytes, at).context("write", out)
        });
        if let Err(error) = copied.and_then(|()| target.sync_all().context("sync", out)) {
            _ = disk.remove(out);
            return Err(error);
        }
        let dir = parent(out);
        disk.sync_dir(dir).context("sync directory", dir)?;
        check_log(disk, out)
    }

    /// The new log, before it is written.
    fn view(&self, disk: &dyn Disk) -> Result<View, Error> {
        let path = &self.check.path;
        let source = disk.open(path, Open::Read).context("open", path)?;
        let mut view = View { source, parts: Vec::new(), length: 0 };
        let before = if let LogHeader::Log { dbid, .. } = self.check.header { Zxid(dbid) } else { Zxid::ZERO };
        view.push(Part::Bytes(log_header(before).to_vec()));
        for step in &self.steps {
            match step.fate {
                Fate::Dropped => (),
                Fate::Kept => view.push(Part::Range(step.bytes.clone())),
                Fate::Fixed => {
                    let Range { start, end } = step.bytes;
                    let mut frame = vec![0; usize::try_from(end - start).unwrap_or(usize::MAX)];
                    read_full(&*view.source, &mut frame, start).context("read", path)?;
                    let mut fixed = Vec::with_capacity(frame.len());
                    let mark = begin_log_frame(&mut fixed);
                    fixed.extend_from_slice(&frame[HEAD_BYTES..frame.len() - 1]);
                    end_log_frame(&mut fixed, mark);
                    view.push(Part::Bytes(fixed));
                }
            }
        }
        Ok(view)
    }

    /// What a start would say to `dirs` with the new log in place of the old one; with or without the note of what was
    /// synced, which speaks of what is dropped, too.
    pub fn foresee(&self, disk: &dyn Disk, dirs: &Dirs, note: SyncedNote) -> Result<Outlook, Error> {
        let dir = parent(&self.check.path);
        let dir = disk.canonical(dir).context("open", dir)?;
        let hidden = dir.join(self.check.path.file_name().unwrap_or_default());
        let deleted = (note == SyncedNote::Deleted).then(|| dirs.logs.join(MARKER_NAME));
        foresee(&Swapped { disk, hidden, deleted, plan: self }, dirs)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file made of parts of another.
struct View {
    source: Box<dyn DiskFile>,
    /// Each with its place.
    parts: Vec<(u64, Part)>,
    length: u64,
}

enum Part {
    Bytes(Vec<u8>),
    Range(Range<u64>),
}

impl View {
    fn push(&mut self, part: Part) {
        let size = match &part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Range(range) => range.end - range.start,
        };
        self.parts.push((self.length, part));
        self.length += size;
    }
}

impl DiskFile for View {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let index = self.parts.partition_point(|(start, _)| *start <= offset);
        let Some((start, part)) = self.parts.get(index.wrapping_sub(1)).filter(|_| offset < self.length) else {
            return Ok(0);
        };
        let skip = offset - start;
        match part {
            Part::Bytes(bytes) => {
                let rest = &bytes[usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len())..];
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Part::Range(range) => {
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

/// A fault is left out, but for a record that only needs a checksum.
fn fault_steps(fault: &Fault, mode: Mode, is_over: bool) -> Vec<Step> {
    let dropped = |bytes: Range<u64>, fault| Step { bytes, records: None, fault, fate: Fate::Dropped };
    match fault.kind {
        FaultKind::Bytes { loose: Some((end, zxid)), .. } if mode == Mode::Fix && !is_over => {
            let bytes = fault.bytes.start..end;
            let records = Some((1, (zxid, zxid)));
            let fixed = Step { bytes, records, fault: Some(fault.clone()), fate: Fate::Fixed };
            let rest = end..fault.bytes.end;
            std::iter::once(fixed).chain((!rest.is_empty()).then(|| dropped(rest, None))).collect()
        }
        FaultKind::Bytes { .. } | FaultKind::Record(_) | FaultKind::Gap => {
            vec![dropped(fault.bytes.clone(), Some(fault.clone()))]
        }
    }
}

/// A disk on which a log has been recovered. For reading.
struct Swapped<'a> {
    disk: &'a dyn Disk,
    /// The log.
    hidden: PathBuf,
    deleted: Option<PathBuf>,
    plan: &'a Plan,
}

impl Disk for Swapped<'_> {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        match how {
            Open::Read if path == self.hidden => Ok(Box::new(self.plan.view(self.disk).map_err(io::Error::other)?)),
            Open::Read if Some(path) == self.deleted.as_deref() => Err(io::ErrorKind::NotFound.into()),
            Open::Read => self.disk.open(path, how),
            Open::Write | Open::CreateNew | Open::Create => Err(READ_ONLY.into()),
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
