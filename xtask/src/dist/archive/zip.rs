//! zip, the format of Python wheels: deflated members, without extra fields and comments.

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write;

/// 1980-01-01, the first day of zip.
const DATE: u16 = 0x21;
/// Made by a Unix program of version 2.0, so that modes count.
const MADE_BY: u16 = 0x0314;
const VERSION_NEEDED: u16 = 20;
const DEFLATED: u16 = 8;

pub(crate) struct ZipMember {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) content: Vec<u8>,
}

/// An archive of files, in this order.
pub(crate) fn zip(members: &[ZipMember]) -> Result<Vec<u8>> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        let packed = encoder.write_all(&member.content).and_then(|()| encoder.finish()).context("compress")?;
        let offset = u32::try_from(out.len()).context("the archive is too large for zip")?;
        let mut common = Vec::new();
        for value in [VERSION_NEEDED, 0, DEFLATED, 0, DATE] {
            common.extend_from_slice(&value.to_le_bytes());
        }
        let sizes = [packed.len(), member.content.len()];
        common.extend_from_slice(&crc32fast::hash(&member.content).to_le_bytes());
        for size in sizes {
            common.extend_from_slice(&u32::try_from(size).context("a file is too large for zip")?.to_le_bytes());
        }
        common.extend_from_slice(&u16::try_from(member.path.len()).context("a path is too long")?.to_le_bytes());
        common.extend_from_slice(&0_u16.to_le_bytes()); // no extra field
        out.extend_from_slice(b"PK\x03\x04");
        out.extend_from_slice(&common);
        out.extend_from_slice(member.path.as_bytes());
        out.extend_from_slice(&packed);
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&MADE_BY.to_le_bytes());
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&[0; 6]); // no comment, first disk, no internal attributes
        directory.extend_from_slice(&((0o100_000 | member.mode) << 16).to_le_bytes());
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(member.path.as_bytes());
    }
    let count = u16::try_from(members.len()).context("too many files for zip")?.to_le_bytes();
    let [size, offset] = [directory.len(), out.len()].map(u32::try_from);
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&[count, count].concat());
    out.extend_from_slice(&size?.to_le_bytes());
    out.extend_from_slice(&offset?.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn python_reads_the_archive() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.zip");
        let member =
            |path: &str, mode, content: &[u8]| ZipMember { path: path.to_owned(), mode, content: content.to_vec() };
        let archive = zip(&[member("a/b.py", 0o644, b"x = 1\n"), member("bin/c", 0o755, &[7; 9_000])]).unwrap();
        std::fs::write(&path, archive).unwrap();
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
             for i in z.infolist(): print(i.filename, oct(i.external_attr >> 16), i.file_size, z.read(i)[:2])";
        let output = Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let expected = "a/b.py 0o100644 6 b'x '\nbin/c 0o100755 9000 b'\\x07\\x07'\n";
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}
