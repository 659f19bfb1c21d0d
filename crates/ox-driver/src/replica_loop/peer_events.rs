//! Input from other servers: events of connections, notifications, and packets that wait until the replica takes them.

use super::{LatestVote, PeerEvent, ReplicaHost, ReplicaLoop, ReplicaStage};
use crate::links::LinkEvent;
use ox_replica::{Now, ReplicaInput};
use ox_zab::{Input, LinkId, Reason, ServerId};

impl ReplicaLoop {
    /// Processes the next event, then the notifications one by one. A member ends the batch after the last one: other
    /// servers do not wait until the requests of clients are prepared.
    pub(super) fn next_peer_input<H: ReplicaHost>(&mut self, now: Now, host: &mut H) -> ReplicaStage {
        if let Some(event) = self.taken.peers.next() {
            self.on_peer_event(now, event, host);
            return ReplicaStage::Peers;
        }
        if let Some((from, vote)) = self.taken.votes.next() {
            self.on_vote(now, from, vote, host);
            return ReplicaStage::Peers;
        }
        if self.replica.status().peer().is_some() {
            self.take_packets(now, host);
            self.flush(now, host);
            self.post(host);
        }
        if self.is_due(now) {
            self.pass(now, ReplicaInput::Time, host);
        }
        ReplicaStage::Submissions
    }

    fn on_vote<H: ReplicaHost>(&mut self, now: Now, from: ServerId, vote: LatestVote, host: &mut H) {
        host.on_vote(&self.replica, from, &vote);
        if let Some(config) = vote.config {
            self.pass(now, ReplicaInput::Peer(Input::Config(from, config)), host);
        }
        self.pass(now, ReplicaInput::Peer(Input::Notification(from, vote.note)), host);
    }

    fn on_peer_event<H: ReplicaHost>(&mut self, now: Now, event: PeerEvent, host: &mut H) {
        host.on_peer_event(&self.replica, &event);
        let input = match event {
            PeerEvent::Election(server, connection) => Input::ElectionLink(server, connection),
            PeerEvent::Dialed(leader, link) => {
                link.into_iter().for_each(|link| self.held.open(link));
                Input::Dialed(leader, link)
            }
            PeerEvent::LearnerConnected(link, _) => {
                self.held.open(link);
                Input::LinkOpened(link)
            }
            PeerEvent::CannotListen => Input::StepDown(Reason::CannotListen),
            PeerEvent::Link(LinkEvent::Closed(link)) => {
                self.take_packets(now, host); // packets received before the end count
                self.forget(link, host);
                return self.pass(now, ReplicaInput::LinkClosed(link), host);
            }
            PeerEvent::Link(LinkEvent::Progress(link, traffic)) => Input::Traffic(link, traffic),
            PeerEvent::Link(LinkEvent::Sent(link, bytes)) => Input::Sent(link, bytes),
            PeerEvent::Link(LinkEvent::Messages(link, messages, bytes)) => {
                self.held.add(link, messages, bytes);
                return self.take_packets(now, host);
            }
            PeerEvent::LogDiffRead(link, below, found) => {
                let below = found.is_some().then_some(below);
                self.log_diff_reads.end(link, found);
                Input::LogRead(link, below)
            }
            PeerEvent::SnapshotLoaded(link, state) => {
                self.take_packets(now, host);
                return self.pass(now, ReplicaInput::SnapshotReceived(link, state), host);
            }
        };
        self.pass(now, ReplicaInput::Peer(input), host);
    }

    /// Drops what is kept for a link that is closed.
    pub(super) fn forget<H: ReplicaHost>(&mut self, link: LinkId, host: &mut H) {
        self.held.forget(link);
        self.log_diff_reads.forget(link);
        host.on_link_closed(link);
    }

    /// Passes packets to the replica for as long as it takes them.
    fn take_packets<H: ReplicaHost>(&mut self, now: Now, host: &mut H) {
        for link in self.held.links() {
            while self.replica.takes_packets(link)
                && let Some(message) = self.held.next(link)
            {
                host.on_packet(now, link, &message);
                self.pass(now, ReplicaInput::Packet(link, message), host);
            }
        }
    }
}
