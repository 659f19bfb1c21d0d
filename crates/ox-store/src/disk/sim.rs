//! A file system in memory that forgets what was not synced.
//!
//! What survives a power cut is decided piece by piece; a piece is
//!
//! - a 512-byte sector of a file written since the file was last synced (one of the versions it had, or the synced
//!   one),
//! - the length of a file, if it changed since,
//! - a change of a directory (create, rename, remove) since the directory was last synced. A rename is one piece.
//!
//! Every call counts. A call can be made to fail, and power can be lost at a call: that one and all later calls
//! fail until [`SimDisk::power_on`] decides what has survived. A clone is an independent copy of the disk, so one
//! run up to a call serves for trying many outcomes.
//!
//! ```text
//! inode: now       what reads see: the page cache
//!        durable   what a power cut leaves if nothing else survives
//!        versions  of each sector in between
//! directory: durable entries + pending changes = entries that lookups see
//! ```

use super::{Disk, DiskFile, DiskLock, Open};
use crate::random::Random;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

const SECTOR: usize = 512;
/// A sector rewritten over and over keeps only this many versions.
const VERSIONS_MAX: usize = 4;
const ROOT: u64 = 0;

/// What happens at a chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails and changes nothing; a failed write has written the first half of its bytes.
    Error(ErrorKind),
    /// A failed sync, after which the system takes the data for written: a later sync succeeds without writing
    /// them. Any other call fails as with `Error`.
    LostSync,
    /// Power goes.
    PowerCut,
}

/// What survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// No unsynced piece.
    Nothing,
    /// Every unsynced piece.
    Everything,
    /// One piece, counted from 0.
    Only(usize),
    /// Every piece but one.
    AllBut(usize),
    /// Some, by this seed.
    Random(u64),
}

/// The simulated disk. Handles are shared; [`SimDisk::fork`] copies.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<Inner>>);

#[derive(Clone)]
struct Inner {
    calls: u64,
    faults: BTreeMap<u64, Fault>,
    powered: bool,
    /// Grows with each restart; older handles are dead.
    boot: u64,
    next_id: u64,
    files: BTreeMap<u64, Inode>,
    dirs: BTreeMap<u64, Directory>,
    locks: BTreeSet<PathBuf>,
    capacity: u64,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    versions: BTreeMap<usize, Vec<[u8; SECTOR]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(u64),
    Dir(u64),
}

#[derive(Clone, Debug)]
enum Change {
    Add(String, Entry),
    Remove(String),
    Rename(String, String, Entry),
}

#[derive(Clone, Default)]
struct Directory {
    durable: BTreeMap<String, Entry>,
    pending: Vec<Change>,
}

/// One unsynced piece.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Sector(u64, usize),
    Length(u64),
    Change(u64, usize),
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            calls: 0,
            faults: BTreeMap::new(),
            powered: true,
            boot: 0,
            next_id: ROOT + 1,
            files: BTreeMap::new(),
            dirs: BTreeMap::from([(ROOT, Directory::default())]),
            locks: BTreeSet::new(),
            capacity: 1 << 40,
        }
    }
}

impl SimDisk {
    /// An empty disk with only a root directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// An independent copy, handles of the original excluded.
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Makes call number `call` (the first is 1) meet `fault`.
    pub fn set_fault(&self, call: u64, fault: Fault) {
        self.0.lock().faults.insert(call, fault);
    }

    /// Forgets planned faults that have not happened.
    pub fn clear_faults(&self) {
        self.0.lock().faults.clear();
    }

    /// True until power is lost.
    pub fn is_powered(&self) -> bool {
        self.0.lock().powered
    }

    /// Limits what the disk can hold, in bytes of file content.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity = bytes;
    }

    /// Number of pieces whose survival a power cut would decide.
    pub fn unsynced_pieces(&self) -> usize {
        self.0.lock().pieces().len()
    }

    /// Ends every handle and lock as the death of the process does; nothing is lost.
    pub fn restart_process(&self) {
        let mut inner = self.0.lock();
        inner.boot += 1;
        inner.locks.clear();
    }

    /// Loses power (if that has not happened yet) and comes back with what survived.
    pub fn power_on(&self, keep: Keep) {
        self.restart_process();
        let mut inner = self.0.lock();
        inner.powered = true;
        inner.lose(keep);
    }

    /// Puts a file there, durably, without counting.
    pub fn install(&self, path: &Path, bytes: &[u8]) {
        let mut inner = self.0.lock();
        let dir = path.parent().map(|dir| inner.make_dirs(dir)).unwrap_or(Ok(ROOT)).expect("a plain path");
        let id = inner.fresh_id();
        inner.files.insert(id, Inode { now: bytes.to_vec(), durable: bytes.to_vec(), ..Inode::default() });
        let name = file_name(path).expect("a plain path");
        inner.change(dir, Change::Add(name, Entry::File(id)));
        inner.dirs.values_mut().for_each(Directory::sync);
    }

    /// What a read of the whole file sees, without counting.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let inner = self.0.lock();
        match inner.lookup(path) {
            Ok(Entry::File(id)) => inner.files.get(&id).map(|inode| inode.now.clone()),
            _ => None,
        }
    }
}

/// How the current call proceeds.
enum Admission {
    Normal,
    Fault(Fault),
}

impl Inner {
    /// Counts a call and tells whether it may run.
    fn admit(&mut self) -> io::Result<Admission> {
        if !self.powered {
            return Err(no_power());
        }
        self.calls += 1;
        let calls = self.calls;
        match self.faults.remove(&calls) {
            None => Ok(Admission::Normal),
            Some(Fault::PowerCut) => {
                self.powered = false;
                Err(no_power())
            }
            Some(fault) => Ok(Admission::Fault(fault)),
        }
    }

    /// As `admit`, for calls that only work or fail.
    fn admit_plain(&mut self) -> io::Result<()> {
        match self.admit()? {
            Admission::Normal => Ok(()),
            Admission::Fault(fault) => Err(fault.error()),
        }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn lookup(&self, path: &Path) -> io::Result<Entry> {
        let mut at = Entry::Dir(ROOT);
        for name in names(path)? {
            let Entry::Dir(id) = at else { return Err(ErrorKind::NotADirectory.into()) };
            at = self.dirs[&id].now().get(&name).copied().ok_or(ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    fn dir(&self, path: &Path) -> io::Result<u64> {
        match self.lookup(path)? {
            Entry::Dir(id) => Ok(id),
            Entry::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn parent(&self, path: &Path) -> io::Result<(u64, String)> {
        let dir = self.dir(path.parent().ok_or(ErrorKind::InvalidInput)?)?;
        Ok((dir, file_name(path)?))
    }

    fn change(&mut self, dir: u64, change: Change) {
        self.dirs.get_mut(&dir).expect("looked up").pending.push(change);
    }

    fn make_dirs(&mut self, path: &Path) -> io::Result<u64> {
        let mut at = ROOT;
        for name in names(path)? {
            at = match self.dirs[&at].now().get(&name) {
                Some(Entry::Dir(id)) => *id,
                Some(Entry::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => {
                    let id = self.fresh_id();
                    self.dirs.insert(id, Directory::default());
                    self.change(at, Change::Add(name, Entry::Dir(id)));
                    id
                }
            };
        }
        Ok(at)
    }

    fn used(&self) -> u64 {
        self.files.values().map(|inode| inode.now.len() as u64).sum()
    }

    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (id, inode) in &self.files {
            pieces.extend(inode.versions.keys().map(|sector| Piece::Sector(*id, *sector)));
            if inode.now.len() != inode.durable.len() {
                pieces.push(Piece::Length(*id));
            }
        }
        for (id, dir) in &self.dirs {
            pieces.extend((0..dir.pending.len()).map(|index| Piece::Change(*id, index)));
        }
        pieces
    }

    fn lose(&mut self, keep: Keep) {
        let mut random = Random::new(if let Keep::Random(seed) = keep { seed } else { 0 });
        let mut kept: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
        let mut sectors: BTreeMap<u64, Vec<(usize, [u8; SECTOR])>> = BTreeMap::new();
        let mut lengths: BTreeSet<u64> = BTreeSet::new();
        for (index, piece) in self.pieces().into_iter().enumerate() {
            let keeps = match keep {
                Keep::Nothing => false,
                Keep::Everything => true,
                Keep::Only(one) => index == one,
                Keep::AllBut(one) => index != one,
                Keep::Random(_) => random.below(2) == 0,
            };
            if !keeps {
                continue;
            }
            match piece {
                Piece::Sector(id, sector) => {
                    let versions = &self.files[&id].versions[&sector];
                    let newest = versions.len() - 1;
                    let pick =
                        if let Keep::Random(_) = keep { random.below(versions.len() as u64) } else { newest as u64 };
                    let pick = usize::try_from(pick).unwrap_or(newest);
                    sectors.entry(id).or_default().push((sector, versions[pick]));
                }
                Piece::Length(id) => _ = lengths.insert(id),
                Piece::Change(id, index) => kept.entry(id).or_default().push(self.dirs[&id].pending[index].clone()),
            }
        }
        for (id, inode) in &mut self.files {
            inode.settle(sectors.get(id).map_or(&[], Vec::as_slice), lengths.contains(id));
        }
        for (id, dir) in &mut self.dirs {
            dir.pending = kept.remove(id).unwrap_or_default();
            dir.sync();
        }
    }
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Self::Error(kind) => kind.into(),
            Self::LostSync | Self::PowerCut => io::Error::other("input/output error"),
        }
    }
}

impl Directory {
    fn now(&self) -> BTreeMap<String, Entry> {
        let mut entries = self.durable.clone();
        for change in &self.pending {
            change.apply(&mut entries);
        }
        entries
    }

    fn sync(&mut self) {
        self.durable = self.now();
        self.pending.clear();
    }
}

impl Change {
    fn apply(&self, entries: &mut BTreeMap<String, Entry>) {
        match self {
            Self::Add(name, entry) => _ = entries.insert(name.clone(), *entry),
            Self::Remove(name) => _ = entries.remove(name),
            Self::Rename(from, to, entry) => {
                entries.remove(from);
                entries.insert(to.clone(), *entry);
            }
        }
    }
}

impl Inode {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        self.touch(offset, end);
    }

    fn set_len(&mut self, length: usize) {
        let before = self.now.len();
        self.now.resize(length, 0);
        if length < before {
            self.touch(length, before);
        }
    }

    /// Remembers the present content of the sectors in `[begin, end)` as a version that may survive.
    fn touch(&mut self, begin: usize, end: usize) {
        for sector in begin / SECTOR..end.div_ceil(SECTOR) {
            let mut content = [0; SECTOR];
            let start = (sector * SECTOR).min(self.now.len());
            let stop = (start + SECTOR).min(self.now.len());
            content[..stop - start].copy_from_slice(&self.now[start..stop]);
            let versions = self.versions.entry(sector).or_default();
            if versions.len() == VERSIONS_MAX {
                versions.remove(0);
            }
            versions.push(content);
        }
    }

    /// Writes what the system knows to be unwritten.
    fn sync(&mut self) {
        self.durable.resize(self.now.len(), 0);
        for sector in self.versions.keys() {
            let start = (sector * SECTOR).min(self.now.len());
            let stop = (start + SECTOR).min(self.now.len());
            self.durable[start..stop].copy_from_slice(&self.now[start..stop]);
        }
        self.versions.clear();
    }

    /// After a power cut: the given sectors and perhaps the new length survive.
    fn settle(&mut self, sectors: &[(usize, [u8; SECTOR])], keep_length: bool) {
        let length = if keep_length { self.now.len() } else { self.durable.len() };
        let mut content = std::mem::take(&mut self.durable);
        content.resize(length, 0);
        for (sector, bytes) in sectors {
            let start = (sector * SECTOR).min(length);
            let stop = (start + SECTOR).min(length);
            content[start..stop].copy_from_slice(&bytes[..stop - start]);
        }
        self.now.clone_from(&content);
        self.durable = content;
        self.versions.clear();
    }
}

fn no_power() -> io::Error {
    io::Error::other("power is off")
}

fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => (),
            Component::Normal(name) => names.push(name.to_str().ok_or(ErrorKind::InvalidInput)?.to_owned()),
            Component::Prefix(_) | Component::ParentDir => return Err(ErrorKind::InvalidInput.into()),
        }
    }
    Ok(names)
}

fn file_name(path: &Path) -> io::Result<String> {
    names(path)?.pop().ok_or_else(|| ErrorKind::InvalidInput.into())
}

struct SimFile {
    disk: SimDisk,
    id: u64,
    boot: u64,
    writable: bool,
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    boot: u64,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut inner = self.disk.0.lock();
        if inner.boot == self.boot {
            inner.locks.remove(&self.path);
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let id = match inner.lookup(path) {
            Ok(Entry::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
            Ok(Entry::File(_)) if how == Open::CreateNew => return Err(ErrorKind::AlreadyExists.into()),
            Ok(Entry::File(id)) => id,
            Err(error) if error.kind() == ErrorKind::NotFound && matches!(how, Open::Create | Open::CreateNew) => {
                let (dir, name) = inner.parent(path)?;
                let id = inner.fresh_id();
                inner.files.insert(id, Inode::default());
                inner.change(dir, Change::Add(name, Entry::File(id)));
                id
            }
            Err(error) => return Err(error),
        };
        Ok(Box::new(SimFile { disk: self.clone(), id, boot: inner.boot, writable: how != Open::Read }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let id = inner.dir(dir)?;
        Ok(inner.dirs[&id].now().into_keys().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let entry = inner.lookup(from)?;
        let ((dir, from), (other, to)) = (inner.parent(from)?, inner.parent(to)?);
        if dir != other {
            return Err(ErrorKind::Unsupported.into());
        }
        inner.change(dir, Change::Rename(from, to, entry));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let Entry::File(_) = inner.lookup(path)? else { return Err(ErrorKind::IsADirectory.into()) };
        let (dir, name) = inner.parent(path)?;
        inner.change(dir, Change::Remove(name));
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        inner.make_dirs(dir).map(|_| ())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.0.lock();
        let admission = inner.admit()?;
        let id = inner.dir(dir)?;
        let directory = inner.dirs.get_mut(&id).expect("looked up");
        match admission {
            Admission::Normal => directory.sync(),
            // Directories are journalled: a failed sync leaves their changes pending.
            Admission::Fault(fault) => return Err(fault.error()),
        }
        Ok(())
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        inner.lookup(path)?;
        Ok(Path::new("/").join(names(path)?.join("/")))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        Ok(inner.capacity.saturating_sub(inner.used()))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        drop(self.open(path, Open::Create)?);
        let mut inner = self.0.lock();
        if !inner.locks.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned(), boot: inner.boot }))
    }
}

impl SimFile {
    /// Runs `work` on the inode after counting the call.
    fn with<T>(&self, work: impl FnOnce(&mut Inode, Admission) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.disk.0.lock();
        let admission = inner.admit()?;
        if inner.boot != self.boot {
            return Err(io::Error::other("this handle is of an earlier run"));
        }
        let inode = inner.files.get_mut(&self.id).expect("inodes are kept");
        work(inode, admission)
    }

    fn grow(&self, end: u64, work: impl FnOnce(&mut Inode)) -> io::Result<()> {
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut inner = self.disk.0.lock();
        let length = inner.files[&self.id].now.len() as u64;
        if inner.capacity < inner.used() + end.saturating_sub(length) {
            return Err(ErrorKind::StorageFull.into());
        }
        work(inner.files.get_mut(&self.id).expect("inodes are kept"));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|inode, admission| match admission {
            Admission::Normal => {
                inode.sync();
                Ok(())
            }
            Admission::Fault(fault) => {
                if fault == Fault::LostSync {
                    inode.versions.clear(); // clean for the system, and never written
                }
                Err(fault.error())
            }
        })
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| ErrorKind::InvalidInput.into())
}

fn plain(admission: &Admission) -> io::Result<()> {
    match admission {
        Admission::Normal => Ok(()),
        Admission::Fault(fault) => Err(fault.error()),
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|inode, admission| {
            plain(&admission)?;
            let from = index(offset)?.min(inode.now.len());
            let count = buffer.len().min(inode.now.len() - from);
            buffer[..count].copy_from_slice(&inode.now[from..from + count]);
            Ok(count)
        })
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.with(|inode, admission| {
            plain(&admission)?;
            Ok((index(offset)? < inode.now.len()).then_some(offset))
        })
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let at = index(offset)?;
        let outcome = self.with(|_, admission| plain(&admission));
        let bytes = match &outcome {
            Ok(()) => bytes,
            Err(_) if self.disk.is_powered() => &bytes[..bytes.len() / 2],
            Err(_) => return outcome,
        };
        self.grow(offset + bytes.len() as u64, |inode| inode.write(bytes, at))?;
        outcome
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|inode, admission| plain(&admission).map(|()| inode.now.len() as u64))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let to = index(length)?;
        self.with(|_, admission| plain(&admission))?;
        self.grow(length, |inode| inode.set_len(to))
    }

    fn preallocate(&self, length: u64) -> io::Result<()> {
        let to = index(length)?;
        self.with(|_, admission| plain(&admission))?;
        self.grow(length, |inode| {
            if inode.now.len() < to {
                inode.set_len(to);
            }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }
}

#[cfg(test)]
mod tests;
