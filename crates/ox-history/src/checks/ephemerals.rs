//! Ephemeral nodes live exactly as long as their sessions (P41), and final states are what the history gives (P19).

use crate::history::{Dump, DumpNode, LoggedTxn};
use crate::model::{CONFIG, Model, is_kept_by_server};
use crate::op::Answer;
use crate::violation::{Checked, Place, Reason, Violation};
use ox_proto::{SessionId, Stat, Zxid};
use std::collections::{BTreeMap, BTreeSet};

/// The end of a session takes exactly its nodes with it.
pub(crate) fn check_close(model: &Model, session: SessionId, zxid: Zxid, listed: Option<&[String]>) -> Checked {
    let own = model.ephemerals_of(session);
    let Some(listed) = listed else { return Ok(()) };
    if listed.iter().cloned().collect::<BTreeSet<_>>() != own || listed.len() != own.len() {
        let detail = format!("session {session} owns {own:?}, its end lists {listed:?}");
        return Err(Violation::new(Reason::WrongCloseList, Place::Log(zxid), detail));
    }
    Ok(())
}

/// Whether an answer shows a node whose owner was gone by then.
pub(crate) fn shows_dead_owner(ends: &BTreeMap<SessionId, Zxid>, seen: &Answer, zxid: Zxid) -> bool {
    let owner = seen.body.stat().map_or(0, |stat| stat.ephemeral_owner);
    ends.get(&SessionId(owner)).is_some_and(|closed| *closed <= zxid)
}

/// When sessions ended.
pub(crate) fn ends(log: &[crate::history::Logged]) -> BTreeMap<SessionId, Zxid> {
    let closes = log.iter().filter(|entry| matches!(entry.txn, LoggedTxn::CloseSession { .. }));
    closes.map(|entry| (entry.session, entry.zxid)).collect()
}

/// Compares a server's state with the model's.
pub(crate) fn check_dump(model: &Model, dump: &Dump) -> Checked {
    let expected = model.dump(dump.zxid);
    let fail =
        |reason, detail: String| Err(Violation::new(reason, Place::Log(dump.zxid), format!("{}: {detail}", dump.name)));
    if expected.sessions != dump.sessions {
        return fail(Reason::DumpDiffers, format!("sessions {:?}, not {:?}", dump.sessions, expected.sessions));
    }
    let is_shown = |path: &str| !(model.is_dynamic() && path == CONFIG);
    for (path, node) in expected.nodes.iter().filter(|(path, _)| is_shown(path)) {
        let owner = SessionId(node.stat.ephemeral_owner);
        match dump.nodes.get(path) {
            None if owner != SessionId::NONE => {
                return fail(Reason::EphemeralVanished, format!("{path} of session {owner}"));
            }
            None => return fail(Reason::DumpDiffers, format!("{path} is missing")),
            Some(found) if !is_same(path, node, found) => {
                let reason = match (node.data == found.data, node.acl == found.acl) {
                    (true, true) => Reason::WrongStat,
                    _ => Reason::DumpDiffers,
                };
                return fail(reason, format!("{path} is {found:?}, not {node:?}"));
            }
            Some(_) => (),
        }
    }
    if let Some((path, node)) = dump.nodes.iter().find(|(path, _)| !expected.nodes.contains_key(*path)) {
        let owner = SessionId(node.stat.ephemeral_owner);
        let outlived = owner != SessionId::NONE && !expected.sessions.contains_key(&owner);
        let reason = if outlived { Reason::EphemeralOutlived } else { Reason::DumpDiffers };
        return fail(reason, format!("{path} should not be there: {node:?}"));
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
