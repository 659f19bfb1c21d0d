//! Requests of scripts: every field may hold any value, including invalid ones.
//!
//! The encoding is implemented here again instead of using the records of `ox-proto`, because fields must be able to
//! hold malformed UTF-8, null and truncation, and because a test should not share the code it tests. [`crate::grammar`]
//! has the syntax of requests.

use crate::acl::ScriptAcl;
use crate::value::FieldValue;
use ox_proto::OpCode;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{Jute as _, put_buffer, put_count};
use ox_proto::multi::MultiHeader;

/// A zxid, absolute or relative to what the session has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZxidRef {
    Exactly(i64),
    /// The highest zxid in the session's replies, plus an offset.
    Last(i64),
}

impl ZxidRef {
    /// The zxid for a session that has seen `last`.
    pub fn resolve(self, last: i64) -> i64 {
        match self {
            Self::Exactly(zxid) => zxid,
            Self::Last(offset) => last.saturating_add(offset),
        }
    }
}

/// The body of a request, by its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// ping, whoAmI and closeSession have no body.
    Empty,
    /// create, create2 and createContainer.
    Create {
        path: FieldValue,
        data: FieldValue,
        acl: ScriptAcl,
        flags: i32,
    },
    CreateTtl {
        path: FieldValue,
        data: FieldValue,
        acl: ScriptAcl,
        flags: i32,
        ttl_ms: i64,
    },
    /// delete and check, with a version.
    PathVersion {
        path: FieldValue,
        version: i32,
    },
    /// exists, getData, getChildren and getChildren2.
    PathWatch {
        path: FieldValue,
        watch: bool,
    },
    SetData {
        path: FieldValue,
        data: FieldValue,
        version: i32,
    },
    /// getACL, sync, getEphemerals and getAllChildrenNumber.
    Path {
        path: FieldValue,
    },
    SetAcl {
        path: FieldValue,
        acl: ScriptAcl,
        version: i32,
    },
    Reconfig {
        joining: FieldValue,
        leaving: FieldValue,
        members: FieldValue,
        config: i64,
    },
    /// checkWatches, removeWatches and addWatch.
    PathKind {
        path: FieldValue,
        kind: i32,
    },
    Auth {
        scheme: FieldValue,
        auth: FieldValue,
    },
    Token {
        token: FieldValue,
    },
    /// setWatches (three lists) and setWatches2 (five).
    SetWatches {
        seen: ZxidRef,
        lists: Vec<Option<Vec<FieldValue>>>,
    },
    /// multi and multiRead; `ended: false` omits the terminator.
    Multi {
        elements: Vec<ScriptElement>,
        ended: bool,
    },
    Raw(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptElement {
    /// Not restricted to known opcodes.
    pub op: i32,
    pub body: RequestBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRequest {
    /// Not restricted to known opcodes.
    pub op: i32,
    pub body: RequestBody,
    /// An explicit xid instead of a counted one.
    pub xid: Option<i32>,
    /// Truncates the body to this many bytes.
    pub cut: Option<usize>,
    /// Bytes appended to the body.
    pub tail: Vec<u8>,
}

impl ScriptRequest {
    /// A well-formed request with a counted xid.
    pub fn new(op: OpCode, body: RequestBody) -> Self {
        Self { op: op.code(), body, xid: None, cut: None, tail: Vec::new() }
    }

    /// The operation, if the opcode is known.
    pub fn known(&self) -> Option<OpCode> {
        OpCode::try_from(self.op).ok()
    }

    /// Whether the connection layer handles it, so that its reply may overtake others.
    pub fn is_out_of_band(&self) -> bool {
        matches!(self.known(), Some(OpCode::Auth | OpCode::Sasl))
    }

    /// Whether it can change the tree, take a zxid or end a session.
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

    /// Appends the complete frame for a session that has seen `last_zxid`.
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

    /// Length of the body in bytes, before truncation.
    pub fn body_bytes(&self) -> usize {
        let mut out = Vec::new();
        self.body.put(&mut out, 0);
        out.len()
    }
}

/// The path of an operation on a single node, by shared or exclusive reference.
macro_rules! single_path {
    ($body:expr) => {
        match $body {
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
    };
}

impl RequestBody {
    /// The path, for operations on a single node.
    pub fn path(&self) -> Option<&FieldValue> {
        single_path!(self)
    }

    /// The path, for operations on a single node.
    pub fn path_mut(&mut self) -> Option<&mut FieldValue> {
        single_path!(self)
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

fn put_create(out: &mut Vec<u8>, path: &FieldValue, data: &FieldValue, acl: &ScriptAcl) {
    put_buffer(out, path.bytes());
    put_buffer(out, data.bytes());
    acl.put(out);
}

fn put_list(out: &mut Vec<u8>, list: Option<&[FieldValue]>) {
    match list {
        None => (-1_i32).put(out),
        Some(paths) => {
            put_count(out, paths.len());
            paths.iter().for_each(|path| put_buffer(out, path.bytes()));
        }
    }
}
