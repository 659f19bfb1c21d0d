//! Writing a snapshot so that its name means something.
//!
//! ```text
//! oxk.snapshot.<N>.tmp  written, synced, read back ──rename──> snapshot.<N>  directory synced ──> counts for purge
//! ```
//! A crash on the way leaves nothing but a file that the next start removes. The content is streamed: memory stays
//! the same however many nodes there are.

use super::body::BodyEncoder;
use super::compress::Encoder;
use super::read::{Sink, StoredNode, read_snapshot};
use super::{Contents, END_MARK, SNAPSHOT_MAGIC, SNAPSHOT_VERSION, SnapshotError, Trailer};
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, IoContext};
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
    /// Bytes of the stream before `buffer`.
    base: u64,
    contents: Contents,
}

impl<'a> SnapshotWriter<'a> {
    fn new(file: FileWriter<'a>, compression: Compression) -> Self {
        let mut buffer = Vec::with_capacity(WRITE_CHUNK_BYTES + (64 << 10));
        SNAPSHOT_MAGIC.cast_signed().put(&mut buffer);
        SNAPSHOT_VERSION.cast_signed().put(&mut buffer);
        (-1_i64).put(&mut buffer);
        let out = Encoder::new(file, compression);
        Self { out, buffer, adler: Adler32::new(), base: 0, contents: Contents::default() }
    }

    /// Writes all of `frozen`.
    pub(crate) fn write(mut self, frozen: &FrozenView, trailer: &Trailer) -> io::Result<Contents> {
        let mut body = BodyEncoder::new();
        while body.fill(frozen, &mut self.buffer, WRITE_CHUNK_BYTES) {
            self.flush()?;
        }
        (self.contents.sessions, self.contents.nodes) = (frozen.sessions().len() as u64, body.nodes);
        self.finish(trailer)
    }

    fn finish(mut self, trailer: &Trailer) -> io::Result<Contents> {
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

/// A file written from its start, synced now and then so that never much of it is pending.
pub(crate) struct FileWriter<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
    synced: u64,
    /// There was room up to here when somebody last looked.
    end: u64,
    terms: Terms<'a>,
}

/// What writing a snapshot may cost.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// How many bytes there are for it.
    pub(crate) room: &'a dyn Fn() -> io::Result<u64>,
    /// Called between two chunks, so that others come first.
    pub(crate) pause: &'a dyn Fn(),
}

impl Terms<'_> {
    /// Whatever it takes, as fast as possible.
    pub(crate) const ANY: Terms<'static> = Terms { room: &|| Ok(u64::MAX / 2), pause: &|| () };
}

impl Write for FileWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.offset + bytes.len() as u64;
        if self.end < end {
            self.end = self.offset + (self.terms.room)()?;
            if self.end < end {
                return Err(io::Error::new(ErrorKind::StorageFull, "what is left of the disk is for the log"));
            }
            self.end = self.end.min(self.offset + SNAPSHOT_LOOK_BYTES).max(end);
        }
        self.file.write_all_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        if SNAPSHOT_SYNC_BYTES <= self.offset - self.synced {
            self.file.sync_data()?;
            self.synced = self.offset;
        }
        (self.terms.pause)();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A snapshot that is complete, durable and read back, and has no name yet.
pub(crate) struct Prepared {
    pub(crate) unfinished: PathBuf,
    /// What it will be.
    pub(crate) file: SnapshotFile,
}

/// Writes the snapshot of everything up to `last` with `fill` and checks it. On failure
/// nothing is left behind, as far as the disk allows.
pub(crate) fn prepare(
    disk: &dyn Disk,
    dir: &Path,
    last: Zxid,
    compression: Compression,
    terms: Terms<'_>,
    fill: impl FnOnce(SnapshotWriter<'_>) -> io::Result<Contents>,
) -> Result<Prepared, Error> {
    let name = snapshot_name(last, compression);
    let (path, unfinished) = (dir.join(&name), dir.join(unfinished_name(&name)));
    match write_and_check(disk, &unfinished, last, compression, terms, fill) {
        Ok(()) => Ok(Prepared { unfinished, file: SnapshotFile { last, compression, path } }),
        Err(source) => {
            _ = disk.remove(&unfinished);
            Err(Error::SnapshotWrite { path, source: Box::new(source) })
        }
    }
}

/// Gives it its name.
pub(crate) fn publish(disk: &dyn Disk, prepared: Prepared) -> Result<SnapshotFile, Error> {
    let Prepared { unfinished, file } = prepared;
    let dir = file.path.parent().unwrap_or(Path::new("."));
    if let Err(source) = disk.rename(&unfinished, &file.path).context("rename", &unfinished) {
        _ = disk.remove(&unfinished);
        return Err(Error::SnapshotWrite { path: file.path, source: Box::new(source) });
    }
    match disk.sync_dir(dir).context("sync directory", dir) {
        Ok(()) => Ok(file),
        Err(source) => Err(Error::SnapshotWrite { path: file.path, source: Box::new(source) }),
    }
}

fn write_and_check(
    disk: &dyn Disk,
    path: &Path,
    last: Zxid,
    compression: Compression,
    terms: Terms<'_>,
    fill: impl FnOnce(SnapshotWriter<'_>) -> io::Result<Contents>,
) -> Result<(), Error> {
    let file = disk.open(path, Open::Create).context("create", path)?;
    file.set_len(0).context("cut", path)?;
    let writer = FileWriter { file: &*file, offset: 0, synced: 0, end: 0, terms };
    let written = fill(SnapshotWriter::new(writer, compression)).context("write", path)?;
    file.sync_all().context("sync", path)?;
    let stored = SnapshotFile { last, compression, path: path.to_owned() };
    let read = read_snapshot(disk, &stored, &mut Structure::default())?;
    if read != written {
        let source = SnapshotError::Content(format!("written {written:?}, read back {read:?}"));
        return Err(Error::Snapshot { path: path.to_owned(), source });
    }
    Ok(())
}

/// Checks that a snapshot makes a tree, without building it: in the order of a walk, a node's parent is among the
/// nodes on the way to the one before it.
#[derive(Default)]
pub(crate) struct Structure {
    /// Path of the node before.
    path: String,
    any: bool,
}

impl Sink for Structure {
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
