//! Log lines that operators and their tools search for. Sentences and layout are Apache's.
//!
//! In the tables, `~` stands for any text, and `$OLD`, `$NEW` and `$FOLLOWER` for the ids of voters.

use crate::members;
use ox_testkit::TestEnsemble;

const SETTINGS: &[&str] = &[
    "Reading configuration from: ~/zoo.cfg",
    "tickTime set to 500",
    "minSessionTimeout set to 1000",
    "maxSessionTimeout set to 60000",
    "initLimit set to 20",
    "syncLimit set to 4",
    "autopurge.snapRetainCount set to 3",
    "autopurge.purgeInterval set to 0",
    "Server environment:~=~",
    "zookeeper.snapshot.trust.empty : false",
    "zookeeper.digest.enabled = true",
    "Starting quorum peer, myid=~",
    "Using 2000ms as the quorum cnxn socket timeout",
    "~ is accepting connections now, my election bind port: 127.0.0.~:~",
];

const NOTIFICATION: &str = "Notification: my state:LOOKING; n.sid:~, n.state:~, n.leader:~, n.round:0x~, \
                            n.peerEpoch:0x~, n.zxid:0x~, message format version:0x2, n.config version:0x~";

const FIRST_LEADER: &[&str] = &[
    "LOOKING",
    "New election. My id = $OLD, proposed zxid=0x0",
    NOTIFICATION,
    "Peer state changed: leading",
    "LEADING leader=$OLD",
    "LEADING - LEADER ELECTION TOOK - ~ MS",
    "Peer state changed: leading - discovery",
    "Follower sid: 4 : info : 127.0.0.4:~:~:observer",
    "Synchronizing with Learner sid: ~ maxCommittedLog=0x~ minCommittedLog=0x~ lastProcessedZxid=0x~ peerLastZxid=0x~",
    "Peer state changed: leading - synchronization",
    "Received NEWLEADER-ACK message from 4",
    "Have quorum of supporters, sids: [[~, ~]]; starting up and setting last processed zxid: 0x100000000",
    "Peer state changed: leading - broadcast",
];

/// A follower that joins a leader, or a second one.
const FOLLOWER: &[&str] = &[
    "LOOKING",
    "Peer state changed: following",
    "FOLLOWING leader=$NEW",
    "FOLLOWING - LEADER ELECTION TOOK - ~ MS",
    "Peer state changed: following - discovery",
    "Successfully connected to leader, using address: /127.0.0.$NEW:~",
    "Peer state changed: following - synchronization",
    "Getting a diff from the leader 0x~",
    "Peer state changed: following - synchronization - diff",
    "Learner received NEWLEADER message",
    "Learner received UPTODATE message",
    "Peer state changed: following - broadcast",
];

const FOLLOWER_WITHOUT_LEADER: &[&str] = &[
    "Exception when following the leader cause=",
    "shutdown Follower",
    "Shutting down",
    "Peer state changed: looking",
    "New election. My id = $FOLLOWER, proposed zxid=0x1000000",
    NOTIFICATION,
];

const OBSERVER: &[&str] = &[
    "New election. My id = 4, proposed zxid=0x8000000000000000",
    "Peer state changed: observing",
    "OBSERVING leader=$OLD",
    "Peer state changed: observing - discovery",
    "Observing new leader sid=$OLD addr=/127.0.0.$OLD:~",
    "Successfully connected to leader, using address: /127.0.0.$OLD:~",
    "Peer state changed: observing - synchronization",
    "Peer state changed: observing - broadcast",
    "Exception when observing the leader cause=",
    "shutdown Observer",
    "Peer state changed: looking",
    "Observing new leader sid=$NEW addr=/127.0.0.$NEW:~",
];

/// The old leader after its restart.
const RECOVERED: &[&str] = &[
    "Reading snapshot ~/snapshot.0",
    "The digest value is empty in snapshot",
    "~ txns loaded in ~ ms",
    "Snapshot loaded in ~ ms, highest zxid is 0x10000000~, digest is ~",
];

const EMPTY_OBSERVER: &[&str] =
    &["Getting a snapshot from leader 0x2~", "Peer state changed: observing - synchronization - snap"];

const RESTARTED_OBSERVER: &[&str] =
    &["The digest in the snapshot has digest version of 2, with zxid as 0x2~, and digest value as ~"];

const NEW_LEADER: &[&str] = &[
    "Have quorum of supporters, sids: [[~, ~]]; starting up and setting last processed zxid: 0x200000000",
    "Follower sid: $OLD : info : 127.0.0.$OLD:~:~:participant",
    "Synchronizing with Learner sid: $OLD maxCommittedLog=0x2~ minCommittedLog=0x~ lastProcessedZxid=0x2~ \
     peerLastZxid=0x100000~",
    "Sending DIFF zxid=0x2~ for peer sid: $OLD",
    "Received NEWLEADER-ACK message from $OLD",
    "Sending snapshot last zxid of peer is 0x0, zxid of leader is 0x2~, send zxid of db as 0x2~, 1 concurrent \
     snapshot sync, snapshot sync was not exempt from throttle",
    "******* GOODBYE sid:4 /127.0.0.1:~ ********",
    "Shutdown called. For the reason Not sufficient followers synced, only synced with sids: [ [$NEW] ]",
    "Shutting down",
    "Peer state changed: looking",
    "Cannot open channel to $FOLLOWER at election address 127.0.0.$FOLLOWER:",
];

/// Whether a message starts with the pattern, in which `~` stands for any text.
fn fits(message: &str, pattern: &str) -> bool {
    let (start, parts) = pattern.split_once('~').unwrap_or((pattern, ""));
    let rest = message.strip_prefix(start);
    rest.is_some_and(|rest| parts.split('~').try_fold(rest, |rest, part| Some(rest.split_once(part)?.1)).is_some())
}

/// Checks that a member has logged these sentences. `ids` are those of the old leader, the new one and the follower.
fn check(ensemble: &mut TestEnsemble, at: usize, sentences: &[&[&str]], ids: [usize; 3]) {
    let log = ensemble.process_mut(at).log_so_far();
    // Without time, id, level and origin.
    let messages: Vec<&str> = log.iter().filter_map(|line| line.splitn(3, "] - ").nth(2)).collect();
    for sentence in sentences.concat() {
        let names = ["$OLD", "$NEW", "$FOLLOWER"].into_iter().zip(ids);
        let pattern = names.fold(sentence.to_owned(), |text, (name, id)| text.replace(name, &id.to_string()));
        let is_logged = messages.iter().any(|message| fits(message, &pattern));
        assert!(is_logged, "server {} has not logged {pattern:?}, but {messages:#?}", at + 1);
    }
}

#[test]
fn members_log_the_sentences_of_apache() {
    let mut ensemble = members::start_with(3, 1, &["--log-format", "zookeeper"]);
    let (old, observer) = (ensemble.leader(), 3);
    ensemble.client().create("/first", 0);
    ensemble.wait_for_metric(old, "synced_followers", "2");
    ensemble.wait_for_metric(old, "synced_observers", "1");
    check(&mut ensemble, old, &[SETTINGS, FIRST_LEADER], [old + 1, 0, 0]);

    ensemble.kill(old);
    let new = ensemble.leader_but(&[old, observer]);
    let follower = (0..3).find(|at| *at != old && *at != new).unwrap();
    let ids = [old + 1, new + 1, follower + 1];
    [follower, observer].into_iter().for_each(|at| ensemble.wait_until_serving(at));
    check(&mut ensemble, follower, &[SETTINGS, FOLLOWER, FOLLOWER_WITHOUT_LEADER], ids);
    check(&mut ensemble, observer, &[SETTINGS, OBSERVER], ids);

    ensemble.client().create("/second", 0);
    ensemble.restart(old);
    check(&mut ensemble, old, &[SETTINGS, RECOVERED, FOLLOWER], ids);
    ensemble.kill(observer);
    std::fs::remove_dir_all(ensemble.directory(observer).join("data/version-2")).unwrap();
    ensemble.restart(observer);
    check(&mut ensemble, observer, &[EMPTY_OBSERVER], ids);
    ensemble.kill(observer);
    ensemble.restart(observer);
    check(&mut ensemble, observer, &[RESTARTED_OBSERVER], ids);

    ensemble.kill(old);
    ensemble.kill(follower);
    let process = ensemble.process_mut(new);
    process.wait_for("Not sufficient followers synced");
    process.wait_for("Peer state changed: looking");
    ensemble.restart(old); // meanwhile the new leader has dialled the follower in vain
    check(&mut ensemble, new, &[NEW_LEADER], ids);
}
