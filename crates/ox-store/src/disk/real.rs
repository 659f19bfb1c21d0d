//! The operating system's file system.

use super::{Disk, DiskFile, DiskLock, DiskSpace, FileIdentity, OpenMode};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Other users have no access to new files and directories, whatever the umask permits (S20).
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile(File);

/// Closing the file releases the lock.
struct RealLock(#[expect(dead_code, reason = "held, not used")] File);
impl DiskLock for RealLock {}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(FILE_MODE);
        match how {
            OpenMode::Read => (),
            OpenMode::Write => _ = options.write(true),
            OpenMode::CreateNew => _ = options.write(true).create_new(true),
            OpenMode::Create => _ = options.write(true).create(true).truncate(false),
        }
        Ok(Box::new(RealFile(options.open(path)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // Names that are not UTF-8 are not ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let (volume, stat) = (fs::metadata(dir)?.dev(), rustix::fs::statvfs(dir)?);
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(DiskSpace { volume, total_bytes: bytes(stat.f_blocks), free_bytes: bytes(stat.f_bavail) })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(RealLock(file))),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        // SEEK_DATA skips allocated space that was never written. It moves the file's position, which is not used
        // otherwise.
        #[cfg(target_os = "linux")]
        match rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Data(offset)) {
            Ok(at) => return Ok(Some(at)),
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => (),
            Err(error) => return Err(error.into()),
        }
        Ok((offset < self.len()?).then_some(offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let metadata = self.0.metadata()?;
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.and_then(|born| i64::try_from(born.as_nanos()).ok()).unwrap_or(0);
        Ok(FileIdentity { inode: metadata.ino(), born_ns })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn preallocate(&self, length: u64) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, length) {
            // Some file systems report success without allocating.
            Ok(()) => return Ok(length <= self.0.metadata()?.blocks().saturating_mul(512)),
            // Some file systems cannot allocate; a sparse file has the same contents.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => (),
            Err(error) => return Err(error.into()),
        }
        self.0.set_len(length)?;
        Ok(false)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn drop_from_cache(&self) {
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed); // only a hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_renames_and_locks_work() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = RealDisk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_all_at(b"hello", 3).unwrap();
        file.preallocate(4096).unwrap();
        assert_eq!(file.len().unwrap(), 4096);
        let mut bytes = [1; 10];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 10);
        assert_eq!(&bytes, b"\0\0\0hello\0\0");
        assert_eq!(file.next_data(4096).unwrap(), None);
        assert!(file.next_data(2).unwrap().is_some_and(|at| at <= 3));
        assert!(RealDisk.open(&path, OpenMode::CreateNew).is_err());
        RealDisk.rename(&path, &dir.path().join("b")).unwrap();
        RealDisk.sync_dir(dir.path()).unwrap();
        assert_eq!(RealDisk.list(dir.path()).unwrap(), ["b"]);
        let space = RealDisk.space(dir.path()).unwrap();
        assert!(0 < space.free_bytes && space.free_bytes < space.total_bytes);

        let held = RealDisk.lock(&dir.path().join("lock")).unwrap();
        let refused = RealDisk.lock(&dir.path().join("lock")).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        RealDisk.lock(&dir.path().join("lock")).unwrap();
    }

    #[test]
    fn s20_new_files_and_directories_are_of_their_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let data = dir.path().join("data/version-2");
        RealDisk.create_dir_all(&data).unwrap();
        assert_eq!((mode(&dir.path().join("data")), mode(&data)), (0o700, 0o700));
        RealDisk.open(&data.join("log.1"), OpenMode::CreateNew).unwrap();
        RealDisk.open(&data.join("currentEpoch"), OpenMode::Create).unwrap();
        let _lock = RealDisk.lock(&data.join("lock")).unwrap();
        for name in ["log.1", "currentEpoch", "lock"] {
            assert_eq!(mode(&data.join(name)), 0o600, "{name}");
        }
    }
}
