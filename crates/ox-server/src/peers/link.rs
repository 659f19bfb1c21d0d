//! Links on mio sockets. `ox-driver/src/links.rs` transfers the packets; this module registers sockets, starts the
//! threads that read log diffs, and notes metrics.

use super::commands::PeerCommands;
use super::handshakes::Accepted;
use super::log_diff_sender;
use super::socket::{PeerSocket, PeerSockets};
use super::timed_log_limit::TimedLogLimit;
use crate::clock::Clock;
use crate::io::stream::Stream;
use crate::limits::{FIRST_PACKET_BYTES_MAX, LINK_CHUNK_BYTES, LINK_HELD_BYTES_MAX, LINK_SENT_REPORT_BYTES};
use crate::limits::{LINK_ITERATION_BYTES_MAX, LINK_TRAFFIC_INTERVAL, LINKS_PER_MEMBER_MAX, UNKNOWN_SERVERS_MAX};
use crate::status::metrics::Metrics;
use mio::{Interest, Registry, Token};
use ox_driver::links::{
    Dequeued, IdentifiedLearner, LinkEvent, LinkLimits, LinkReport, Links, Packets, RemoteEnd, UnloadedSnapshot,
};
use ox_driver::replica_loop::PeerEvent;
use ox_proto::ServerId;
use ox_store::LoggedRecord;
use ox_tree::FrozenView;
use ox_zab::LinkId;
use socket2::SockRef;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The links of this server.
pub(super) struct PeerLinks {
    commands: Arc<PeerCommands>,
    metrics: Arc<Metrics>,
    clock: Clock,
    leader_nodelay: bool,
    learner_nodelay: bool,
    /// A link has the number of its socket's token.
    links: Links<PeerSocket>,
    /// Events of one call, until they are passed on.
    link_events: Vec<LinkEvent>,
    sockets: PeerSockets,
    /// Limits the lines about closed links of unknown servers.
    unknown_close_log: TimedLogLimit,
}

fn link_of(token: Token) -> LinkId {
    LinkId(token.0 as u64)
}

fn limits(packet_bytes_max: usize) -> LinkLimits {
    LinkLimits {
        packet_bytes_max,
        first_packet_bytes_max: FIRST_PACKET_BYTES_MAX,
        chunk_bytes: LINK_CHUNK_BYTES,
        iteration_bytes_max: LINK_ITERATION_BYTES_MAX,
        held_bytes_max: LINK_HELD_BYTES_MAX,
        sent_report_bytes: LINK_SENT_REPORT_BYTES,
        traffic_interval: LINK_TRAFFIC_INTERVAL,
        links_per_member_max: LINKS_PER_MEMBER_MAX,
        unknown_servers_max: UNKNOWN_SERVERS_MAX,
    }
}

impl PeerLinks {
    pub(super) fn new(
        commands: Arc<PeerCommands>,
        (metrics, clock): (Arc<Metrics>, Clock),
        packet_bytes_max: usize,
        leader_nodelay: bool,
        learner_nodelay: bool,
    ) -> Self {
        Self {
            commands,
            metrics,
            clock,
            leader_nodelay,
            learner_nodelay,
            links: Links::new(limits(packet_bytes_max)),
            link_events: Vec::new(),
            sockets: PeerSockets::default(),
            unknown_close_log: TimedLogLimit::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        mut stream: Stream,
        token: Token,
        end: RemoteEnd,
        registry: &Registry,
    ) -> Option<LinkId> {
        registry.register(stream.tcp_mut(), token, Interest::READABLE | Interest::WRITABLE).ok()?;
        let nodelay = match end {
            RemoteEnd::Learner => self.leader_nodelay,
            RemoteEnd::Leader(_) => self.learner_nodelay,
        };
        let _ = stream.tcp().set_nodelay(nodelay);
        let id = link_of(token);
        self.links.add(self.clock.elapsed(), id, PeerSocket { stream, from: None }, end);
        Some(id)
    }

    /// Takes over a registered connection whose input starts with the hello of `server`.
    pub(super) fn adopt(
        &mut self,
        Accepted { stream, token, address, input }: Accepted,
        server: ServerId,
        is_member: impl Fn(ServerId) -> bool,
        events: &mut Vec<PeerEvent>,
    ) {
        let from = stream.tcp().peer_addr().ok();
        let _ = stream.tcp().set_nodelay(self.leader_nodelay);
        let (link, socket) = (link_of(token), PeerSocket { stream, from: Some(address) });
        let learner = IdentifiedLearner { link, socket, server, input };
        self.links.adopt(self.clock.elapsed(), learner, is_member, &mut self.sockets, &mut self.link_events);
        self.pass_on(events);
        events.push(PeerEvent::LearnerConnected(link, from));
    }

    /// The addresses that a learner's links come from.
    pub(super) fn addresses_of(&self, server: ServerId) -> impl Iterator<Item = IpAddr> {
        self.links.sockets_of(server).filter_map(|socket| socket.from)
    }

    /// Applies a new configuration: which servers are members.
    pub(super) fn reconfigure(&mut self, is_member: impl Fn(ServerId) -> bool) {
        self.links.reconfigure(is_member);
    }

    /// When bytes last arrived from an active leader, which pings, and whether all input was read.
    pub(super) fn leader_last_received(&self) -> Option<(Instant, bool)> {
        let (at, is_read) = self.links.leader_last_received()?;
        Some((self.clock.instant(at), is_read))
    }

    /// Reads from an active leader. False if nothing arrived.
    pub(super) fn read_leader(&mut self, events: &mut Vec<PeerEvent>) -> bool {
        let has_read = self.links.read_leader(self.clock.elapsed(), &mut self.sockets, &mut self.link_events);
        self.pass_on(events);
        has_read
    }

    /// Resets the link to the leader: unsent data is dropped, and one packet informs the remote end.
    pub(super) fn reset_leader(&mut self, events: &mut Vec<PeerEvent>) {
        let Some((id, socket)) = self.links.leader_link() else { return };
        let _ = SockRef::from(socket.stream.tcp()).set_linger(Some(Duration::ZERO));
        self.links.fail(id, &mut self.sockets, &mut self.link_events);
        self.pass_on(events);
    }

    pub(super) fn send(&mut self, id: LinkId, packets: Packets) {
        self.links.send(self.clock.elapsed(), id, packets);
    }

    /// Sends SNAP and the snapshot.
    pub(super) fn send_snapshot(&mut self, id: LinkId, frozen: FrozenView) {
        self.links.send_snapshot(self.clock.elapsed(), id, frozen);
    }

    /// Sends transactions from the on-disk log.
    pub(super) fn send_log_diff<H>(&mut self, id: LinkId, history: H, events: &mut Vec<PeerEvent>)
    where
        H: Iterator<Item = Result<LoggedRecord, ox_store::StoreError>> + Send + 'static,
    {
        if !self.links.contains(id) {
            return;
        }
        match log_diff_sender::read(history, Arc::clone(&self.commands)) {
            Ok(chunks) => self.links.send_log_diff(id, chunks),
            Err(error) => {
                tracing::error!(%error, "cannot start a thread to read the log");
                self.links.fail(id, &mut self.sockets, &mut self.link_events);
                self.pass_on(events);
            }
        }
    }

    /// Marks a link ready to read and write.
    pub(super) fn on_ready(&mut self, token: Token) {
        self.links.on_ready(link_of(token));
    }

    /// Whether a link can transfer its next chunk immediately.
    pub(super) fn has_more(&self) -> bool {
        self.links.has_more()
    }

    /// Transfers a chunk of each ready link, up to a limit, and notifies the replica of traffic.
    pub(super) fn run_iteration(&mut self, events: &mut Vec<PeerEvent>) {
        self.links.run_iteration(self.clock.elapsed(), &mut self.sockets, &mut self.link_events);
        self.links.on_time(self.clock.elapsed(), &mut self.link_events);
        self.pass_on(events);
        self.links.take_reports().into_iter().for_each(|report| self.note(report));
    }

    fn pass_on(&mut self, events: &mut Vec<PeerEvent>) {
        events.extend(self.link_events.drain(..).map(PeerEvent::Link));
    }

    fn note(&mut self, report: LinkReport) {
        match report {
            LinkReport::Dequeued(Dequeued { learner, sizes, waited }) => {
                self.metrics.learner_handler_qp_size.of(learner).iter().for_each(|size| size.merge(&sizes));
                if let Some(waited) = waited
                    && let Some(time) = self.metrics.learner_handler_qp_time_ms.of(learner)
                {
                    time.note(i64::try_from(waited.as_millis()).unwrap_or(i64::MAX), 1);
                }
            }
            LinkReport::UnknownClosed { bytes, total } => {
                if let Some(suppressed) = self.unknown_close_log.allow() {
                    let line =
                        "link of an unknown server closed: the links of unknown servers together use too much memory";
                    tracing::warn!(bytes, total, suppressed, "{line}");
                }
            }
        }
    }

    /// Takes the snapshots received since the last call.
    pub(super) fn take_snapshots(&mut self) -> Vec<UnloadedSnapshot> {
        self.links.take_snapshots()
    }

    /// Closes a link on request of the replica, after one attempt to flush it.
    pub(super) fn close(&mut self, id: LinkId) {
        self.links.close(self.clock.elapsed(), id, &mut self.sockets);
    }

    /// Resumes reading, after the replica has processed packets.
    pub(super) fn consumed(&mut self, id: LinkId, bytes: usize) {
        self.links.consumed(id, bytes);
    }
}

#[cfg(test)]
mod tests;
