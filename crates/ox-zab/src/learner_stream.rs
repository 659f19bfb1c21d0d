//! Sending to a learner: a cursor into the recent log instead of a queue of copies.
//!
//! A transaction is held once, in [`RecentLog`], however many learners still lack it. A stream stores how far it has
//! handed the log to its link, the packets that must not overtake a commit, and the number of unsent bytes. While these
//! fill the send window, transactions stay in the log; commits of transactions that were handed over, pings and replies
//! are still sent.
//!
//! ```text
//!   log:   ... | t7 | t8 | t9 | t10 | t11 | t12        t9 is committed
//!                     ▲announced ▲sent                  next: commit t9, then packets that wait for it, then t11
//! ```
//! A long backlog never closes a link. A link is closed if its learner makes no progress for too long, leaves too many
//! replies unread, or lacks committed transactions that are no longer in memory. Before NEWLEADER, those are read from
//! the on-disk log instead.
//!
//! [`RequestStream`] is the opposite direction: from a learner to its leader, with a window for forwarded requests.

use crate::effect::{Effect, Effects, LinkId, LogDiffRange};
use crate::message::{EncodedTxn, Message};
use crate::recent_log::RecentLog;
use ox_proto::{ServerId, Zxid};
use std::collections::{BTreeMap, VecDeque};

/// Replies that a learner may leave unread, in send windows. The requests of well-behaved clients cause far fewer; a
/// learner that sends requests but does not read would let them grow without bound.
const REPLIES_MAX_WINDOWS: usize = 4;

/// Minimum of that limit, for small windows.
const REPLIES_BYTES_MIN: usize = 1 << 20;

/// Bytes that were handed to a link and are not accepted by its socket yet.
#[derive(Debug)]
pub(crate) struct SendWindow {
    unsent_bytes: usize,
    bytes_max: usize,
}

impl SendWindow {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { unsent_bytes: 0, bytes_max }
    }

    /// Whether transactions may be handed over. One packet may exceed the window.
    pub(crate) fn is_open(&self) -> bool {
        self.unsent_bytes < self.bytes_max
    }

    pub(crate) fn send(&mut self, out: &mut Effects, link: LinkId, message: Message) {
        self.unsent_bytes += message.flow_bytes();
        out.push(Effect::Send(link, message));
    }

    /// The socket accepted `bytes`, counted by [`Message::flow_bytes`].
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.unsent_bytes = self.unsent_bytes.saturating_sub(bytes);
    }
}

/// How far the leader, or the observer master, has committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed<'a> {
    /// Commits up to this zxid may be sent. Everything before the epoch counts as committed.
    pub(crate) limit: Zxid,
    /// The start of the epoch, which is no transaction.
    pub(crate) epoch_start: Zxid,
    /// Committed reconfigurations, with the leader that each names.
    pub(crate) activations: &'a BTreeMap<Zxid, ServerId>,
}

/// Why [`LearnerStream::pump`] has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// Everything was handed over, or the window is full.
    Done,
    /// Everything committed was handed over; NEWLEADER is next ([`LearnerStream::complete`]).
    CaughtUp,
    /// The next transactions that the learner lacks are no longer in memory.
    Trimmed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The synchronisation has not started.
    None,
    /// Waits for a read of the on-disk log.
    Disk,
    Memory,
}

/// The stream of packets to one learner.
#[derive(Debug)]
pub(crate) struct LearnerStream {
    window: SendWindow,
    /// Followers are sent proposals; observers only committed transactions.
    wants_proposals: bool,
    source: Source,
    /// The last transaction that was handed over.
    sent: Zxid,
    /// The learner knows that everything up to here is committed.
    announced: Zxid,
    /// NEWLEADER was handed over.
    is_complete: bool,
    /// UPTODATE was handed over.
    is_up_to_date: bool,
    /// The last proposal after NEWLEADER.
    proposed: Zxid,
    /// Packets that must follow a commit, each with that commit's zxid.
    waiting: VecDeque<(Zxid, Message)>,
    /// Bytes of the waiting packets, and of replies that were handed over since the window was last open.
    waiting_bytes: usize,
    unread_bytes: usize,
}

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
            announced: Zxid::ZERO,
            is_complete: false,
            is_up_to_date: false,
            proposed: Zxid::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            unread_bytes: 0,
        }
    }

    /// Starts after `sent`, which the learner has or is sent first.
    pub(crate) fn begin(&mut self, sent: Zxid, wants_proposals: bool) {
        (self.sent, self.announced, self.wants_proposals) = (sent, sent, wants_proposals);
        self.source = Source::Memory;
    }

    /// Whether the learner replies to packets from now on.
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.is_up_to_date
    }

    /// The last proposal that the learner has to acknowledge.
    pub(crate) fn proposed(&self) -> Zxid {
        self.proposed
    }

    pub(crate) fn is_reading_log(&self) -> bool {
        self.source == Source::Disk
    }

    /// Continues from the on-disk log if the recent log no longer contains what the learner lacks. None after
    /// NEWLEADER: transactions from disk could then not be told apart from proposals, nor activate a configuration.
    pub(crate) fn continue_from_log(&mut self, history: &RecentLog) -> Option<LogDiffRange> {
        let below = history.first().filter(|_| !self.is_complete)?;
        self.source = Source::Disk;
        Some(LogDiffRange { after: self.sent, below, continues: true })
    }

    /// Everything up to `sent` is sent from the on-disk log.
    pub(crate) fn on_log_read(&mut self, sent: Zxid) {
        (self.sent, self.announced, self.source) = (sent, sent, Source::Memory);
    }

    /// The learner needs the recent log after this zxid.
    pub(crate) fn pinned(&self) -> Option<Zxid> {
        (self.source == Source::Memory).then_some(self.sent)
    }

    /// Whether the learner has not been sent this commit yet.
    pub(crate) fn lacks(&self, committed: Zxid) -> bool {
        self.source != Source::None && self.announced < committed
    }

    /// Sends a packet that may overtake transactions and commits.
    pub(crate) fn send_now(&mut self, out: &mut Effects, link: LinkId, message: Message) {
        self.window.send(out, link, message);
    }

    /// Sends a packet after the commit of `after`, and after earlier packets of this kind.
    pub(crate) fn send_after(&mut self, out: &mut Effects, link: LinkId, message: Message, after: Zxid) {
        if self.waiting.is_empty() && after <= self.announced {
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

    /// Whether the learner leaves too many replies unread.
    pub(crate) fn is_overfull(&self) -> bool {
        let max = self.window.bytes_max.saturating_mul(REPLIES_MAX_WINDOWS).max(REPLIES_BYTES_MIN);
        max < self.waiting_bytes.saturating_add(self.unread_bytes)
    }

    /// Ends the synchronisation with NEWLEADER.
    pub(crate) fn complete(&mut self, out: &mut Effects, link: LinkId, new_leader: Message) {
        self.window.send(out, link, new_leader);
        self.is_complete = true;
    }

    /// Hands over as much as the window allows.
    pub(crate) fn pump(
        &mut self,
        history: &RecentLog,
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
            // Without a transaction in the epoch, its start is reached by itself.
            let has_more = next.peek().is_some_and(|txn| txn.zxid <= limit);
            self.announce_commits(out, link, if has_more { self.sent } else { limit }, committed);
            if !self.is_complete && limit <= self.announced {
                return Pumped::CaughtUp;
            }
            while let Some((_, message)) = self.waiting.pop_front_if(|(after, _)| *after <= self.announced) {
                self.waiting_bytes -= waiting_bytes(&message);
                self.send_in_order(out, link, message);
            }
            let is_wanted = |txn: &&EncodedTxn| txn.zxid <= limit || (self.is_complete && self.wants_proposals);
            let Some(txn) = next.next_if(|txn| self.window.is_open() && is_wanted(txn)) else { return Pumped::Done };
            self.send_txn(out, link, txn.clone(), committed);
        }
    }

    fn send_txn(&mut self, out: &mut Effects, link: LinkId, txn: EncodedTxn, committed: Committed<'_>) {
        let zxid = txn.zxid;
        self.sent = zxid;
        if !self.is_complete {
            self.window.send(out, link, Message::Proposal(txn));
            self.window.send(out, link, Message::Commit(zxid));
            self.announced = zxid;
        } else if self.wants_proposals {
            self.window.send(out, link, Message::Proposal(txn));
            self.proposed = zxid;
        } else {
            let message = match committed.activations.get(&zxid) {
                None => Message::Inform(txn),
                Some(leader) => Message::InformAndActivate(txn, *leader),
            };
            self.window.send(out, link, message);
            self.announced = zxid;
        }
    }

    /// Sends commits of transactions that were handed over, up to `reached`.
    fn announce_commits(&mut self, out: &mut Effects, link: LinkId, reached: Zxid, committed: Committed<'_>) {
        if reached <= self.announced {
            return;
        }
        let (from, last) = (Zxid(self.announced.max(committed.epoch_start).0 + 1), reached.min(self.sent));
        self.announced = reached;
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
            self.window.send(out, link, Message::commits(crate::message::ZxidRange { first, last }));
        }
    }
}

/// The stream of packets from a learner to its leader. Requests wait for the window. ACKs and replies to pings may
/// overtake requests, so that the leader learns of durable proposals however much clients send.
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
