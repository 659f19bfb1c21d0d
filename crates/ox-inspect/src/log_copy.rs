//! Copies of a log, as Apache's toolkit makes them: with new checksums, or up to a zxid.
//!
//! Unlike [`crate::recover`], these trust the length of every record and take no other file into account. They never
//! change the log itself.

use crate::dump::log::{Frames, RawFrame, begin_text, text_line};
use ox_proto::log_frame::END_BYTE;
use ox_proto::txn::TxnHeader;
use ox_proto::{Reader, Zxid};
use ox_store::disk::{Disk, OpenMode, read_full};
use ox_store::log_reader::LOG_HEADER_BYTES;
use ox_store::{IoContext, StoreError};
use std::io::{self, Write};
use std::path::Path;

/// What to do with a record whose checksum is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumChoice {
    /// Copy the record with a new checksum.
    Fix,
    /// Copy the record with its wrong checksum.
    Keep,
    /// End the copy before this record.
    Abort,
}

/// Asks what to do, after the record was printed to the given output.
pub type AskForChoice<'a> = dyn FnMut(&mut dyn Write) -> io::Result<ChecksumChoice> + 'a;

/// Copies a log with new checksums: for the records that `ask` selects, or without it for all. Prints these records, or
/// all of them if `prints_all` is set. Returns the number of new checksums, or `None` if `ask` has aborted.
pub fn fix_checksums(
    disk: &dyn Disk,
    path: &Path,
    prints_all: bool,
    mut ask: Option<&mut AskForChoice<'_>>,
    out: &mut dyn Write,
    copy: &mut dyn Write,
) -> Result<Option<u64>, StoreError> {
    begin_text(disk, path, out)?;
    let file = disk.open(path, OpenMode::Read).context("open", path)?;
    copy_header(disk, path, copy)?;
    let mut frames = Frames::new(&*file, path)?;
    let (mut records, mut fixed) = (0, 0);
    while let Some(mut frame) = frames.next(path)?.filter(|frame| frame.is_ended) {
        if !frame.fits() {
            let line = text_line(&frame.record);
            let choice = match &mut ask {
                None => write!(out, "CRC FIXED - {line}").map(|()| ChecksumChoice::Fix),
                Some(ask) => write!(out, "CRC ERROR - {line}").and_then(|()| ask(out)),
            };
            match choice.context("print", path)? {
                ChecksumChoice::Fix => {
                    frame.checksum = frame.right_checksum();
                    fixed += 1;
                }
                ChecksumChoice::Keep => (),
                ChecksumChoice::Abort => return Ok(None),
            }
        }
        if prints_all {
            out.write_all(text_line(&frame.record).as_bytes()).context("print", path)?;
        }
        put_frame(&frame, copy).context("copy", path)?;
        records += 1;
    }
    writeln!(out, "EOF reached after {records} txns.").context("print", path)?;
    Ok(Some(fixed))
}

/// Copies a log up to and with the record of a zxid. Returns the number of records, or `None` if there is no such zxid.
pub fn chop_log(
    disk: &dyn Disk,
    path: &Path,
    last: Zxid,
    out: &mut dyn Write,
    copy: &mut dyn Write,
) -> Result<Option<u64>, StoreError> {
    begin_text(disk, path, out)?;
    let file = disk.open(path, OpenMode::Read).context("open", path)?;
    copy_header(disk, path, copy)?;
    let (mut frames, mut records) = (Frames::new(&*file, path)?, 0);
    while let Some(frame) = frames.next(path)?.filter(|frame| frame.is_ended) {
        put_frame(&frame, copy).context("copy", path)?;
        records += 1;
        if Reader::from_disk(&frame.record).get::<TxnHeader>().is_ok_and(|header| header.zxid == last) {
            return Ok(Some(records));
        }
    }
    writeln!(out, "EOF reached after {records} txns.").context("print", path)?;
    Ok(None)
}

fn copy_header(disk: &dyn Disk, path: &Path, copy: &mut dyn Write) -> Result<(), StoreError> {
    let mut header = vec![0; usize::try_from(LOG_HEADER_BYTES).expect("a few bytes")];
    let file = disk.open(path, OpenMode::Read).context("open", path)?;
    read_full(&*file, &mut header, 0).context("read", path)?;
    copy.write_all(&header).context("copy", path)
}

fn put_frame(frame: &RawFrame, copy: &mut dyn Write) -> io::Result<()> {
    let length = i32::try_from(frame.record.len()).expect("it was read with such a length");
    copy.write_all(&frame.checksum.to_be_bytes())?;
    copy.write_all(&length.to_be_bytes())?;
    copy.write_all(&frame.record)?;
    copy.write_all(&[END_BYTE])
}
