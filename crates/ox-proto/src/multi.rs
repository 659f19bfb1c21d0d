//! The list encoding of multi and multiRead: a header precedes each element, a header with `done` ends the list.

use crate::OpCode;
use crate::Stat;
use crate::jute::{DecodeError, Jute, Reader, jute};
use crate::reply::{CreatedReply, DataReply};
use crate::request::{CreateRequest, CreateTtlRequest, PathVersion, PathWatch, SetDataRequest, Text};

jute! {
    /// Precedes each element, and ends the list if `done` is set.
    #[derive(Copy)]
    MultiHeader {
        /// Opcode of the element, or -1 for an error result.
        op: i32,
        done: bool,
        /// Result code; -1 in requests.
        err: i32,
    }
}

impl MultiHeader {
    /// The header that ends a list.
    pub const END: Self = Self { op: -1, done: true, err: -1 };
}

/// One element of a multi or multiRead request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiOp<'a> {
    /// create, create2 or createContainer, by opcode.
    Create(OpCode, CreateRequest<'a>),
    CreateTtl(CreateTtlRequest<'a>),
    Delete(PathVersion<'a>),
    SetData(SetDataRequest<'a>),
    Check(PathVersion<'a>),
    /// Only valid in multiRead.
    GetData(PathWatch<'a>),
    /// Only valid in multiRead.
    GetChildren(PathWatch<'a>),
}

impl<'a> MultiOp<'a> {
    /// Reads the next element; `None` at the end of the list. Opcodes that a list cannot contain are an error.
    pub fn next(from: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        let header = from.get::<MultiHeader>()?;
        if header.done {
            return Ok(None);
        }
        let op = OpCode::try_from(header.op).map_err(DecodeError::UnknownType)?;
        #[expect(clippy::wildcard_enum_match_arm, reason = "the elements are a short list of the opcodes")]
        Ok(Some(match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => Self::Create(op, from.get()?),
            OpCode::CreateTtl => Self::CreateTtl(from.get()?),
            OpCode::Delete => Self::Delete(from.get()?),
            OpCode::SetData => Self::SetData(from.get()?),
            OpCode::Check => Self::Check(from.get()?),
            OpCode::GetData => Self::GetData(from.get()?),
            OpCode::GetChildren => Self::GetChildren(from.get()?),
            _ => return Err(DecodeError::UnknownType(header.op)),
        }))
    }

    /// Appends the element with its header, as a client does.
    pub fn put(&self, out: &mut Vec<u8>) {
        let header = |op: OpCode| MultiHeader { op: op.code(), done: false, err: -1 };
        match self {
            Self::Create(op, request) => {
                header(*op).put(out);
                request.put(out);
            }
            Self::CreateTtl(request) => {
                header(OpCode::CreateTtl).put(out);
                request.put(out);
            }
            Self::Delete(request) => {
                header(OpCode::Delete).put(out);
                request.put(out);
            }
            Self::SetData(request) => {
                header(OpCode::SetData).put(out);
                request.put(out);
            }
            Self::Check(request) => {
                header(OpCode::Check).put(out);
                request.put(out);
            }
            Self::GetData(request) => {
                header(OpCode::GetData).put(out);
                request.put(out);
            }
            Self::GetChildren(request) => {
                header(OpCode::GetChildren).put(out);
                request.put(out);
            }
        }
    }

    pub fn is_read(&self) -> bool {
        matches!(self, Self::GetData(_) | Self::GetChildren(_))
    }

    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Create(_, request) => request.path.as_deref(),
            Self::CreateTtl(request) => request.path.as_deref(),
            Self::Delete(request) | Self::Check(request) => request.path.as_deref(),
            Self::SetData(request) => request.path.as_deref(),
            Self::GetData(request) | Self::GetChildren(request) => request.path.as_deref(),
        }
    }
}

/// One element of the reply to a multi or multiRead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiResult<'a> {
    /// Reply to create: the final path.
    Created(Text<'a>),
    /// Reply to create2, createTTL or createContainer.
    Created2(CreatedReply<'a>),
    /// Reply to delete or check.
    Done,
    Set(Stat),
    Data(DataReply<'a>),
    Children(Option<Vec<Text<'a>>>),
    /// The element failed with this code.
    Error(i32),
}

impl<'a> MultiResult<'a> {
    /// Reads the next result; `None` at the end of the list.
    pub fn next(from: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        let header = from.get::<MultiHeader>()?;
        if header.done {
            return Ok(None);
        }
        if header.op == -1 {
            return Ok(Some(Self::Error(from.get()?)));
        }
        let op = OpCode::try_from(header.op).map_err(DecodeError::UnknownType)?;
        #[expect(clippy::wildcard_enum_match_arm, reason = "the elements are a short list of the opcodes")]
        Ok(Some(match op {
            OpCode::Create => Self::Created(from.get()?),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => Self::Created2(from.get()?),
            OpCode::Delete | OpCode::Check => Self::Done,
            OpCode::SetData => Self::Set(from.get()?),
            OpCode::GetData => Self::Data(from.get()?),
            OpCode::GetChildren => Self::Children(from.get()?),
            _ => return Err(DecodeError::UnknownType(header.op)),
        }))
    }
}

/// Appends an element that failed.
pub fn put_error_result(out: &mut Vec<u8>, err: i32) {
    MultiHeader { op: -1, done: false, err }.put(out);
    err.put(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_round_trip() {
        let check = MultiOp::Check(PathVersion { path: Some("/a".into()), version: 0 });
        let mut out = Vec::new();
        check.put(&mut out);
        MultiHeader::END.put(&mut out);
        let mut from = Reader::new(&out);
        assert_eq!(MultiOp::next(&mut from), Ok(Some(check)));
        assert_eq!(MultiOp::next(&mut from), Ok(None));
        assert_eq!(&out[out.len() - 9..], [0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn results_are_read_up_to_the_end() {
        let mut out = Vec::new();
        MultiHeader { op: OpCode::Create.code(), done: false, err: 0 }.put(&mut out);
        crate::jute::put_text(&mut out, "/a");
        MultiHeader { op: OpCode::Delete.code(), done: false, err: 0 }.put(&mut out);
        MultiHeader { op: OpCode::SetData.code(), done: false, err: 0 }.put(&mut out);
        Stat::default().put(&mut out);
        put_error_result(&mut out, -101);
        MultiHeader::END.put(&mut out);
        let mut from = Reader::new(&out);
        let mut results = Vec::new();
        while let Some(result) = MultiResult::next(&mut from).unwrap() {
            results.push(result);
        }
        let created = MultiResult::Created(Some("/a".into()));
        assert_eq!(results, [created, MultiResult::Done, MultiResult::Set(Stat::default()), MultiResult::Error(-101)]);
        assert!(from.is_empty());
    }

    #[test]
    fn unknown_type_or_missing_end_is_an_error() {
        let mut out = Vec::new();
        MultiHeader { op: OpCode::SetAcl.code(), done: false, err: -1 }.put(&mut out);
        assert_eq!(MultiOp::next(&mut Reader::new(&out)), Err(DecodeError::UnknownType(7)));
        assert_eq!(MultiOp::next(&mut Reader::new(&[])), Err(DecodeError::Truncated));
    }
}
