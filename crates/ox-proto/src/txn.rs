//! Transactions: the form of a write in logs, proposals and memory.
//!
//! ```text
//! record = TxnHeader (32 bytes) | body by type | TxnDigest (12 bytes, optional) | ignored
//! ```
//! The server that creates a transaction encodes it once; every server, including the creator, applies what
//! [`Record::decode`] reads from those bytes.

use crate::acl::RawAcls;
use crate::jute::{DecodeError, Jute, Reader, jute, put_buffer, put_count, put_text};
use crate::limits::PATH_BYTES_MAX;
use crate::{ErrorCode, OpCode, SessionId, Zxid};
use std::borrow::Cow;

/// The digest version that we and Apache compute.
pub const DIGEST_VERSION: i32 = 2;

jute! {
    #[derive(Copy)]
    TxnHeader {
        /// Session that issued the write; 0 for the server itself.
        session: SessionId,
        cxid: i32,
        zxid: Zxid,
        /// Wall clock of the proposing server, milliseconds since 1970.
        time_ms: i64,
        /// Opcode, or -1 for a failed write.
        kind: i32,
    }
}

impl TxnHeader {
    /// Reads the kind without decoding the rest of the record.
    pub fn kind_of(record: &[u8]) -> Option<i32> {
        record.get(28..32)?.try_into().ok().map(i32::from_be_bytes)
    }
}

jute! {
    /// Digest of the whole tree after the transaction.
    #[derive(Copy)]
    TxnDigest {
        /// Identifies the digest algorithm.
        version: i32,
        tree_digest: i64,
    }
}

/// The operation that created a node, with its additional fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateKind {
    Create {
        /// Owned by the session of the header.
        ephemeral: bool,
    },
    /// Equal in effect to [`CreateKind::Create`].
    Create2 {
        /// Owned by the session of the header.
        ephemeral: bool,
    },
    Container,
    Ttl {
        /// Milliseconds that a childless node lives after its last change.
        ttl_ms: i64,
    },
}

/// A new node, with its final path and ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTxn<'a> {
    pub kind: CreateKind,
    /// Includes the sequence number.
    pub path: Cow<'a, str>,
    pub data: Option<&'a [u8]>,
    /// Expanded, without the schemes that only requests may use.
    pub acl: RawAcls<'a>,
    /// The parent's stored cversion after this create; -1 in records of 3.3 and older, which lack the field.
    pub parent_cversion: i32,
}

/// A decoded transaction body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Txn<'a> {
    CreateSession {
        /// Negotiated with the client.
        timeout_ms: i32,
    },
    /// Without a list, the tree's record of the session's ephemeral nodes applies.
    CloseSession {
        /// Ephemeral nodes to delete.
        paths: Option<Vec<Cow<'a, str>>>,
    },
    /// A failed write: it only takes a zxid.
    Error {
        /// Error code of the failure.
        err: i32,
    },
    Create(CreateTxn<'a>),
    Delete {
        path: Cow<'a, str>,
    },
    /// The container manager deletes an empty container or an expired TTL node.
    DeleteContainer {
        path: Cow<'a, str>,
    },
    SetData {
        path: Cow<'a, str>,
        data: Option<&'a [u8]>,
        /// The version after the write.
        version: i32,
    },
    /// A new ensemble configuration, written like data to the configuration node.
    Reconfig {
        path: Cow<'a, str>,
        data: Option<&'a [u8]>,
        /// Always -1, which becomes the node's version.
        version: i32,
    },
    SetAcl {
        path: Cow<'a, str>,
        acl: RawAcls<'a>,
        /// The ACL version after the write.
        version: i32,
    },
    /// A version check of a multi that succeeded; no effect.
    Check {
        path: Cow<'a, str>,
        /// The version checked, plus one.
        version: i32,
    },
    /// If any element is a [`Txn::Error`], none takes effect.
    Multi(Vec<Txn<'a>>),
}

impl<'a> Txn<'a> {
    /// Whether the write, or an element of it, failed because its session moved to another connection.
    pub fn is_session_moved(&self) -> bool {
        if let Self::Multi(elements) = self {
            return elements.iter().any(Self::is_session_moved);
        }
        matches!(self, Self::Error { err } if *err == ErrorCode::SessionMoved.code())
    }

    /// The type in the header, or in the element of a multi.
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

    /// Decodes the body of type `kind` and leaves the following bytes unread.
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

    // Compat: records of 3.5 and older have no list, and with closeSessionTxn off a digest may directly follow the
    // header, which must not be taken for a list of two paths (golden set close-without-record).
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

/// Whether a multi may contain this type; Apache applies no other either.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The `kind` is that of `txn`.
    pub header: TxnHeader,
    pub txn: Txn<'a>,
    /// Digest of the tree after the transaction, if the proposer computed one.
    pub digest: Option<TxnDigest>,
}

impl<'a> Record<'a> {
    /// Decodes a record of a log or proposal. Bytes after the digest are ignored.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::from_disk(bytes);
        let header = from.get::<TxnHeader>()?;
        let txn = Txn::get(header.kind, &mut from)?;
        let digest = from.get().ok();
        Ok(Self { header, txn, digest })
    }

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
    fn create_of_3_3_has_no_parent_cversion() {
        let mut out = Vec::new();
        TxnHeader { session: SessionId(7), cxid: 3, zxid: Zxid(9), time_ms: 1, kind: 1 }.put(&mut out);
        create(CreateKind::Create { ephemeral: false }).put(&mut out);
        out.truncate(out.len() - 4);
        let Txn::Create(create) = Record::decode(&out).unwrap().txn else { panic!("a create") };
        assert_eq!(create.parent_cversion, -1);
    }

    #[test]
    fn multi_with_other_element_is_refused() {
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
