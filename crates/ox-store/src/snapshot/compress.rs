//! Compressed snapshots: gzip, and the stream format of snappy-java.
//!
//! The latter is not the official framing format of snappy:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `82 53 4e 41 50 50 59 00` |
//! | 4 + 4 | int version 1, int compatible version 1 |
//! | 4 + n | int n, raw snappy block; repeated, 32 KiB of content each |
//!
//! It has no end mark and no checksum; the snapshot's own seals detect damage. Streams may be concatenated: a header
//! may follow where a length is expected.

use crate::limits::SNAPPY_CHUNK_BYTES_MAX;
use crate::names::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const HEADER_REST: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
const BLOCK_BYTES: usize = 32 << 10;

/// Decompresses `from` while it is read.
pub(crate) fn decoder<'a>(from: impl Read + Send + 'a, compression: Compression) -> Box<dyn Read + Send + 'a> {
    match compression {
        Compression::None => Box::new(from),
        Compression::Gz => Box::new(MultiGzDecoder::new(from)),
        Compression::Snappy => Box::new(SnappyReader::new(from)),
    }
}

/// Compresses the bytes written to it.
pub(crate) enum Encoder<W: Write> {
    Plain(W),
    Gz(GzEncoder<W>),
    Snappy(SnappyWriter<W>),
}

impl<W: Write> Encoder<W> {
    pub(crate) fn new(to: W, compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain(to),
            Compression::Gz => Self::Gz(GzEncoder::new(to, flate2::Compression::default())),
            Compression::Snappy => Self::Snappy(SnappyWriter { to, block: Vec::new(), started: false }),
        }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(to) => to.write_all(bytes),
            Self::Gz(to) => to.write_all(bytes),
            Self::Snappy(to) => to.write_all(bytes),
        }
    }

    /// Writes the remaining bytes and returns the file.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(to) => Ok(to),
            Self::Gz(to) => to.finish(),
            Self::Snappy(to) => to.finish(),
        }
    }
}

/// An encoder of snappy-java's stream format.
pub(crate) struct SnappyWriter<W> {
    to: W,
    /// Content that is not compressed yet, less than a block.
    block: Vec<u8>,
    started: bool,
}

impl<W: Write> SnappyWriter<W> {
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while BLOCK_BYTES <= self.block.len() + bytes.len() {
            let (head, rest) = bytes.split_at(BLOCK_BYTES - self.block.len());
            self.block.extend_from_slice(head);
            self.flush_block()?;
            bytes = rest;
        }
        self.block.extend_from_slice(bytes);
        Ok(())
    }

    fn flush_block(&mut self) -> io::Result<()> {
        let mut out = Vec::with_capacity(self.block.len() + 64);
        if !self.started {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&HEADER_REST);
            self.started = true;
        }
        let packed = snap::raw::Encoder::new().compress_vec(&self.block).map_err(io::Error::other)?;
        let length = i32::try_from(packed.len()).map_err(io::Error::other)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&packed);
        self.block.clear();
        self.to.write_all(&out)
    }

    fn finish(mut self) -> io::Result<W> {
        if !self.block.is_empty() || !self.started {
            self.flush_block()?;
        }
        Ok(self.to)
    }
}

/// A decoder of snappy-java's stream format.
struct SnappyReader<R> {
    from: R,
    packed: Vec<u8>,
    block: Vec<u8>,
    /// The number of bytes of `block` that were read.
    taken: usize,
    started: bool,
}

impl<R: Read> SnappyReader<R> {
    fn new(from: R) -> Self {
        Self { from, packed: Vec::new(), block: Vec::new(), taken: 0, started: false }
    }

    /// Reads the next block; returns false at the end of the stream.
    fn next_block(&mut self) -> io::Result<bool> {
        let mut word = [0; 4];
        loop {
            if !read_or_end(&mut self.from, &mut word)? {
                return if self.started { Ok(false) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            if word != MAGIC[..4] {
                break;
            }
            let mut rest = [0; 12];
            self.from.read_exact(&mut rest)?;
            if rest[..4] != MAGIC[4..] {
                return Err(invalid("not a snappy stream"));
            }
            self.started = true;
        }
        if !self.started {
            return Err(invalid("not a snappy stream"));
        }
        let length = usize::try_from(i32::from_be_bytes(word)).map_err(|_| invalid("bad chunk length"))?;
        if SNAPPY_CHUNK_BYTES_MAX < length {
            return Err(invalid("bad chunk length"));
        }
        self.packed.clear();
        // Memory is bounded by the bytes that exist, not by the announced length.
        if (&mut self.from).take(length as u64).read_to_end(&mut self.packed)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.unpack()?;
        Ok(true)
    }

    fn unpack(&mut self) -> io::Result<()> {
        let size = snap::raw::decompress_len(&self.packed).map_err(bad_block)?;
        // Snappy packs at most 64 bytes into 3: a larger size is invalid, and is rejected before the allocation.
        if self.packed.len().saturating_mul(64) < size {
            return Err(invalid("bad block size"));
        }
        self.block.resize(size, 0);
        let count = snap::raw::Decoder::new().decompress(&self.packed, &mut self.block).map_err(bad_block)?;
        self.block.truncate(count);
        self.taken = 0;
        Ok(())
    }
}

impl<R: Read> Read for SnappyReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let count = out.len().min(self.block.len() - self.taken);
        out[..count].copy_from_slice(&self.block[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

/// Fills `word`, or returns false if the stream ends before its first byte.
fn read_or_end(from: &mut impl Read, word: &mut [u8; 4]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < word.len() {
        match from.read(&mut word[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(true)
}

/// A block that cannot be decompressed is damage, not a failure of the system.
fn bad_block(error: snap::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(content: &[u8], compression: Compression) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::new(), compression);
        content.chunks(1000).for_each(|chunk| encoder.write_all(chunk).unwrap());
        encoder.finish().unwrap()
    }

    fn unpack(packed: &[u8], compression: Compression) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        decoder(packed, compression).read_to_end(&mut content).map(|_| content)
    }

    #[test]
    fn content_survives_compression() {
        let content: Vec<u8> = (0..100_000_u32).flat_map(|number| number.to_le_bytes()).collect();
        for compression in [Compression::None, Compression::Gz, Compression::Snappy] {
            for size in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, content.len()] {
                let packed = pack(&content[..size], compression);
                assert_eq!(unpack(&packed, compression).unwrap(), &content[..size], "{compression:?} {size}");
                let twice = [&packed[..], &packed[..]].concat();
                assert_eq!(unpack(&twice, compression).unwrap().len(), 2 * size, "{compression:?} {size} twice");
            }
        }
    }

    /// A member with a damaged snapshot is quarantined; a failure of the system would prevent its start.
    #[test]
    fn damage_is_distinguished_from_system_failures() {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let content: Vec<u8> = (0..500_u32).flat_map(|number| (number * number).to_le_bytes()).collect();
        for compression in [Compression::Gz, Compression::Snappy] {
            let packed = pack(&content, compression);
            for bit in 0..packed.len() * 8 {
                let mut bent = packed.clone();
                bent[bit / 8] ^= 1 << (bit % 8);
                if let Err(error) = unpack(&bent, compression) {
                    let kind = error.kind();
                    assert!(
                        matches!(kind, InvalidData | InvalidInput | UnexpectedEof),
                        "{compression:?} {bit}: {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn damage_causes_no_large_allocation() {
        let packed = pack(&[7; 100_000], Compression::Snappy);
        assert!(unpack(&packed[..packed.len() - 1], Compression::Snappy).is_err());
        assert!(unpack(&packed[..7], Compression::Snappy).is_err());
        assert!(unpack(b"", Compression::Snappy).is_err());
        assert!(unpack(b"plain", Compression::Snappy).is_err());
        let mut huge = packed.clone();
        huge[16..20].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(unpack(&huge, Compression::Snappy).is_err());
        let gz = pack(&[7; 100_000], Compression::Gz);
        assert!(unpack(&gz[..gz.len() - 1], Compression::Gz).is_err());
        assert!(unpack(&[&gz[..], b"garbage"].concat(), Compression::Gz).is_err());
    }
}
