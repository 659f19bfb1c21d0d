//! What a server sends is what its disk has stored: votes, hellos, accepted epochs (P2, P15) and acknowledgements
//! (P13, P14).

use super::Finding;
use crate::env::Env;
use crate::event::ProcessId;
use crate::outcome::FailureKind;
use crate::server::ExpectedDisk;
use crate::server::member::{Member, server_id};
use ox_proto::{ServerId, Zxid};
use ox_replica::{LogJob, Replica, ReplicaEffect};
use ox_zab::{Eligibility, Epoch, LinkId, Message, PeerState, ZxidRange};

/// Effects are checked in order, but the replica may have processed more inputs meanwhile: `member` is up to date with
/// the effects before this one.
pub(crate) fn check(
    (replica, member): (&Replica, &Member),
    env: &Env,
    expected: &ExpectedDisk,
    pid: ProcessId,
    effect: &ReplicaEffect,
) -> Result<(), Finding> {
    let current = Epoch(i64::from(expected.epochs.current));
    let accepted = Epoch(i64::from(expected.epochs.accepted));
    let fail = |what: String| {
        let detail = format!("server {} sends {what}; its disk has reported {expected:?}", pid.server);
        Err(Finding::new(FailureKind::SentNotDurable, detail))
    };
    let is_end = |zxid: Zxid| {
        expected.synced == expected.last && env.reference_log.truncated_end(expected.last, zxid) == expected.last
    };
    let has_history = replica.status().peer().is_some_and(|peer| peer.status().eligibility == Eligibility::HasHistory);
    // The epochs that leaders have sent in LEADERINFO.
    let is_promised = |link: LinkId| member.leader_epochs.get(&link) == Some(&accepted);
    let is_voter = |server: ServerId| {
        let is_active = member.ensemble.as_ref().is_none_or(|active| active.voters().any(|voter| voter == server));
        is_active && replica.status().peer().is_some_and(|peer| peer.configs().quorums().is_voter(server))
    };
    match effect {
        // A server without a vote receives the result of the last election, which promises nothing.
        ReplicaEffect::Notify(to, note)
            if note.state == PeerState::Looking && note.vote.leader == server_id(pid.server) && is_voter(*to) =>
        {
            let vote = note.vote;
            let claims_nothing = vote.zxid == Zxid(-1) || vote.epoch == i64::MIN;
            if claims_nothing || (is_end(vote.zxid) && vote.epoch == current.0) {
                return Ok(());
            }
            fail(format!("{vote:?}"))
        }
        ReplicaEffect::Send(_, Message::Hello { accepted: told, .. }) if *told != accepted => {
            fail(format!("{told} accepted"))
        }
        ReplicaEffect::Send(link, message @ Message::AckEpoch { last, current: Some(told) }) => {
            let is_true = *told == current && is_end(*last) && is_promised(*link);
            if is_true { Ok(()) } else { fail(format!("{message:?}")) }
        }
        // A member with a history accepts the epoch even if its ACKEPOCH does not count.
        ReplicaEffect::Send(link, message @ Message::AckEpoch { current: None, .. })
            if has_history && !is_promised(*link) =>
        {
            fail(format!("{message:?}"))
        }
        ReplicaEffect::Disk(LogJob::AcceptedEpoch(epoch)) if *epoch < accepted => {
            fail(format!("accepted epoch {epoch}"))
        }
        ReplicaEffect::Disk(LogJob::CurrentEpoch(epoch)) if *epoch < current => fail(format!("current epoch {epoch}")),
        ReplicaEffect::Send(_, Message::LeaderInfo(epoch)) if *epoch != accepted => fail(format!("epoch {epoch}")),
        ReplicaEffect::Send(_, Message::NewLeader { epoch, .. }) if *epoch != current => fail(format!("epoch {epoch}")),
        ReplicaEffect::Send(_, Message::Ack(zxid)) if zxid.counter() == 0 => {
            if Epoch::of(*zxid) == current {
                Ok(())
            } else {
                fail(format!("the history of {zxid}"))
            }
        }
        ReplicaEffect::Send(_, Message::Ack(zxid) | Message::Acks(ZxidRange { last: zxid, .. }))
            if expected.synced < *zxid =>
        {
            fail(format!("{zxid}"))
        }
        _ => Ok(()),
    }
}
