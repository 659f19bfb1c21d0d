//! A member of an ensemble, and a leader that sends malformed packets or is silent.

use crate::harness::replica_settings;
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::txn::TxnHeader;
use ox_proto::{Jute, OpCode, SessionId, Zxid};
use ox_replica::{Now, Replica};
use ox_tree::State;
use ox_zab::{
    ConfigPair, DiskJob, Effect, Effects, ElectionSettings, Eligibility, EncodedTxn, Epoch, Epochs, LinkId, Message,
    PeerOptions, PeerSettings, PeerState, QuorumPeer, Reason, RecentLog, Recovered, ServerId, Timing, Vote,
    VoteNotification,
};

const NOW: Now = Now { mono_ms: 1_000, wall_ms: 1_700_000_000_000 };
const LINK: LinkId = LinkId(1);

/// Server 1 of two, which is about to be sent the history of server 2.
fn syncing() -> Replica {
    let epochs = Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO };
    let peer_settings = PeerSettings {
        server: ServerId(1),
        configs: ConfigPair::fixed(Ensemble::of_numbers(0, [ServerId(1), ServerId(2)], []).unwrap()),
        timing: Timing { tick_ms: 1_000, init_ticks: 10, sync_ticks: 5 },
        election: ElectionSettings::default(),
        options: PeerOptions::default(),
    };
    let history = RecentLog::new(Zxid::ZERO, 500, 1 << 20);
    let peer = QuorumPeer::new(peer_settings, Recovered { epochs, history, eligibility: Eligibility::HasHistory });
    let mut replica = Replica::member(replica_settings(1, 5), peer, &State::new(ox_tree::TreeOptions::default()), NOW);
    replica.start(NOW);
    let vote = Vote { leader: ServerId(2), zxid: Zxid::ZERO, epoch: 0 };
    let note = VoteNotification { state: PeerState::Looking, vote, round: 1, has_version: true };
    replica.on_notification(NOW, ServerId(2), note);
    assert!(replica.take_effects().contains(&Effect::Dial(ServerId(2))));
    replica.on_dialed(NOW, ServerId(2), Some(LINK));
    replica.on_message(NOW, LINK, Message::LeaderInfo(Epoch(1)));
    replica.on_done(NOW, DiskJob::AcceptedEpoch(Epoch(1)).done());
    replica.on_message(NOW, LINK, Message::Diff(Zxid::ZERO));
    replica.take_effects();
    replica
}

fn is_given_up(effects: &Effects) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::StepDown(Reason::Violation(_))))
}

/// A transaction that cannot be applied is not logged: it would make every later start fail.
#[test]
fn undecodable_transactions_are_refused() {
    let zxid = Zxid::new(1, 1);
    let kind = OpCode::CreateSession.code();
    let header = TxnHeader { session: SessionId(7), cxid: 0, zxid: Zxid::new(1, 2), time_ms: 0, kind };
    let mut other = Vec::new();
    header.put(&mut other);
    other.extend_from_slice(&6_000_i32.to_be_bytes());
    for record in [&b""[..], b"nonsense", &[0xff; 100], &other] {
        for message in [Message::Proposal, Message::Inform] {
            let mut replica = syncing();
            replica.on_message(NOW, LINK, message(EncodedTxn { zxid, record: Bytes::copy_from_slice(record) }));
            assert!(is_given_up(&replica.take_effects()), "{record:?}");
            assert!(replica.take_log(NOW).is_none());
        }
    }
}

/// If the whole host was paused, the leader's packets wait in the socket, and its silence counts only when they are
/// read.
#[test]
fn paused_member_reads_before_leader_times_out() {
    for is_pause in [true, false] {
        let (mut replica, state) = (syncing(), State::new(ox_tree::TreeOptions::default()));
        let now = Now { mono_ms: NOW.mono_ms + 60_000, ..NOW };
        let meant_ms = if is_pause { replica.rest_ms(NOW).expect("a pause could hide") } else { 60_000 };
        assert_eq!(replica.on_turn(now, meant_ms, || 0).is_some(), is_pause);
        replica.on_time(now, &state);
        let is_left = replica.take_effects().contains(&Effect::StepDown(Reason::Timeout));
        assert_eq!(is_left, !is_pause);
    }
}
