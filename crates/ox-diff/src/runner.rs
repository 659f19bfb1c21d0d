//! Plays batches on one or two servers at once and finds the first difference.

use crate::acl::credentials;
use crate::compare::{Difference, Rules, Streams, Turn};
use crate::profile::USERS;
use crate::request::{Body, Request};
use crate::script::{Action, Batch, Handshake, Line, Name, Target};
use crate::stream::{End, Item, Kind};
use crate::target::Side;
use crate::value::Value;
use anyhow::{Result, ensure};
use ox_proto::OpCode;
use std::collections::BTreeMap;
use std::time::Duration;

/// Addresses, `host:port`, of the two servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The server under test.
    pub ours: String,
    /// The server that is right by definition.
    pub apache: String,
}

/// What a tree looks like on one server: canonical texts of data, stat and ACL by path.
pub type Tree = BTreeMap<String, Vec<String>>;

/// Whether quota usage, which a restart counts anew, is part of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Compared.
    Compared,
    /// Left out.
    Skipped,
}

/// One or two servers that get the same batches.
pub struct Duel {
    sides: Vec<Side>,
    rules: Vec<Rules>,
}

/// Requests in one batch of a walk.
const WALK_PATHS: usize = 30;

impl Duel {
    /// Two servers side by side, which must be at the same zxid. Opens the runner's own session on each.
    pub fn new(pair: &Pair) -> Result<Self> {
        Self::open(vec![Side::new(&pair.ours), Side::new(&pair.apache)])
    }

    /// One server alone, for scripts that say what they expect.
    pub fn alone(address: &str) -> Result<Self> {
        Self::open(vec![Side::new(address)])
    }

    fn open(sides: Vec<Side>) -> Result<Self> {
        let rules = sides.iter().map(|_| Rules::default()).collect();
        let mut duel = Self { sides, rules };
        let mut batch = Batch(vec![Line::new(Name::CONTROL, Action::Connect(Handshake::new(Target::New)))]);
        batch.0.extend(authentications());
        batch.0.push(Line::request(Name::CONTROL, Request::new(OpCode::Ping, Body::Empty)));
        duel.exchange(&batch)?;
        let zxids: Vec<_> = duel.sides.iter().map(|side| side.last_zxid(Name::CONTROL)).collect();
        let in_step = zxids.windows(2).all(|pair| pair[0] == pair[1]);
        if !in_step {
            duel.leave()?;
        }
        ensure!(
            in_step,
            "the servers do not start in step: ours is at zxid {}, apache at {}\nhint: give the test two servers \
             that nobody else uses",
            zxids[0],
            zxids[zxids.len() - 1]
        );
        Ok(duel)
    }

    /// Refuses servers that hold anything: the test changes and deletes at will, also what belongs to somebody else.
    pub fn ensure_empty(mut self) -> Result<()> {
        let look = Body::PathWatch { path: Value::text("/"), watch: false };
        let batch = Batch(vec![Line::request(Name::CONTROL, Request::new(OpCode::GetChildren2, look))]);
        let looks = self.exchange(&batch)?;
        self.leave()?;
        for (side, streams) in ["ours", "apache"].iter().zip(&looks) {
            let found = children(&batch, streams);
            ensure!(
                found == ["/zookeeper"],
                "the server called {side} holds {found:?}\nhint: the test needs servers of its own, started empty"
            );
        }
        Ok(())
    }

    /// Changes how long a reply may take.
    pub fn set_patience(&mut self, patience: Duration) {
        self.sides.iter_mut().for_each(|side| side.patience = patience);
    }

    /// Sends a batch, hears the answers and the events it caused, and compares.
    pub fn play(&mut self, batch: &Batch) -> Result<Played> {
        let mut streams = self.exchange(batch)?;
        let mut turn = Turn::new(batch, Batch::default());
        if !batch.writers().is_empty() {
            // Others hear of a write before the writer's reply is sent, but on their own connections: a ping fetches it.
            // Readers beside a writer ping too, so that all know the same last zxid again.
            let actors = batch.actors();
            let names = self.sides[0].connected();
            let quiet = names.into_iter().filter(|name| 1 < actors.len() || !actors.contains(name));
            let pings = quiet.map(|name| Line::request(name, Request::new(OpCode::Ping, Body::Empty)));
            let pings = Batch(pings.collect());
            let heard = self.exchange(&pings)?;
            streams.iter_mut().zip(heard).for_each(|(streams, heard)| append(streams, heard, batch.0.len()));
            turn = Turn::new(batch, pings);
        }
        let difference = self.judge(&turn, &streams);
        Ok(Played { streams, difference })
    }

    fn exchange(&mut self, batch: &Batch) -> Result<Vec<Streams>> {
        let mut sent = Vec::new();
        for side in &mut self.sides {
            sent.push(side.send(batch)?);
        }
        Ok(self.sides.iter_mut().zip(sent).map(|(side, sent)| side.collect(batch, sent)).collect())
    }

    fn judge(&mut self, turn: &Turn, streams: &[Streams]) -> Option<Difference> {
        if let [ours, apache] = streams
            && let Some(difference) = turn.compare(ours, apache)
        {
            return Some(difference);
        }
        let broken = self.rules.iter_mut().zip(streams).find_map(|(rules, streams)| rules.check(turn, streams));
        broken.or_else(|| streams.iter().find_map(|streams| unexpected(&turn.batch, streams)))
    }

    /// Ends all sessions, walks both trees and compares them. Gives the trees, ours first.
    pub fn finish(&mut self) -> Result<Finished> {
        for name in self.sides[0].sessions() {
            if name == Name::CONTROL {
                continue;
            }
            let mut batch = Batch::default();
            if !self.sides[0].connected().contains(&name) {
                batch.0.push(Line::new(name, Action::Connect(Handshake::new(Target::Of(name)))));
            }
            batch.0.push(Line::request(name, Request::new(OpCode::CloseSession, Body::Empty)));
            let played = self.play(&batch)?;
            if let Some(difference) = played.difference {
                return Ok(Finished { trees: Vec::new(), last: batch, difference: Some(difference) });
            }
        }
        let finished = self.walk(Usage::Compared)?;
        if finished.difference.is_none() {
            self.leave()?;
        }
        Ok(finished)
    }

    /// Closes the runner's own session: left to expire, it would take a zxid at any moment.
    fn leave(&mut self) -> Result<()> {
        let close = Request::new(OpCode::CloseSession, Body::Empty);
        self.exchange(&Batch(vec![Line::request(Name::CONTROL, close)]))?;
        Ok(())
    }

    /// Compares every node of both trees: data, stat, ACL and children.
    pub fn walk(&mut self, usage: Usage) -> Result<Finished> {
        let mut batch = Batch::default();
        let mut difference = None;
        let mut trees = vec![Tree::new(); self.sides.len()];
        let mut level = vec!["/".to_owned()];
        while difference.is_none() && !level.is_empty() {
            let mut next = Vec::new();
            for paths in level.chunks(WALK_PATHS) {
                batch = Batch(paths.iter().flat_map(|path| looks_at(path)).collect());
                let played = self.play(&batch)?;
                for (tree, streams) in trees.iter_mut().zip(&played.streams) {
                    note(tree, &batch, streams);
                }
                next.extend(children(&batch, played.reference()));
                difference = played.difference;
                if difference.is_some() {
                    break;
                }
            }
            next.retain(|path| usage == Usage::Compared || !path.ends_with("/zookeeper_stats"));
            level = next;
        }
        Ok(Finished { trees, last: batch, difference })
    }
}

/// The result of one batch.
#[derive(Debug)]
pub struct Played {
    /// What each server said, ours first.
    pub streams: Vec<Streams>,
    /// What was wrong.
    pub difference: Option<Difference>,
}

impl Played {
    /// The streams of the server that is right: Apache's, or ours when it is alone.
    pub fn reference(&self) -> &Streams {
        self.streams.last().expect("at least one server plays")
    }
}

/// The result of the end of a run.
#[derive(Debug)]
pub struct Finished {
    /// The tree of each server, ours first; empty after a difference.
    pub trees: Vec<Tree>,
    /// The batch that was played last.
    pub last: Batch,
    /// What was wrong.
    pub difference: Option<Difference>,
}

/// Appends what was heard with the pings to what was heard before.
fn append(streams: &mut Streams, heard: Streams, barrier: usize) {
    for (name, mut stream) in heard {
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

/// The runner has every identity, so that it sees as much as possible of both trees.
fn authentications() -> impl Iterator<Item = Line> {
    USERS.iter().map(|user| {
        let auth = Body::Auth { scheme: Value::text("digest"), auth: Value::text(credentials(user)) };
        Line::request(Name::CONTROL, Request::new(OpCode::Auth, auth))
    })
}

fn looks_at(path: &str) -> Vec<Line> {
    let path = Value::text(path);
    let looks = [
        (OpCode::GetChildren2, Body::PathWatch { path: path.clone(), watch: false }),
        (OpCode::GetData, Body::PathWatch { path: path.clone(), watch: false }),
        (OpCode::GetAcl, Body::Path { path }),
    ];
    looks.map(|(op, body)| Line::request(Name::CONTROL, Request::new(op, body))).into()
}

fn replies<'a>(batch: &'a Batch, streams: &'a Streams) -> impl Iterator<Item = (&'a Request, &'a Item)> {
    let items = streams.values().flat_map(|stream| &stream.items);
    items.filter_map(|item| match &batch.0.get(item.line?)?.action {
        Action::Request(request) => Some((request, item)),
        Action::Connect(_) | Action::Raw(_) | Action::Drop | Action::Wait(_) => None,
    })
}

fn note(tree: &mut Tree, batch: &Batch, streams: &Streams) {
    for (request, item) in replies(batch, streams) {
        if let Some(path) = request.body.path().and_then(Value::as_str) {
            tree.entry(path.to_owned()).or_default().push(item.text.clone());
        }
    }
}

fn children(batch: &Batch, streams: &Streams) -> Vec<String> {
    let mut paths = Vec::new();
    for (request, item) in replies(batch, streams) {
        if let (Some(path), Some(outcome)) = (request.body.path().and_then(Value::as_str), &item.outcome) {
            let parent = path.trim_end_matches('/');
            paths.extend(outcome.children.iter().map(|name| format!("{parent}/{name}")));
        }
    }
    paths
}

/// A line whose reply lacks a word it should contain.
fn unexpected(batch: &Batch, streams: &Streams) -> Option<Difference> {
    batch.0.iter().enumerate().find_map(|(index, line)| {
        let expect = line.expect.as_ref()?;
        let stream = streams.get(&line.session)?;
        let item = stream.items.iter().find(|item| item.line == Some(index));
        let mut text = item.map_or(String::new(), Item::describe);
        let events = stream.items.iter().filter(|item| item.kind == Kind::Event).count();
        text.push_str(&format!(" events={events}"));
        match stream.end {
            End::Closed => text.push_str(" closed"),
            End::Silent => text.push_str(" silent"),
            End::Open | End::Absent => (),
        }
        let words: Vec<_> = text.split_whitespace().collect();
        let missing = expect.split_whitespace().find(|word| !words.contains(word))?;
        Some(Difference {
            session: line.session,
            line: Some(line.clone()),
            what: format!("expected {missing}, got: {text}"),
            ours: item.cloned(),
            apache: None,
            heard: [stream.describe(), Vec::new()],
        })
    })
}
