//! Audit events: writes of this server's clients with their results, and ephemeral nodes that end with their session.
//!
//! A request is described when it is received ([`AuditRequest`]), because a transaction does not contain all of it, and
//! becomes events when its transaction is applied. Operations and fields are Apache's. The driver writes the lines.

use ox_proto::multi::MultiOp;
use ox_proto::request as r;
use ox_proto::txn::Txn;
use ox_proto::{OpCode, RawAcls, Reader, SessionId};
use ox_tree::auth::Identities;
use std::sync::Arc;

/// One line of the audit log. Texts of clients are not escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    pub session: Option<SessionId>,
    /// Identities of the client; `None` if the server itself acts.
    pub ids: Option<Arc<Identities>>,
    pub operation: &'static str,
    pub znode: Option<String>,
    pub znode_type: Option<&'static str>,
    pub acl: Option<String>,
    pub result: AuditResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditResult {
    Success,
    Failure,
    /// The operation has begun.
    Invoked,
}

/// A write whose result is not known yet.
#[derive(Debug)]
pub(crate) struct AuditRequest {
    session: SessionId,
    ids: Arc<Identities>,
    operation: &'static str,
    znode: Option<String>,
    znode_type: Option<&'static str>,
    acl: Option<String>,
    /// Paths and types of the creates in a multi, as requested.
    creates: Vec<(String, &'static str)>,
}

impl AuditEvent {
    /// An event of the server itself.
    pub fn of_server(operation: &'static str, result: AuditResult) -> Self {
        Self { session: None, ids: None, operation, znode: None, znode_type: None, acl: None, result }
    }

    /// An ephemeral node was deleted with its session.
    pub(crate) fn ephemeral(session: SessionId, path: String) -> Self {
        let operation = "ephemeralZNodeDeletionOnSessionCloseOrExpire";
        Self { session: Some(session), znode: Some(path), ..Self::of_server(operation, AuditResult::Success) }
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + [&self.znode, &self.acl].into_iter().flatten().map(String::len).sum::<usize>()
    }
}

impl AuditRequest {
    /// Describes a write; `None` if Apache does not audit it, or it cannot be decoded.
    pub(crate) fn new(session: SessionId, ids: &Arc<Identities>, op: OpCode, body: &[u8]) -> Option<Self> {
        let mut from = Reader::new(body);
        let mut request = Self {
            session,
            ids: Arc::clone(ids),
            operation: "",
            znode: None,
            znode_type: None,
            acl: None,
            creates: Vec::new(),
        };
        #[expect(clippy::wildcard_enum_match_arm, reason = "no other operation is audited")]
        let (operation, path) = match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => {
                let create = from.get::<r::CreateRequest<'_>>().ok()?;
                request.znode_type = node_type(op, create.flags);
                ("create", create.path)
            }
            OpCode::CreateTtl => {
                let create = from.get::<r::CreateTtlRequest<'_>>().ok()?;
                request.znode_type = node_type(op, create.flags);
                ("create", create.path)
            }
            OpCode::Delete => ("delete", from.get::<r::PathVersion<'_>>().ok()?.path),
            OpCode::SetData => ("setData", from.get::<r::SetDataRequest<'_>>().ok()?.path),
            OpCode::SetAcl => {
                let set = from.get::<r::SetAclRequest<'_>>().ok()?;
                request.acl = Some(acl_text(set.acl));
                ("setAcl", set.path)
            }
            OpCode::Multi => {
                request.creates = creates_of(from);
                ("multiOperation", None)
            }
            OpCode::Reconfig => ("reconfig", None),
            _ => return None,
        };
        (request.operation, request.znode) = (operation, path.map(std::borrow::Cow::into_owned));
        Some(request)
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.znode, &self.acl].into_iter().flatten().map(String::len).sum::<usize>();
        size_of::<Self>()
            + texts
            + self.creates.iter().map(|(path, _)| path.len() + size_of::<(String, &str)>()).sum::<usize>()
    }

    /// The event of a write that failed.
    pub(crate) fn failed(self) -> AuditEvent {
        self.event(AuditResult::Failure)
    }

    /// Appends the events of an applied transaction.
    pub(crate) fn applied(mut self, txn: &Txn<'_>, events: &mut Vec<AuditEvent>) {
        #[expect(clippy::wildcard_enum_match_arm, reason = "all other transactions succeed as requested")]
        match txn {
            Txn::Error { .. } => events.push(self.failed()),
            Txn::Multi(elements) if elements.iter().any(|element| matches!(element, Txn::Error { .. })) => {
                events.push(self.failed());
            }
            Txn::Multi(elements) => self.multi_applied(elements, events),
            Txn::Create(create) => {
                self.znode = Some(create.path.clone().into_owned());
                events.push(self.event(AuditResult::Success));
            }
            Txn::Reconfig { path, .. } => {
                self.znode = Some(path.clone().into_owned());
                events.push(self.event(AuditResult::Success));
            }
            _ => events.push(self.event(AuditResult::Success)),
        }
    }

    /// One event per change. Compat: the type of a sequential node is missing, because it is looked up by the requested
    /// path.
    fn multi_applied(&self, elements: &[Txn<'_>], events: &mut Vec<AuditEvent>) {
        for element in elements {
            #[expect(clippy::wildcard_enum_match_arm, reason = "checks are not audited")]
            let (operation, path) = match element {
                Txn::Create(create) => ("create", &create.path),
                Txn::Delete { path } => ("delete", path),
                Txn::SetData { path, .. } => ("setData", path),
                _ => continue,
            };
            let is_same = |(known, _): &&(String, &str)| operation == "create" && known.as_str() == path.as_ref();
            events.push(AuditEvent {
                session: Some(self.session),
                ids: Some(Arc::clone(&self.ids)),
                operation,
                znode: Some(path.clone().into_owned()),
                znode_type: self.creates.iter().find(is_same).map(|(_, kind)| *kind),
                acl: None,
                result: AuditResult::Success,
            });
        }
    }

    fn event(self, result: AuditResult) -> AuditEvent {
        let Self { session, ids, operation, znode, znode_type, acl, .. } = self;
        AuditEvent { session: Some(session), ids: Some(ids), operation, znode, znode_type, acl, result }
    }
}

/// Apache's name of a node type; `None` for flags that no type has.
fn node_type(op: OpCode, flags: i32) -> Option<&'static str> {
    if op == OpCode::CreateContainer {
        return Some("container");
    }
    Some(match flags {
        0 => "persistent",
        1 => "ephemeral",
        2 => "persistent_sequential",
        3 => "ephemeral_sequential",
        4 => "container",
        5 => "persistent_with_ttl",
        6 => "persistent_sequential_with_ttl",
        _ => return None,
    })
}

/// Compat: entries follow each other without a separator.
fn acl_text(acls: RawAcls<'_>) -> String {
    acls.to_stored().iter().map(ToString::to_string).collect()
}

fn creates_of(mut from: Reader<'_>) -> Vec<(String, &'static str)> {
    let mut creates = Vec::new();
    while let Ok(Some(element)) = MultiOp::next(&mut from) {
        let kind = match &element {
            MultiOp::Create(op, create) => node_type(*op, create.flags),
            MultiOp::CreateTtl(create) => node_type(OpCode::CreateTtl, create.flags),
            MultiOp::Delete(_)
            | MultiOp::SetData(_)
            | MultiOp::Check(_)
            | MultiOp::GetData(_)
            | MultiOp::GetChildren(_) => None,
        };
        if let (Some(kind), Some(path)) = (kind, element.path()) {
            creates.push((path.to_owned(), kind));
        }
    }
    creates
}
