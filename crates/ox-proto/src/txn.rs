//! Transactions: what a write becomes in logs, in proposals and in memory.
//!
//! ```text
//! record = TxnHeader (32 bytes) | body by type | TxnDigest (12 bytes, optional) | ignored
//! ```
//! A transaction is encoded once, by the server that creates it; everybody else, its creator included, applies
//! what [`Record::decode`] reads from those bytes.

use crate::acl::RawAcls;
use crate::jute::{DecodeError, Jute, Reader, jute, put_buffer, put_count, put_text};
use crate::limits::PATH_BYTES_MAX;
use crate::{ErrorCode, OpCode, SessionId, Zxid};
use std::borrow::Cow;

/// The digest version that our digests and Apache's have.
pub const DIGEST_VERSION: i32 = 2;

jute! {
    /// Who wrote what, when, and in which order.
    #[derive(Copy)]
    TxnHeader {
        /// Session of the writer; 0 for the server itself.
        session: SessionId,
        /// The writer's xid.
        cxid: i32,
        /// Place in the one order.
        zxid: Zxid,
        /// Wall clock of the proposing server, milliseconds since 1970.
        time_ms: i64,
        /// Opcode, or -1 for a refused write.
        kind: i32,
    }
}

impl TxnHeader {
    /// The kind of a record, without looking at the rest of it.
    pub fn kind_of(record: &[u8]) -> Option<i32> {
        record.get(28..32)?.try_into().ok().map(i32::from_be_bytes)
    }
}

jute! {
    /// Digest of the whole tree after the transaction.
    #[derive(Copy)]
    TxnDigest {
        /// How the digest is computed.
        version: i32,
        /// Its value.
        tree_digest: i64,
    }
}

/// Which create made a node, and what that adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateKind {
    /// Type 1.
    Create {
        /// Owned by the session of the header.
        ephemeral: bool,
    },
    /// Type 15, equal in effect.
    Create2 {
        /// Owned by the session of the header.
        ephemeral: bool,
    },
    /// Type 19.
    Container,
    /// Type 21.
    Ttl {
        /// Milliseconds a childless node lives after its last change.
        ttl_ms: i64,
    },
}

/// A new node. The path is final and the list expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTxn<'a> {
    /// Kind of node.
    pub kind: CreateKind,
    /// Final path, sequence number included.
    pub path: Cow<'a, str>,
    /// Data, possibly null.
    pub data: Option<&'a [u8]>,
    /// Final list.
    pub acl: RawAcls<'a>,
    /// The parent's stored cversion after this create; -1 in records of 3.3 and older, which lack it.
    pub parent_cversion: i32,
}

/// A decoded transaction body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Txn<'a> {
    /// A session begins.
    CreateSession {
        /// Negotiated timeout.
        timeout_ms: i32,
    },
    /// A session ends. Without a list its ephemeral nodes are those the tree knows.
    CloseSession {
        /// Ephemeral nodes to delete.
        paths: Option<Vec<Cow<'a, str>>>,
    },
    /// A refused write: only its zxid counts.
    Error {
        /// Why it was refused.
        err: i32,
    },
    /// A new node.
    Create(CreateTxn<'a>),
    /// A node goes.
    Delete {
        /// The node.
        path: Cow<'a, str>,
    },
    /// A container or TTL node goes by itself.
    DeleteContainer {
        /// The node.
        path: Cow<'a, str>,
    },
    /// New data.
    SetData {
        /// The node.
        path: Cow<'a, str>,
        /// Its data.
        data: Option<&'a [u8]>,
        /// Its new version.
        version: i32,
    },
    /// A new configuration: set like data, on the configuration node.
    Reconfig {
        /// The node.
        path: Cow<'a, str>,
        /// Configuration text.
        data: Option<&'a [u8]>,
        /// -1.
        version: i32,
    },
    /// A new list.
    SetAcl {
        /// The node.
        path: Cow<'a, str>,
        /// Its list.
        acl: RawAcls<'a>,
        /// Its new ACL version.
        version: i32,
    },
    /// A version that was found right; no effect.
    Check {
        /// The node.
        path: Cow<'a, str>,
        /// The version found, plus one.
        version: i32,
    },
    /// Several at once. If any is an [`Txn::Error`], none has an effect.
    Multi(Vec<Txn<'a>>),
}

impl<'a> Txn<'a> {
    /// Whether the write, or an element of it, was refused because its session belongs to another connection.
    pub fn is_session_moved(&self) -> bool {
        if let Self::Multi(elements) = self {
            return elements.iter().any(Self::is_session_moved);
        }
        matches!(self, Self::Error { err } if *err == ErrorCode::SessionMoved.code())
    }

    /// The type that stands in the header, or in the element of a multi.
    pub fn kind(&self) -> OpCode {
        match self {
            Self::CreateSession { .. } => OpCode::CreateSession,
            Self::CloseSession { .. } => OpCode::CloseSession,
            Self::Error { .. } => OpCode::Error,
            Self::Create(create) => match create.kind {
                CreateKind::Create { .. } => OpCode::Create,
                CreateKind::Create2 { .. } => OpCode::Create2,
                CreateKind::Container => OpCode::CreateContainer,
                CreateKind::Ttl { .. } => OpCode::CreateTtl,
            },
            Self::Delete { .. } => OpCode::Delete,
            Self::DeleteContainer { .. } => OpCode::DeleteContainer,
            Self::SetData { .. } => OpCode::SetData,
            Self::Reconfig { .. } => OpCode::Reconfig,
            Self::SetAcl { .. } => OpCode::SetAcl,
            Self::Check { .. } => OpCode::Check,
            Self::Multi(_) => OpCode::Multi,
        }
    }

    /// Appends the body.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::CreateSession { timeout_ms } => timeout_ms.put(out),
            Self::CloseSession { paths: None } => (),
            Self::CloseSession { paths: Some(paths) } => {
                put_count(out, paths.len());
                paths.iter().for_each(|path| put_text(out, path));
            }
            Self::Error { err } => err.put(out),
            Self::Create(create) => create.put(out),
            Self::Delete { path } | Self::DeleteContainer { path } => put_text(out, path),
            Self::SetData { path, data, version } | Self::Reconfig { path, data, version } => {
                put_text(out, path);
                put_buffer(out, *data);
                version.put(out);
            }
            Self::SetAcl { path, acl, version } => {
                put_text(out, path);
                acl.put(out);
                version.put(out);
            }
            Self::Check { path, version } => {
                put_text(out, path);
                version.put(out);
            }
            Self::Multi(elements) => {
                put_count(out, elements.len());
                for element in elements {
                    element.kind().code().put(out);
                    let mark = crate::frame::begin_frame(out);
                    element.put(out);
                    crate::frame::end_frame(out, mark);
                }
            }
        }
    }

    /// Reads the body of type `kind`. Leaves what follows it unread.
    fn get(kind: i32, from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let op = OpCode::try_from(kind).map_err(DecodeError::UnknownType)?;
        #[expect(clippy::wildcard_enum_match_arm, reason = "only writes are transactions")]
        Ok(match op {
            OpCode::CreateSession => Self::CreateSession { timeout_ms: from.get()? },
            OpCode::CloseSession => Self::get_close_session(from)?,
            OpCode::Error => Self::Error { err: from.get()? },
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Self::Create(CreateTxn::get(op, from)?)
            }
            OpCode::Delete => Self::Delete { path: get_path(from)? },
            OpCode::DeleteContainer => Self::DeleteContainer { path: get_path(from)? },
            OpCode::SetData => Self::SetData { path: get_path(from)?, data: from.get()?, version: from.get()? },
            OpCode::Reconfig => Self::Reconfig { path: get_path(from)?, data: from.get()?, version: from.get()? },
            OpCode::SetAcl => Self::SetAcl { path: get_path(from)?, acl: from.get()?, version: from.get()? },
            OpCode::Check => Self::Check { path: get_path(from)?, version: from.get()? },
            OpCode::Multi => Self::get_multi(from)?,
            _ => return Err(DecodeError::UnknownType(kind)),
        })
    }

    // Compat: records of 3.5 and older have no list, and with closeSessionTxn off there may be a digest right
    // behind the header, which must not be taken for a list of two paths (golden set close-without-record).
    fn get_close_session(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let rest = from.rest();
        let digest_only = rest.len() == 12 && rest.starts_with(&DIGEST_VERSION.to_be_bytes());
        if rest.is_empty() || digest_only {
            return Ok(Self::CloseSession { paths: None });
        }
        let count = from.count()?.ok_or(DecodeError::Null)?;
        let mut paths = Vec::new();
        for _ in 0..count {
            paths.push(get_path(from)?);
        }
        Ok(Self::CloseSession { paths: Some(paths) })
    }

    fn get_multi(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = from.count()?.ok_or(DecodeError::Null)?;
        let mut elements = Vec::with_capacity(count.min(from.rest().len() / 8)); // type and length of each
        for _ in 0..count {
            let kind = from.get::<i32>()?;
            if !is_element(kind) {
                return Err(DecodeError::UnknownType(kind)); // also: no nesting, so no unbounded recursion
            }
            let body = from.get::<Option<&[u8]>>()?.ok_or(DecodeError::Null)?;
            elements.push(Self::get(kind, &mut from.nested(body))?);
        }
        Ok(Self::Multi(elements))
    }
}

/// Whether a multi may contain this type; peers apply nothing else either.
fn is_element(kind: i32) -> bool {
    use OpCode as O;
    let elements = [
        O::Create,
        O::Create2,
        O::CreateContainer,
        O::CreateTtl,
        O::Delete,
        O::DeleteContainer,
        O::SetData,
        O::Check,
        O::Error,
    ];
    elements.iter().any(|op| op.code() == kind)
}

fn get_path<'a>(from: &mut Reader<'a>) -> Result<Cow<'a, str>, DecodeError> {
    let path = from.text()?;
    if path.len() <= PATH_BYTES_MAX { Ok(path) } else { Err(DecodeError::TooLong) }
}

impl<'a> CreateTxn<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(out, &self.path);
        put_buffer(out, self.data);
        self.acl.put(out);
        match self.kind {
            CreateKind::Create { ephemeral } | CreateKind::Create2 { ephemeral } => {
                ephemeral.put(out);
                self.parent_cversion.put(out);
            }
            CreateKind::Container => self.parent_cversion.put(out),
            CreateKind::Ttl { ttl_ms } => {
                self.parent_cversion.put(out);
                ttl_ms.put(out);
            }
        }
    }

    fn get(op: OpCode, from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (path, data, acl) = (get_path(from)?, from.get()?, from.get()?);
        #[expect(clippy::wildcard_enum_match_arm, reason = "called for the four creates only")]
        let (kind, parent_cversion) = match op {
            OpCode::CreateContainer => (CreateKind::Container, from.get()?),
            OpCode::CreateTtl => {
                let parent_cversion = from.get()?;
                (CreateKind::Ttl { ttl_ms: from.get()? }, parent_cversion)
            }
            OpCode::Create2 => (CreateKind::Create2 { ephemeral: from.get()? }, from.get()?),
            _ => {
                let ephemeral = from.get()?;
                // Compat: 3.3 and older end here.
                let parent_cversion = if from.is_empty() { -1 } else { from.get()? };
                (CreateKind::Create { ephemeral }, parent_cversion)
            }
        };
        Ok(Self { kind, path, data, acl, parent_cversion })
    }
}

/// A whole transaction record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Header; its `kind` is that of `txn`.
    pub header: TxnHeader,
    /// Body.
    pub txn: Txn<'a>,
    /// Digest of the tree after it, if the writer computed one.
    pub digest: Option<TxnDigest>,
}

impl<'a> Record<'a> {
    /// Decodes a record from a log or proposal. Bytes behind the digest are ignored.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::from_disk(bytes);
        let header = from.get::<TxnHeader>()?;
        let txn = Txn::get(header.kind, &mut from)?;
        let digest = from.get().ok();
        Ok(Self { header, txn, digest })
    }

    /// Appends the record.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.header.put(out);
        self.txn.put(out);
        if let Some(digest) = self.digest {
            digest.put(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(txn: Txn<'_>, digest: Option<i64>) {
        let header = TxnHeader { session: SessionId(7), cxid: 3, zxid: Zxid(9), time_ms: 1, kind: txn.kind().code() };
        let digest = digest.map(|tree_digest| TxnDigest { version: DIGEST_VERSION, tree_digest });
        let record = Record { header, txn, digest };
        let mut out = Vec::new();
        record.put(&mut out);
        assert_eq!(TxnHeader::kind_of(&out), Some(record.header.kind));
        assert_eq!(Record::decode(&out), Ok(record));
    }

    fn create(kind: CreateKind) -> Txn<'static> {
        let path = Cow::Borrowed("/a");
        Txn::Create(CreateTxn { kind, path, data: None, acl: RawAcls::OPEN, parent_cversion: 4 })
    }

    #[test]
    fn bodies_round_trip() {
        for digest in [None, Some(5)] {
            check(Txn::CreateSession { timeout_ms: 1 }, digest);
            check(Txn::CloseSession { paths: Some(vec![]) }, digest);
            check(Txn::CloseSession { paths: Some(vec!["/a".into()]) }, digest);
            check(Txn::CloseSession { paths: None }, digest);
            check(create(CreateKind::Create { ephemeral: true }), digest);
            check(create(CreateKind::Create2 { ephemeral: false }), digest);
            check(create(CreateKind::Container), digest);
            check(create(CreateKind::Ttl { ttl_ms: 1 }), digest);
            let elements =
                vec![create(CreateKind::Container), Txn::Error { err: -2 }, Txn::Delete { path: "/".into() }];
            check(Txn::Multi(elements), digest);
        }
    }

    #[test]
    fn creates_of_33_have_no_parent_counter() {
        let mut out = Vec::new();
        TxnHeader { session: SessionId(7), cxid: 3, zxid: Zxid(9), time_ms: 1, kind: 1 }.put(&mut out);
        create(CreateKind::Create { ephemeral: false }).put(&mut out);
        out.truncate(out.len() - 4);
        let Txn::Create(create) = Record::decode(&out).unwrap().txn else { panic!("a create") };
        assert_eq!(create.parent_cversion, -1);
    }

    #[test]
    fn elements_are_what_apache_applies() {
        let mut out = Vec::new();
        for foreign in [14, 7, 16, -10, -11, 4, 0] {
            out.clear();
            TxnHeader { session: SessionId(7), cxid: 3, zxid: Zxid(9), time_ms: 1, kind: 14 }.put(&mut out);
            put_count(&mut out, 1);
            foreign.put(&mut out);
            put_buffer(&mut out, Some(&[0; 64]));
            assert_eq!(Record::decode(&out), Err(DecodeError::UnknownType(foreign)));
        }
        out.truncate(28);
        4_i32.put(&mut out);
        assert_eq!(Record::decode(&out), Err(DecodeError::UnknownType(4)));
    }
}
