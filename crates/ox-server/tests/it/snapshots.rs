//! Snapshots while clients are served, on a disk that the test can block.

use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::ServerFixture;
use ox_store::disk::{Disk, DiskFile, DiskLock, DiskSpace, FileIdentity, OpenMode, RealDisk};
use ox_testkit::READ_TIMEOUT;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk operation of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create,
    Write,
    Sync,
    Rename,
}

#[derive(Default)]
struct Inner {
    /// The operation that blocks.
    closed_to: Option<Act>,
    waiting: usize,
}

/// Blocks disk operations of snapshots.
#[derive(Default)]
struct Gate {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self, act: Act) {
        let mut inner = self.inner.lock();
        while inner.closed_to == Some(act) {
            inner.waiting += 1;
            self.changed.notify_all();
            self.changed.wait(&mut inner);
            inner.waiting -= 1;
        }
    }

    fn set(&self, closed_to: Option<Act>) {
        self.inner.lock().closed_to = closed_to;
        self.changed.notify_all();
    }

    fn is_waiting(&self) -> bool {
        0 < self.inner.lock().waiting
    }

    /// Waits until a snapshot is blocked.
    fn await_snapshot(&self) {
        let mut inner = self.inner.lock();
        while inner.waiting == 0 {
            assert!(!self.changed.wait_for(&mut inner, READ_TIMEOUT).timed_out(), "no snapshot is taken");
        }
    }
}

/// Unblocks when it is dropped, so that a failing test ends.
struct Closed<'a>(&'a Gate);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

struct GatedDisk(Arc<Gate>);

impl GatedDisk {
    fn is_snapshot(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("oxk.snapshot."))
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        if !Self::is_snapshot(path) || how == OpenMode::Read {
            return RealDisk.open(path, how);
        }
        self.0.pass(Act::Create);
        Ok(Box::new(GatedFile { file: RealDisk.open(path, how)?, gate: Arc::clone(&self.0) }))
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if Self::is_snapshot(from) {
            self.0.pass(Act::Rename);
        }
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.canonical(path)
    }
    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        RealDisk.space(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        RealDisk.lock(path)
    }
}

/// The file of a snapshot that is being written.
struct GatedFile {
    file: Box<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl DiskFile for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.next_data(offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.gate.pass(Act::Write);
        self.file.write_all_at(bytes, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn preallocate(&self, length: u64) -> io::Result<bool> {
        self.file.preallocate(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.gate.pass(Act::Sync);
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.gate.pass(Act::Sync);
        self.file.sync_all()
    }
}

/// A blocked snapshot delays nothing: reads, writes through several log files, new, resumed and closed sessions,
/// events, four-letter commands (K149).
#[test]
fn k149_blocked_snapshot_delays_no_client() {
    for act in [Act::Create, Act::Write, Act::Sync, Act::Rename] {
        let gate = Arc::new(Gate::default());
        let disk = Arc::new(GatedDisk(Arc::clone(&gate)));
        let mut server = ServerFixture::on(disk, &format!("snapCount=10\n{ALL_COMMANDS}"));
        gate.set(Some(act));
        let closed = Closed(&gate);
        let mut client = server.client();
        (0..20).for_each(|at| assert_eq!(client.create(&format!("/before{at}"), b"").err, 0));
        gate.await_snapshot();

        assert_eq!(client.ask(|packet, xid| packet.add_watch(xid, "/", 1)).err, 0);
        let mut other = server.client();
        for at in 0..50 {
            let path = format!("/during{at}");
            assert_eq!(other.create(&path, b"value").err, 0);
            assert_eq!(other.get(&path).err, 0);
            assert_eq!(client.event().path, path);
        }
        let mut again = server.resume(&other).expect("its session is alive");
        assert_eq!(again.ping().err, 0);
        assert_eq!(again.close().err, 0);
        assert!(server.command("srvr").contains("Mode: standalone"));
        assert!(gate.is_waiting(), "{act:?}: all of that while a snapshot was being written");

        drop(closed);
        server.restart();
        assert_eq!(server.client().get("/during49").err, 0);
    }
}
