//! Requests as scripts write them: every field free, also where the protocol would not have it so.
//!
//! The encoding is written out here once more instead of going through the records of `ox-proto`, because fields must
//! be able to hold broken UTF-8, null and truncation, and because a test should not share the code it tests. How requests
//! are written in scripts is in [`crate::grammar`].

use crate::acl::AclList;
use crate::value::Value;
use ox_proto::OpCode;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{Jute as _, put_buffer, put_count};
use ox_proto::multi::MultiHeader;

/// A zxid that depends on what the session has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// This very number.
    Exactly(i64),
    /// The highest zxid in the session's replies, plus a number.
    Last(i64),
}

impl Seen {
    /// The number, for a session that has seen `last`.
    pub fn resolve(self, last: i64) -> i64 {
        match self {
            Self::Exactly(zxid) => zxid,
            Self::Last(offset) => last.saturating_add(offset),
        }
    }
}

/// The body of a request, by its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the protocol's records")]
pub enum Body {
    /// ping, whoAmI, closeSession.
    Empty,
    /// create, create2, createContainer.
    Create { path: Value, data: Value, acl: AclList, flags: i32 },
    /// createTTL.
    CreateTtl { path: Value, data: Value, acl: AclList, flags: i32, ttl_ms: i64 },
    /// delete, check.
    PathVersion { path: Value, version: i32 },
    /// exists, getData, getChildren, getChildren2.
    PathWatch { path: Value, watch: bool },
    /// setData.
    SetData { path: Value, data: Value, version: i32 },
    /// getACL, sync, getEphemerals, getAllChildrenNumber.
    Path { path: Value },
    /// setACL.
    SetAcl { path: Value, acl: AclList, version: i32 },
    /// reconfig.
    Reconfig { joining: Value, leaving: Value, members: Value, config: i64 },
    /// checkWatches, removeWatches, addWatch.
    PathKind { path: Value, kind: i32 },
    /// auth.
    Auth { scheme: Value, auth: Value },
    /// sasl.
    Token { token: Value },
    /// setWatches (three lists), setWatches2 (five).
    SetWatches { seen: Seen, lists: Vec<Option<Vec<Value>>> },
    /// multi, multiRead; `ended` false leaves the terminator out.
    Multi { elements: Vec<Element>, ended: bool },
    /// Any bytes.
    Raw(Vec<u8>),
}

/// One element of a multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Opcode, any number.
    pub op: i32,
    /// Body.
    pub body: Body,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Opcode, any number.
    pub op: i32,
    /// Body.
    pub body: Body,
    /// The xid, when it is not the usual one.
    pub xid: Option<i32>,
    /// Cuts the body to so many bytes.
    pub cut: Option<usize>,
    /// Bytes behind the body.
    pub tail: Vec<u8>,
}

impl Request {
    /// A request with nothing unusual about it.
    pub fn new(op: OpCode, body: Body) -> Self {
        Self { op: op.code(), body, xid: None, cut: None, tail: Vec::new() }
    }

    /// The operation, if the opcode is a known one.
    pub fn known(&self) -> Option<OpCode> {
        OpCode::try_from(self.op).ok()
    }

    /// True for what goes through the connection layer and may overtake other replies.
    pub fn is_out_of_band(&self) -> bool {
        matches!(self.known(), Some(OpCode::Auth | OpCode::Sasl))
    }

    /// True for what can change the tree, take a zxid or end a session.
    pub fn is_write(&self) -> bool {
        matches!(
            self.known(),
            Some(
                OpCode::Create
                    | OpCode::Create2
                    | OpCode::CreateContainer
                    | OpCode::CreateTtl
                    | OpCode::Delete
                    | OpCode::DeleteContainer
                    | OpCode::SetData
                    | OpCode::SetAcl
                    | OpCode::Multi
                    | OpCode::Reconfig
                    | OpCode::CloseSession
                    | OpCode::CreateSession
            )
        )
    }

    /// Appends the whole frame for a session that has seen `last_zxid`.
    pub fn put_frame(&self, out: &mut Vec<u8>, xid: i32, last_zxid: i64) {
        let mark = begin_frame(out);
        xid.put(out);
        self.op.put(out);
        let start = out.len();
        self.body.put(out, last_zxid);
        if let Some(cut) = self.cut {
            out.truncate(start + cut);
        }
        out.extend_from_slice(&self.tail);
        end_frame(out, mark);
    }

    /// Length of the body in bytes, before any cut.
    pub fn body_bytes(&self) -> usize {
        let mut out = Vec::new();
        self.body.put(&mut out, 0);
        out.len()
    }
}

impl Body {
    /// The path of an operation on one node.
    pub fn path(&self) -> Option<&Value> {
        match self {
            Self::Create { path, .. }
            | Self::CreateTtl { path, .. }
            | Self::PathVersion { path, .. }
            | Self::PathWatch { path, .. }
            | Self::SetData { path, .. }
            | Self::Path { path }
            | Self::SetAcl { path, .. }
            | Self::PathKind { path, .. } => Some(path),
            Self::Empty
            | Self::Reconfig { .. }
            | Self::Auth { .. }
            | Self::Token { .. }
            | Self::SetWatches { .. }
            | Self::Multi { .. }
            | Self::Raw(_) => None,
        }
    }

    /// The same, to change it.
    pub fn path_mut(&mut self) -> Option<&mut Value> {
        match self {
            Self::Create { path, .. }
            | Self::CreateTtl { path, .. }
            | Self::PathVersion { path, .. }
            | Self::PathWatch { path, .. }
            | Self::SetData { path, .. }
            | Self::Path { path }
            | Self::SetAcl { path, .. }
            | Self::PathKind { path, .. } => Some(path),
            Self::Empty
            | Self::Reconfig { .. }
            | Self::Auth { .. }
            | Self::Token { .. }
            | Self::SetWatches { .. }
            | Self::Multi { .. }
            | Self::Raw(_) => None,
        }
    }

    fn put(&self, out: &mut Vec<u8>, last_zxid: i64) {
        match self {
            Self::Empty => (),
            Self::Raw(bytes) => out.extend_from_slice(bytes),
            Self::Create { path, data, acl, flags } => {
                put_create(out, path, data, acl);
                flags.put(out);
            }
            Self::CreateTtl { path, data, acl, flags, ttl_ms } => {
                put_create(out, path, data, acl);
                flags.put(out);
                ttl_ms.put(out);
            }
            Self::PathVersion { path, version: number } | Self::PathKind { path, kind: number } => {
                put_buffer(out, path.bytes());
                number.put(out);
            }
            Self::PathWatch { path, watch } => {
                put_buffer(out, path.bytes());
                watch.put(out);
            }
            Self::SetData { path, data, version } => {
                put_buffer(out, path.bytes());
                put_buffer(out, data.bytes());
                version.put(out);
            }
            Self::Path { path } => put_buffer(out, path.bytes()),
            Self::SetAcl { path, acl, version } => {
                put_buffer(out, path.bytes());
                acl.put(out);
                version.put(out);
            }
            Self::Reconfig { joining, leaving, members, config } => {
                for field in [joining, leaving, members] {
                    put_buffer(out, field.bytes());
                }
                config.put(out);
            }
            Self::Auth { scheme, auth } => {
                0_i32.put(out);
                put_buffer(out, scheme.bytes());
                put_buffer(out, auth.bytes());
            }
            Self::Token { token } => put_buffer(out, token.bytes()),
            Self::SetWatches { seen, lists } => {
                seen.resolve(last_zxid).put(out);
                lists.iter().for_each(|list| put_list(out, list.as_deref()));
            }
            Self::Multi { elements, ended } => {
                for element in elements {
                    MultiHeader { op: element.op, done: false, err: -1 }.put(out);
                    element.body.put(out, last_zxid);
                }
                if *ended {
                    MultiHeader::END.put(out);
                }
            }
        }
    }
}

fn put_create(out: &mut Vec<u8>, path: &Value, data: &Value, acl: &AclList) {
    put_buffer(out, path.bytes());
    put_buffer(out, data.bytes());
    acl.put(out);
}

fn put_list(out: &mut Vec<u8>, list: Option<&[Value]>) {
    match list {
        None => (-1_i32).put(out),
        Some(paths) => {
            put_count(out, paths.len());
            paths.iter().for_each(|path| put_buffer(out, path.bytes()));
        }
    }
}
