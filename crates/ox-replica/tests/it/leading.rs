//! A leader of three with one follower that replies while the test lets it, and real clients.

use crate::harness::{Harness, replica_settings};
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::{SessionId, Zxid};
use ox_replica::{Now, Replica, ReplicaInput};
use ox_tree::State;
use ox_zab::{
    ConfigPair, ElectionConnection, ElectionSettings, Eligibility, Epoch, Epochs, Input, LearnerKind, LinkId, Message,
    PeerOptions, PeerSettings, PeerState, QuorumPeer, RecentLog, Recovered, ServerId, Timing, Vote, VoteNotification,
};

const LINK: LinkId = LinkId(1);
pub(crate) const SYNC_MS: i64 = 5_000;

pub(crate) struct Leading {
    pub(crate) world: Harness,
    /// Whether the follower replies; otherwise it is silent.
    pub(crate) is_followed: bool,
    /// Packets that the follower has received and not replied to.
    pub(crate) told: Vec<Message>,
}

/// A member whose history ends at `last`.
fn peer(last: Zxid) -> QuorumPeer {
    let settings = PeerSettings {
        server: ServerId(1),
        configs: ConfigPair::fixed(Ensemble::of_numbers(0, [1, 2, 3].map(ServerId), []).unwrap()),
        timing: Timing { tick_ms: 1_000, init_ticks: 10, sync_ticks: 5 },
        election: ElectionSettings::default(),
        options: PeerOptions::default(),
    };
    let epochs = Epochs { accepted: Epoch::of(last), current: Epoch::of(last) };
    let history = RecentLog::new(last, 500, 1 << 20);
    QuorumPeer::new(settings, Recovered { epochs, history, eligibility: Eligibility::HasHistory })
}

impl Leading {
    /// Established, with an empty history.
    pub(crate) fn new() -> Self {
        Self::in_world(Harness::new())
    }

    /// Established at `now`, with a state from earlier leaders.
    pub(crate) fn continuing(now: Now, state: State) -> Self {
        let mut world = Harness::new();
        (world.now, world.state) = (now, state);
        Self::in_world(world)
    }

    fn in_world(mut world: Harness) -> Self {
        world.settings.syncs_travel = true;
        let last = world.state.last_zxid();
        world.replica = Replica::new(replica_settings(1, 5), peer(last), &world.state, world.now);
        let mut leading = Self { world, is_followed: true, told: Vec::new() };
        leading.world.pass(ReplicaInput::Peer(Input::Start));
        leading.world.pass(ReplicaInput::Peer(Input::ElectionLink(ServerId(3), ElectionConnection::Down)));
        let vote = Vote { leader: ServerId(1), zxid: last, epoch: Epoch::of(last).0 };
        let note = VoteNotification { state: PeerState::Looking, vote, round: 1, has_version: true };
        leading.world.pass(ReplicaInput::Peer(Input::Notification(ServerId(2), note)));
        leading.follower_comes(last);
        assert!(leading.world.replica.status().is_serving());
        leading
    }

    fn follower_comes(&mut self, last: Zxid) {
        let (before, epoch) = (Epoch::of(last), Epoch::of(last).next());
        self.comes(LINK, ServerId(2), (before, epoch), last);
    }

    /// Server 3 follows too, and sends nothing from now on.
    pub(crate) fn second_follower_comes(&mut self) {
        let (last, epoch) =
            (self.world.state.last_zxid(), self.world.replica.status().peer().unwrap().status().epochs.current);
        self.comes(LinkId(2), ServerId(3), (epoch, epoch), last);
    }

    fn comes(&mut self, link: LinkId, server: ServerId, (before, epoch): (Epoch, Epoch), last: Zxid) {
        let kind = LearnerKind::Follower;
        self.world.pass(ReplicaInput::Peer(Input::LinkOpened(link)));
        let hello = Message::Hello { server, kind, accepted: before, config_version: 0 };
        let promise = Message::AckEpoch { last, current: Some(before) };
        for message in [hello, promise, Message::Ack(epoch.start())] {
            self.world.pass(ReplicaInput::Packet(link, message));
            self.world.settle();
        }
        self.settle();
    }

    /// A client with a session.
    pub(crate) fn client(&mut self, timeout_ms: i32) -> (usize, SessionId) {
        let side = self.world.connect(SessionId::NONE, timeout_ms);
        self.settle();
        (side, self.world.hello(side).session)
    }

    /// A packet of the follower arrives.
    pub(crate) fn receives(&mut self, message: Message) {
        self.world.pass(ReplicaInput::Packet(LINK, message));
        self.settle();
    }

    /// Sends the follower's replies. Returns whether there were any.
    fn answers(&mut self) -> bool {
        if !self.is_followed {
            return false;
        }
        let told = std::mem::take(&mut self.told);
        let mut has_answered = false;
        for message in told {
            let answer = match &message {
                Message::Proposal(txn) => Message::Ack(txn.zxid),
                Message::Ping(zxid) => Message::Pong(*zxid, Bytes::new()),
                _ => {
                    self.told.push(message);
                    continue;
                }
            };
            has_answered = true;
            self.world.pass(ReplicaInput::Packet(LINK, answer));
        }
        has_answered
    }

    /// Runs everything until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        loop {
            self.world.settle();
            self.told.extend(self.world.sent.drain(..).map(|(_, message)| message));
            if !self.answers() {
                return;
            }
        }
    }

    /// Lets time pass, with iterations of the server's loop.
    pub(crate) fn pass(&mut self, ms: i64) {
        for _ in 0..ms / 100 {
            self.world.now.mono_ms += 100;
            self.world.on_time();
            self.settle();
        }
    }
}
