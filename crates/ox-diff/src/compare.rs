//! Compares what two servers said during one batch.
//!
//! Streams are compared item by item, in order, after exactly these adjustments:
//! - replies of the connection layer (auth, sasl) have no place among the others: compared as a list of their own;
//! - the events of one closed or expired session (one zxid) come in any order;
//! - while another session writes, a reader's reply zxids and the places of its events are open.

use crate::script::{Action, Batch, Line, Name};
use crate::stream::{End, Item, Kind, Stream};
use ox_proto::OpCode;
use std::collections::BTreeMap;

/// The streams of a batch, by session.
pub type Streams = BTreeMap<Name, Stream>;

/// One place where the servers disagree, or where one of them breaks a rule on its own.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Whose connection.
    pub session: Name,
    /// The line in question, if it is about a reply.
    pub line: Option<Line>,
    /// What is wrong.
    pub what: String,
    /// What ours said.
    pub ours: Option<Item>,
    /// What Apache said.
    pub apache: Option<Item>,
    /// Everything the connection heard, ours first.
    pub heard: [Vec<String>; 2],
}

impl Difference {
    /// A difference that is not about one frame.
    pub fn plain(session: Name, what: String) -> Self {
        Self { session, line: None, what, ours: None, apache: None, heard: <[Vec<String>; 2]>::default() }
    }
}

/// A batch together with the pings that fetched its events from the other connections.
#[derive(Clone, Debug)]
pub struct Turn {
    /// All lines; items refer to them by index.
    pub batch: Batch,
    /// Index of the first ping.
    pub barrier: usize,
    /// Sessions that read while another one wrote.
    beside: Vec<Name>,
}

impl Turn {
    /// A turn of `batch` and the pings behind it.
    pub fn new(batch: &Batch, pings: Batch) -> Self {
        let writers = batch.writers();
        let mut beside = batch.actors();
        beside.retain(|name| !writers.is_empty() && !writers.contains(name));
        let barrier = batch.0.len();
        let mut batch = batch.clone();
        batch.0.extend(pings.0);
        Self { batch, barrier, beside }
    }

    /// The first difference between the streams of ours and Apache's.
    pub fn compare(&self, ours: &Streams, apache: &Streams) -> Option<Difference> {
        // Those who act first: what others hear follows from it.
        let mut names = self.batch.actors();
        names.extend(ours.keys().chain(apache.keys()));
        let closing = self.closing(ours, apache);
        names.into_iter().find_map(|name| match (ours.get(&name), apache.get(&name)) {
            (Some(ours), Some(apache)) => self.stream(name, ours, apache, &closing),
            (ours, _) => {
                let what = format!("connected on {} only", if ours.is_some() { "ours" } else { "apache" });
                Some(Difference {
                    session: name,
                    line: None,
                    what,
                    ours: None,
                    apache: None,
                    heard: Default::default(),
                })
            }
        })
    }

    fn closing(&self, ours: &Streams, apache: &Streams) -> Closing {
        if self.batch.0.iter().any(|line| matches!(line.action, Action::Wait(_))) {
            return Closing::Any;
        }
        let is_close = |item: &&Item| {
            item.line.is_some_and(|line| match &self.batch.0[line].action {
                Action::Request(request) => request.known() == Some(OpCode::CloseSession),
                Action::Connect(_) | Action::Raw(_) | Action::Drop | Action::Wait(_) => false,
            })
        };
        let items = ours.values().chain(apache.values()).flat_map(|stream| &stream.items);
        Closing::At(items.filter(is_close).filter_map(|item| item.zxid).collect())
    }

    fn stream(&self, name: Name, ours: &Stream, apache: &Stream, closing: &Closing) -> Option<Difference> {
        let beside = self.beside.contains(&name);
        let list_of = |item: &Item| match item.kind {
            Kind::OutOfBand => 2,
            // Events of re-arming are the reader's own and carry no zxid.
            Kind::Event if beside && item.zxid != Some(-1) => 1,
            Kind::Event | Kind::Handshake | Kind::Reply | Kind::Stray | Kind::Other => 0,
        };
        let found = (0..3).find_map(|list| {
            let picked = [ours, apache].map(|stream| closing.pick(stream, |item| list_of(item) == list));
            self.list(name, &picked[0], &picked[1])
        });
        let found = found.or_else(|| {
            (ours.end != apache.end).then(|| Difference {
                session: name,
                line: self.batch.0.iter().rfind(|line| line.session == name).cloned(),
                what: format!("connection: ours {:?}, apache {:?}", ours.end, apache.end),
                ours: ours.items.last().cloned(),
                apache: apache.items.last().cloned(),
                heard: Default::default(),
            })
        });
        found.map(|difference| Difference { heard: [ours, apache].map(Stream::describe), ..difference })
    }

    fn list(&self, name: Name, ours: &[&Item], apache: &[&Item]) -> Option<Difference> {
        let longest = ours.len().max(apache.len());
        (0..longest).find_map(|index| {
            let (left, right) = (ours.get(index), apache.get(index));
            let what = match (left, right) {
                (Some(left), Some(right)) => self.unequal(name, left, right)?,
                (Some(_), None) => "only ours sent this".to_owned(),
                _ => "only apache sent this".to_owned(),
            };
            let line = right.and_then(|item| item.line).or(left.and_then(|item| item.line));
            Some(Difference {
                session: name,
                line: line.map(|line| self.batch.0[line].clone()),
                what,
                ours: left.map(|item| (*item).clone()),
                apache: right.map(|item| (*item).clone()),
                heard: Default::default(),
            })
        })
    }

    fn unequal(&self, name: Name, ours: &Item, apache: &Item) -> Option<String> {
        if ours.kind != apache.kind || ours.line != apache.line {
            return Some("order of frames".to_owned());
        }
        if ours.text != apache.text {
            return Some(first_unequal_word(&ours.text, &apache.text));
        }
        let open = self.beside.contains(&name)
            && ours.kind == Kind::Reply
            && ours.line.is_some_and(|line| line < self.barrier);
        (!open && ours.zxid != apache.zxid).then(|| "zxid of the header".to_owned())
    }
}

/// Zxids at which a session ended, taking its ephemeral nodes along in any order.
enum Closing {
    Any,
    At(Vec<i64>),
}

impl Closing {
    fn pick<'s>(&self, stream: &'s Stream, belongs: impl Fn(&Item) -> bool) -> Vec<&'s Item> {
        let mut items: Vec<_> = stream.items.iter().filter(|item| belongs(item)).collect();
        let same_change = |a: &&Item, b: &&Item| a.kind == Kind::Event && b.kind == Kind::Event && a.zxid == b.zxid;
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

/// Rules that every server must keep, whatever the other one does.
#[derive(Debug, Default)]
pub struct Rules {
    highest_reply: BTreeMap<Name, i64>,
    highest_event: BTreeMap<Name, i64>,
}

impl Rules {
    /// Checks one server's streams: reply zxids do not go back, event zxids neither, and an event comes before any reply
    /// that could show its change.
    pub fn check(&mut self, turn: &Turn, streams: &Streams) -> Option<Difference> {
        for (&name, stream) in streams {
            for item in &stream.items {
                if let Some(what) = self.broken_by(name, item) {
                    let line = item.line.map(|line| turn.batch.0[line].clone());
                    let (ours, apache) = (Some(item.clone()), None);
                    let heard = [stream.describe(), Vec::new()];
                    return Some(Difference { session: name, line, what: what.to_owned(), ours, apache, heard });
                }
            }
            if stream.end == End::Closed {
                self.forget(name);
            }
        }
        None
    }

    fn broken_by(&mut self, name: Name, item: &Item) -> Option<&'static str> {
        let zxid = item.zxid.filter(|&zxid| 0 < zxid);
        match (item.kind, zxid) {
            (Kind::Handshake | Kind::Other, _) => {
                self.forget(name);
                None
            }
            (Kind::Reply, Some(zxid)) => {
                let highest = self.highest_reply.entry(name).or_default();
                let back = zxid < *highest;
                *highest = zxid.max(*highest);
                back.then_some("zxid of replies goes back")
            }
            (Kind::Event, Some(zxid)) => {
                let late = zxid <= self.highest_reply.get(&name).copied().unwrap_or(0);
                let highest = self.highest_event.entry(name).or_default();
                let back = zxid < *highest;
                *highest = zxid.max(*highest);
                match (late, back) {
                    (true, _) => Some("event after a reply that shows its change"),
                    (false, true) => Some("zxid of events goes back"),
                    (false, false) => None,
                }
            }
            (Kind::Reply | Kind::Event, None) | (Kind::OutOfBand | Kind::Stray, _) => None,
        }
    }

    fn forget(&mut self, name: Name) {
        self.highest_reply.remove(&name);
        self.highest_event.remove(&name);
    }
}
