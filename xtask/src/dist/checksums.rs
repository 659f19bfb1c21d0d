//! `SHA256SUMS` of everything in the output directory, in the format of `sha256sum --check`.

use super::Release;
use anyhow::Result;
use sha2::{Digest, Sha256};
use std::fmt::Write;

const NAME: &str = "SHA256SUMS";

pub(super) fn write(release: &Release) -> Result<()> {
    let mut text = String::new();
    for file in super::files_below(&release.output)?.iter().filter(|file| *file.as_os_str() != *NAME) {
        let content = std::fs::read(release.output.join(file))?;
        let _ = writeln!(text, "{}  {}", hex(&content), file.display()); // a String accepts everything
    }
    release.write(NAME, text.as_bytes()).map(drop)
}

/// The SHA-256 digest of bytes.
pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The same, in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
