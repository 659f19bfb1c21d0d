//! setACL: a new ACL for a node.

use super::{ErrorCode, check_version, next_version};
use crate::acl_table::AclList;
use crate::apply::{Applied, Applier};
use crate::auth::fixup_acl;
use crate::path;
use crate::pending::PendingView;
use crate::watch::EventSink;
use ox_proto::acl::perms;
use ox_proto::request::SetAclRequest;
use ox_proto::txn::Txn;
use ox_proto::{OpCode, RawAcls};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) fn prepare(
    view: &mut PendingView<'_>,
    request: &SetAclRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    view.check_session()?;
    let path = request.path.as_deref().ok_or(ErrorCode::BadArguments)?;
    path::validate(path)?;
    let node_path = path::internal(path);
    let acl = fixup_acl(view.state.options(), view.ids, request.acl)?;
    let acl = RawAcls::from_encoded(&acl).map_err(|_| ErrorCode::MarshallingError)?;
    let mut node = view.existing(node_path)?;
    view.check_acl(&node, perms::ADMIN)?;
    check_version(request.version, node.stat.aversion)?;
    node.stat.aversion = next_version(node.stat.aversion);
    node.acl = Arc::new(AclList::new(acl.to_stored()));
    let txn = Txn::SetAcl { path: Cow::Borrowed(path), acl, version: node.stat.aversion };
    txn.put(out);
    view.change(node);
    Ok(txn.kind())
}

impl<E: EventSink> Applier<'_, E> {
    pub(crate) fn set_acl(&mut self, node_path: &str, acl: RawAcls<'_>, version: i32) -> Applied {
        let Some(id) = self.find_path(node_path) else {
            self.conflict = true;
            return Applied::Nothing;
        };
        let new = self.state.acls.intern(acl);
        let old = self.state.tree.set_acl(id, new);
        self.state.acls.release(old);
        self.state.tree.update(id, |node| node.aversion = version);
        Applied::Stat(self.state.stat_of(id))
    }
}
