//! What a learner is sent: a cursor into the recent log, not a queue of copies.
//!
//! A transaction is held once, in [`History`], however many learners still lack it. A stream keeps how far it has handed the
//! log to its link, the packets that must not overtake a commit, and how many bytes the link has not sent yet. While
//! these fill the window, transactions stay in the log; commits of what was handed over, pings and replies go on.
//!
//! ```text
//!   history:   ... | t7 | t8 | t9 | t10 | t11 | t12        t9 is committed
//!                         ▲told      ▲sent                 next: commit t9, then the packets that wait for it, then t11
//! ```
//! How long the rest of the log is never closes a link. A learner is closed when it makes no progress for too long, when it
//! leaves too many replies unread, or when committed transactions that it lacks are no longer held; before it has its whole
//! history, those are read from the on-disk log instead.

use crate::effect::{Effect, Effects, LinkId, Search};
use crate::message::{Message, Txn};
use crate::recent_log::History;
use ox_proto::{ServerId, Zxid};
use std::collections::{BTreeMap, VecDeque};

/// Replies that a learner may leave unread, in send windows. A learner has as many requests outstanding as it lets its clients
/// have, which is far less; one that sends requests and does not read would let them grow without end.
const REPLIES_MAX_WINDOWS: usize = 4;

/// So much may wait where windows are small.
const REPLIES_BYTES_MIN: usize = 1 << 20;

/// Bytes that were handed to a link and that its socket has not taken.
#[derive(Debug)]
pub(crate) struct SendWindow {
    unsent_bytes: usize,
    bytes_max: usize,
}

impl SendWindow {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { unsent_bytes: 0, bytes_max }
    }

    /// Whether bulk data may be handed over. One packet may exceed the window.
    pub(crate) fn is_open(&self) -> bool {
        self.unsent_bytes < self.bytes_max
    }

    pub(crate) fn send(&mut self, out: &mut Effects, link: LinkId, message: Message) {
        self.unsent_bytes += message.flow_bytes();
        out.push(Effect::Send(link, message));
    }

    /// The socket has taken so many bytes, counted by [`Message::flow_bytes`].
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.unsent_bytes = self.unsent_bytes.saturating_sub(bytes);
    }
}

/// How far a leader, or a follower with observers, has committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed<'a> {
    /// Learners may be sent commits up to here. Everything before the epoch counts as committed.
    pub(crate) limit: Zxid,
    /// The start of the epoch, which no transaction has.
    pub(crate) epoch_start: Zxid,
    /// Transactions that activate a configuration, with the leader from then on.
    pub(crate) activations: &'a BTreeMap<Zxid, ServerId>,
}

/// Why [`LearnerStream::pump`] has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// The link has everything, or as much as it may hold.
    Done,
    /// Everything committed was handed over, and NEWLEADER was not: [`LearnerStream::complete`].
    CaughtUp,
    /// The first of the transactions that the learner lacks are no longer held.
    Trimmed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The handshake is not over.
    None,
    /// The on-disk log is searched for what memory no longer holds.
    Disk,
    Memory,
}

/// The stream of packets to one learner.
#[derive(Debug)]
pub(crate) struct LearnerStream {
    window: SendWindow,
    /// Followers get proposals before they are committed, observers only committed transactions.
    wants_proposals: bool,
    source: Source,
    /// The last transaction that was handed over.
    sent: Zxid,
    /// Everything up to here is known to the learner as committed.
    told: Zxid,
    /// NEWLEADER was handed over.
    is_complete: bool,
    /// UPTODATE was handed over.
    is_up_to_date: bool,
    /// The last proposal behind NEWLEADER.
    proposed: Zxid,
    /// Packets that follow a commit, each with that commit.
    waiting: VecDeque<(Zxid, Message)>,
    /// What these take, and the replies that were handed over since the window was last open.
    waiting_bytes: usize,
    unread_bytes: usize,
}

/// What a packet that waits takes.
fn waiting_bytes(message: &Message) -> usize {
    message.flow_bytes() + size_of::<(Zxid, Message)>()
}

impl LearnerStream {
    pub(crate) fn new(window_bytes: usize) -> Self {
        Self {
            window: SendWindow::new(window_bytes),
            wants_proposals: false,
            source: Source::None,
            sent: Zxid::ZERO,
            told: Zxid::ZERO,
            is_complete: false,
            is_up_to_date: false,
            proposed: Zxid::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            unread_bytes: 0,
        }
    }

    /// Begins with the history after `sent`, which the learner has or gets first.
    pub(crate) fn begin(&mut self, sent: Zxid, wants_proposals: bool) {
        (self.sent, self.told, self.wants_proposals) = (sent, sent, wants_proposals);
        self.source = Source::Memory;
    }

    /// Whether the learner replies to what it is sent from now on.
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.is_up_to_date
    }

    /// The last proposal that the learner has to acknowledge.
    pub(crate) fn proposed(&self) -> Zxid {
        self.proposed
    }

    /// The on-disk log is searched for what memory no longer holds.
    pub(crate) fn is_looking_up(&self) -> bool {
        self.source == Source::Disk
    }

    /// Continues with the on-disk log where memory no longer holds what the learner lacks. None after NEWLEADER: what the disk
    /// holds could not be told from proposals then, nor bring a configuration.
    pub(crate) fn look_up(&mut self, history: &History) -> Option<Search> {
        let below = history.first().filter(|_| !self.is_complete)?;
        self.source = Source::Disk;
        Some(Search { after: self.sent, below, continues: true })
    }

    /// Everything up to `sent` was found in the on-disk log, and is sent from there.
    pub(crate) fn found(&mut self, sent: Zxid) {
        (self.sent, self.told, self.source) = (sent, sent, Source::Memory);
    }

    /// What is needed of the log in memory begins after this transaction.
    pub(crate) fn pinned(&self) -> Option<Zxid> {
        (self.source == Source::Memory).then_some(self.sent)
    }

    /// Whether the learner has yet to be told of a commit.
    pub(crate) fn lacks(&self, committed: Zxid) -> bool {
        self.source != Source::None && self.told < committed
    }

    /// Sends a packet that may overtake transactions and commits.
    pub(crate) fn send_now(&mut self, out: &mut Effects, link: LinkId, message: Message) {
        self.window.send(out, link, message);
    }

    /// Sends a packet behind the commit of `after`, and behind earlier such packets.
    pub(crate) fn send_after(&mut self, out: &mut Effects, link: LinkId, message: Message, after: Zxid) {
        if self.waiting.is_empty() && after <= self.told {
            self.send_in_order(out, link, message);
        } else {
            self.waiting_bytes += waiting_bytes(&message);
            self.waiting.push_back((after, message));
        }
    }

    fn send_in_order(&mut self, out: &mut Effects, link: LinkId, message: Message) {
        self.is_up_to_date |= message == Message::UpToDate;
        if !self.window.is_open() {
            self.unread_bytes += message.flow_bytes();
        }
        self.window.send(out, link, message);
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.window.on_sent(bytes);
        if self.window.is_open() {
            self.unread_bytes = 0;
        }
    }

    /// Whether the learner leaves more replies unread than may wait for it.
    pub(crate) fn is_overfull(&self) -> bool {
        let max = self.window.bytes_max.saturating_mul(REPLIES_MAX_WINDOWS).max(REPLIES_BYTES_MIN);
        max < self.waiting_bytes.saturating_add(self.unread_bytes)
    }

    /// Ends the history that the learner is to have before it takes part.
    pub(crate) fn complete(&mut self, out: &mut Effects, link: LinkId, new_leader: Message) {
        self.window.send(out, link, new_leader);
        self.is_complete = true;
    }

    /// Hands over as much as the window takes.
    pub(crate) fn pump(
        &mut self,
        history: &History,
        out: &mut Effects,
        link: LinkId,
        committed: Committed<'_>,
    ) -> Pumped {
        if self.source != Source::Memory {
            return Pumped::Done;
        }
        if self.sent < history.start() {
            return if self.window.is_open() { Pumped::Trimmed } else { Pumped::Done };
        }
        let limit = committed.limit;
        let mut next = history.after(self.sent).peekable();
        loop {
            // Where an epoch has no transaction yet, its start is reached without one.
            let has_more = next.peek().is_some_and(|txn| txn.zxid <= limit);
            self.tell_commits(out, link, if has_more { self.sent } else { limit }, committed);
            if !self.is_complete && limit <= self.told {
                return Pumped::CaughtUp;
            }
            while let Some((_, message)) = self.waiting.pop_front_if(|(after, _)| *after <= self.told) {
                self.waiting_bytes -= waiting_bytes(&message);
                self.send_in_order(out, link, message);
            }
            let is_wanted = |txn: &&Txn| txn.zxid <= limit || (self.is_complete && self.wants_proposals);
            let Some(txn) = next.next_if(|txn| self.window.is_open() && is_wanted(txn)) else { return Pumped::Done };
            self.send_txn(out, link, txn.clone(), committed);
        }
    }

    fn send_txn(&mut self, out: &mut Effects, link: LinkId, txn: Txn, committed: Committed<'_>) {
        let zxid = txn.zxid;
        self.sent = zxid;
        if !self.is_complete {
            self.window.send(out, link, Message::Proposal(txn));
            self.window.send(out, link, Message::Commit(zxid));
            self.told = zxid;
        } else if self.wants_proposals {
            self.window.send(out, link, Message::Proposal(txn));
            self.proposed = zxid;
        } else {
            let message = match committed.activations.get(&zxid) {
                None => Message::Inform(txn),
                Some(leader) => Message::InformAndActivate(txn, *leader),
            };
            self.window.send(out, link, message);
            self.told = zxid;
        }
    }

    /// Commits what was handed over, up to `reached`.
    fn tell_commits(&mut self, out: &mut Effects, link: LinkId, reached: Zxid, committed: Committed<'_>) {
        if reached <= self.told {
            return;
        }
        let (from, last) = (Zxid(self.told.max(committed.epoch_start).0 + 1), reached.min(self.sent));
        self.told = reached;
        if !(self.is_complete && self.wants_proposals) {
            return;
        }
        let mut first = from;
        for (zxid, leader) in committed.activations.iter().filter(|(zxid, _)| from <= **zxid && **zxid <= last) {
            self.commit(out, link, first, Zxid(zxid.0 - 1));
            self.window.send(out, link, Message::CommitAndActivate(*zxid, *leader));
            first = Zxid(zxid.0 + 1);
        }
        self.commit(out, link, first, last);
    }

    fn commit(&mut self, out: &mut Effects, link: LinkId, first: Zxid, last: Zxid) {
        if first <= last {
            self.window.send(out, link, Message::commits(crate::message::Run { first, last }));
        }
    }
}

/// The stream of packets from a learner to its leader. Requests wait for the window; acknowledgements and replies to pings do not
/// wait for requests, so that a leader hears of a disk's progress however much clients send.
#[derive(Debug)]
pub(crate) struct RequestStream {
    link: LinkId,
    window: SendWindow,
    waiting: VecDeque<Message>,
}

impl RequestStream {
    pub(crate) fn new(link: LinkId, window_bytes: usize) -> Self {
        Self { link, window: SendWindow::new(window_bytes), waiting: VecDeque::new() }
    }

    pub(crate) fn link(&self) -> LinkId {
        self.link
    }

    pub(crate) fn send(&mut self, out: &mut Effects, message: Message) {
        let is_request = matches!(message, Message::Request(_) | Message::Revalidate(..));
        if is_request && !(self.waiting.is_empty() && self.window.is_open()) {
            self.waiting.push_back(message);
        } else {
            self.window.send(out, self.link, message);
        }
    }

    pub(crate) fn on_sent(&mut self, out: &mut Effects, bytes: usize) {
        self.window.on_sent(bytes);
        while self.window.is_open()
            && let Some(message) = self.waiting.pop_front()
        {
            self.window.send(out, self.link, message);
        }
    }
}

#[cfg(test)]
mod tests;
