//! reconfig: a change of the ensemble's configuration. It is applied as setData of the configuration node.

use super::{ErrorCode, put_stat};
use crate::apply::Applied;
use crate::path;
use crate::pending::PendingView;
use ox_proto::acl::perms;
use ox_proto::jute::put_buffer;
use ox_proto::request::ReconfigRequest;
use ox_proto::txn::Txn;
use ox_proto::{OpCode, Zxid};
use std::borrow::Cow;

/// Computes the text of the configuration that a request leads to, with the zxid of its transaction as version.
pub type ReconfigFn<'a> = dyn Fn(&ReconfigRequest<'_>, Zxid) -> Result<String, ErrorCode> + 'a;

/// A standalone server has no `new_config` and refuses every request.
pub(super) fn prepare(
    view: &mut PendingView<'_>,
    request: &ReconfigRequest<'_>,
    new_config: Option<&ReconfigFn<'_>>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    if !view.state.options.reconfig_enabled {
        return Err(ErrorCode::ReconfigDisabled);
    }
    view.check_session()?;
    let text = new_config.ok_or(ErrorCode::Unimplemented)?(request, view.zxid)?;
    // Compat: the permission is checked last.
    let mut node = view.existing(path::CONFIG)?;
    view.check_acl(&node, perms::WRITE)?;
    node.stat.version = -1;
    node.stat.mzxid = view.zxid;
    node.stat.mtime = view.time_ms;
    let data = Some(text.as_bytes());
    let txn = Txn::Reconfig { path: Cow::Borrowed(path::CONFIG), data, version: -1 };
    txn.put(out);
    view.set_data(path::CONFIG, node, data);
    Ok(txn.kind())
}

/// The reply contains the new configuration.
pub(super) fn put_reply(out: &mut Vec<u8>, data: Option<&[u8]>, applied: &Applied) {
    put_buffer(out, data);
    put_stat(out, applied);
}
