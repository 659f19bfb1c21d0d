//! Runs batches on one or two servers and finds the first difference.

use crate::acl::credentials;
use crate::compare::{BatchWithPings, Invariants, StreamDifference, Streams};
use crate::profile::USERS;
use crate::request::{RequestBody, ScriptRequest};
use crate::script::{Action, Batch, Handshake, HandshakeSession, Line, SessionName};
use crate::stream::{ItemKind, StreamEnd, StreamItem};
use crate::target::TargetServer;
use crate::value::FieldValue;
use anyhow::{Result, ensure};
use ox_proto::OpCode;
use std::collections::BTreeMap;
use std::time::Duration;

/// Addresses of the two servers, as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPair {
    /// The server under test.
    pub ours: String,
    /// The reference, whose replies are correct by definition.
    pub apache: String,
}

/// Normalized data, stat and ACL of a server's tree, by path.
pub type TreeDump = BTreeMap<String, Vec<String>>;

/// Whether a walk compares quota usage, which a restart recounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaUsage {
    Compared,
    Skipped,
}

/// Runs the same batches on one or two servers.
pub struct Runner {
    targets: Vec<TargetServer>,
    invariants: Vec<Invariants>,
}

/// Paths per batch of a walk.
const WALK_PATHS: usize = 30;

impl Runner {
    /// Two servers to compare, which must be at the same zxid. Opens the control session on each.
    pub fn new(pair: &ServerPair) -> Result<Self> {
        Self::open(vec![TargetServer::new(&pair.ours), TargetServer::new(&pair.apache)])
    }

    /// A single server, for scripts with expectations.
    pub fn single(address: &str) -> Result<Self> {
        Self::open(vec![TargetServer::new(address)])
    }

    fn open(targets: Vec<TargetServer>) -> Result<Self> {
        let invariants = targets.iter().map(|_| Invariants::default()).collect();
        let mut runner = Self { targets, invariants };
        let mut batch =
            Batch(vec![Line::new(SessionName::CONTROL, Action::Connect(Handshake::new(HandshakeSession::New)))]);
        batch.0.extend(authentications());
        batch.0.push(Line::request(SessionName::CONTROL, ScriptRequest::new(OpCode::Ping, RequestBody::Empty)));
        runner.exchange(&batch)?;
        let zxids: Vec<_> = runner.targets.iter().map(|target| target.last_zxid(SessionName::CONTROL)).collect();
        let equal = zxids.windows(2).all(|pair| pair[0] == pair[1]);
        if !equal {
            runner.close_control_session()?;
        }
        ensure!(
            equal,
            "the servers start at different zxids: ours at {}, apache at {}\nhint: use two empty servers without \
             other clients",
            zxids[0],
            zxids[zxids.len() - 1]
        );
        Ok(runner)
    }

    /// Refuses servers that hold data: the test changes and deletes arbitrary nodes.
    pub fn ensure_empty(mut self) -> Result<()> {
        let read = RequestBody::PathWatch { path: FieldValue::text("/"), watch: false };
        let batch = Batch(vec![Line::request(SessionName::CONTROL, ScriptRequest::new(OpCode::GetChildren2, read))]);
        let streams = self.exchange(&batch)?;
        self.close_control_session()?;
        for (server, received) in ["ours", "apache"].iter().zip(&streams) {
            let found = children(&batch, received);
            ensure!(
                found == ["/zookeeper"],
                "the server called {server} holds {found:?}\nhint: start empty servers for the test"
            );
        }
        Ok(())
    }

    /// Sets the timeout of a reply.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.targets.iter_mut().for_each(|target| target.timeout = timeout);
    }

    /// Sends a batch, receives its replies and the resulting events, and compares.
    pub fn run_batch(&mut self, batch: &Batch) -> Result<BatchResult> {
        let mut streams = self.exchange(batch)?;
        let mut round = BatchWithPings::new(batch, Batch::default());
        if !batch.writers().is_empty() {
            // The server sends events of a write before the writer's reply, but on other connections: a ping fetches
            // them. Readers that ran concurrently with a writer ping too, so that all sessions have seen the same last
            // zxid again.
            let actors = batch.actors();
            let names = self.targets[0].connected();
            let quiet = names.into_iter().filter(|name| 1 < actors.len() || !actors.contains(name));
            let pings = quiet.map(|name| Line::request(name, ScriptRequest::new(OpCode::Ping, RequestBody::Empty)));
            let pings = Batch(pings.collect());
            let received = self.exchange(&pings)?;
            streams.iter_mut().zip(received).for_each(|(streams, received)| append(streams, received, batch.0.len()));
            round = BatchWithPings::new(batch, pings);
        }
        let difference = self.find_difference(&round, &streams);
        Ok(BatchResult { streams, difference })
    }

    fn exchange(&mut self, batch: &Batch) -> Result<Vec<Streams>> {
        let mut sent = Vec::new();
        for target in &mut self.targets {
            sent.push(target.send(batch)?);
        }
        Ok(self.targets.iter_mut().zip(sent).map(|(target, sent)| target.collect(batch, sent)).collect())
    }

    fn find_difference(&mut self, round: &BatchWithPings, streams: &[Streams]) -> Option<StreamDifference> {
        if let [ours, apache] = streams
            && let Some(difference) = round.compare(ours, apache)
        {
            return Some(difference);
        }
        let broken =
            self.invariants.iter_mut().zip(streams).find_map(|(invariants, streams)| invariants.check(round, streams));
        broken.or_else(|| streams.iter().find_map(|streams| unexpected(&round.batch, streams)))
    }

    /// Closes all sessions and compares both trees. Returns the trees, ours first.
    pub fn finish(&mut self) -> Result<FinalState> {
        for name in self.targets[0].sessions() {
            if name == SessionName::CONTROL {
                continue;
            }
            let mut batch = Batch::default();
            if !self.targets[0].connected().contains(&name) {
                batch.0.push(Line::new(name, Action::Connect(Handshake::new(HandshakeSession::Of(name)))));
            }
            batch.0.push(Line::request(name, ScriptRequest::new(OpCode::CloseSession, RequestBody::Empty)));
            let result = self.run_batch(&batch)?;
            if let Some(difference) = result.difference {
                return Ok(FinalState { trees: Vec::new(), last: batch, difference: Some(difference) });
            }
        }
        let finished = self.walk(QuotaUsage::Compared)?;
        if finished.difference.is_none() {
            self.close_control_session()?;
        }
        Ok(finished)
    }

    /// Closes the control session: if left to expire, it would take a zxid at an arbitrary moment.
    fn close_control_session(&mut self) -> Result<()> {
        let close = ScriptRequest::new(OpCode::CloseSession, RequestBody::Empty);
        self.exchange(&Batch(vec![Line::request(SessionName::CONTROL, close)]))?;
        Ok(())
    }

    /// Compares every node of both trees: data, stat, ACL and children.
    pub fn walk(&mut self, usage: QuotaUsage) -> Result<FinalState> {
        let mut batch = Batch::default();
        let mut difference = None;
        let mut trees = vec![TreeDump::new(); self.targets.len()];
        let mut level = vec!["/".to_owned()];
        while difference.is_none() && !level.is_empty() {
            let mut next = Vec::new();
            for paths in level.chunks(WALK_PATHS) {
                batch = Batch(paths.iter().flat_map(|path| reads_of(path)).collect());
                let result = self.run_batch(&batch)?;
                for (tree, streams) in trees.iter_mut().zip(&result.streams) {
                    record(tree, &batch, streams);
                }
                next.extend(children(&batch, result.reference()));
                difference = result.difference;
                if difference.is_some() {
                    break;
                }
            }
            next.retain(|path| usage == QuotaUsage::Compared || !path.ends_with("/zookeeper_stats"));
            level = next;
        }
        Ok(FinalState { trees, last: batch, difference })
    }
}

#[derive(Debug)]
pub struct BatchResult {
    /// What each server sent, ours first.
    pub streams: Vec<Streams>,
    pub difference: Option<StreamDifference>,
}

impl BatchResult {
    /// The streams of the reference: Apache's, or ours if there is no other server.
    pub fn reference(&self) -> &Streams {
        self.streams.last().expect("a runner has at least one server")
    }
}

#[derive(Debug)]
pub struct FinalState {
    /// The tree of each server, ours first; empty after a difference.
    pub trees: Vec<TreeDump>,
    pub last: Batch,
    pub difference: Option<StreamDifference>,
}

/// Appends what was received with the pings to what was received before.
fn append(streams: &mut Streams, received: Streams, barrier: usize) {
    for (name, mut stream) in received {
        stream.items.iter_mut().for_each(|item| item.line = item.line.map(|line| line + barrier));
        match streams.get_mut(&name) {
            None => {
                streams.insert(name, stream);
            }
            Some(before) => {
                before.items.append(&mut stream.items);
                before.end = stream.end;
            }
        }
    }
}

/// The control session has every identity, so that it can read as much as possible of both trees.
fn authentications() -> impl Iterator<Item = Line> {
    USERS.iter().map(|user| {
        let auth = RequestBody::Auth { scheme: FieldValue::text("digest"), auth: FieldValue::text(credentials(user)) };
        Line::request(SessionName::CONTROL, ScriptRequest::new(OpCode::Auth, auth))
    })
}

fn reads_of(path: &str) -> Vec<Line> {
    let path = FieldValue::text(path);
    let reads = [
        (OpCode::GetChildren2, RequestBody::PathWatch { path: path.clone(), watch: false }),
        (OpCode::GetData, RequestBody::PathWatch { path: path.clone(), watch: false }),
        (OpCode::GetAcl, RequestBody::Path { path }),
    ];
    reads.map(|(op, body)| Line::request(SessionName::CONTROL, ScriptRequest::new(op, body))).into()
}

fn replies<'a>(batch: &'a Batch, streams: &'a Streams) -> impl Iterator<Item = (&'a ScriptRequest, &'a StreamItem)> {
    let items = streams.values().flat_map(|stream| &stream.items);
    items.filter_map(|item| match &batch.0.get(item.line?)?.action {
        Action::Request(request) => Some((request, item)),
        Action::Connect(_) | Action::Raw(_) | Action::Drop | Action::Wait(_) => None,
    })
}

fn record(tree: &mut TreeDump, batch: &Batch, streams: &Streams) {
    for (request, item) in replies(batch, streams) {
        if let Some(path) = request.body.path().and_then(FieldValue::as_str) {
            tree.entry(path.to_owned()).or_default().push(item.text.clone());
        }
    }
}

fn children(batch: &Batch, streams: &Streams) -> Vec<String> {
    let mut paths = Vec::new();
    for (request, item) in replies(batch, streams) {
        if let (Some(path), Some(facts)) = (request.body.path().and_then(FieldValue::as_str), &item.facts) {
            let parent = path.trim_end_matches('/');
            paths.extend(facts.children.iter().map(|name| format!("{parent}/{name}")));
        }
    }
    paths
}

/// The first line whose reply lacks an expected word.
fn unexpected(batch: &Batch, streams: &Streams) -> Option<StreamDifference> {
    batch.0.iter().enumerate().find_map(|(index, line)| {
        let expect = line.expect.as_ref()?;
        let stream = streams.get(&line.session)?;
        let item = stream.items.iter().find(|item| item.line == Some(index));
        let mut text = item.map_or(String::new(), StreamItem::describe);
        let events = stream.items.iter().filter(|item| item.kind == ItemKind::Event).count();
        text.push_str(&format!(" events={events}"));
        match stream.end {
            StreamEnd::Closed => text.push_str(" closed"),
            StreamEnd::Silent => text.push_str(" silent"),
            StreamEnd::Open | StreamEnd::Absent => (),
        }
        let words: Vec<_> = text.split_whitespace().collect();
        let missing = expect.split_whitespace().find(|word| !words.contains(word))?;
        Some(StreamDifference {
            session: line.session,
            line: Some(line.clone()),
            what: format!("expected {missing}, got: {text}"),
            ours: item.cloned(),
            apache: None,
            received: [stream.describe(), Vec::new()],
        })
    })
}
