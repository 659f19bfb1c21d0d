//! setData: new data for a node.

use super::create::check_quota;
use super::{ErrorCode, check_version, next_version, signed};
use crate::apply::{Applied, Applier};
use crate::path;
use crate::pending::PendingView;
use crate::quota;
use crate::watch::{EventSink, WatchKind};
use ox_proto::OpCode;
use ox_proto::acl::perms;
use ox_proto::event::EventType;
use ox_proto::request::SetDataRequest;
use ox_proto::txn::Txn;
use std::borrow::Cow;

pub(super) fn prepare(
    view: &mut PendingView<'_>,
    request: &SetDataRequest<'_>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    view.check_session()?;
    let path = request.path.as_deref().ok_or(ErrorCode::BadArguments)?;
    path::validate(path)?;
    let node_path = path::internal(path);
    let mut node = view.existing(node_path)?;
    view.check_acl(&node, perms::WRITE)?;
    let growth = signed(request.data.map_or(0, <[u8]>::len)) - signed(node.data_length);
    check_quota(view, node_path, 0, growth)?;
    check_version(request.version, node.stat.version)?;
    // Apache crashes on malformed usage in a stats node (K72).
    if quota::usage_crashes_apache(node_path, request.data) {
        return Err(ErrorCode::BadArguments);
    }
    node.stat.version = next_version(node.stat.version);
    node.stat.mzxid = view.zxid;
    node.stat.mtime = view.time_ms;
    let txn = Txn::SetData { path: Cow::Borrowed(path), data: request.data, version: node.stat.version };
    txn.put(out);
    view.set_data(node_path, node, request.data);
    Ok(txn.kind())
}

impl<E: EventSink> Applier<'_, E> {
    pub(crate) fn set_data(&mut self, node_path: &str, data: Option<&[u8]>, version: i32) -> Applied {
        let Some(id) = self.find_path(node_path) else {
            self.conflict = true;
            return Applied::Nothing;
        };
        let (zxid, time_ms) = (self.zxid, self.time_ms);
        let before = self.state.tree.get(id).data_length();
        self.state.tree.set_data(id, node_path, data, |node| {
            node.version = version;
            node.mzxid = zxid;
            node.mtime = time_ms;
        });
        self.state.adjust_quota(node_path, 0, signed(data.map_or(0, <[u8]>::len)) - signed(before));
        self.fire(WatchKind::Data, EventType::NodeDataChanged, id, path::external(node_path));
        Applied::Stat(self.state.stat_of(id))
    }
}
