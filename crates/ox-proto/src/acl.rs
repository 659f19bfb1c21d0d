//! Access control lists on the wire.
//!
//! A list usually travels through the server untouched (request, transaction, log, table), so it is carried as
//! the bytes of its encoding and looked into only where somebody asks for the entries.

use crate::jute::{DecodeError, Jute, Reader, put_count, put_text};
use std::borrow::Cow;

/// Permission bits of an ACL entry.
pub mod perms {
    /// Read data and list children.
    pub const READ: i32 = 1;
    /// Change data.
    pub const WRITE: i32 = 2;
    /// Create children.
    pub const CREATE: i32 = 4;
    /// Delete children.
    pub const DELETE: i32 = 8;
    /// Change the ACL.
    pub const ADMIN: i32 = 16;
    /// Everything.
    pub const ALL: i32 = 31;
}

/// One entry of a stored list. Unknown permission bits are kept and match nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acl {
    /// Permission bits.
    pub perms: i32,
    /// Authentication scheme.
    pub scheme: Box<str>,
    /// Identity within the scheme.
    pub id: Box<str>,
}

impl Acl {
    /// An entry from its parts.
    pub fn new(perms: i32, scheme: &str, id: &str) -> Self {
        Self { perms, scheme: scheme.into(), id: id.into() }
    }

    /// Appends the encoded entry.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.perms.put(out);
        put_text(out, &self.scheme);
        put_text(out, &self.id);
    }
}

/// Appends a whole list.
pub fn put_acls(out: &mut Vec<u8>, acls: &[Acl]) {
    put_count(out, acls.len());
    acls.iter().for_each(|acl| acl.put(out));
}

/// One entry as a client sent it: scheme and id may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAcl<'a> {
    /// Permission bits.
    pub perms: i32,
    /// Authentication scheme.
    pub scheme: Option<Cow<'a, str>>,
    /// Identity within the scheme.
    pub id: Option<Cow<'a, str>>,
}

/// The encoding of a list (or of null), known to be well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawAcls<'a>(&'a [u8]);

impl<'a> RawAcls<'a> {
    /// `world:anyone` with all permissions, what nearly every create carries.
    pub const OPEN: RawAcls<'static> =
        RawAcls(b"\x00\x00\x00\x01\x00\x00\x00\x1f\x00\x00\x00\x05world\x00\x00\x00\x06anyone");

    /// Takes over bytes that [`put_acls`] produced.
    pub fn from_encoded(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Reader::new(bytes).get()
    }

    /// The encoding, count included.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// True for a null list.
    pub fn is_null(self) -> bool {
        self.0 == (-1_i32).to_be_bytes()
    }

    /// The entries as a client meant them; none for null.
    pub fn iter(self) -> impl Iterator<Item = RawAcl<'a>> {
        Self::entries(Reader::new(self.0))
    }

    /// The entries as a file holds them: surrogate pairs joined, null texts empty.
    pub fn to_stored(self) -> Vec<Acl> {
        Self::entries(Reader::from_disk(self.0))
            .map(|raw| {
                Acl::new(raw.perms, raw.scheme.as_deref().unwrap_or_default(), raw.id.as_deref().unwrap_or_default())
            })
            .collect()
    }

    fn entries(mut from: Reader<'a>) -> impl Iterator<Item = RawAcl<'a>> {
        let count = from.count().ok().flatten().unwrap_or(0);
        (0..count).map_while(move |_| {
            Some(RawAcl { perms: from.get().ok()?, scheme: from.get().ok()?, id: from.get().ok()? })
        })
    }
}

impl<'a> Jute<'a> for RawAcls<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = from.rest();
        for _ in 0..from.count()?.unwrap_or(0) {
            from.get::<i32>()?;
            from.get::<Option<&[u8]>>()?;
            from.get::<Option<&[u8]>>()?;
        }
        Ok(Self(&start[..start.len() - from.rest().len()]))
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_list_is_what_clients_send() {
        let mut out = Vec::new();
        put_acls(&mut out, &[Acl::new(perms::ALL, "world", "anyone")]);
        assert_eq!(out, RawAcls::OPEN.bytes());
        assert_eq!(RawAcls::OPEN.to_stored(), [Acl::new(31, "world", "anyone")]);
    }

    #[test]
    fn null_empty_and_truncated_lists() {
        assert!(RawAcls::from_encoded(&[0xff; 4]).unwrap().is_null());
        let empty = RawAcls::from_encoded(&[0; 4]).unwrap();
        assert!(!empty.is_null() && empty.iter().next().is_none());
        assert_eq!(RawAcls::from_encoded(&RawAcls::OPEN.bytes()[..20]), Err(DecodeError::Truncated));
    }
}
