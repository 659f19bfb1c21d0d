//! A cluster of servers that run elections, with message delays, broken links and killed processes.

use ox_proto::Zxid;
use ox_zab::{
    Election, ElectionConnection, ElectionSettings, Outgoing, PeerState, Quorum, Quorums, ServerId, Vote,
    VoteNotification,
};
use std::collections::{BTreeMap, BTreeSet};

/// How long a role waits: a leader for followers, a follower for its leader.
const ROLE_TIMEOUT_MS: i64 = 1_000;

/// A small generator; its seed reproduces a failure.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from(self.0 >> 33).unwrap() % bound
    }
}

struct Server {
    election: Election,
    own: Vote,
    /// When the server ends its role, unless its peers are still there.
    role_ends_at_ms: i64,
}

#[derive(Clone, Copy)]
enum Event {
    Note(VoteNotification),
    Link(ElectionConnection),
}

pub(crate) struct ElectionCluster {
    pub(crate) now_ms: i64,
    pub(crate) quorums: Quorums,
    servers: BTreeMap<ServerId, Server>,
    /// By time of arrival; the number keeps messages of the same millisecond in order.
    events: BTreeMap<(i64, u64), (ServerId, ServerId, Event)>,
    /// When the last message of a pair arrives, so that messages do not overtake each other.
    last: BTreeMap<(ServerId, ServerId), i64>,
    broken: BTreeSet<(ServerId, ServerId)>,
    next: u64,
    delay_ms: i64,
    pub(crate) rng: Rng,
    /// Elections since the test last reset the counter.
    pub(crate) elections: usize,
}

impl ElectionCluster {
    /// A cluster with these voters, none of which runs.
    pub(crate) fn new(seed: u64, voters: i64, delay_ms: i64) -> Self {
        Self {
            now_ms: 0,
            quorums: Quorums::of(Quorum::majority_of((1..=voters).map(ServerId))),
            servers: BTreeMap::new(),
            events: BTreeMap::new(),
            last: BTreeMap::new(),
            broken: BTreeSet::new(),
            next: 0,
            delay_ms,
            rng: Rng::new(seed),
            elections: 0,
        }
    }

    /// Starts a process, which is LOOKING.
    pub(crate) fn start(&mut self, id: i64, epoch: i64, zxid: i64) {
        let id = ServerId(id);
        let is_voter = self.quorums.is_voter(id);
        let own = if is_voter {
            Vote { leader: id, zxid: Zxid(zxid), epoch }
        } else {
            Vote::abstain(Zxid(i64::MIN), i64::MIN)
        };
        let learner_state = if is_voter { PeerState::Following } else { PeerState::Observing };
        let election = Election::new(id, learner_state, ElectionSettings::default(), own);
        self.servers.insert(id, Server { election, own, role_ends_at_ms: i64::MAX });
        self.look(id);
        for other in self.servers.keys().copied().filter(|other| *other != id).collect::<Vec<_>>() {
            self.link(id, other);
        }
    }

    pub(crate) fn kill(&mut self, id: i64) {
        let id = ServerId(id);
        self.servers.remove(&id);
        self.events.retain(|_, (from, to, _)| *from != id && *to != id);
        for other in self.servers.keys().copied().collect::<Vec<_>>() {
            self.post(id, other, Event::Link(ElectionConnection::Down));
        }
    }

    /// Sends a forged notification that server `from` is in this round.
    pub(crate) fn forge_round(&mut self, to: i64, from: i64, round: i64) {
        let vote = Vote { leader: ServerId(from), zxid: Zxid(0), epoch: 0 };
        let note = VoteNotification { state: PeerState::Looking, vote, round, has_version: true };
        self.post(ServerId(from), ServerId(to), Event::Note(note));
    }

    pub(crate) fn set_link(&mut self, a: i64, b: i64, works: bool) {
        let (a, b) = (ServerId(a.min(b)), ServerId(a.max(b)));
        let changed = if works { self.broken.remove(&(a, b)) } else { self.broken.insert((a, b)) };
        if changed && works {
            self.link(a, b);
        } else if changed {
            self.events.retain(|_, (from, to, _)| (*from.min(to), *from.max(to)) != (a, b));
        }
    }

    fn works(&self, a: ServerId, b: ServerId) -> bool {
        !self.broken.contains(&(a.min(b), a.max(b)))
    }

    fn link(&mut self, a: ServerId, b: ServerId) {
        if self.works(a, b) && self.servers.contains_key(&a) && self.servers.contains_key(&b) {
            self.post(a, b, Event::Link(ElectionConnection::Up));
            self.post(b, a, Event::Link(ElectionConnection::Up));
        }
    }

    fn post(&mut self, from: ServerId, to: ServerId, event: Event) {
        let earliest = self.last.get(&(from, to)).copied().unwrap_or(0);
        let at_ms = earliest.max(self.now_ms + self.rng.below(self.delay_ms) + 1);
        self.last.insert((from, to), at_ms);
        self.next += 1;
        self.events.insert((at_ms, self.next), (from, to, event));
    }

    fn look(&mut self, id: ServerId) {
        self.elections += 1;
        let server = self.servers.get_mut(&id).unwrap();
        let mut out = Outgoing::new();
        let elected = server.election.start_round(self.now_ms, server.own, &self.quorums, &mut out);
        self.after(id, elected, out);
    }

    fn after(&mut self, id: ServerId, elected: Option<ServerId>, out: Outgoing) {
        if elected.is_some() {
            self.servers.get_mut(&id).unwrap().role_ends_at_ms = self.now_ms + ROLE_TIMEOUT_MS;
        }
        for (to, note) in out {
            assert_ne!(to, id, "no server notifies itself");
            if self.works(id, to) && self.servers.contains_key(&to) {
                self.post(id, to, Event::Note(note));
            }
        }
    }

    pub(crate) fn run(&mut self, ms: i64) {
        let until_ms = self.now_ms + ms;
        loop {
            let timer = self.servers.iter().filter_map(|(id, server)| {
                let looks = server.election.state() == PeerState::Looking;
                let at = if looks { server.election.deadline()? } else { server.role_ends_at_ms };
                Some((at, *id))
            });
            let timer = timer.min();
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let at_ms = timer.map_or(i64::MAX, |(at, _)| at).min(event.unwrap_or(i64::MAX));
            if until_ms < at_ms {
                self.now_ms = until_ms;
                return;
            }
            self.now_ms = self.now_ms.max(at_ms);
            if event == Some(at_ms) {
                let (_, (from, to, event)) = self.events.pop_first().unwrap();
                self.deliver(from, to, event);
            } else if let Some((_, id)) = timer {
                self.on_time(id);
            }
        }
    }

    fn deliver(&mut self, from: ServerId, to: ServerId, event: Event) {
        let Some(server) = self.servers.get_mut(&to) else { return };
        let mut out = Outgoing::new();
        let elected = match event {
            Event::Note(note) => server.election.on_notification(self.now_ms, from, note, &self.quorums, &mut out),
            Event::Link(link) => server.election.on_link(self.now_ms, from, link, &self.quorums, &mut out),
        };
        self.after(to, elected, out);
    }

    /// The timer of an election, or the end of a role: a follower stays while its leader leads, a leader while a quorum
    /// follows it.
    fn on_time(&mut self, id: ServerId) {
        if self.servers[&id].election.state() == PeerState::Looking {
            let server = self.servers.get_mut(&id).unwrap();
            let mut out = Outgoing::new();
            let elected = server.election.on_time(self.now_ms, &self.quorums, &mut out);
            return self.after(id, elected, out);
        }
        let leader = self.servers[&id].election.vote().leader;
        let is_with = |server: ServerId| {
            let other = self.servers.get(&server);
            other.is_some_and(|other| {
                other.election.state() != PeerState::Looking && other.election.vote().leader == leader
            }) && (server == id || self.works(server, id))
        };
        let stays = if leader == id { self.quorums.are_reached(is_with) } else { is_with(leader) };
        if stays {
            self.servers.get_mut(&id).unwrap().role_ends_at_ms = self.now_ms + ROLE_TIMEOUT_MS;
        } else {
            self.look(id);
        }
    }

    /// The leader that all running servers follow, if it is the same.
    pub(crate) fn leader(&self) -> Option<i64> {
        let mut leaders = self
            .servers
            .values()
            .map(|server| (server.election.state() != PeerState::Looking).then(|| server.election.vote().leader));
        let first = leaders.next()??;
        leaders.all(|leader| leader == Some(first)).then_some(first.0)
    }

    pub(crate) fn state(&self, id: i64) -> PeerState {
        self.servers[&ServerId(id)].election.state()
    }
}
