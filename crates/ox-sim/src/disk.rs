//! A simulated disk whose calls take time: other events run before each call completes.
//!
//! If the process dies meanwhile, or the power fails at the call, the call returns an error and the job unwinds.

use crate::engine::{WeakWorld, wait};
use crate::event::{End, ProcessId};
use ox_history::Time;
use ox_store::disk::{Disk, DiskFile, DiskLock, DiskSpace, FileIdentity, OpenMode, SimDisk};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone)]
pub(crate) struct PacedDisk {
    world: WeakWorld,
    disk: SimDisk,
    pid: ProcessId,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Plain,
    Sync,
}

impl PacedDisk {
    pub(crate) fn new(world: WeakWorld, disk: SimDisk, pid: ProcessId) -> Self {
        Self { world, disk, pid }
    }

    /// Lets virtual time pass, then executes the call if its process is still alive.
    fn call<T>(&self, call: Call, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(world) = self.world.upgrade() else { return Err(dead()) };
        let until = {
            let mut world = world.lock();
            if !world.is_current(self.pid) {
                return Err(dead());
            }
            let server = &world.servers[self.pid.server];
            let (slowness, hung_until) = (server.slow_disk, server.hung_until);
            let delay = world.env.disk_delay(call == Call::Sync, slowness);
            Time(world.env.now.0 + delay).max(hung_until)
        };
        wait(&world, until, self.pid);
        if !world.lock().is_current(self.pid) {
            return Err(dead());
        }
        let result = work();
        if !self.disk.is_powered() {
            world.lock().end(self.pid, End::PowerCut);
        }
        result
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

impl Disk for PacedDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let file = self.call(Call::Plain, || self.disk.open(path, how))?;
        Ok(Box::new(PacedFile { disk: self.clone(), file }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.call(Call::Plain, || self.disk.list(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::Plain, || self.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(Call::Plain, || self.disk.remove(path))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.call(Call::Plain, || self.disk.create_dir_all(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call(Call::Sync, || self.disk.sync_dir(dir))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.call(Call::Plain, || self.disk.canonical(path))
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.call(Call::Plain, || self.disk.space(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.call(Call::Plain, || self.disk.lock(path))
    }
}

struct PacedFile {
    disk: PacedDisk,
    file: Box<dyn DiskFile>,
}

impl DiskFile for PacedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.call(Call::Plain, || self.file.read_at(buffer, offset))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.disk.call(Call::Plain, || self.file.next_data(offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.call(Call::Plain, || self.file.write_all_at(bytes, offset))
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.call(Call::Plain, || self.file.len())
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.disk.call(Call::Plain, || self.file.identity())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.call(Call::Plain, || self.file.set_len(length))
    }

    fn preallocate(&self, length: u64) -> io::Result<bool> {
        self.disk.call(Call::Plain, || self.file.preallocate(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.call(Call::Sync, || self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.disk.call(Call::Sync, || self.file.sync_all())
    }
}
