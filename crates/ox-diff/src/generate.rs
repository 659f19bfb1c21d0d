//! Generates random batches from a seed.
//!
//! Every batch has one determined result on Apache. The rules for that:
//! - one session writes at a time; others may read concurrently, in other subtrees;
//! - a request that closes the connection, or may, is the only one in its batch;
//! - an identity is added by the first request of a batch, closeSession is the last;
//! - only reads follow requests that Apache projects wrongly (setACL, a container with an ephemeral flag, a multi with
//!   nulls);
//! - under enforced quotas a batch has one write, or none in the quota subtree;
//! - sessions with a short timeout are closed immediately, detached ones reconnect soon.

#![expect(clippy::wildcard_enum_match_arm, reason = "the exceptions are few")]

mod known_nodes;
mod paths;
mod requests;
mod sessions;

use crate::acl::{ScriptAcl, credentials};
use crate::compare::Streams;
use crate::profile::{Profile, USERS};
use crate::request::{RequestBody, ScriptRequest};
use crate::script::{Action, Batch, Handshake, HandshakeSession, Line, SessionName};
use crate::value::FieldValue;
use known_nodes::KnownNodes;
use ox_proto::OpCode;
use ox_testkit::Rng;
use paths::Scope;
use sessions::Sessions;
use std::collections::VecDeque;

/// Generates batches and learns from the replies.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    profile: &'static Profile,
    /// Roots of the subtrees: three open ones, the protected one, the one with quotas.
    trees: [String; 5],
    known: KnownNodes,
    sessions: Sessions,
    planned: VecDeque<Batch>,
    /// Recently watched paths, oldest first.
    watched: VecDeque<FieldValue>,
}

/// Maximum number of pipelined requests.
const PIPELINE_MAX: usize = 50;

impl Generator {
    /// Index of the subtree with ACLs of all kinds; the subtrees before it are open to all.
    const PROTECTED: usize = 3;
    const QUOTA: usize = 4;

    /// A generator for servers with the settings of `profile`.
    pub fn new(seed: u64, profile: &'static Profile) -> Self {
        let trees = ["a", "b", "c", "p", "q"].map(|tree| format!("/s{seed}{tree}"));
        let mut generator = Self {
            rng: Rng::new(seed),
            profile,
            trees,
            known: KnownNodes::default(),
            sessions: Sessions::default(),
            planned: VecDeque::new(),
            watched: VecDeque::new(),
        };
        generator.plan_setup();
        generator
    }

    fn plan_setup(&mut self) {
        let first = SessionName('A');
        let mut paths = self.trees.to_vec();
        let quota = format!("/zookeeper/quota{}", self.trees[Self::QUOTA]);
        paths.extend([quota.clone(), format!("{quota}/zookeeper_limits"), format!("{quota}/zookeeper_stats")]);
        self.planned.push_back(Batch(vec![Line::new(first, Action::Connect(Handshake::new(HandshakeSession::New)))]));
        for path in paths {
            let data =
                FieldValue::text(if path.ends_with("limits") { "countHardLimit=8;byteHardLimit=60" } else { "" });
            let body = RequestBody::Create { path: FieldValue::text(path), data, acl: ScriptAcl::open(), flags: 0 };
            let request = ScriptRequest::new(OpCode::Create, body);
            self.known.assume(request.op, &request.body);
            self.planned.push_back(Batch(vec![Line::request(first, request)]));
        }
    }

    pub fn next_batch(&mut self) -> Batch {
        loop {
            let batch = self.planned.pop_front().unwrap_or_else(|| self.random_batch());
            if !batch.0.is_empty() {
                self.sessions.age();
                return batch;
            }
        }
    }

    /// Learns from Apache's replies.
    pub fn learn(&mut self, batch: &Batch, streams: &Streams) {
        for (&name, stream) in streams {
            for item in &stream.items {
                let Some(line) = item.line.and_then(|line| batch.0.get(line)) else { continue };
                if let (Action::Request(request), Some(facts)) = (&line.action, &item.facts) {
                    self.known.learn(request, facts);
                }
                self.sessions.learn(line, item);
            }
            self.sessions.ended(name, stream.end);
        }
    }

    fn random_batch(&mut self) -> Batch {
        if let Some(batch) = self.reconnect_overdue() {
            return batch;
        }
        match self.rng.index(100) {
            0..=5 => self.session_batch(),
            6..=12 => self.overlap(),
            roll => {
                let Some(name) = self.sessions.any_connected(&mut self.rng) else { return self.session_batch() };
                let depth = match roll {
                    13..=55 => 1,
                    56..=90 => 2 + self.rng.index(12),
                    _ => 2 + self.rng.index(PIPELINE_MAX - 1),
                };
                Batch(self.pipeline(name, depth))
            }
        }
    }

    /// Requests of one session while no other session acts.
    fn pipeline(&mut self, name: SessionName, depth: usize) -> Vec<Line> {
        let mut requests = Vec::new();
        if self.rng.chance(40) {
            requests.push(self.authentication(name));
        }
        let enforced = self.profile.name == "quota";
        let one_write = enforced && self.rng.chance(500);
        let (mut reads_only, mut may_write) = (false, self.rng.chance(800));
        for _ in 0..depth {
            let request = if may_write && !reads_only && self.rng.chance(550) {
                let scope = match (enforced, one_write || depth == 1) {
                    (true, true) if self.rng.chance(600) => Scope::Tree(Self::QUOTA),
                    (true, false) => Scope::Tree(self.rng.index(Self::QUOTA)),
                    _ => Scope::All,
                };
                self.write(scope)
            } else if self.rng.chance(30) {
                self.repeated_authentication(name)
            } else {
                self.read(Scope::All)
            };
            may_write &= !(one_write && request.is_write());
            reads_only |= is_last_write(&request);
            requests.push(request);
        }
        requests.into_iter().map(|request| Line::request(name, request)).collect()
    }

    /// A writer in one open subtree and one or two readers in the others.
    fn overlap(&mut self) -> Batch {
        let mut names = self.sessions.connected();
        if names.len() < 2 {
            return self.session_batch();
        }
        let writer = names.remove(self.rng.index(names.len()));
        let mut trees = vec![0, 1, 2];
        let tree = trees.remove(self.rng.index(3));
        let mut batch = Batch::default();
        for _ in 0..1 + self.rng.index(12) {
            let request =
                if self.rng.chance(700) { self.write(Scope::Tree(tree)) } else { self.read(Scope::Tree(tree)) };
            let last = is_last_write(&request);
            batch.0.push(Line::request(writer, request));
            if last {
                break;
            }
        }
        for _ in 0..1 + self.rng.index(2) {
            let (Some(reader), Some(tree)) = (names.pop(), trees.pop()) else { break };
            for _ in 0..1 + self.rng.index(12) {
                batch.0.push(Line::request(reader, self.read(Scope::Tree(tree))));
            }
        }
        batch
    }

    /// An identity that the session may not have yet.
    fn authentication(&mut self, name: SessionName) -> ScriptRequest {
        let user = *self.rng.pick(&USERS);
        self.sessions.identify(name, user);
        auth("digest", FieldValue::text(credentials(user)))
    }

    /// An authentication that changes nothing, so that its position in a pipeline does not matter.
    fn repeated_authentication(&mut self, name: SessionName) -> ScriptRequest {
        match self.sessions.identity(name, &mut self.rng) {
            Some(user) => auth("digest", FieldValue::text(credentials(user))),
            None => auth("ip", FieldValue::text("")),
        }
    }
}

/// Whether Apache projects this write wrongly until it is applied: no write may follow in the batch.
fn is_last_write(request: &ScriptRequest) -> bool {
    match &request.body {
        RequestBody::Multi { elements, .. } => {
            elements.iter().any(|element| is_misjudged(element.op, &element.body) || may_abort(&element.body))
        }
        body => matches!(body, RequestBody::SetAcl { .. }) || is_misjudged(request.op, body),
    }
}

/// A container that Apache projects as ephemeral.
fn is_misjudged(op: i32, body: &RequestBody) -> bool {
    op == OpCode::CreateContainer.code() && matches!(body, RequestBody::Create { flags: 1 | 3, .. })
}

/// An element that aborts the preparation of its multi without rolling back the elements before it.
fn may_abort(body: &RequestBody) -> bool {
    let acl = match body {
        RequestBody::Create { acl, .. } | RequestBody::CreateTtl { acl, .. } => acl.0.as_deref().unwrap_or_default(),
        _ => &[],
    };
    let has_null = acl.iter().any(|entry| entry.scheme == FieldValue::NULL || entry.id == FieldValue::NULL);
    has_null || body.path() == Some(&FieldValue::NULL)
}

fn auth(scheme: &str, auth: FieldValue) -> ScriptRequest {
    ScriptRequest::new(OpCode::Auth, RequestBody::Auth { scheme: FieldValue::text(scheme), auth })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intended_differences;
    use crate::script::Script;

    #[test]
    fn batches_are_safe_for_apache_and_round_trip() {
        for profile in crate::profile::PROFILES {
            let mut generator = Generator::new(7, profile);
            for _ in 0..3000 {
                let batch = generator.next_batch();
                batch.check().unwrap();
                let text = batch.to_string();
                assert_eq!(Script::parse("t", &text).unwrap().batches[0], batch, "{text}");
                for line in &batch.0 {
                    assert_eq!(intended_differences::unfit_for_apache(line), None, "{line}");
                }
            }
        }
    }

    #[test]
    fn seed_determines_batches() {
        let batches = |seed| -> Vec<String> {
            let mut generator = Generator::new(seed, &crate::profile::PROFILES[0]);
            (0..200).map(|_| generator.next_batch().to_string()).collect()
        };
        assert_eq!(batches(1), batches(1));
        assert_ne!(batches(1), batches(2));
    }
}
