//! A file that is rotated by size: `audit.log` becomes `audit.log.1`, which becomes `audit.log.2`, and so on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A log file. Lines are written without a buffer, so that a crash loses none.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    backups: u32,
    mode: u32,
}

impl RotatingFile {
    /// Opens the file for appending, or creates it with the permissions `mode`.
    pub fn open(path: &Path, bytes_max: u64, backups: u32, mode: u32) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(mode).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, bytes_max, backups, mode })
    }

    /// Writes a line in one call, after a rotation if the file would become too large. After an error the file has the
    /// whole line or nothing of it.
    pub fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if 0 < self.bytes && self.bytes_max < self.bytes + length {
            self.rotate()?;
        }
        if let Err(error) = self.file.write_all(line) {
            let _ = self.file.set_len(self.bytes); // best effort: a full disk may have taken a part of the line
            return Err(error);
        }
        self.bytes += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.backups == 0 {
            fs::remove_file(&self.path)?;
        } else {
            for number in (1..self.backups).rev() {
                rename_if_present(&numbered(number), &numbered(number + 1))?;
            }
            rename_if_present(&self.path, &numbered(1))?;
        }
        *self = Self::open(&self.path, self.bytes_max, self.backups, self.mode)?;
        Ok(())
    }
}

fn rename_if_present(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn file_rotates_by_size_and_keeps_its_backups() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
        let mut file = RotatingFile::open(&path, 10, 2, 0o600).unwrap();
        for line in ["first\n", "2\n", "second\n", "third\n", "fourth\n"] {
            file.write_line(line.as_bytes()).unwrap();
        }
        assert_eq!(read("audit.log").as_deref(), Some("fourth\n"));
        assert_eq!(read("audit.log.1").as_deref(), Some("third\n"));
        assert_eq!(read("audit.log.2").as_deref(), Some("second\n"));
        assert_eq!(read("audit.log.3"), None);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(file);
        RotatingFile::open(&path, 100, 2, 0o600).unwrap().write_line(b"fifth\n").unwrap();
        assert_eq!(read("audit.log").as_deref(), Some("fourth\nfifth\n"), "an existing file is continued");
    }

    #[test]
    fn file_without_backups_is_begun_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let mut file = RotatingFile::open(&path, 4096, 0, 0o600).unwrap();
        file.write_line("a".repeat(4000).as_bytes()).unwrap();
        file.write_line("b".repeat(4000).as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "b".repeat(4000));
    }
}
