//! How long a candidate that does not answer is left out of elections, for many settings.

use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{
    ConfigPair, Effect, Effects, ElectionSettings, Eligibility, Epoch, Epochs, Input, LinkId, PeerOptions,
    PeerSettings, PeerState, QuorumPeer, RecentLog, Recovered, ServerId, Timing, Vote, VoteNotification,
};

const LEADER: ServerId = ServerId(3);

/// Server 3 is elected and sends no LEADERINFO, and server 2 votes for it again. Returns how long server 1 has waited
/// for LEADERINFO, and how long the next election leaves server 3 out.
fn waits_ms(timing: Timing, finalize_wait_ms: i64, min_notification_ms: i64) -> (i64, i64) {
    let election = ElectionSettings { finalize_wait_ms, min_notification_ms, ..ElectionSettings::default() };
    let configs = ConfigPair::fixed(Ensemble::of_numbers(0, [1, 2, 3].map(ServerId), []).unwrap());
    let settings = PeerSettings { server: ServerId(1), configs, timing, election, options: PeerOptions::default() };
    let (last, epochs) = (Zxid::new(1, 9), Epochs { accepted: Epoch(1), current: Epoch(1) });
    let history = RecentLog::new(last, 500, 1 << 20);
    let mut peer = QuorumPeer::new(settings, Recovered { epochs, history, eligibility: Eligibility::HasHistory });
    let vote = Vote { leader: LEADER, zxid: last, epoch: 1 };
    let note = |round| VoteNotification { state: PeerState::Looking, vote, round, has_version: true };
    let mut out = Effects::new();
    peer.step(0, Input::Start, &mut out);
    [2, 3].into_iter().for_each(|from| peer.step(0, Input::Notification(ServerId(from), note(1)), &mut out));
    peer.step(0, Input::Dialed(LEADER, Some(LinkId(1))), &mut out);
    out.clear();
    let patience_ms = peer.deadline().expect("the answer of the leader is awaited");
    peer.step(patience_ms, Input::Time, &mut out);
    assert!(out.contains(&Effect::Looking), "{out:?}");
    [2, 3].into_iter().for_each(|from| peer.step(patience_ms, Input::Notification(ServerId(from), note(2)), &mut out));
    let (mut now_ms, votes_for_it) =
        (patience_ms, |effect: &Effect| matches!(effect, Effect::Notify(_, note) if note.vote == vote));
    while !out.iter().any(votes_for_it) {
        now_ms = peer.deadline().expect("the election goes on");
        peer.step(now_ms, Input::Time, &mut out);
        assert!(now_ms < 1_000_000);
    }
    assert!(out.contains(&Effect::Dial(LEADER)), "it has the votes of all: {out:?}");
    (patience_ms, now_ms - patience_ms)
}

/// A voter that elects the candidate again returns after twice the timeout. Writes must continue within two
/// `syncLimit`; the first ends with the leader that is not reached. With a short `syncLimit`, the waits for votes are
/// added.
#[test]
fn left_out_candidate_is_readmitted_within_sync_limit_after_other_voters_return() {
    for (tick_ms, sync_ticks) in [(100, 5), (1_000, 5), (2_000, 5), (2_000, 30), (10_000, 6)] {
        let (timing, finalize_wait_ms) = (Timing { tick_ms, init_ticks: 100, sync_ticks }, 200);
        for min_notification_ms in [20, 200, 3_000] {
            let (patience_ms, left_out_ms) = waits_ms(timing, finalize_wait_ms, min_notification_ms);
            assert!(2 * patience_ms + finalize_wait_ms <= left_out_ms, "{timing:?}: {patience_ms} {left_out_ms}");
            let bound_ms = (sync_ticks * tick_ms).max(3 * sync_ticks * tick_ms / 4 + 8 * finalize_wait_ms);
            assert!(patience_ms + left_out_ms <= bound_ms, "{timing:?}: {patience_ms} {left_out_ms}");
        }
    }
}
