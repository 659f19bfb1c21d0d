//! Connections to a member's quorum port without a hello: of learners before their hello arrives, and of an attacker
//! that sends nothing. The leader learns of a connection when it is identified.

use super::process::Process;
use crate::checkers::Finding;
use crate::env::Env;
use crate::event::ProcessId;
use crate::net::WireId;
use crate::outcome::FailureKind;
use ox_zab::{Origin, Unidentified, UnidentifiedLimits};

/// Lower limits than in production, so that they are reached more often.
const LIMITS: UnidentifiedLimits = UnidentifiedLimits { deadline_ms: 2_000, silent_max: 16, partial_max: 4 };

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Learner(WireId),
    Attacker,
}

/// All unidentified connections of a member's quorum port.
pub(crate) struct Connections(Unidentified<Caller>);

impl Default for Connections {
    fn default() -> Self {
        Self(Unidentified::new(LIMITS))
    }
}

impl Process {
    pub(super) fn admit(&mut self, env: &mut Env, pid: ProcessId, wire: WireId) {
        let closed = self.member.unidentified.0.add(env.now.0 / 1000, Caller::Learner(wire), Origin::Member);
        self.close_unidentified(env, pid, closed);
    }

    /// Part of a hello has arrived.
    pub(super) fn on_hello_bytes(&mut self, env: &mut Env, pid: ProcessId, wire: WireId) {
        let closed = self.member.unidentified.0.on_bytes(Caller::Learner(wire));
        self.close_unidentified(env, pid, closed);
    }

    /// The learner's hello is complete, or its connection is closed.
    pub(super) fn forget_unidentified(&mut self, wire: WireId) {
        self.member.unidentified.0.remove(Caller::Learner(wire));
    }

    pub(crate) fn flood(&mut self, env: &mut Env, pid: ProcessId, count: usize, origin: Origin) {
        for _ in 0..count {
            let closed = self.member.unidentified.0.add(env.now.0 / 1000, Caller::Attacker, origin);
            if let (Some(Caller::Learner(wire)), Origin::Other) = (closed, origin) {
                let detail = format!("an unknown address has closed the connection {wire} of a member");
                return Finding::new(FailureKind::Link, detail).report(env);
            }
            env.coverage.flooded_out += u64::from(matches!(closed, Some(Caller::Learner(_))));
            self.close_unidentified(env, pid, closed);
        }
    }

    /// Closes connections that have exceeded their deadline.
    pub(super) fn expire_unidentified(&mut self, env: &mut Env, pid: ProcessId) {
        for late in self.member.unidentified.0.expire(env.now.0 / 1000) {
            self.close_unidentified(env, pid, Some(late));
        }
    }

    fn close_unidentified(&mut self, env: &mut Env, pid: ProcessId, closed: Option<Caller>) {
        if let Some(Caller::Learner(wire)) = closed {
            env.note(format_args!("peer {}: closes unidentified connection {wire}", pid.server));
            self.close_unidentified_wire(env, pid, wire);
        }
    }
}
