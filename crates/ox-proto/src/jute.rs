//! Jute's primitive types: big-endian integers, length-prefixed buffers and strings, counted vectors.
//!
//! A record is its fields in order, without tags or padding, so [`jute!`] needs only the field list. A length of -1 is
//! null; null and empty are distinct values.

use crate::text::{self, Source};
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The record needs more bytes than remain.
    #[error("record ends too early")]
    Truncated,
    /// A negative length other than -1.
    #[error("unreasonable length {0}")]
    BadLength(i32),
    /// A path over [`crate::limits::PATH_BYTES_MAX`].
    #[error("path is too long")]
    TooLong,
    /// Null where the format does not allow it.
    #[error("null is not allowed here")]
    Null,
    /// A type or flag that is not defined.
    #[error("unknown type {0}")]
    UnknownType(i32),
}

/// A cursor over the bytes of one frame, record or file.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    source: Source,
}

impl<'a> Reader<'a> {
    /// Reads bytes from a client or a peer.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, source: Source::Wire }
    }

    /// Reads bytes of a log or snapshot: surrogate pairs in strings are joined.
    pub fn from_disk(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, source: Source::Disk }
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A reader over `bytes` that decodes strings like `self`.
    pub fn nested(&self, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, source: self.source }
    }

    /// Consumes the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn get<T: Jute<'a>>(&mut self) -> Result<T, DecodeError> {
        T::get(self)
    }

    /// Reads a string that must not be null.
    pub fn text(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        self.get::<Option<Cow<'a, str>>>()?.ok_or(DecodeError::Null)
    }

    /// Reads the count of a vector: `None` for null, 0 for any other negative number.
    pub fn count(&mut self) -> Result<Option<usize>, DecodeError> {
        match self.get::<i32>()? {
            -1 => Ok(None),
            count => Ok(Some(usize::try_from(count).unwrap_or(0))),
        }
    }
}

/// A value with a jute encoding. `'a` is the buffer that decoded values borrow from.
pub trait Jute<'a>: Sized {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError>;
    fn put(&self, out: &mut Vec<u8>);
}

impl<'a> Jute<'a> for bool {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(from.array::<1>()? != [0])
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl<'a> Jute<'a> for i32 {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.array().map(i32::from_be_bytes)
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<'a> Jute<'a> for i64 {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        from.array().map(i64::from_be_bytes)
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<'a> Jute<'a> for Option<&'a [u8]> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match from.get::<i32>()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| DecodeError::BadLength(length))?;
                from.take(length).map(Some)
            }
        }
    }
    fn put(&self, out: &mut Vec<u8>) {
        put_buffer(out, *self);
    }
}

impl<'a> Jute<'a> for Option<Cow<'a, str>> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = from.get::<Option<&[u8]>>()?;
        Ok(bytes.map(|bytes| text::decode(bytes, from.source)))
    }
    fn put(&self, out: &mut Vec<u8>) {
        put_buffer(out, self.as_ref().map(|text| text.as_bytes()));
    }
}

impl<'a, T: Jute<'a>> Jute<'a> for Option<Vec<T>> {
    fn get(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let Some(count) = from.count()? else { return Ok(None) };
        let mut items = Vec::new(); // grows with the bytes received, not with the announced count
        for _ in 0..count {
            items.push(from.get()?);
        }
        Ok(Some(items))
    }
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            None => (-1_i32).put(out),
            Some(items) => {
                put_count(out, items.len());
                items.iter().for_each(|item| item.put(out));
            }
        }
    }
}

/// Decodes text that a client sent as a plain buffer by the rules for strings on the wire.
pub fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    text::decode(bytes, Source::Wire)
}

/// Appends a length-prefixed buffer; null has length -1.
pub fn put_buffer(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => (-1_i32).put(out),
        Some(bytes) => {
            put_count(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_buffer(out, Some(text.as_bytes()));
}

/// Appends a length or count.
///
/// # Panics
/// If `count` exceeds `i32::MAX`; the frame limit keeps all sizes far below.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    i32::try_from(count).expect("sizes are bounded by the frame limit").put(out);
}

/// Declares a record by its field list; field order is wire order.
macro_rules! jute {
    ($(#[$meta:meta])* $name:ident<$life:lifetime> { $($(#[$doc:meta])* $field:ident: $ty:ty),* $(,)? }) => {
        $(#[$meta])* #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name<$life> { $($(#[$doc])* pub $field: $ty),* }
        impl<$life> $crate::jute::Jute<$life> for $name<$life> {
            fn get(from: &mut $crate::jute::Reader<$life>) -> Result<Self, $crate::jute::DecodeError> {
                Ok(Self { $($field: from.get()?),* })
            }
            fn put(&self, out: &mut Vec<u8>) { $(self.$field.put(out);)* }
        }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $ty:ty),* $(,)? }) => {
        $(#[$meta])* #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: $ty),* }
        impl<'a> $crate::jute::Jute<'a> for $name {
            fn get(from: &mut $crate::jute::Reader<'a>) -> Result<Self, $crate::jute::DecodeError> {
                Ok(Self { $($field: from.get()?),* })
            }
            fn put(&self, out: &mut Vec<u8>) { $(self.$field.put(out);)* }
        }
    };
}
pub(crate) use jute;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_are_different() {
        let mut out = Vec::new();
        put_buffer(&mut out, None);
        put_buffer(&mut out, Some(b""));
        assert_eq!(out, [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.get::<Option<&[u8]>>(), Ok(None));
        assert_eq!(reader.get::<Option<&[u8]>>(), Ok(Some(&b""[..])));
        assert!(reader.is_empty());
    }

    #[test]
    fn hostile_lengths_are_errors_not_allocations() {
        assert_eq!(Reader::new(&[0x7f, 0xff, 0xff, 0xff]).get::<Option<&[u8]>>(), Err(DecodeError::Truncated));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xfe]).get::<Option<&[u8]>>(), Err(DecodeError::BadLength(-2)));
        let million = [0x00, 0x0f, 0x42, 0x40];
        assert_eq!(Reader::new(&million).get::<Option<Vec<i32>>>(), Err(DecodeError::Truncated));
    }

    #[test]
    fn negative_counts_other_than_null_are_empty() {
        assert_eq!(Reader::new(&(-1_i32).to_be_bytes()).count(), Ok(None));
        assert_eq!(Reader::new(&(-7_i32).to_be_bytes()).count(), Ok(Some(0)));
    }

    #[test]
    fn any_non_zero_byte_is_true() {
        assert_eq!(Reader::new(&[2]).get::<bool>(), Ok(true));
    }
}
