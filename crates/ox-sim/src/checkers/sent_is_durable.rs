//! What a server claims is what its disk has reported: votes, hellos, promises (P2, P15), acknowledgements (P13, P14).

use super::Finding;
use crate::env::Env;
use crate::event::Who;
use crate::outcome::Kind;
use crate::server::Track;
use crate::server::member::server_id;
use crate::server::process::Process;
use ox_proto::Zxid;
use ox_zab::{DiskJob, Effect, Epoch, LinkId, Message, PeerState, Run, Standing};

pub(crate) fn check(process: &Process, env: &Env, track: &Track, who: Who, effect: &Effect) -> Result<(), Finding> {
    let current = Epoch(i64::from(track.epochs.current));
    let accepted = Epoch(i64::from(track.epochs.accepted));
    let fail = |what: String| {
        let detail = format!("server {} claims {what}; its disk has reported {track:?}", who.server);
        Err(Finding::new(Kind::ClaimNotDurable, detail))
    };
    // Who has nothing that counts says so.
    let is_end = |zxid: Zxid| track.synced == track.last && env.journal.cut(track.last, zxid) == track.last;
    let has_history = process.replica.as_peer().is_some_and(|peer| peer.standing() == Standing::History);
    let is_promised = |link: LinkId| process.member.asked.get(&link) == Some(&accepted);
    match effect {
        // Who does not vote is told the last outcome, which claims nothing.
        Effect::Notify(to, note)
            if note.state == PeerState::Looking
                && note.vote.leader == server_id(who.server)
                && process.replica.as_peer().is_some_and(|peer| peer.configs().quorums().is_voter(*to)) =>
        {
            let vote = note.vote;
            let claims_nothing = vote.zxid == Zxid(-1) || vote.epoch == i64::MIN;
            if claims_nothing || (is_end(vote.zxid) && vote.epoch == current.0) {
                return Ok(());
            }
            fail(format!("{vote:?}"))
        }
        Effect::Send(_, Message::Hello { accepted: told, .. }) if *told != accepted => fail(format!("{told} accepted")),
        Effect::Send(link, message @ Message::AckEpoch { last, current: Some(told) }) => {
            let is_true = *told == current && is_end(*last) && is_promised(*link);
            if is_true { Ok(()) } else { fail(format!("{message:?}")) }
        }
        // Who has a history promises, though it may not be counted.
        Effect::Send(link, message @ Message::AckEpoch { current: None, .. }) if has_history && !is_promised(*link) => {
            fail(format!("{message:?}"))
        }
        Effect::Disk(DiskJob::AcceptedEpoch(epoch)) if *epoch < accepted => fail(format!("a promise of {epoch}")),
        Effect::Disk(DiskJob::CurrentEpoch(epoch)) if *epoch < current => fail(format!("the history of {epoch}")),
        Effect::Send(_, Message::LeaderInfo(epoch)) if *epoch != accepted => fail(format!("epoch {epoch}")),
        Effect::Send(_, Message::NewLeader { epoch, .. }) if *epoch != current => fail(format!("epoch {epoch}")),
        Effect::Send(_, Message::Ack(zxid)) if zxid.counter() == 0 => {
            if Epoch::of(*zxid) == current {
                Ok(())
            } else {
                fail(format!("the history of {zxid}"))
            }
        }
        Effect::Send(_, Message::Ack(zxid) | Message::Acks(Run { last: zxid, .. })) if track.synced < *zxid => {
            fail(format!("{zxid}"))
        }
        _ => Ok(()),
    }
}
