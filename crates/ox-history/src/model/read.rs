//! Reads (client protocol, 5.9 to 5.15).

use super::{Asker, Model};
use crate::model::node::{Node, key};
use crate::op::{Answer, Body, Element, Op};
use ox_proto::acl::perms;
use ox_proto::{Acl, ErrorCode, OpCode};

impl Model {
    /// Answers a read from the state. Requests about watches alone are not the model's business and succeed.
    pub fn read(&self, asker: Asker<'_>, op: &Op) -> Answer {
        match self.body(asker, op) {
            Ok(body) => Answer::ok(body.normal()),
            Err(code) => Answer::error(code.code()),
        }
    }

    fn body(&self, asker: Asker<'_>, op: &Op) -> Result<Body, ErrorCode> {
        Ok(match op {
            Op::Exists { path, .. } if path.contains('\0') => return Err(ErrorCode::BadArguments),
            Op::Exists { path, .. } => Body::Stat(self.readable(asker, path)?.stat()),
            Op::GetData { path, .. } => {
                let node = self.readable(asker, path)?;
                Body::Data(node.data.clone(), node.stat())
            }
            Op::GetChildren { path, .. } => Body::Children(names(self.readable(asker, path)?)),
            Op::GetChildren2 { path, .. } => {
                let node = self.readable(asker, path)?;
                Body::ChildrenStat(names(node), node.stat())
            }
            Op::GetAcl { path } => self.get_acl(asker, path)?,
            Op::GetAllChildrenNumber { path } => {
                self.readable(asker, path)?;
                Body::Number(self.count_below(path))
            }
            Op::GetEphemerals { prefix } => {
                let all = matches!(prefix.trim(), "" | "/");
                let mut paths: Vec<String> = self.ephemerals_of(asker.session).into_iter().collect();
                paths.retain(|path| all || path.starts_with(prefix.as_str()));
                Body::Paths(paths)
            }
            Op::Sync { path } => Body::Path(path.clone()),
            Op::WhoAmI => Body::Identities(asker.ids.users()),
            Op::MultiRead(elements) => self.multi_read(asker, elements)?,
            Op::AddWatch { mode: 0 | 1, .. } => Body::Number(0),
            Op::AddWatch { .. } | Op::Broken(_) => return Err(ErrorCode::MarshallingError),
            Op::Unknown(_) => return Err(ErrorCode::Unimplemented),
            _ => Body::Empty,
        })
    }

    fn readable(&self, asker: Asker<'_>, path: &str) -> Result<&Node, ErrorCode> {
        let node = self.nodes.get(key(path)).ok_or(ErrorCode::NoNode)?;
        if asker.ids.may(&node.acl, perms::READ) { Ok(node) } else { Err(ErrorCode::NoAuth) }
    }

    fn get_acl(&self, asker: Asker<'_>, path: &str) -> Result<Body, ErrorCode> {
        let node = self.nodes.get(key(path)).ok_or(ErrorCode::NoNode)?;
        let is_admin = asker.ids.may(&node.acl, perms::ADMIN);
        if !is_admin && !asker.ids.may(&node.acl, perms::READ) {
            return Err(ErrorCode::NoAuth);
        }
        let shown = |acl: &Acl| match acl.id.split_once(':') {
            Some((user, _)) if !is_admin && &*acl.scheme == "digest" => {
                Acl::new(acl.perms, "digest", &format!("{user}:x"))
            }
            _ => acl.clone(),
        };
        Ok(Body::Acl(node.acl.iter().map(shown).collect(), node.stat()))
    }

    fn count_below(&self, path: &str) -> i32 {
        let prefix = if key(path) == "/" { "/".to_owned() } else { format!("{path}/") };
        let below = self.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let count = below.filter(|(path, _)| **path != prefix).count();
        // The root counts itself under its other name.
        i32::try_from(count + usize::from(path.is_empty())).unwrap_or(i32::MAX)
    }

    fn multi_read(&self, asker: Asker<'_>, elements: &[Op]) -> Result<Body, ErrorCode> {
        let mut results = Vec::new();
        for element in elements {
            if !matches!(element, Op::GetData { .. } | Op::GetChildren { .. }) {
                return Err(ErrorCode::MarshallingError);
            }
            results.push(match self.body(asker, element) {
                Ok(body) => Element { op: element.code(), err: 0, body },
                Err(code) => Element::error(code.code()),
            });
        }
        Ok(Body::Multi(results))
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
