//! Compares what two servers sent during one batch.
//!
//! Streams are compared item by item, in order, after exactly these adjustments:
//! - replies of the connection layer (auth, sasl) have no defined position among the others: compared as a separate
//!   list;
//! - the events of one closed or expired session (one zxid) arrive in any order;
//! - while another session writes, a reader's reply zxids and the positions of its events are not compared.

use crate::script::{Action, Batch, Line, SessionName};
use crate::stream::{ItemKind, Stream, StreamEnd, StreamItem};
use ox_proto::OpCode;
use std::collections::BTreeMap;

/// The streams of a batch, by session.
pub type Streams = BTreeMap<SessionName, Stream>;

/// A difference between the servers, or a violation of an invariant by one of them.
#[derive(Clone, Debug)]
pub struct StreamDifference {
    pub session: SessionName,
    /// The line of the script, if the difference concerns a reply.
    pub line: Option<Line>,
    /// Description for the report.
    pub what: String,
    pub ours: Option<StreamItem>,
    pub apache: Option<StreamItem>,
    /// Everything the connection received, ours first.
    pub received: [Vec<String>; 2],
}

impl StreamDifference {
    /// A difference that does not concern a single frame.
    pub fn plain(session: SessionName, what: String) -> Self {
        Self { session, line: None, what, ours: None, apache: None, received: <[Vec<String>; 2]>::default() }
    }
}

/// A batch together with the pings that fetched its events on the other connections.
#[derive(Clone, Debug)]
pub struct BatchWithPings {
    /// All lines; items refer to them by index.
    pub batch: Batch,
    /// Index of the first ping.
    pub barrier: usize,
    /// Sessions that read while another one wrote.
    concurrent: Vec<SessionName>,
}

impl BatchWithPings {
    /// Combines `batch` with the pings sent after it.
    pub fn new(batch: &Batch, pings: Batch) -> Self {
        let writers = batch.writers();
        let mut concurrent = batch.actors();
        concurrent.retain(|name| !writers.is_empty() && !writers.contains(name));
        let barrier = batch.0.len();
        let mut batch = batch.clone();
        batch.0.extend(pings.0);
        Self { batch, barrier, concurrent }
    }

    /// The first difference between our streams and Apache's.
    pub fn compare(&self, ours: &Streams, apache: &Streams) -> Option<StreamDifference> {
        // Sessions that act come first: what the others receive follows from it.
        let mut names = self.batch.actors();
        names.extend(ours.keys().chain(apache.keys()));
        let closing = self.closing(ours, apache);
        names.into_iter().find_map(|name| match (ours.get(&name), apache.get(&name)) {
            (Some(ours), Some(apache)) => self.stream(name, ours, apache, &closing),
            (ours, _) => {
                let what = format!("connected on {} only", if ours.is_some() { "ours" } else { "apache" });
                Some(StreamDifference {
                    session: name,
                    line: None,
                    what,
                    ours: None,
                    apache: None,
                    received: Default::default(),
                })
            }
        })
    }

    fn closing(&self, ours: &Streams, apache: &Streams) -> Closing {
        if self.batch.0.iter().any(|line| matches!(line.action, Action::Wait(_))) {
            return Closing::Any;
        }
        let is_close = |item: &&StreamItem| {
            item.line.is_some_and(|line| match &self.batch.0[line].action {
                Action::Request(request) => request.known() == Some(OpCode::CloseSession),
                Action::Connect(_) | Action::Raw(_) | Action::Drop | Action::Wait(_) => false,
            })
        };
        let items = ours.values().chain(apache.values()).flat_map(|stream| &stream.items);
        Closing::At(items.filter(is_close).filter_map(|item| item.zxid).collect())
    }

    fn stream(&self, name: SessionName, ours: &Stream, apache: &Stream, closing: &Closing) -> Option<StreamDifference> {
        let concurrent = self.concurrent.contains(&name);
        let list_of = |item: &StreamItem| match item.kind {
            ItemKind::OutOfBand => 2,
            // Events from setWatches belong to the reader and carry no zxid.
            ItemKind::Event if concurrent && item.zxid != Some(-1) => 1,
            ItemKind::Event | ItemKind::Handshake | ItemKind::Reply | ItemKind::Stray | ItemKind::Other => 0,
        };
        let found = (0..3).find_map(|list| {
            let picked = [ours, apache].map(|stream| closing.pick(stream, |item| list_of(item) == list));
            self.list(name, &picked[0], &picked[1])
        });
        let found = found.or_else(|| {
            (ours.end != apache.end).then(|| StreamDifference {
                session: name,
                line: self.batch.0.iter().rfind(|line| line.session == name).cloned(),
                what: format!("connection: ours {:?}, apache {:?}", ours.end, apache.end),
                ours: ours.items.last().cloned(),
                apache: apache.items.last().cloned(),
                received: Default::default(),
            })
        });
        found.map(|difference| StreamDifference { received: [ours, apache].map(Stream::describe), ..difference })
    }

    fn list(&self, name: SessionName, ours: &[&StreamItem], apache: &[&StreamItem]) -> Option<StreamDifference> {
        let longest = ours.len().max(apache.len());
        (0..longest).find_map(|index| {
            let (left, right) = (ours.get(index), apache.get(index));
            let what = match (left, right) {
                (Some(left), Some(right)) => self.unequal(name, left, right)?,
                (Some(_), None) => "only ours sent this".to_owned(),
                _ => "only apache sent this".to_owned(),
            };
            let line = right.and_then(|item| item.line).or(left.and_then(|item| item.line));
            Some(StreamDifference {
                session: name,
                line: line.map(|line| self.batch.0[line].clone()),
                what,
                ours: left.map(|item| (*item).clone()),
                apache: right.map(|item| (*item).clone()),
                received: Default::default(),
            })
        })
    }

    fn unequal(&self, name: SessionName, ours: &StreamItem, apache: &StreamItem) -> Option<String> {
        if ours.kind != apache.kind || ours.line != apache.line {
            return Some("order of frames".to_owned());
        }
        if ours.text != apache.text {
            return Some(first_unequal_word(&ours.text, &apache.text));
        }
        let open = self.concurrent.contains(&name)
            && ours.kind == ItemKind::Reply
            && ours.line.is_some_and(|line| line < self.barrier);
        (!open && ours.zxid != apache.zxid).then(|| "zxid of the header".to_owned())
    }
}

/// Zxids at which a session ended, which deletes its ephemeral nodes in any order.
enum Closing {
    Any,
    At(Vec<i64>),
}

impl Closing {
    fn pick<'s>(&self, stream: &'s Stream, belongs: impl Fn(&StreamItem) -> bool) -> Vec<&'s StreamItem> {
        let mut items: Vec<_> = stream.items.iter().filter(|item| belongs(item)).collect();
        let same_change = |a: &&StreamItem, b: &&StreamItem| {
            a.kind == ItemKind::Event && b.kind == ItemKind::Event && a.zxid == b.zxid
        };
        for run in items.chunk_by_mut(same_change) {
            let closes = match self {
                Self::Any => true,
                Self::At(zxids) => run[0].zxid.is_some_and(|zxid| zxids.contains(&zxid)),
            };
            if closes {
                run.sort_by(|a, b| a.text.cmp(&b.text));
            }
        }
        items
    }
}

fn first_unequal_word(ours: &str, apache: &str) -> String {
    let (mut left, mut right) = (ours.split(' '), apache.split(' '));
    loop {
        match (left.next(), right.next()) {
            (Some(left), Some(right)) if left == right => (),
            (left, right) => {
                return format!("ours {}, apache {}", left.unwrap_or("nothing"), right.unwrap_or("nothing"));
            }
        }
    }
}

/// Invariants that each server must keep by itself.
#[derive(Debug, Default)]
pub struct Invariants {
    highest_reply: BTreeMap<SessionName, i64>,
    highest_event: BTreeMap<SessionName, i64>,
}

impl Invariants {
    /// Checks one server's streams: neither reply zxids nor event zxids decrease, and an event precedes any reply that
    /// could show its change.
    pub fn check(&mut self, round: &BatchWithPings, streams: &Streams) -> Option<StreamDifference> {
        for (&name, stream) in streams {
            for item in &stream.items {
                if let Some(what) = self.broken_by(name, item) {
                    let line = item.line.map(|line| round.batch.0[line].clone());
                    let (ours, apache) = (Some(item.clone()), None);
                    let received = [stream.describe(), Vec::new()];
                    return Some(StreamDifference {
                        session: name,
                        line,
                        what: what.to_owned(),
                        ours,
                        apache,
                        received,
                    });
                }
            }
            if stream.end == StreamEnd::Closed {
                self.forget(name);
            }
        }
        None
    }

    fn broken_by(&mut self, name: SessionName, item: &StreamItem) -> Option<&'static str> {
        let zxid = item.zxid.filter(|&zxid| 0 < zxid);
        match (item.kind, zxid) {
            (ItemKind::Handshake | ItemKind::Other, _) => {
                self.forget(name);
                None
            }
            (ItemKind::Reply, Some(zxid)) => {
                let highest = self.highest_reply.entry(name).or_default();
                let back = zxid < *highest;
                *highest = zxid.max(*highest);
                back.then_some("zxid of replies decreases")
            }
            (ItemKind::Event, Some(zxid)) => {
                let late = zxid <= self.highest_reply.get(&name).copied().unwrap_or(0);
                let highest = self.highest_event.entry(name).or_default();
                let back = zxid < *highest;
                *highest = zxid.max(*highest);
                match (late, back) {
                    (true, _) => Some("event after a reply that shows its change"),
                    (false, true) => Some("zxid of events decreases"),
                    (false, false) => None,
                }
            }
            (ItemKind::Reply | ItemKind::Event, None) | (ItemKind::OutOfBand | ItemKind::Stray, _) => None,
        }
    }

    fn forget(&mut self, name: SessionName) {
        self.highest_reply.remove(&name);
        self.highest_event.remove(&name);
    }
}
