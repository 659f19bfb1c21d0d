//! The log itself: contiguous zxids (P16), nothing of a session after its end (P40).

use crate::history::{History, LoggedTxn};
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::Zxid;
use std::collections::BTreeMap;

pub(crate) fn check(history: &History) -> Checked {
    let mut last = Zxid::ZERO;
    let mut sessions = BTreeMap::new();
    for entry in &history.log {
        let fail = |reason, detail: String| Err(Violation::new(reason, ViolationPlace::Log(entry.zxid), detail));
        if !entry.zxid.follows(last) {
            return fail(ViolationKind::LogGap, format!("{} does not follow {last}", entry.zxid));
        }
        last = entry.zxid;
        match &entry.txn {
            LoggedTxn::CreateSession { .. } => {
                if let Some(closed) = sessions.insert(entry.session, None) {
                    return fail(
                        ViolationKind::SessionIdReused,
                        format!("session {}, closed at {closed:?}", entry.session),
                    );
                }
            }
            LoggedTxn::CloseSession { .. } => {
                sessions.insert(entry.session, Some(entry.zxid));
            }
            txn => {
                let closed = sessions.get(&entry.session).copied().flatten();
                if let Some(closed) = closed.filter(|_| !txn.changes_nothing()) {
                    return fail(
                        ViolationKind::ClosedSessionWrote,
                        format!("session {} ended at {closed}", entry.session),
                    );
                }
            }
        }
    }
    Ok(())
}
