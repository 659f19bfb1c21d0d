//! Ephemeral nodes exist exactly as long as their sessions (P41), and final states match the history (P19).

use crate::history::{Dump, DumpNode, LoggedTxn};
use crate::model::{CONFIG, Model, is_kept_by_server};
use crate::op::OpResult;
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::{SessionId, Stat, Zxid};
use std::collections::{BTreeMap, BTreeSet};

/// closeSession deletes exactly the ephemeral nodes of its session.
pub(crate) fn check_close(model: &Model, session: SessionId, zxid: Zxid, listed: Option<&[String]>) -> Checked {
    let own = model.ephemerals_of(session);
    let Some(listed) = listed else { return Ok(()) };
    if listed.iter().cloned().collect::<BTreeSet<_>>() != own || listed.len() != own.len() {
        let detail = format!("session {session} owns {own:?}, closeSession lists {listed:?}");
        return Err(Violation::new(ViolationKind::WrongCloseList, ViolationPlace::Log(zxid), detail));
    }
    Ok(())
}

/// Whether a reply shows a node whose owner session had ended by then.
pub(crate) fn shows_dead_owner(ends: &BTreeMap<SessionId, Zxid>, seen: &OpResult, zxid: Zxid) -> bool {
    let owner = seen.body.stat().map_or(0, |stat| stat.ephemeral_owner);
    ends.get(&SessionId(owner)).is_some_and(|closed| *closed <= zxid)
}

/// The zxid at which each session ended.
pub(crate) fn ends(log: &[crate::history::LogEntry]) -> BTreeMap<SessionId, Zxid> {
    let closes = log.iter().filter(|entry| matches!(entry.txn, LoggedTxn::CloseSession { .. }));
    closes.map(|entry| (entry.session, entry.zxid)).collect()
}

/// Compares a server's state with the model's.
pub(crate) fn check_dump(model: &Model, dump: &Dump) -> Checked {
    let expected = model.dump(dump.zxid);
    let fail = |reason, detail: String| {
        Err(Violation::new(reason, ViolationPlace::Log(dump.zxid), format!("{}: {detail}", dump.name)))
    };
    if expected.sessions != dump.sessions {
        return fail(ViolationKind::DumpDiffers, format!("sessions {:?}, not {:?}", dump.sessions, expected.sessions));
    }
    let is_shown = |path: &str| !(model.is_dynamic() && path == CONFIG);
    for (path, node) in expected.nodes.iter().filter(|(path, _)| is_shown(path)) {
        let owner = SessionId(node.stat.ephemeral_owner);
        match dump.nodes.get(path) {
            None if owner != SessionId::NONE => {
                return fail(ViolationKind::EphemeralVanished, format!("{path} of session {owner}"));
            }
            None => return fail(ViolationKind::DumpDiffers, format!("{path} is missing")),
            Some(found) if !is_same(path, node, found) => {
                let reason = match (node.data == found.data, node.acl == found.acl) {
                    (true, true) => ViolationKind::WrongStat,
                    _ => ViolationKind::DumpDiffers,
                };
                return fail(reason, format!("{path} is {found:?}, not {node:?}"));
            }
            Some(_) => (),
        }
    }
    if let Some((path, node)) = dump.nodes.iter().find(|(path, _)| !expected.nodes.contains_key(*path)) {
        let owner = SessionId(node.stat.ephemeral_owner);
        let outlived = owner != SessionId::NONE && !expected.sessions.contains_key(&owner);
        let reason = if outlived { ViolationKind::EphemeralOutlived } else { ViolationKind::DumpDiffers };
        return fail(reason, format!("{path} should not exist: {node:?}"));
    }
    Ok(())
}

fn is_same(path: &str, expected: &DumpNode, found: &DumpNode) -> bool {
    if !is_kept_by_server(path) {
        return expected == found;
    }
    let stat = Stat { data_length: expected.stat.data_length, ..found.stat };
    expected.stat == stat && expected.acl == found.acl
}
