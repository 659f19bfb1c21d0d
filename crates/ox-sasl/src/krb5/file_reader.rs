//! Reads numbers and counted bytes of keytabs and credential caches, which are big-endian.

/// `None` is the end of the file.
pub(super) struct FileReader<'a>(pub(super) &'a [u8]);

impl<'a> FileReader<'a> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.bytes(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Bytes after a length of two bytes.
    pub(super) fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.bytes(length.into())
    }

    /// Bytes after a length of four bytes.
    pub(super) fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?)
    }
}

pub(super) fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}
