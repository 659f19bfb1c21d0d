//! The identities of a client, as a learner forwards them with a request.
//!
//! Most lists pass through unread, so they are carried in encoded form.

use crate::jute::{DecodeError, Jute, Reader, put_count, put_text};
use std::borrow::Cow;

/// One identity; both strings may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawId<'a> {
    pub scheme: Option<Cow<'a, str>>,
    pub id: Option<Cow<'a, str>>,
}

/// An encoded list, or null, that is known to be well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawIds<'a>(&'a [u8]);

impl<'a> RawIds<'a> {
    /// Null, which all packets but REQUEST carry.
    pub const NULL: RawIds<'static> = RawIds(&[0xff; 4]);
    pub const EMPTY: RawIds<'static> = RawIds(&[0; 4]);

    /// Checks and borrows bytes that [`put_ids`] produced.
    pub fn from_encoded(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Reader::new(bytes).get()
    }

    /// Includes the leading count.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub fn is_null(self) -> bool {
        self.0 == Self::NULL.0
    }

    /// A null list has no entries.
    pub fn iter(self) -> impl Iterator<Item = RawId<'a>> {
        let mut from = Reader::new(self.0);
        let count = from.count().ok().flatten().unwrap_or(0);
        (0..count).map_while(move |_| Some(RawId { scheme: from.get().ok()?, id: from.get().ok()? }))
    }
}

impl<'a> Jute<'a> for RawIds<'a> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = from.rest();
        for _ in 0..from.count()?.unwrap_or(0) {
            from.get::<Option<&[u8]>>()?;
            from.get::<Option<&[u8]>>()?;
        }
        Ok(Self(&start[..start.len() - from.rest().len()]))
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

/// Appends a list of (scheme, id) pairs.
pub fn put_ids<'i>(out: &mut Vec<u8>, ids: impl ExactSizeIterator<Item = (&'i str, &'i str)>) {
    put_count(out, ids.len());
    for (scheme, id) in ids {
        put_text(out, scheme);
        put_text(out, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_lists_differ() {
        for (ids, null) in [(RawIds::NULL, true), (RawIds::EMPTY, false)] {
            assert_eq!(RawIds::from_encoded(ids.bytes()), Ok(ids));
            assert_eq!((ids.is_null(), ids.iter().count()), (null, 0));
        }
        let mut out = Vec::new();
        put_ids(&mut out, [("ip", "::1"), ("digest", "a:b")].into_iter());
        let ids = RawIds::from_encoded(&out).unwrap();
        let shown: Vec<_> = ids.iter().map(|id| (id.scheme.unwrap(), id.id.unwrap())).collect();
        assert_eq!(shown, [("ip".into(), "::1".into()), ("digest".into(), "a:b".into())]);
        assert_eq!(RawIds::from_encoded(&out[..out.len() - 1]), Err(DecodeError::Truncated));
        let nulls = [&[0, 0, 0, 1][..], &[0xff; 8]].concat();
        assert_eq!(RawIds::from_encoded(&nulls).unwrap().iter().next(), Some(RawId { scheme: None, id: None }));
    }
}
