//! Seeds that failed before, each with the cause. They are never removed.
//!
//! A seed reproduces its failure only as long as plans and clients draw the same numbers. After that, the unit test of the
//! fix covers the bug, and the seed remains as one more simulation.

use crate::survives;
use Drawn::{Plain, Profile, Voters};
use ox_sim::{FaultProfile, Plan};

/// How the plan is drawn from the seed.
enum Drawn {
    Plain,
    /// With this number of voters.
    Voters(usize),
    Profile(FaultProfile),
}

const FAILED: [(u64, Drawn); 48] = [
    // The checker did not know the owner of a session whose handshake got no reply and whose first writes were
    // refused.
    (383, Plain),
    // A session expired after the late reply to a write, before the pings that had arrived meanwhile were read.
    (7_311, Plain),
    // The checker took an old log that a purge had failed to delete for a gap in the history.
    (8_217, Plain),
    // Two observers replied to each other's notifications forever.
    (42, Plain),
    // A leader did not know a session that its learner had already granted to a client.
    (288, Plain),
    // The checker reported a leader as incomplete that was established late and could commit nothing.
    (229, Plain),
    // A connection got its session back because the connection that had taken it over was closed.
    (387, Plain),
    // A torn sector hid a transaction before the first one of a new epoch.
    (702, Plain),
    // A synchronised learner touched a session because of old traffic.
    (831, Plain),
    // A leader without followers reported a session as expired whose closeSession it had only proposed.
    (243, Voters(3)),
    // A server that had lost its leader dropped watches of clients before their last replies.
    (820, Voters(5)),
    // A session was reported as expired while its closeSession was being proposed.
    (932, Voters(2)),
    // A damaged compressed snapshot kept a member from starting.
    (42, Voters(3)),
    // The simulator deleted a log together with its synced position, which no server could detect.
    (82, Plain),
    // The simulator emptied the directory of a running server, which then wrote files that looked complete.
    (134, Plain),
    // A learner whose disk had hung touched the session of a client that had disconnected long before.
    (2_028, Plain),
    // The checker attributed the expiry of a session to a leader that was established late.
    (2_454, Plain),
    // The simulator deleted a file while a start read it.
    (2_118, Voters(3)),
    // The simulator deleted the record of session ids and also reset the clock that would have kept the ids distinct.
    (1_019, Plain),
    // A lost log was not detected, because the next epoch began with an error transaction.
    (2_802, Plain),
    // The checker ignored a closeSession that was committed but not applied anywhere yet.
    (3_217, Voters(3)),
    // The simulator damaged the end of a log before a new epoch, which only digests could detect.
    (3_470, Voters(3)),
    // An observer continued to write for a session that a client of its follower had taken over.
    (7, Plain),
    // A log could not be truncated and was continued; the rest was dropped from memory and never applied.
    (31_261, Plain),
    // The checker did not know that slow paths between servers delay the touches of learners.
    (30_323, Plain),
    // The checker did not know that a hung disk delays the start of a session.
    (101_574, Plain),
    // A leader sent an observer a log diff without transactions that were purged at the end of an epoch.
    (141_493, Plain),
    // A client of a follower had lost its session to another server, and wrote again while an observer of the same
    // follower was revalidating the session.
    (150_109, Voters(3)),
    // A follower refused a request of a disconnected observer, as if the session had another owner.
    (402_253, Plain),
    // A member had moved a damaged log aside that a snapshot covered. When that snapshot was lost, it loaded an older
    // one, and the next epoch seemed to follow.
    (400_640, Plain),
    // The simulator did not know that a learner may disconnect before its log diff is sent.
    (870_484, Plain),
    // A server did not detect a pause during its own wait, and expired a session whose messages it had not read.
    (910_196, Voters(1)),
    // The checker did not know that a multi may create a node twice, first with a restrictive and then with an open
    // ACL.
    (920_774, Voters(1)),
    // Pings that the socket accepted counted as a sign of life of a learner that had not replied since UPTODATE, so a
    // deaf leader did not step down.
    (3_100_067, Profile(FaultProfile::Network)),
    // One of four voters received from one other only. That one did not leave it out of the next round as the other
    // two did, so that no candidate had a quorum for as long as candidates are left out.
    (5_000_665, Plain),
    // The voters had no leader for half a minute. The observers then asked for the new one only half a minute later.
    (24_002_192, Plain),
    // A voter began to connect to a deaf leader before it had heard the vote of the third voter. It waited for the
    // leader as if no other server could lead.
    (19_800_018, Profile(FaultProfile::OneWay)),
    // The only client had seen a transaction at a read-only server that was never committed. No server of the next
    // epochs accepted it, because no other client wrote.
    (8_500_448, Profile(FaultProfile::Reconfig)),
    // Bytes in flight when the faults ended kept the delays of a slow network. The checker expected what was sent after
    // them on the same connection to arrive earlier.
    (51_009_080, Plain),
    // An observer master relayed a touch of an observer that had lost the session to a client of the observer master.
    // With it the session got its old, shorter timeout, and expired too early.
    (71_000_072, Plain),
    // After a pause, the I/O thread continued an iteration from before it, and overwrote the touch that gave its session
    // the full timeout again.
    (81_001_247, Plain),
    // The checker expected the timeout of an old connection that was still read, although a later handshake had set a
    // shorter one.
    (81_000_205, Profile(FaultProfile::Sessions)),
    // Threads that a stall had delayed stayed delayed when the faults ended, without excuse.
    (81_000_326, Profile(FaultProfile::Sessions)),
    // The checker took a reply to a server without a vote for a vote, because a later input of the same batch made that
    // server a voter.
    (91_002_184, Plain),
    // The process was paused within an iteration of the replica loop, whose timers then saw the time after the pause.
    (91_003_690, Plain),
    // A voter with weight 0 voted for itself while the others elected a leader. It asked for the leader only when its
    // interval of half a minute was over.
    (91_008_250, Plain),
    // The checker of late expiry did not know of a pause after which sessions got their full timeout again.
    (101_007_870, Plain),
    // The same as 19800018, but the third voter had already begun the next round when its vote arrived.
    (121_006_288, Plain),
];

/// Half of the seeds each, so that two cores share them.
fn check_half(half: usize) {
    for (seed, drawn) in FAILED.iter().skip(half).step_by(2) {
        let plan = match drawn {
            Plain => Plan::of(*seed),
            Voters(voters) => Plan::of(*seed).with_voters(*voters),
            Profile(profile) => Plan::with_profile(*seed, *profile),
        };
        survives(*seed, &plan);
    }
}

#[test]
fn seeds_that_failed_before_survive() {
    check_half(0);
}

#[test]
fn other_seeds_that_failed_before_survive() {
    check_half(1);
}
