//! Transactions that begin and end sessions.

use super::Replica;
use super::proposals::Maker;
use crate::clock::Now;
use ox_proto::{OpCode, SessionId};
use ox_tree::State;
use ox_tree::ops;

impl Replica {
    pub(super) fn propose_create_session(
        &mut self,
        now: Now,
        session: SessionId,
        timeout_ms: i32,
        maker: Maker,
        state: &State,
    ) -> bool {
        self.propose(now, session, 0, maker, state, |view, body| {
            ops::prepare_create_session(view, timeout_ms, body);
            Some((OpCode::CreateSession, Some(view.digest())))
        })
    }

    pub(super) fn propose_close(
        &mut self,
        now: Now,
        session: SessionId,
        cxid: i32,
        maker: Maker,
        state: &State,
    ) -> bool {
        self.propose(now, session, cxid, maker, state, |view, out| {
            let listed = ops::prepare_close_session(view, out);
            Some((OpCode::CloseSession, listed.then(|| view.digest())))
        })
    }
}
