//! Wire encoding of access control lists.
//!
//! Most lists pass through the server unchanged (request, transaction, log, ACL table), so they are carried in encoded
//! form and decoded only where the entries matter.

use crate::jute::{DecodeError, Jute, Reader, put_count, put_text};
use std::borrow::Cow;
use std::fmt;

/// Permission bits of an ACL entry.
pub mod perms {
    /// Read data and list children.
    pub const READ: i32 = 1;
    /// Set the node's data.
    pub const WRITE: i32 = 2;
    pub const CREATE: i32 = 4;
    /// Delete children; deleting a node needs this on its parent.
    pub const DELETE: i32 = 8;
    /// Set the node's ACL.
    pub const ADMIN: i32 = 16;
    pub const ALL: i32 = 31;

    /// The letters of the bits, in the order in which ZooKeeper's tools print them.
    const LETTERS: [(char, i32); 5] = [('c', CREATE), ('d', DELETE), ('r', READ), ('w', WRITE), ('a', ADMIN)];

    /// Permission bits as letters, for example `cdrwa`.
    pub fn letters(bits: i32) -> String {
        LETTERS.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| *letter).collect()
    }

    /// The bit of a letter.
    pub fn from_letter(letter: char) -> Option<i32> {
        LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, bit)| *bit)
    }
}

/// One entry of a stored list. Unknown permission bits are kept and match nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acl {
    pub perms: i32,
    pub scheme: Box<str>,
    pub id: Box<str>,
}

impl Acl {
    pub fn new(perms: i32, scheme: &str, id: &str) -> Self {
        Self { perms, scheme: scheme.into(), id: id.into() }
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        self.perms.put(out);
        put_text(out, &self.scheme);
        put_text(out, &self.id);
    }
}

/// As `scheme:id:perms`, for example `world:anyone:cdrwa`.
impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.scheme, self.id, perms::letters(self.perms))
    }
}

/// Appends the count and every entry.
pub fn put_acls(out: &mut Vec<u8>, acls: &[Acl]) {
    put_count(out, acls.len());
    acls.iter().for_each(|acl| acl.put(out));
}

/// One entry as a client sent it: scheme and id may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAcl<'a> {
    pub perms: i32,
    pub scheme: Option<Cow<'a, str>>,
    pub id: Option<Cow<'a, str>>,
}

/// An encoded list, or null, that is known to be well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawAcls<'a>(&'a [u8]);

impl<'a> RawAcls<'a> {
    /// `world:anyone` with all permissions, which nearly every create carries.
    pub const OPEN: RawAcls<'static> =
        RawAcls(b"\x00\x00\x00\x01\x00\x00\x00\x1f\x00\x00\x00\x05world\x00\x00\x00\x06anyone");

    /// Checks and borrows bytes that [`put_acls`] produced.
    pub fn from_encoded(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Reader::new(bytes).get()
    }

    /// Includes the leading count.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub fn is_null(self) -> bool {
        self.0 == (-1_i32).to_be_bytes()
    }

    /// Entries as the client sent them; a null list has none.
    pub fn iter(self) -> impl Iterator<Item = RawAcl<'a>> {
        Self::entries(Reader::new(self.0))
    }

    /// Entries as logs and snapshots hold them: surrogate pairs joined, null strings empty.
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
    fn open_list_matches_client_bytes() {
        let mut out = Vec::new();
        put_acls(&mut out, &[Acl::new(perms::ALL, "world", "anyone")]);
        assert_eq!(out, RawAcls::OPEN.bytes());
        assert_eq!(RawAcls::OPEN.to_stored(), [Acl::new(31, "world", "anyone")]);
    }

    #[test]
    fn null_empty_and_truncated_lists_differ() {
        assert!(RawAcls::from_encoded(&[0xff; 4]).unwrap().is_null());
        let empty = RawAcls::from_encoded(&[0; 4]).unwrap();
        assert!(!empty.is_null() && empty.iter().next().is_none());
        assert_eq!(RawAcls::from_encoded(&RawAcls::OPEN.bytes()[..20]), Err(DecodeError::Truncated));
    }
}
