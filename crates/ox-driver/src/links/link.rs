//! One link: its input up to complete packets, and its output queue.

use super::log_diff_feed::{Chunk, LogDiffChunks};
use super::packet_queue::{PacketBatch, PacketQueue};
use super::{LinkEvent, LinkLimits, LinkReport, Packets, RemoteEnd, UnloadedSnapshot};
use crate::sockets::{Broken, Sockets, read_available};
use crate::unsent_buffer::UnsentBuffer;
use bytes::Bytes;
use ox_proto::quorum::packet::PacketReader;
use ox_proto::{ServerId, Zxid};
use ox_store::snapshot::stream::{SnapshotReceiver, SnapshotSender};
use ox_tree::TreeOptions;
use ox_zab::{LinkId, Message, Sender};
use std::collections::VecDeque;
use std::time::Duration;

/// Output of a link, in order.
pub(super) enum Out {
    Packets(Packets, PacketBatch),
    Snapshot(Box<SnapshotSender>),
    LogDiff(LogDiffChunks),
}

/// When the replica was last notified of received, or sent, bytes.
#[derive(Default)]
pub(super) struct TrafficReport {
    pub(super) is_new: bool,
    pub(super) reported_at: Option<Duration>,
}

impl TrafficReport {
    /// When to notify the replica of new traffic.
    pub(super) fn deadline(&self, interval: Duration) -> Option<Duration> {
        self.is_new.then(|| self.reported_at.map_or(Duration::ZERO, |reported_at| reported_at + interval))
    }

    /// Whether to notify the replica of new traffic now.
    pub(super) fn take_due(&mut self, now: Duration, interval: Duration) -> bool {
        let is_due = self.deadline(interval).is_some_and(|deadline| deadline <= now);
        if is_due {
            *self = Self { is_new: false, reported_at: Some(now) };
        }
        is_due
    }
}

pub(super) struct Link<S> {
    pub(super) id: LinkId,
    pub(super) socket: S,
    /// Which role the remote end has.
    side: Sender,
    /// For loading a snapshot, if the remote end is a leader.
    options: Option<TreeOptions>,
    reader: PacketReader,
    /// Whether the first packet has arrived.
    has_received: bool,
    /// The learner that its hello names.
    pub(super) server: Option<ServerId>,
    /// Whether that server is in no configuration.
    pub(super) is_unknown: bool,
    /// The core has sent a packet: the leader has accepted this learner.
    pub(super) is_accepted: bool,
    /// The leader has sent UPTODATE: from now on it pings.
    pub(super) is_active: bool,
    /// When bytes were last received.
    pub(super) last_received: Duration,
    pub(super) input: Vec<u8>,
    /// Whether the socket may have input.
    pub(super) may_read: bool,
    loading: Option<(Zxid, Box<SnapshotReceiver>)>,
    pub(super) out: VecDeque<Out>,
    pub(super) queue: PacketQueue,
    pub(super) unsent: UnsentBuffer,
    /// Bytes of the send window that the socket has accepted, and that are not reported.
    sent_bytes: usize,
    /// Bytes of packets that the replica has not processed.
    pub(super) held_bytes: usize,
    /// Traffic that the replica is notified of, for each direction.
    pub(super) received: TrafficReport,
    pub(super) sent: TrafficReport,
}

impl<S> Link<S> {
    pub(super) fn new(now: Duration, id: LinkId, socket: S, end: RemoteEnd) -> Self {
        let (side, options) = match end {
            RemoteEnd::Learner => (Sender::Learner, None),
            RemoteEnd::Leader(options) => (Sender::Leader, Some(options)),
        };
        Self {
            id,
            socket,
            side,
            options,
            reader: PacketReader::default(),
            has_received: false,
            server: None,
            is_unknown: false,
            is_accepted: false,
            is_active: false,
            last_received: now,
            input: Vec::new(),
            may_read: true,
            loading: None,
            out: VecDeque::new(),
            queue: PacketQueue::default(),
            unsent: UnsentBuffer::default(),
            sent_bytes: 0,
            held_bytes: 0,
            received: TrafficReport::default(),
            sent: TrafficReport::default(),
        }
    }

    /// The largest packet that is accepted. A learner may send only its hello before the leader has replied.
    fn packet_bytes_max(&self, limits: &LinkLimits) -> usize {
        let may_send = self.has_received && (self.is_accepted || self.side == Sender::Leader);
        if may_send { limits.packet_bytes_max } else { limits.first_packet_bytes_max }
    }

    /// Whether the replica has too many of its packets: nothing is read until it has taken some of them.
    pub(super) fn is_full(&self, limits: &LinkLimits) -> bool {
        limits.held_bytes_max <= self.held_bytes
    }

    /// Received bytes that are not processed.
    pub(super) fn unread_bytes(&self) -> usize {
        self.input.len() + self.held_bytes
    }

    pub(super) fn read(
        &mut self,
        now: Duration,
        limits: &LinkLimits,
        (sockets, buffer): (&mut impl Sockets<Socket = S>, &mut [u8]),
        snapshots: &mut Vec<UnloadedSnapshot>,
        events: &mut Vec<LinkEvent>,
    ) -> (usize, Result<bool, Broken>) {
        if !self.may_read || self.is_full(limits) {
            return (0, Ok(true));
        }
        let (before, id) = (self.input.len(), self.id);
        let max = before + limits.chunk_bytes;
        let read = read_available(&mut self.input, max, buffer, sockets, &mut self.socket);
        let received_bytes = self.input.len() - before;
        if 0 < received_bytes {
            self.received.is_new = true;
            self.last_received = now;
        }
        let outcome = match (read, self.take(limits, snapshots, events)) {
            (Ok(is_all), Ok(())) => {
                self.may_read = !is_all;
                Ok(is_all)
            }
            (Err(Broken), Ok(())) => {
                tracing::debug!(link = id.0, "link closed by the remote end");
                Err(Broken)
            }
            (_, Err(error)) => {
                tracing::warn!(link = id.0, error, "malformed quorum packet");
                Err(Broken)
            }
        };
        (received_bytes, outcome)
    }

    /// Takes all complete packets and snapshots out of the input.
    fn take(
        &mut self,
        limits: &LinkLimits,
        snapshots: &mut Vec<UnloadedSnapshot>,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), &'static str> {
        loop {
            if let Some((zxid, receiver)) = &mut self.loading {
                let used = receiver.feed(&self.input).map_err(|_| "snapshot stream is corrupt")?;
                let Some(used) = used else {
                    self.input.clear();
                    return Ok(());
                };
                self.input.drain(..used);
                let zxid = *zxid;
                let Some((_, receiver)) = self.loading.take() else { return Ok(()) };
                snapshots.push(UnloadedSnapshot { link: self.id, zxid, receiver });
            }
            let max = self.packet_bytes_max(limits);
            if self.reader.next(&self.input, max).map_err(|_| "packet exceeds the limit")?.is_none() {
                return Ok(());
            }
            self.take_packets(limits, events)?;
        }
    }

    /// Takes packets, up to a SNAP, which a snapshot follows.
    fn take_packets(&mut self, limits: &LinkLimits, events: &mut Vec<LinkEvent>) -> Result<(), &'static str> {
        let mut input = std::mem::take(&mut self.input);
        input.shrink_to_fit(); // transactions reference it for as long as they are in the recent log
        let chunk = Bytes::from(input);
        let (mut at, mut messages) = (0, Vec::new());
        loop {
            let max = self.packet_bytes_max(limits);
            let next = self.reader.next(&chunk[at..], max).map_err(|_| "packet exceeds the limit")?;
            let Some((packet, length)) = next else { break };
            let message = Message::read(&packet, &chunk, self.side).map_err(|_| "packet cannot be decoded")?;
            at += length;
            self.has_received = true;
            if let Message::Hello { server, .. } = message {
                self.queue.set_learner(server);
            }
            self.is_active |= self.options.is_some() && matches!(message, Message::UpToDate);
            let snap = if let Message::Snap(zxid) = message { Some(zxid) } else { None };
            if !messages.last_mut().is_some_and(|last: &mut Message| last.join(&message)) {
                messages.push(message);
            }
            if let Some(zxid) = snap {
                let options = self.options.clone().ok_or("a learner sent SNAP")?;
                self.loading = Some((zxid, Box::new(SnapshotReceiver::new(options))));
                break;
            }
        }
        self.input = chunk[at..].to_vec();
        self.held_bytes += at;
        events.push(LinkEvent::Messages(self.id, messages, at));
        Ok(())
    }

    /// Moves queued packets to the socket's buffer, up to a chunk.
    fn stage_packets(&mut self, now: Duration, limits: &LinkLimits, reports: &mut Vec<LinkReport>) {
        while self.unsent.bytes() < limits.chunk_bytes
            && let Some(Out::Packets(packets, batch)) = self.out.pop_front_if(|out| matches!(out, Out::Packets(..)))
        {
            reports.extend(self.queue.pop(now, &batch).map(LinkReport::Dequeued));
            self.unsent.push(packets.bytes);
            self.sent_bytes += packets.flow_bytes;
        }
    }

    pub(super) fn flush(
        &mut self,
        now: Duration,
        limits: &LinkLimits,
        sockets: &mut impl Sockets<Socket = S>,
        reports: &mut Vec<LinkReport>,
        events: &mut Vec<LinkEvent>,
    ) -> Result<Flushed, Broken> {
        // Bytes that the kernel accepts immediately are no sign of life: it accepts them for a dead peer, too.
        let mut had_to_wait = self.unsent.bytes() != 0;
        let mut sent_bytes = 0;
        while sent_bytes < limits.chunk_bytes {
            self.stage_packets(now, limits, reports);
            if limits.sent_report_bytes <= self.sent_bytes {
                events.push(LinkEvent::Sent(self.id, std::mem::take(&mut self.sent_bytes)));
            }
            if self.unsent.bytes() == 0 {
                let chunk = match self.out.front_mut() {
                    None | Some(Out::Packets(..)) => return Ok(Flushed::All(sent_bytes)),
                    Some(Out::Snapshot(sender)) => sender.next().unwrap_or_default().into(),
                    Some(Out::LogDiff(chunks)) => chunks.next(),
                };
                match chunk {
                    Chunk::End => drop(self.out.pop_front()),
                    Chunk::Bytes(bytes) => {
                        had_to_wait = true;
                        self.unsent.push(bytes);
                    }
                    Chunk::NotYet => return Ok(Flushed::AwaitsDisk(sent_bytes)),
                    Chunk::Failed => return Err(Broken),
                }
            }
            let sent = self.unsent.flush(limits.chunk_bytes, sockets, &mut self.socket)?;
            sent_bytes += sent;
            self.sent.is_new |= had_to_wait && 0 < sent;
            if self.unsent.bytes() != 0 && sent < limits.chunk_bytes {
                return Ok(Flushed::All(sent_bytes)); // until the remote end reads
            }
        }
        Ok(Flushed::More(sent_bytes))
    }
}

/// The number of bytes that were sent, and why no more.
pub(super) enum Flushed {
    /// Nothing more can be sent now.
    All(usize),
    /// The next chunk of a log diff is not read yet.
    AwaitsDisk(usize),
    /// More can be sent immediately.
    More(usize),
}
