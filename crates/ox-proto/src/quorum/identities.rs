//! The identities of a client, as a learner forwards them with a request.
//!
//! They pass through unchanged more often than somebody looks at them, so they are carried as the bytes of their
//! encoding.

use crate::jute::{DecodeError, Jute, Reader, put_count, put_text};
use std::borrow::Cow;

/// One identity; both texts may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawId<'a> {
    /// Authentication scheme.
    pub scheme: Option<Cow<'a, str>>,
    /// Identity within the scheme.
    pub id: Option<Cow<'a, str>>,
}

/// The encoding of a list (or of null), known to be well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawIds<'a>(&'a [u8]);

impl<'a> RawIds<'a> {
    /// No list, which everything but a client's request has.
    pub const NULL: RawIds<'static> = RawIds(&[0xff; 4]);
    /// A list without entries.
    pub const EMPTY: RawIds<'static> = RawIds(&[0; 4]);

    /// Takes over bytes that [`put_ids`] produced.
    pub fn from_encoded(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Reader::new(bytes).get()
    }

    /// The encoding, count included.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// True for a null list.
    pub fn is_null(self) -> bool {
        self.0 == Self::NULL.0
    }

    /// The entries; none for null.
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

/// Appends a list of pairs of scheme and id.
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
    fn null_empty_and_others() {
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
