//! The archive formats of packages, written with the time and owners that the caller gives: the same input makes the
//! same bytes.

mod ar;
mod tar;
mod zip;

pub(super) use ar::ar;
pub(super) use tar::{Entry, Owner, tar};
pub(super) use zip::{ZipMember, zip};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use std::io::Write;

/// Compresses with gzip, without a file name and a time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).context("compress")
}
