//! The owner of each ephemeral node is a live session, and each session's list contains exactly its nodes (P41).

use super::Finding;
use crate::outcome::FailureKind;
use crate::server::process::Process;
use ox_proto::SessionId;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

pub(crate) fn check(process: &Process) -> Result<(), Finding> {
    let state = &process.state;
    let mut owned: BTreeMap<SessionId, BTreeSet<String>> = BTreeMap::new();
    let walked = state.freeze().for_each_node(|node| {
        let path = if node.path.is_empty() { "/" } else { node.path };
        let owner = SessionId(state.stat(path).map_or(0, |stat| stat.ephemeral_owner));
        if owner != SessionId::NONE {
            owned.entry(owner).or_default().insert(node.path.to_owned());
        }
        Ok::<(), Infallible>(())
    });
    match walked {
        Ok(()) => (),
        Err(never) => match never {},
    }
    let listed: BTreeMap<SessionId, BTreeSet<String>> =
        state.ephemerals().map(|(session, paths)| (session, paths.into_iter().collect())).collect();
    let at = state.last_zxid();
    if listed != owned {
        return Err(Finding::new(
            FailureKind::Ephemerals,
            format!("at {at} nodes name the owners {owned:?}, sessions list {listed:?}"),
        ));
    }
    match owned.keys().find(|session| !state.has_session(**session)) {
        Some(session) => {
            let nodes = &owned[session];
            Err(Finding::new(
                FailureKind::Ephemerals,
                format!("at {at} session {session} is closed, but its nodes exist: {nodes:?}"),
            ))
        }
        None => Ok(()),
    }
}
