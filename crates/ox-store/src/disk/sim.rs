//! A simulated disk that loses unsynced data in a power cut.
//!
//! A power cut decides piece by piece what survives; a piece is
//!
//! - a 512-byte sector of a file that was written since the file's last sync (one of its versions, or the synced one),
//! - the length of a file, if it changed since,
//! - a change of a directory (create, rename, remove) since the directory's last sync. A rename is one piece.
//!
//! Calls are numbered. A chosen call can fail, or lose power: then it and all later calls fail until
//! [`SimDisk::power_on`] decides what has survived. A fork is an independent copy of the disk, so that one run up to a
//! call can be continued with many outcomes.

mod volume;

pub use volume::KeepUnsynced;

use super::{Disk, DiskFile, DiskLock, DiskSpace, FileIdentity, OpenMode};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use volume::{Change, Directory, Entry, Inode, ROOT, Volume, file_name, names};

/// What happens at a chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The call fails without effect, except that a failed write has written the first half of its bytes.
    Error(ErrorKind),
    /// The sync fails and the kernel marks the pages clean: a later sync succeeds without writing them. Any other call
    /// fails as with `StoreError`.
    LostSync,
    /// The power is cut.
    PowerCut,
}

/// The simulated disk. Clones share their contents; [`SimDisk::fork`] copies them.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<Inner>>);

#[derive(Clone)]
struct Inner {
    calls: u64,
    faults: BTreeMap<u64, DiskFault>,
    powered: bool,
    /// Incremented by each restart, which invalidates older handles.
    boot: u64,
    volume: Volume,
    locks: BTreeSet<PathBuf>,
    capacity: u64,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            calls: 0,
            faults: BTreeMap::new(),
            powered: true,
            boot: 0,
            volume: Volume::default(),
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

    /// An independent copy, without open handles.
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Plans `fault` for call number `call`; the first call is 1.
    pub fn set_fault(&self, call: u64, fault: DiskFault) {
        self.0.lock().faults.insert(call, fault);
    }

    /// Removes planned faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.0.lock().faults.clear();
    }

    /// Whether the power is on.
    pub fn is_powered(&self) -> bool {
        self.0.lock().powered
    }

    /// Sets the capacity of the disk, in bytes of file contents.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity = bytes;
    }

    /// The number of pieces whose survival a power cut would decide.
    pub fn unsynced_pieces(&self) -> usize {
        self.0.lock().volume.pieces().len()
    }

    /// Invalidates all handles and locks, as the end of the process does. Nothing is lost.
    pub fn restart_process(&self) {
        let mut inner = self.0.lock();
        inner.boot += 1;
        inner.locks.clear();
    }

    /// Cuts the power, unless that has happened already, and restores what survived.
    pub fn power_on(&self, keep: KeepUnsynced) {
        self.restart_process();
        let mut inner = self.0.lock();
        inner.powered = true;
        inner.volume.lose(keep);
    }

    /// Creates a durable file, outside the numbered calls.
    pub fn install(&self, path: &Path, bytes: &[u8]) {
        let mut inner = self.0.lock();
        let dir = path.parent().map(|dir| inner.volume.make_dirs(dir)).unwrap_or(Ok(ROOT)).expect("a plain path");
        let id = inner.volume.fresh_id();
        inner.volume.files.insert(id, Inode { now: bytes.to_vec(), durable: bytes.to_vec(), ..Inode::default() });
        let name = file_name(path).expect("a plain path");
        inner.volume.change(dir, Change::Add(name, Entry::File(id)));
        inner.volume.dirs.values_mut().for_each(Directory::sync);
    }

    /// All files, outside the numbered calls.
    pub fn files(&self) -> Vec<PathBuf> {
        let inner = self.0.lock();
        let (mut files, mut dirs) = (Vec::new(), vec![(PathBuf::from("/"), ROOT)]);
        while let Some((path, dir)) = dirs.pop() {
            for (name, entry) in inner.volume.dirs.get(&dir).map(Directory::now).unwrap_or_default() {
                match entry {
                    Entry::File(_) => files.push(path.join(name)),
                    Entry::Dir(id) => dirs.push((path.join(name), id)),
                }
            }
        }
        files.sort();
        files
    }

    /// Changes the durable contents of a file, as a failing medium does.
    pub fn damage(&self, path: &Path, change: impl Fn(&mut Vec<u8>)) {
        let mut inner = self.0.lock();
        if let Ok(Entry::File(id)) = inner.volume.lookup(path)
            && let Some(inode) = inner.volume.files.get_mut(&id)
        {
            change(&mut inode.now);
            change(&mut inode.durable);
        }
    }

    /// Makes the contents of a file durable, outside the numbered calls.
    pub fn settle(&self, path: &Path) {
        let mut inner = self.0.lock();
        if let Ok(Entry::File(id)) = inner.volume.lookup(path)
            && let Some(inode) = inner.volume.files.get_mut(&id)
        {
            inode.sync();
        }
    }

    /// Removes a file durably, outside the numbered calls.
    pub fn lose(&self, path: &Path) {
        let mut inner = self.0.lock();
        if let Ok((dir, name)) = inner.volume.parent(path) {
            inner.volume.change(dir, Change::Remove(name));
            inner.volume.dirs.values_mut().for_each(Directory::sync);
        }
    }

    /// The contents that reads see, outside the numbered calls.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let inner = self.0.lock();
        match inner.volume.lookup(path) {
            Ok(Entry::File(id)) => inner.volume.files.get(&id).map(|inode| inode.now.clone()),
            _ => None,
        }
    }
}

/// How a numbered call proceeds.
enum Admission {
    Normal,
    Fault(DiskFault),
}

impl Inner {
    /// Counts a call and returns whether it may run.
    fn admit(&mut self) -> io::Result<Admission> {
        if !self.powered {
            return Err(no_power());
        }
        self.calls += 1;
        let calls = self.calls;
        match self.faults.remove(&calls) {
            None => Ok(Admission::Normal),
            Some(DiskFault::PowerCut) => {
                self.powered = false;
                Err(no_power())
            }
            Some(fault) => Ok(Admission::Fault(fault)),
        }
    }

    /// As `admit`, for calls that either succeed or fail.
    fn admit_plain(&mut self) -> io::Result<()> {
        match self.admit()? {
            Admission::Normal => Ok(()),
            Admission::Fault(fault) => Err(fault.error()),
        }
    }
}

impl DiskFault {
    fn error(self) -> io::Error {
        match self {
            Self::Error(kind) => kind.into(),
            Self::LostSync | Self::PowerCut => io::Error::other("input/output error"),
        }
    }
}

fn no_power() -> io::Error {
    io::Error::other("power is off")
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
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let id = match inner.volume.lookup(path) {
            Ok(Entry::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
            Ok(Entry::File(_)) if how == OpenMode::CreateNew => return Err(ErrorKind::AlreadyExists.into()),
            Ok(Entry::File(id)) => id,
            Err(error)
                if error.kind() == ErrorKind::NotFound && matches!(how, OpenMode::Create | OpenMode::CreateNew) =>
            {
                let (dir, name) = inner.volume.parent(path)?;
                let id = inner.volume.fresh_id();
                inner.volume.files.insert(id, Inode::default());
                inner.volume.change(dir, Change::Add(name, Entry::File(id)));
                id
            }
            Err(error) => return Err(error),
        };
        Ok(Box::new(SimFile { disk: self.clone(), id, boot: inner.boot, writable: how != OpenMode::Read }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let id = inner.volume.dir(dir)?;
        Ok(inner.volume.dirs[&id].now().into_keys().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let entry = inner.volume.lookup(from)?;
        let ((dir, from), (other, to)) = (inner.volume.parent(from)?, inner.volume.parent(to)?);
        if dir != other {
            return Err(ErrorKind::Unsupported.into());
        }
        inner.volume.change(dir, Change::Rename(from, to, entry));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let Entry::File(_) = inner.volume.lookup(path)? else { return Err(ErrorKind::IsADirectory.into()) };
        let (dir, name) = inner.volume.parent(path)?;
        inner.volume.change(dir, Change::Remove(name));
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        inner.volume.make_dirs(dir).map(|_| ())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.0.lock();
        let admission = inner.admit()?;
        let id = inner.volume.dir(dir)?;
        let directory = inner.volume.dirs.get_mut(&id).expect("looked up");
        match admission {
            Admission::Normal => directory.sync(),
            // Directories are journalled: after a failed sync their changes are still pending.
            Admission::Fault(fault) => return Err(fault.error()),
        }
        Ok(())
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        inner.volume.lookup(path)?;
        Ok(Path::new("/").join(names(path)?.join("/")))
    }

    fn space(&self, _: &Path) -> io::Result<DiskSpace> {
        let mut inner = self.0.lock();
        inner.admit_plain()?;
        let free_bytes = inner.capacity.saturating_sub(inner.volume.used());
        Ok(DiskSpace { volume: 0, total_bytes: inner.capacity, free_bytes })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        drop(self.open(path, OpenMode::Create)?);
        let mut inner = self.0.lock();
        if !inner.locks.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned(), boot: inner.boot }))
    }
}

impl SimFile {
    /// Counts the call and runs `work` on the inode.
    fn with<T>(&self, work: impl FnOnce(&mut Inode, Admission) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.disk.0.lock();
        let admission = inner.admit()?;
        if inner.boot != self.boot {
            return Err(io::Error::other("stale handle of an earlier run"));
        }
        let inode = inner.volume.files.get_mut(&self.id).expect("inodes are kept");
        work(inode, admission)
    }

    fn grow(&self, end: u64, work: impl FnOnce(&mut Inode)) -> io::Result<()> {
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut inner = self.disk.0.lock();
        let growth = end.saturating_sub(inner.volume.files[&self.id].now.len() as u64);
        let fits = |used: u64| used + growth <= inner.capacity;
        if !fits(inner.volume.used_at_most()) && !fits(inner.volume.used()) {
            return Err(ErrorKind::StorageFull.into());
        }
        work(inner.volume.files.get_mut(&self.id).expect("inodes are kept"));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|inode, admission| match admission {
            Admission::Normal => {
                inode.sync();
                Ok(())
            }
            Admission::Fault(fault) => {
                if fault == DiskFault::LostSync {
                    inode.versions.clear(); // clean for the kernel, but never written
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

    fn identity(&self) -> io::Result<FileIdentity> {
        let id = self.id;
        // Ids are never reused.
        self.with(|_, admission| plain(&admission).map(|()| FileIdentity { inode: id, born_ns: 0 }))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let to = index(length)?;
        self.with(|_, admission| plain(&admission))?;
        self.grow(length, |inode| inode.set_len(to))
    }

    fn preallocate(&self, length: u64) -> io::Result<bool> {
        let to = index(length)?;
        self.with(|_, admission| plain(&admission))?;
        self.grow(length, |inode| {
            if inode.now.len() < to {
                inode.set_len(to);
            }
        })?;
        Ok(true)
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
