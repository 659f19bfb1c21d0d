//! Reads of the model (client protocol, 5.9 to 5.15).

use super::{Caller, Model};
use crate::model::node::{Node, key};
use crate::op::{ElementResult, Op, OpResult, ReplyBody};
use ox_proto::acl::perms;
use ox_proto::{Acl, ErrorCode, OpCode};

impl Model {
    /// Executes a read. Requests that concern only watches always succeed here.
    pub fn read(&self, caller: Caller<'_>, op: &Op) -> OpResult {
        match self.body(caller, op) {
            Ok(body) => OpResult::ok(body.normal()),
            Err(code) => OpResult::error(code.code()),
        }
    }

    fn body(&self, caller: Caller<'_>, op: &Op) -> Result<ReplyBody, ErrorCode> {
        Ok(match op {
            Op::Exists { path, .. } if path.contains('\0') => return Err(ErrorCode::BadArguments),
            Op::Exists { path, .. } => ReplyBody::Stat(self.readable(caller, path)?.stat()),
            Op::GetData { path, .. } => {
                let node = self.readable(caller, path)?;
                ReplyBody::Data(node.data.clone(), node.stat())
            }
            Op::GetChildren { path, .. } => ReplyBody::Children(names(self.readable(caller, path)?)),
            Op::GetChildren2 { path, .. } => {
                let node = self.readable(caller, path)?;
                ReplyBody::ChildrenStat(names(node), node.stat())
            }
            Op::GetAcl { path } => self.get_acl(caller, path)?,
            Op::GetAllChildrenNumber { path } => {
                self.readable(caller, path)?;
                ReplyBody::Number(self.count_below(path))
            }
            Op::GetEphemerals { prefix } => {
                let all = matches!(prefix.trim(), "" | "/");
                let mut paths: Vec<String> = self.ephemerals_of(caller.session).into_iter().collect();
                paths.retain(|path| all || path.starts_with(prefix.as_str()));
                ReplyBody::Paths(paths)
            }
            Op::Sync { path } => ReplyBody::Path(path.clone()),
            Op::WhoAmI => ReplyBody::Identities(caller.ids.users()),
            Op::MultiRead(elements) => self.multi_read(caller, elements)?,
            Op::AddWatch { mode: 0 | 1, .. } => ReplyBody::Number(0),
            Op::NullPath(op) => self.null_path(caller, op)?,
            Op::AddWatch { .. } | Op::Broken(_) | Op::Multi(_) => return Err(ErrorCode::MarshallingError),
            Op::Unknown(_) => return Err(ErrorCode::Unimplemented),
            _ => ReplyBody::Empty,
        })
    }

    /// A read with a null path, which no node has.
    fn null_path(&self, caller: Caller<'_>, op: &Op) -> Result<ReplyBody, ErrorCode> {
        match op {
            Op::Sync { .. } => Ok(ReplyBody::Empty), // null again
            Op::GetEphemerals { .. } => self.body(caller, &Op::GetEphemerals { prefix: String::new() }),
            Op::AddWatch { .. } => self.body(caller, op),
            _ => Err(ErrorCode::MarshallingError),
        }
    }

    fn readable(&self, caller: Caller<'_>, path: &str) -> Result<&Node, ErrorCode> {
        let node = self.nodes.get(key(path)).ok_or(ErrorCode::NoNode)?;
        if caller.ids.may(&node.readers(), perms::READ) { Ok(node) } else { Err(ErrorCode::NoAuth) }
    }

    fn get_acl(&self, caller: Caller<'_>, path: &str) -> Result<ReplyBody, ErrorCode> {
        let node = self.nodes.get(key(path)).ok_or(ErrorCode::NoNode)?;
        let is_admin = caller.ids.may(&node.readers(), perms::ADMIN);
        if !is_admin && !caller.ids.may(&node.readers(), perms::READ) {
            return Err(ErrorCode::NoAuth);
        }
        let shown = |acl: &Acl| match acl.id.split_once(':') {
            Some((user, _)) if !is_admin && &*acl.scheme == "digest" => {
                Acl::new(acl.perms, "digest", &format!("{user}:x"))
            }
            _ => acl.clone(),
        };
        Ok(ReplyBody::Acl(node.shown_acl().iter().map(shown).collect(), node.stat()))
    }

    fn count_below(&self, path: &str) -> i32 {
        let prefix = if key(path) == "/" { "/".to_owned() } else { format!("{path}/") };
        let below = self.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let count = below.filter(|(path, _)| **path != prefix).count();
        // The root counts itself under its other name.
        i32::try_from(count + usize::from(path.is_empty())).unwrap_or(i32::MAX)
    }

    fn multi_read(&self, caller: Caller<'_>, elements: &[Op]) -> Result<ReplyBody, ErrorCode> {
        let mut results = Vec::new();
        for element in elements {
            // Also a null path.
            if !matches!(element, Op::GetData { .. } | Op::GetChildren { .. }) {
                return Err(ErrorCode::MarshallingError);
            }
            results.push(match self.body(caller, element) {
                Ok(body) => ElementResult { op: element.code(), err: 0, body },
                Err(code) => ElementResult::error(code.code()),
            });
        }
        Ok(ReplyBody::Multi(results))
    }
}

fn names(node: &Node) -> Vec<String> {
    node.children.iter().cloned().collect()
}

/// The type of a result, which is not always that of the request.
pub(super) fn result_type(op: OpCode) -> i32 {
    match op {
        OpCode::CreateContainer | OpCode::CreateTtl => OpCode::Create2.code(),
        _ => op.code(),
    }
}
