//! Writing a snapshot, which gets its final name only when it is complete.
//!
//! ```text
//! oxk.snapshot.<N>.tmp  written, synced, read back ──rename──> snapshot.<N>  directory synced ──> counts for purge
//! ```
//! A crash leaves only a temporary file, which the next start removes. The contents are streamed: memory does not grow
//! with the number of nodes.

use super::body::BodyEncoder;
use super::compress::Encoder;
use super::read::{SnapshotSink, StoredNode, read_snapshot};
use super::{END_MARK, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, SnapshotContents, SnapshotError, SnapshotTrailer};
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{IoContext, StoreError};
use crate::limits::{SNAPSHOT_LOOK_BYTES, SNAPSHOT_SYNC_BYTES, WRITE_CHUNK_BYTES};
use crate::names::{Compression, SnapshotFile, snapshot_name, unfinished_name};
use ox_proto::jute::{Jute, put_text};
use ox_proto::{RawAcls, SessionId, Zxid};
use ox_tree::FrozenView;
use simd_adler32::Adler32;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Encodes a snapshot into a file.
pub(crate) struct SnapshotWriter<'a> {
    out: Encoder<FileWriter<'a>>,
    buffer: Vec<u8>,
    adler: Adler32,
    /// The number of bytes of the stream before `buffer`.
    base: u64,
    contents: SnapshotContents,
}

impl<'a> SnapshotWriter<'a> {
    fn new(file: FileWriter<'a>, compression: Compression) -> Self {
        let mut buffer = Vec::with_capacity(WRITE_CHUNK_BYTES + (64 << 10));
        SNAPSHOT_MAGIC.cast_signed().put(&mut buffer);
        SNAPSHOT_VERSION.cast_signed().put(&mut buffer);
        (-1_i64).put(&mut buffer);
        let out = Encoder::new(file, compression);
        Self { out, buffer, adler: Adler32::new(), base: 0, contents: SnapshotContents::default() }
    }

    /// Writes all of `frozen`.
    pub(crate) fn write(mut self, frozen: &FrozenView, trailer: &SnapshotTrailer) -> io::Result<SnapshotContents> {
        let mut body = BodyEncoder::new();
        while body.fill(frozen, &mut self.buffer, WRITE_CHUNK_BYTES) {
            self.flush()?;
        }
        (self.contents.sessions, self.contents.nodes) = (frozen.sessions().len() as u64, body.nodes);
        self.finish(trailer)
    }

    fn finish(mut self, trailer: &SnapshotTrailer) -> io::Result<SnapshotContents> {
        self.seal()?;
        if let Some((zxid, digest)) = trailer.digest {
            zxid.put(&mut self.buffer);
            digest.put(&mut self.buffer);
            self.seal()?;
        }
        if let Some(zxid) = trailer.last_zxid {
            zxid.put(&mut self.buffer);
            self.seal()?;
        }
        self.flush()?;
        self.contents.trailer = *trailer;
        self.contents.bytes = self.base;
        self.out.finish()?;
        Ok(self.contents)
    }

    fn seal(&mut self) -> io::Result<()> {
        self.flush()?;
        i64::from(self.adler.finish()).put(&mut self.buffer);
        put_text(&mut self.buffer, END_MARK);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.adler.write(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.base += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Writes a file sequentially, with regular syncs, so that only few bytes are pending at any time.
pub(crate) struct FileWriter<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
    synced: u64,
    /// Free space was checked up to here.
    end: u64,
    limits: WriteLimits<'a>,
}

/// The resources that writing a snapshot may use.
#[derive(Clone, Copy)]
pub(crate) struct WriteLimits<'a> {
    /// The number of bytes that the snapshot may take.
    pub(crate) free_bytes: &'a dyn Fn() -> io::Result<u64>,
    /// Called between two chunks, to limit the load.
    pub(crate) pause: &'a dyn Fn(),
}

impl WriteLimits<'_> {
    /// All free space, at full speed.
    pub(crate) const ANY: WriteLimits<'static> = WriteLimits { free_bytes: &|| Ok(u64::MAX / 2), pause: &|| () };
}

impl Write for FileWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.offset + bytes.len() as u64;
        if self.end < end {
            self.end = self.offset + (self.limits.free_bytes)()?;
            if self.end < end {
                return Err(io::Error::new(ErrorKind::StorageFull, "the remaining disk space is reserved for the log"));
            }
            self.end = self.end.min(self.offset + SNAPSHOT_LOOK_BYTES).max(end);
        }
        self.file.write_all_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        if SNAPSHOT_SYNC_BYTES <= self.offset - self.synced {
            self.file.sync_data()?;
            self.synced = self.offset;
        }
        (self.limits.pause)();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A complete, durable and verified snapshot under its temporary name.
pub(crate) struct UnpublishedSnapshot {
    pub(crate) unfinished: PathBuf,
    /// The file under its final name.
    pub(crate) file: SnapshotFile,
}

/// Writes the snapshot `last` with `fill`, and verifies it. On failure the temporary file is removed, if the disk
/// allows it.
pub(crate) fn prepare(
    disk: &dyn Disk,
    dir: &Path,
    last: Zxid,
    compression: Compression,
    limits: WriteLimits<'_>,
    fill: impl FnOnce(SnapshotWriter<'_>) -> io::Result<SnapshotContents>,
) -> Result<UnpublishedSnapshot, StoreError> {
    let name = snapshot_name(last, compression);
    let (path, unfinished) = (dir.join(&name), dir.join(unfinished_name(&name)));
    match write_and_check(disk, &unfinished, last, compression, limits, fill) {
        Ok(()) => Ok(UnpublishedSnapshot { unfinished, file: SnapshotFile { last, compression, path } }),
        Err(source) => {
            _ = disk.remove(&unfinished);
            Err(StoreError::SnapshotWrite { path, source: Box::new(source) })
        }
    }
}

/// Renames the snapshot to its final name.
pub(crate) fn publish(disk: &dyn Disk, prepared: UnpublishedSnapshot) -> Result<SnapshotFile, StoreError> {
    let UnpublishedSnapshot { unfinished, file } = prepared;
    let dir = file.path.parent().unwrap_or(Path::new("."));
    if let Err(source) = disk.rename(&unfinished, &file.path).context("rename", &unfinished) {
        _ = disk.remove(&unfinished);
        return Err(StoreError::SnapshotWrite { path: file.path, source: Box::new(source) });
    }
    match disk.sync_dir(dir).context("fsync directory", dir) {
        Ok(()) => Ok(file),
        Err(source) => Err(StoreError::SnapshotWrite { path: file.path, source: Box::new(source) }),
    }
}

fn write_and_check(
    disk: &dyn Disk,
    path: &Path,
    last: Zxid,
    compression: Compression,
    limits: WriteLimits<'_>,
    fill: impl FnOnce(SnapshotWriter<'_>) -> io::Result<SnapshotContents>,
) -> Result<(), StoreError> {
    let file = disk.open(path, OpenMode::Create).context("create", path)?;
    file.set_len(0).context("truncate", path)?;
    let writer = FileWriter { file: &*file, offset: 0, synced: 0, end: 0, limits };
    let written = fill(SnapshotWriter::new(writer, compression)).context("write", path)?;
    file.sync_all().context("fsync", path)?;
    let stored = SnapshotFile { last, compression, path: path.to_owned() };
    let read = read_snapshot(disk, &stored, &mut Structure::default())?;
    if read != written {
        let source = SnapshotError::Content(format!("written {written:?}, read back {read:?}"));
        return Err(StoreError::Snapshot { path: path.to_owned(), source });
    }
    Ok(())
}

/// Checks that a snapshot contains a tree, without building it: in pre-order, the parent of a node is the previous node
/// or one of its ancestors.
#[derive(Default)]
pub(crate) struct Structure {
    /// The path of the previous node.
    path: String,
    any: bool,
}

impl SnapshotSink for Structure {
    fn session(&mut self, _: SessionId, _: i32) -> Result<(), String> {
        Ok(())
    }

    fn acl(&mut self, _: i64, _: RawAcls<'_>) -> Result<(), String> {
        Ok(())
    }

    fn node(&mut self, node: &StoredNode<'_>) -> Result<(), String> {
        let fits = match node.path.rfind('/') {
            None => !self.any && node.path.is_empty(),
            Some(cut) => {
                let parent = &node.path[..cut];
                let rest = self.path.strip_prefix(parent);
                self.any && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        };
        if !fits {
            return Err(format!("node {} has no parent", node.path));
        }
        self.any = true;
        self.path.clear();
        self.path.push_str(&node.path);
        Ok(())
    }
}
