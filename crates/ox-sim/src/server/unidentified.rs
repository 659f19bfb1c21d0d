//! A member's connections without a hello: learners before theirs arrives, and an attacker that opens connections and sends
//! nothing. The leader hears of a connection when it is identified.

use super::process::Process;
use crate::checkers::Finding;
use crate::env::Env;
use crate::event::Who;
use crate::net::WireId;
use crate::outcome::Kind;
use ox_zab::{Origin, Unidentified, UnidentifiedLimits};

/// Smaller shares than in production, so that they are full more often.
const LIMITS: UnidentifiedLimits = UnidentifiedLimits { deadline_ms: 2_000, silent_max: 16, partial_max: 4 };

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Learner(WireId),
    Attacker,
}

/// The connections on a member's quorum port.
pub(crate) struct Connections(Unidentified<Caller>);

impl Default for Connections {
    fn default() -> Self {
        Self(Unidentified::new(LIMITS))
    }
}

impl Process {
    /// A learner has connected.
    pub(super) fn admit(&mut self, env: &mut Env, who: Who, wire: WireId) {
        let closed = self.member.unidentified.0.add(env.now.0 / 1000, Caller::Learner(wire), Origin::Member);
        self.close_unidentified(env, who, closed);
    }

    /// Some of a hello has come.
    pub(super) fn on_hello_bytes(&mut self, env: &mut Env, who: Who, wire: WireId) {
        let closed = self.member.unidentified.0.on_bytes(Caller::Learner(wire));
        self.close_unidentified(env, who, closed);
    }

    /// A learner has sent its hello, or is gone.
    pub(super) fn forget_unidentified(&mut self, wire: WireId) {
        self.member.unidentified.0.remove(Caller::Learner(wire));
    }

    /// An attacker opens connections.
    pub(super) fn flood(&mut self, env: &mut Env, who: Who, count: usize, origin: Origin) {
        for _ in 0..count {
            let closed = self.member.unidentified.0.add(env.now.0 / 1000, Caller::Attacker, origin);
            if let (Some(Caller::Learner(wire)), Origin::Other) = (closed, origin) {
                let detail = format!("an unknown address has closed the connection {wire} of a member");
                return Finding::new(Kind::Link, detail).report(env);
            }
            env.marks.flooded_out += u64::from(matches!(closed, Some(Caller::Learner(_))));
            self.close_unidentified(env, who, closed);
        }
    }

    /// Closes connections whose time is over.
    pub(super) fn expire_unidentified(&mut self, env: &mut Env, who: Who) {
        for late in self.member.unidentified.0.expire(env.now.0 / 1000) {
            self.close_unidentified(env, who, Some(late));
        }
    }

    fn close_unidentified(&mut self, env: &mut Env, who: Who, closed: Option<Caller>) {
        if let Some(Caller::Learner(wire)) = closed {
            env.note(format_args!("peer {}: closes {wire}, which has not identified itself", who.server));
            self.unplug(env, who, wire);
        }
    }
}
