//! Writes of the model (client protocol, 5.3 to 5.12): checks in order, then the change, then the watch triggers.

use super::node::length;
use super::quota::{is_fatal_to_delete, is_fatal_usage};
use super::read::result_type;
use super::{AuthIds, Caller, Model, Quotas, WatchTrigger, path};
use crate::history::LoggedTxn;
use crate::model::node::{Node, Owner, key};
use crate::op::{Create, ElementResult, Op, OpResult, ReplyBody, RequestedAcl};
use ox_proto::acl::perms;
use ox_proto::event::EventType;
use ox_proto::{Acl, ErrorCode, OpCode, SessionId, Zxid};
use std::sync::Arc;

const TTL_MS_MAX: i64 = (1 << 40) - 1;

/// Zxid, time and session of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TxnStamp {
    pub zxid: Zxid,
    /// Wall clock of the proposer.
    pub time_ms: i64,
    pub session: SessionId,
}

/// The effects of a write.
#[derive(Clone, Debug)]
pub struct AppliedWrite {
    pub result: OpResult,
    /// The expected log record.
    pub txn: LoggedTxn,
    pub triggers: Vec<WatchTrigger>,
}

/// How to undo one change of a multi.
#[derive(Debug)]
pub(super) enum Undo {
    Created { path: String, parent_created: i32, parent_pzxid: Zxid },
    Deleted { path: String, node: Box<Node>, parent_pzxid: Zxid },
    Set { path: String, data: Option<Vec<u8>>, version: i32, mzxid: Zxid, mtime: i64 },
    Usage { path: String, data: Option<Vec<u8>> },
}

/// The kind of node that the flags of a create describe.
#[derive(Clone, Copy)]
enum Mode {
    Plain { ephemeral: bool, sequential: bool },
    Container,
    Ttl { sequential: bool },
}

fn mode(flags: i32) -> Option<Mode> {
    Some(match flags {
        0..=3 => Mode::Plain { ephemeral: flags & 1 != 0, sequential: flags & 2 != 0 },
        4 => Mode::Container,
        5 => Mode::Ttl { sequential: false },
        6 => Mode::Ttl { sequential: true },
        _ => return None,
    })
}

/// A create with its type and flags decoded.
struct CreateSpec<'a> {
    from: &'a Create,
    op: OpCode,
    ephemeral: bool,
    sequential: bool,
    ttl_ms: i64,
}

type Outcome = Result<(LoggedTxn, ReplyBody), ErrorCode>;

impl Model {
    /// Executes a write other than closeSession.
    pub fn write(&mut self, at: TxnStamp, ids: &AuthIds, op: &Op) -> AppliedWrite {
        self.write_prepared(at, ids, op, self.quotas())
    }

    /// Executes a write that was prepared when the quotas were these: servers check them against the applied state.
    pub fn write_prepared(&mut self, at: TxnStamp, ids: &AuthIds, op: &Op, quotas: Quotas) -> AppliedWrite {
        self.prepared_with = quotas;
        let caller = Caller { session: at.session, ids };
        let (result, txn) = match op {
            Op::Multi(elements) => self.multi(at, caller, elements),
            _ => match self.single(at, caller, op) {
                Ok((txn, body)) => (OpResult::ok(body), txn),
                Err(code) => (OpResult::error(code.code()), LoggedTxn::Error { err: code.code() }),
            },
        };
        self.undo.clear();
        AppliedWrite { result, txn, triggers: std::mem::take(&mut self.triggers) }
    }

    /// Executes a write of a connection whose session has moved to another one.
    pub fn write_moved(&mut self, at: TxnStamp, ids: &AuthIds, op: &Op) -> AppliedWrite {
        self.has_moved = true;
        let done = self.write(at, ids, op);
        self.has_moved = false;
        done
    }

    /// Executes the first `count` elements of a multi and stops: a state that no client may see.
    pub fn write_partly(&mut self, at: TxnStamp, ids: &AuthIds, elements: &[Op], count: usize) {
        let caller = Caller { session: at.session, ids };
        for element in &elements[..count] {
            if self.element(at, caller, element).is_err() {
                break;
            }
        }
        self.undo.clear();
        self.triggers.clear();
    }

    fn single(&mut self, at: TxnStamp, caller: Caller<'_>, op: &Op) -> Outcome {
        match op {
            Op::Create(create) => {
                let make = single_create(create, self.settings.extended_types)?;
                self.create(at, caller, &make)
            }
            Op::Delete { path, version } => self.delete(at, caller, path, *version),
            Op::SetData { path, data, version } => self.set_data(at, caller, path, data.as_ref(), *version),
            Op::SetAcl { path, acl, version } => self.set_acl(caller, path, acl, *version),
            Op::NullPath(op) => Err(self.refuse_null_path(caller, op)),
            Op::Reconfig(_) if self.settings.reconfig_enabled => Err(ErrorCode::Unimplemented),
            Op::Reconfig(_) => Err(ErrorCode::ReconfigDisabled),
            _ => Err(ErrorCode::MarshallingError),
        }
    }

    fn refuse_null_path(&self, caller: Caller<'_>, op: &Op) -> ErrorCode {
        let flags = match op {
            Op::Create(create) => single_create(create, self.settings.extended_types).map(|_| ()),
            _ => Ok(()),
        };
        match (flags.and_then(|()| self.check_session(caller.session)), op) {
            (Err(code), _) => code,
            (Ok(()), Op::SetData { .. } | Op::SetAcl { .. }) => ErrorCode::BadArguments,
            (Ok(()), _) => ErrorCode::MarshallingError,
        }
    }

    fn multi(&mut self, at: TxnStamp, caller: Caller<'_>, elements: &[Op]) -> (OpResult, LoggedTxn) {
        let refused = || {
            let err = ErrorCode::MarshallingError.code();
            (OpResult::error(err), LoggedTxn::Error { err })
        };
        if !elements.iter().all(may_be_element) {
            return refused();
        }
        let (mut txns, mut results, mut failed) = (Vec::new(), Vec::new(), None);
        for element in elements {
            let outcome = match failed {
                None => self.element(at, caller, element),
                Some(_) => Err(ErrorCode::RuntimeInconsistency),
            };
            match outcome {
                Ok((txn, body)) => {
                    results.push(ElementResult { op: result_type(kind_of(&txn)), err: 0, body });
                    txns.push(txn);
                }
                // An error that Apache reports by an exception fails the whole request.
                Err(ErrorCode::MarshallingError) => {
                    self.roll_back();
                    return refused();
                }
                Err(code) => {
                    failed.get_or_insert(code);
                    results.push(ElementResult::error(code.code()));
                    txns.push(LoggedTxn::Error { err: code.code() });
                }
            }
        }
        if failed.is_some() {
            self.roll_back();
            for result in results.iter_mut().filter(|result| result.err == 0) {
                *result = ElementResult::error(0);
            }
        }
        (OpResult::ok(ReplyBody::Multi(results)), LoggedTxn::Multi(txns))
    }

    fn element(&mut self, at: TxnStamp, caller: Caller<'_>, element: &Op) -> Outcome {
        match element {
            Op::Create(create) => {
                let make = element_create(create, self.settings.extended_types)?;
                self.create(at, caller, &make)
            }
            Op::Check { path, version } => self.check(caller, path, *version),
            _ => self.single(at, caller, element),
        }
    }

    fn check_session(&self, session: SessionId) -> Result<(), ErrorCode> {
        match self.has_session(session) {
            true if self.has_moved => Err(ErrorCode::SessionMoved),
            true => Ok(()),
            // Local sessions may write too.
            false if self.settings.local_sessions && !self.ended.contains(&session) => Ok(()),
            false => Err(ErrorCode::SessionExpired),
        }
    }

    fn existing(&self, path: &str) -> Result<&Node, ErrorCode> {
        self.nodes.get(key(path)).ok_or(ErrorCode::NoNode)
    }

    fn create(&mut self, at: TxnStamp, caller: Caller<'_>, make: &CreateSpec<'_>) -> Outcome {
        // A create with an ephemeral flag needs a global session, whatever its result.
        if matches!(make.from.flags, 1 | 3) && !self.has_session(caller.session) {
            return Err(ErrorCode::SessionExpired);
        }
        self.check_session(caller.session)?;
        let requested = make.from.path.as_str();
        let (parent_path, _) = path::split(requested).ok_or(ErrorCode::BadArguments)?;
        let acl = caller.ids.fixup_acl(&make.from.acl)?;
        let parent = self.existing(parent_path)?;
        may(caller, parent, perms::CREATE)?;
        let path = if make.sequential { format!("{requested}{:010}", parent.created) } else { requested.to_owned() };
        if !path::is_valid(&path) {
            return Err(ErrorCode::BadArguments);
        }
        if self.nodes.contains_key(&path) {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.owner, Owner::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let owner = match make.op {
            OpCode::CreateContainer => Owner::Container,
            OpCode::CreateTtl => Owner::Ttl(make.ttl_ms),
            _ if make.ephemeral => Owner::Session(caller.session),
            _ => Owner::None,
        };
        let is_at_root = parent_path == "/zookeeper/quota";
        if (is_at_root || !matches!(owner, Owner::None)) && is_fatal_to_delete(&path) {
            return Err(ErrorCode::BadArguments);
        }
        let parent_cversion = parent.created.wrapping_add(1);
        let data = make.from.data.clone();
        self.check_quota(&path, 1, length(data.as_deref()))?;
        let txn = LoggedTxn::Create {
            op: make.op,
            path: path.clone(),
            data: data.clone(),
            acl: acl.clone(),
            ephemeral: matches!(owner, Owner::Session(_)),
            ttl_ms: make.ttl_ms,
            parent_cversion,
        };
        self.insert(at, &path, Node::new(data, Some(acl.into()), at.zxid, at.time_ms, owner));
        let stat = self.existing(&path)?.stat();
        let body = if make.op == OpCode::Create { ReplyBody::Path(path) } else { ReplyBody::Created(path, stat) };
        Ok((txn, body))
    }

    fn delete(&mut self, at: TxnStamp, caller: Caller<'_>, path: &str, version: i32) -> Outcome {
        self.check_session(caller.session)?;
        let (parent_path, _) = path::split(path).filter(|_| is_deletable(path)).ok_or(ErrorCode::BadArguments)?;
        may(caller, self.existing(parent_path)?, perms::DELETE)?;
        let node = self.existing(path)?;
        check_version(version, node.version)?;
        if !node.children.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        if is_fatal_to_delete(path) {
            return Err(ErrorCode::BadArguments);
        }
        self.remove(at, path);
        Ok((LoggedTxn::Delete { path: path.to_owned() }, ReplyBody::Empty))
    }

    fn set_data(
        &mut self,
        at: TxnStamp,
        caller: Caller<'_>,
        path: &str,
        data: Option<&Vec<u8>>,
        version: i32,
    ) -> Outcome {
        self.check_session(caller.session)?;
        if !path::is_valid(path) {
            return Err(ErrorCode::BadArguments);
        }
        let node = self.existing(path)?;
        may(caller, node, perms::WRITE)?;
        let growth = length(data.map(Vec::as_slice)) - node.data_length();
        self.check_quota(path, 0, growth)?;
        check_version(version, node.version)?;
        if is_fatal_usage(path, data.map(Vec::as_slice)) {
            return Err(ErrorCode::BadArguments);
        }
        let node = self.nodes.get_mut(key(path)).expect("just found");
        let old = std::mem::replace(&mut node.data, data.cloned());
        let undo =
            Undo::Set { path: path.to_owned(), data: old, version: node.version, mzxid: node.mzxid, mtime: node.mtime };
        node.version = next_version(node.version);
        (node.mzxid, node.mtime) = (at.zxid, at.time_ms);
        let (version, readers) = (node.version, node.readers());
        self.undo.push(undo);
        self.adjust_usage(path, 0, growth);
        self.trigger(EventType::NodeDataChanged, path, readers);
        let stat = self.existing(path)?.stat();
        Ok((LoggedTxn::SetData { path: path.to_owned(), data: data.cloned(), version }, ReplyBody::Stat(stat)))
    }

    fn set_acl(&mut self, caller: Caller<'_>, path: &str, acl: &RequestedAcl, version: i32) -> Outcome {
        self.check_session(caller.session)?;
        if !path::is_valid(path) {
            return Err(ErrorCode::BadArguments);
        }
        let acl = caller.ids.fixup_acl(acl)?;
        let node = self.existing(path)?;
        may(caller, node, perms::ADMIN)?;
        check_version(version, node.aversion)?;
        let node = self.nodes.get_mut(key(path)).expect("just found");
        node.aversion = next_version(node.aversion);
        node.acl = Some(acl.clone().into());
        let (stat, version) = (node.stat(), node.aversion);
        Ok((LoggedTxn::SetAcl { path: path.to_owned(), acl, version }, ReplyBody::Stat(stat)))
    }

    fn check(&self, caller: Caller<'_>, path: &str, version: i32) -> Outcome {
        self.check_session(caller.session)?;
        if !path::is_valid(path) {
            return Err(ErrorCode::BadArguments);
        }
        let node = self.existing(path)?;
        may(caller, node, perms::READ)?;
        check_version(version, node.version)?;
        Ok((LoggedTxn::Check { path: path.to_owned(), version: node.version.wrapping_add(1) }, ReplyBody::Empty))
    }

    fn trigger(&mut self, kind: EventType, path: &str, readers: Arc<[Acl]>) {
        self.triggers.push(WatchTrigger { kind, path: path.to_owned(), readers });
    }

    fn insert(&mut self, at: TxnStamp, path: &str, node: Node) {
        let (parent_path, name) = path::split(path).expect("validated");
        let (readers, bytes) = (node.readers(), node.data_length());
        if let Owner::Session(session) = node.owner {
            self.ephemerals.entry(session).or_default().insert(path.to_owned());
        }
        self.nodes.insert(path.to_owned(), node);
        let parent = self.nodes.get_mut(key(parent_path)).expect("looked up before");
        let (parent_created, parent_pzxid) = (parent.created, parent.pzxid);
        self.undo.push(Undo::Created { path: path.to_owned(), parent_created, parent_pzxid });
        parent.children.insert(name.to_owned());
        parent.created += 1;
        parent.pzxid = at.zxid;
        let parent_readers = parent.readers();
        self.count_usage(path);
        self.adjust_usage(path, 1, bytes);
        self.trigger(EventType::NodeCreated, path, readers);
        self.trigger(EventType::NodeChildrenChanged, key(parent_path), parent_readers);
    }

    /// Deletes a childless node, if it exists.
    pub(super) fn remove(&mut self, at: TxnStamp, path: &str) {
        let Some(node) = self.nodes.remove(path) else { return };
        let (parent_path, name) = path::split(path).expect("every node but the root has a parent");
        self.disown(path, &node);
        let parent = self.nodes.get_mut(key(parent_path)).expect("a node has a parent");
        let parent_pzxid = parent.pzxid;
        parent.children.remove(name);
        parent.pzxid = parent.pzxid.max(at.zxid);
        let (readers, parent_readers, bytes) = (node.readers(), parent.readers(), node.data_length());
        self.undo.push(Undo::Deleted { path: path.to_owned(), node: Box::new(node), parent_pzxid });
        self.adjust_usage(path, -1, -bytes);
        self.trigger(EventType::NodeDeleted, path, readers);
        self.trigger(EventType::NodeChildrenChanged, key(parent_path), parent_readers);
    }

    fn disown(&mut self, path: &str, node: &Node) {
        if let Owner::Session(session) = node.owner
            && let Some(own) = self.ephemerals.get_mut(&session)
        {
            own.remove(path);
            if own.is_empty() {
                self.ephemerals.remove(&session);
            }
        }
    }

    fn roll_back(&mut self) {
        self.triggers.clear();
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Created { path, parent_created, parent_pzxid } => {
                    let node = self.nodes.remove(&path).expect("created before");
                    self.disown(&path, &node);
                    let (parent_path, name) = path::split(&path).expect("validated");
                    let parent = self.nodes.get_mut(key(parent_path)).expect("not touched since");
                    parent.children.remove(name);
                    (parent.created, parent.pzxid) = (parent_created, parent_pzxid);
                }
                Undo::Deleted { path, node, parent_pzxid } => {
                    let (parent_path, name) = path::split(&path).expect("every node but the root has a parent");
                    if let Owner::Session(session) = node.owner {
                        self.ephemerals.entry(session).or_default().insert(path.clone());
                    }
                    let parent = self.nodes.get_mut(key(parent_path)).expect("not touched since");
                    parent.children.insert(name.to_owned());
                    parent.pzxid = parent_pzxid;
                    self.nodes.insert(path, *node);
                }
                Undo::Set { path, data, version, mzxid, mtime } => {
                    let node = self.nodes.get_mut(key(&path)).expect("not touched since");
                    (node.data, node.version, node.mzxid, node.mtime) = (data, version, mzxid, mtime);
                }
                Undo::Usage { path, data } => {
                    self.nodes.get_mut(&path).expect("not touched since").data = data;
                }
            }
        }
    }
}

/// Whether a write may delete the node, if it exists.
pub(super) fn is_deletable(path: &str) -> bool {
    path::split(path).is_some() && !matches!(path, "/" | "/zookeeper" | "/zookeeper/quota" | "/zookeeper/config")
}

fn may(caller: Caller<'_>, node: &Node, perm: i32) -> Result<(), ErrorCode> {
    if caller.ids.may(&node.readers(), perm) { Ok(()) } else { Err(ErrorCode::NoAuth) }
}

fn check_version(expected: i32, actual: i32) -> Result<(), ErrorCode> {
    if expected == -1 || expected == actual { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

fn next_version(version: i32) -> i32 {
    if version == -2 { 0 } else { version.wrapping_add(1) }
}

/// A create outside of a multi: its type decides, and flags 4 alone do not make a container.
fn single_create(create: &Create, extended_types: bool) -> Result<CreateSpec<'_>, ErrorCode> {
    let mode = mode(create.flags).ok_or(ErrorCode::BadArguments)?;
    let make =
        |ephemeral, sequential, ttl_ms| CreateSpec { from: create, op: create.op, ephemeral, sequential, ttl_ms };
    match (create.op, mode) {
        (_, Mode::Ttl { .. }) if !extended_types => Err(ErrorCode::Unimplemented),
        (OpCode::CreateTtl, Mode::Ttl { sequential }) => {
            let in_range = (1..=TTL_MS_MAX).contains(&create.ttl_ms);
            if in_range { Ok(make(false, sequential, create.ttl_ms)) } else { Err(ErrorCode::BadArguments) }
        }
        (OpCode::CreateTtl, _) | (_, Mode::Ttl { .. }) => Err(ErrorCode::BadArguments),
        (OpCode::CreateContainer, Mode::Plain { sequential, .. }) => Ok(make(false, sequential, 0)),
        (_, Mode::Plain { ephemeral, sequential }) => Ok(make(ephemeral, sequential, 0)),
        (_, Mode::Container) => Ok(make(false, false, 0)),
    }
}

/// A create within a multi: its flags decide.
fn element_create(create: &Create, extended_types: bool) -> Result<CreateSpec<'_>, ErrorCode> {
    let make = |op, ephemeral, sequential| CreateSpec { from: create, op, ephemeral, sequential, ttl_ms: 0 };
    match (create.op, mode(create.flags)) {
        (OpCode::CreateTtl, Some(Mode::Ttl { .. }) | None) => single_create(create, extended_types),
        (OpCode::CreateTtl, Some(Mode::Plain { ephemeral, sequential })) => {
            Ok(make(OpCode::Create, ephemeral, sequential))
        }
        (_, Some(Mode::Container)) => Ok(make(OpCode::CreateContainer, false, false)),
        (OpCode::CreateContainer, Some(Mode::Plain { sequential, .. })) => {
            Ok(make(OpCode::CreateContainer, false, sequential))
        }
        (op, Some(Mode::Plain { ephemeral, sequential })) => Ok(make(op, ephemeral, sequential)),
        (_, Some(Mode::Ttl { .. }) | None) => Err(ErrorCode::MarshallingError),
    }
}

/// Whether a multi may contain it; anything else makes the whole multi fail.
fn may_be_element(op: &Op) -> bool {
    match op {
        Op::Create(create) if create.op == OpCode::CreateTtl => true,
        Op::Create(create) => matches!(mode(create.flags), Some(Mode::Plain { .. } | Mode::Container)),
        Op::Delete { .. } | Op::SetData { .. } | Op::Check { .. } => true,
        _ => false,
    }
}

fn kind_of(txn: &LoggedTxn) -> OpCode {
    match txn {
        LoggedTxn::Create { op, .. } => *op,
        LoggedTxn::Delete { .. } => OpCode::Delete,
        LoggedTxn::SetData { .. } => OpCode::SetData,
        LoggedTxn::Check { .. } => OpCode::Check,
        _ => OpCode::Error,
    }
}
