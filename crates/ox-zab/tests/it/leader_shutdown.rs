//! A leader that steps down while ACKs and a configuration are in flight: in any order of events its role ends, and it
//! can lead again.

use crate::single_member::{TIMING, member, settings};
use crate::stepped_ensemble::record_of;
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_zab::{
    ConfigPair, Effect, Effects, Eligibility, EncodedTxn, Epoch, Input, LearnerKind, LinkId, Message, PeerState,
    QuorumPeer, Reason,
};

const ME: ServerId = ServerId(3);
const FOLLOWER: ServerId = ServerId(1);
const LINK: LinkId = LinkId(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    Acknowledged,
    Durable,
    Applied,
    LinkGone,
    StepDown,
    LateTurn,
}

struct Leads {
    peer: QuorumPeer,
    now_ms: i64,
    /// Effects since it was established.
    out: Effects,
    /// Jobs that the disk has not finished.
    jobs: Effects,
}

impl Leads {
    fn step(&mut self, input: Input) {
        let from = self.out.len();
        self.peer.step(self.now_ms, input, &mut self.out);
        self.jobs.extend(self.out[from..].iter().filter(|effect| matches!(effect, Effect::Disk(_))).cloned());
    }

    fn work_off(&mut self) {
        while let Some(Effect::Disk(job)) = self.jobs.pop() {
            self.step(Input::Done(job.done()));
        }
    }

    /// Server 1 adopts the vote, so server 3 is elected.
    fn begin(&mut self) {
        let told = self.out.iter().rev().find_map(|effect| match effect {
            Effect::Notify(FOLLOWER, note) => Some(*note),
            _ => None,
        });
        let note = told.expect("all voters are notified");
        assert_eq!((note.state, note.vote.leader), (PeerState::Looking, ME));
        self.step(Input::Notification(FOLLOWER, note));
        while let Some(at_ms) = self.peer.deadline().filter(|_| self.peer.role().leader().is_none()) {
            self.now_ms = at_ms;
            self.step(Input::Time);
        }
        assert!(self.out.contains(&Effect::Listen), "{:?}", self.out);
    }

    /// Established with server 1, with a write and a configuration proposed.
    fn new() -> Self {
        let configs = ConfigPair::dynamic(Ensemble::of_numbers(0, [1, 2, 3].map(ServerId), []).unwrap(), None);
        let mut peer = member(settings(ME.0, configs), Zxid::ZERO, Eligibility::HasHistory);
        let mut out = Effects::new();
        peer.step(0, Input::Start, &mut out);
        let mut leads = Self { peer, now_ms: 0, out, jobs: Effects::new() };
        leads.begin();
        let hello =
            Message::Hello { server: FOLLOWER, kind: LearnerKind::Follower, accepted: Epoch(0), config_version: 0 };
        leads.step(Input::LinkOpened(LINK));
        for message in [hello, Message::AckEpoch { last: Zxid::ZERO, current: Some(Epoch(0)) }] {
            leads.step(Input::Packet(LINK, message));
            leads.work_off();
        }
        leads.step(Input::Packet(LINK, Message::Ack(Zxid::new(1, 0))));
        assert!(leads.out.contains(&Effect::Established(Epoch(1))), "{:?}", leads.out);
        leads.out.clear();
        let config = Ensemble::of_numbers(Zxid::new(1, 2).0, [1, 3].map(ServerId), []).unwrap();
        let [write, change] = [1, 2].map(|counter| Zxid::new(1, counter));
        let txns = [(write, Bytes::new()), (change, record_of(&config, change))];
        leads.step(Input::Propose(txns.map(|(zxid, record)| EncodedTxn { zxid, record }).to_vec()));
        leads
    }

    fn happens(&mut self, what: Happens) {
        let last = Zxid::new(1, 2);
        match what {
            Happens::Acknowledged => {
                self.step(Input::Packet(LINK, Message::Ack(last)));
            }
            Happens::Durable => self.step(Input::Durable(last)),
            Happens::Applied => self.step(Input::Applied(last)),
            Happens::LinkGone => self.step(Input::LinkClosed(LINK)),
            Happens::StepDown => self.step(Input::StepDown(Reason::DiskLow)),
            Happens::LateTurn => {
                self.now_ms += TIMING.tick_ms * TIMING.sync_ticks * 2;
                self.step(Input::Time);
            }
        }
    }
}

/// All permutations of the events.
fn orders(all: &[Happens]) -> Vec<Vec<Happens>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let rest = |first| all.iter().copied().filter(move |other| *other != first).collect::<Vec<_>>();
    let of = |first| orders(&rest(first)).into_iter().map(move |order| [vec![first], order].concat());
    all.iter().copied().flat_map(of).collect()
}

#[test]
fn k094_leader_steps_down_in_any_order_of_events() {
    use Happens::{Acknowledged, Applied, Durable, LateTurn, LinkGone, StepDown};
    let orders = orders(&[Acknowledged, Durable, Applied, LinkGone, StepDown, LateTurn]);
    assert_eq!(orders.len(), 720);
    for order in orders {
        let mut leads = Leads::new();
        let mut has_ended = false;
        for what in &order {
            leads.happens(*what);
            let ends = leads.out.iter().filter(|effect| matches!(effect, Effect::StepDown(_))).count();
            has_ended |= ends != 0;
            assert!(leads.peer.role().leader().is_none() || !has_ended, "{order:?}: it leads after its end");
        }
        leads.work_off();
        assert!(has_ended, "{order:?}");
        assert_eq!(leads.peer.status().state, PeerState::Looking, "{order:?}: {:?}", leads.out);
        assert!(leads.out.contains(&Effect::Looking), "{order:?}: it waits for something: {:?}", leads.out);
        leads.begin();
    }
}
