//! reconfig.

use super::ErrorCode;
use crate::path;
use crate::pending::View;
use ox_proto::acl::perms;
use ox_proto::request::ReconfigRequest;
use ox_proto::txn::Txn;
use ox_proto::{OpCode, Zxid};
use std::borrow::Cow;

/// The text of the configuration that a change would lead to, as the transaction of this zxid.
pub type Judge<'a> = dyn Fn(&ReconfigRequest<'_>, Zxid) -> Result<String, ErrorCode> + 'a;

/// Without a judge the server is alone, and stays so.
pub(super) fn prepare(
    view: &mut View<'_>,
    request: &ReconfigRequest<'_>,
    judge: Option<&Judge<'_>>,
    out: &mut Vec<u8>,
) -> Result<OpCode, ErrorCode> {
    if !view.state.options.reconfig_enabled {
        return Err(ErrorCode::ReconfigDisabled);
    }
    view.check_session()?;
    let text = judge.ok_or(ErrorCode::Unimplemented)?(request, view.zxid)?;
    // Compat: the right to do it is looked at last.
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
