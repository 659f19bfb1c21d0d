//! Random batches from a seed.
//!
//! Every batch has one determined outcome on Apache. The rules that make it so:
//! - one session writes at a time; others may read beside it in subtrees of their own;
//! - what closes the connection, or may, stands alone;
//! - an identity is added by the first request of a batch, closeSession is the last;
//! - behind what Apache projects wrongly (setACL, a container with an ephemeral flag, a multi with nulls) only reads
//!   follow;
//! - under enforced quotas a batch holds one write, or stays away from the quota subtree;
//! - sessions with a short timeout are closed at once, detached ones come back soon.

#![expect(clippy::wildcard_enum_match_arm, reason = "the exceptions are few")]

mod known_nodes;
mod paths;
mod requests;
mod rng;
mod sessions;

use crate::acl::{AclList, credentials};
use crate::compare::Streams;
use crate::profile::{Profile, USERS};
use crate::request::{Body, Request};
use crate::script::{Action, Batch, Handshake, Line, Name, Target};
use crate::value::Value;
use known_nodes::Known;
use ox_proto::OpCode;
use paths::Reach;
use rng::Dice;
use sessions::Crew;
use std::collections::VecDeque;

/// Makes batches and learns from the replies.
#[derive(Debug)]
pub struct Generator {
    dice: Dice,
    profile: &'static Profile,
    /// Roots of the subtrees: three open ones, the protected one, the one with quotas.
    trees: [String; 5],
    known: Known,
    crew: Crew,
    planned: VecDeque<Batch>,
    /// Paths that were watched lately.
    watched: VecDeque<Value>,
}

/// The deepest pipeline.
const PIPELINE_MAX: usize = 50;

impl Generator {
    /// Index of the subtree with ACLs of all kinds; the subtrees before it are open to everybody.
    const PROTECTED: usize = 3;
    /// Index of the subtree with quotas.
    const QUOTA: usize = 4;

    /// A generator for servers that run under `profile`.
    pub fn new(seed: u64, profile: &'static Profile) -> Self {
        let trees = ["a", "b", "c", "p", "q"].map(|tree| format!("/s{seed}{tree}"));
        let mut generator = Self {
            dice: Dice::new(seed),
            profile,
            trees,
            known: Known::default(),
            crew: Crew::default(),
            planned: VecDeque::new(),
            watched: VecDeque::new(),
        };
        generator.plan_start();
        generator
    }

    fn plan_start(&mut self) {
        let first = Name('A');
        let mut paths = self.trees.to_vec();
        let quota = format!("/zookeeper/quota{}", self.trees[Self::QUOTA]);
        paths.extend([quota.clone(), format!("{quota}/zookeeper_limits"), format!("{quota}/zookeeper_stats")]);
        self.planned.push_back(Batch(vec![Line::new(first, Action::Connect(Handshake::new(Target::New)))]));
        for path in paths {
            let data = Value::text(if path.ends_with("limits") { "countHardLimit=8;byteHardLimit=60" } else { "" });
            let body = Body::Create { path: Value::text(path), data, acl: AclList::open(), flags: 0 };
            let request = Request::new(OpCode::Create, body);
            self.known.assume(request.op, &request.body);
            self.planned.push_back(Batch(vec![Line::request(first, request)]));
        }
    }

    /// The next batch.
    pub fn next_batch(&mut self) -> Batch {
        loop {
            let batch = self.planned.pop_front().unwrap_or_else(|| self.invent());
            if !batch.0.is_empty() {
                self.crew.age();
                return batch;
            }
        }
    }

    /// Takes note of what Apache answered.
    pub fn learn(&mut self, batch: &Batch, streams: &Streams) {
        for (&name, stream) in streams {
            for item in &stream.items {
                let Some(line) = item.line.and_then(|line| batch.0.get(line)) else { continue };
                if let (Action::Request(request), Some(outcome)) = (&line.action, &item.outcome) {
                    self.known.learn(request, outcome);
                }
                self.crew.learn(line, item);
            }
            self.crew.ended(name, stream.end);
        }
    }

    fn invent(&mut self) -> Batch {
        if let Some(batch) = self.overdue() {
            return batch;
        }
        match self.dice.below(100) {
            0..=5 => self.session_batch(),
            6..=12 => self.overlap(),
            roll => {
                let Some(name) = self.crew.any_connected(&mut self.dice) else { return self.session_batch() };
                let depth = match roll {
                    13..=55 => 1,
                    56..=90 => 2 + self.dice.below(12),
                    _ => 2 + self.dice.below(PIPELINE_MAX - 1),
                };
                Batch(self.pipeline(name, depth))
            }
        }
    }

    /// Requests of one session with nobody else acting.
    fn pipeline(&mut self, name: Name, depth: usize) -> Vec<Line> {
        let mut requests = Vec::new();
        if self.dice.chance(4) {
            requests.push(self.authentication(name));
        }
        let enforced = self.profile.name == "quota";
        let one_write = enforced && self.dice.chance(50);
        let (mut reads_only, mut may_write) = (false, self.dice.chance(80));
        for _ in 0..depth {
            let request = if may_write && !reads_only && self.dice.chance(55) {
                let reach = match (enforced, one_write || depth == 1) {
                    (true, true) if self.dice.chance(60) => Reach::Tree(Self::QUOTA),
                    (true, false) => Reach::Tree(self.dice.below(Self::QUOTA)),
                    _ => Reach::All,
                };
                self.write(reach)
            } else if self.dice.chance(3) {
                self.repeated_authentication(name)
            } else {
                self.read(Reach::All)
            };
            may_write &= !(one_write && request.is_write());
            reads_only |= is_last_write(&request);
            requests.push(request);
        }
        requests.into_iter().map(|request| Line::request(name, request)).collect()
    }

    /// A writer in one open subtree and one or two readers in the others.
    fn overlap(&mut self) -> Batch {
        let mut names = self.crew.connected();
        if names.len() < 2 {
            return self.session_batch();
        }
        let writer = names.remove(self.dice.below(names.len()));
        let mut trees = vec![0, 1, 2];
        let tree = trees.remove(self.dice.below(3));
        let mut batch = Batch::default();
        for _ in 0..1 + self.dice.below(12) {
            let request =
                if self.dice.chance(70) { self.write(Reach::Tree(tree)) } else { self.read(Reach::Tree(tree)) };
            let last = is_last_write(&request);
            batch.0.push(Line::request(writer, request));
            if last {
                break;
            }
        }
        for _ in 0..1 + self.dice.below(2) {
            let (Some(reader), Some(tree)) = (names.pop(), trees.pop()) else { break };
            for _ in 0..1 + self.dice.below(12) {
                batch.0.push(Line::request(reader, self.read(Reach::Tree(tree))));
            }
        }
        batch
    }

    /// An identity that the session may not have yet.
    fn authentication(&mut self, name: Name) -> Request {
        let user = *self.dice.pick(&USERS);
        self.crew.identify(name, user);
        auth("digest", Value::text(credentials(user)))
    }

    /// An authentication that changes nothing, so that its place in a pipeline does not matter.
    fn repeated_authentication(&mut self, name: Name) -> Request {
        match self.crew.identity(name, &mut self.dice) {
            Some(user) => auth("digest", Value::text(credentials(user))),
            None => auth("ip", Value::text("")),
        }
    }
}

/// True for writes that Apache takes into account wrongly until they are applied: no write may follow in the batch.
fn is_last_write(request: &Request) -> bool {
    match &request.body {
        Body::Multi { elements, .. } => {
            elements.iter().any(|element| is_misjudged(element.op, &element.body) || may_abort(&element.body))
        }
        body => matches!(body, Body::SetAcl { .. }) || is_misjudged(request.op, body),
    }
}

/// A container that counts as ephemeral.
fn is_misjudged(op: i32, body: &Body) -> bool {
    op == OpCode::CreateContainer.code() && matches!(body, Body::Create { flags: 1 | 3, .. })
}

/// An element that ends the preparation of its multi in the middle, without the elements before it being taken back.
fn may_abort(body: &Body) -> bool {
    let acl = match body {
        Body::Create { acl, .. } | Body::CreateTtl { acl, .. } => acl.0.as_deref().unwrap_or_default(),
        _ => &[],
    };
    let has_null = acl.iter().any(|entry| entry.scheme == Value::NULL || entry.id == Value::NULL);
    has_null || body.path() == Some(&Value::NULL)
}

fn auth(scheme: &str, auth: Value) -> Request {
    Request::new(OpCode::Auth, Body::Auth { scheme: Value::text(scheme), auth })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intended_differences;
    use crate::script::Script;

    #[test]
    fn batches_are_fit_for_apache_and_round_trip() {
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
    fn a_seed_always_gives_the_same() {
        let batches = |seed| -> Vec<String> {
            let mut generator = Generator::new(seed, &crate::profile::PROFILES[0]);
            (0..200).map(|_| generator.next_batch().to_string()).collect()
        };
        assert_eq!(batches(1), batches(1));
        assert_ne!(batches(1), batches(2));
    }
}
