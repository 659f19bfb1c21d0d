//! Log lines that operators and their tools search for. The sentences are Apache's.

use crate::members::Ensemble;

/// The messages of a member's log so far, without time, level and module.
fn messages(ensemble: &mut Ensemble, at: usize) -> Vec<String> {
    let log = ensemble.processes[at].as_mut().unwrap().log_so_far();
    log.iter().filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect()
}

/// Whether a message starts with the pattern, in which `~` stands for any text.
fn fits(message: &str, pattern: &str) -> bool {
    let (start, parts) = pattern.split_once('~').unwrap_or((pattern, ""));
    let rest = message.strip_prefix(start);
    rest.is_some_and(|rest| parts.split('~').try_fold(rest, |rest, part| Some(rest.split_once(part)?.1)).is_some())
}

fn check(whose: &str, messages: &[String], patterns: &[String]) {
    let missing: Vec<&String> =
        patterns.iter().filter(|pattern| !messages.iter().any(|message| fits(message, pattern))).collect();
    assert!(missing.is_empty(), "{whose} has not logged {missing:#?}, but {messages:#?}");
}

fn patterns(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Steps of a learner from an election to serving clients.
fn joined(state: &str) -> Vec<String> {
    let mut patterns = patterns(&[
        "Successfully connected to leader, using address: /127.0.0.~:~",
        "Learner received NEWLEADER message",
        "Learner received UPTODATE message",
    ]);
    patterns.push(state.to_uppercase());
    patterns.push(format!("{} - LEADER ELECTION TOOK - ~ MS", state.to_uppercase()));
    let phases = ["", " - discovery", " - synchronization", " - broadcast"];
    patterns.extend(phases.map(|phase| format!("Peer state changed: {state}{phase}")));
    patterns
}

const SETTINGS: [&str; 12] = [
    "Reading configuration from: zoo.cfg",
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
    "Using 2000ms as the quorum cnxn socket timeout",
];

const NOTIFICATION: &str = "Notification: my state:LOOKING; n.sid:~, n.state:~, n.leader:~, n.round:0x~, \
                            n.peerEpoch:0x~, n.zxid:0x~, message format version:0x2, n.config version:0x~";

#[test]
fn members_log_the_sentences_of_apache() {
    let home = tempfile::tempdir().unwrap();
    let mut ensemble = Ensemble::start(home.path(), 3, 1, "");
    let (old, observer) = (ensemble.leader_but(&[]), 3);
    ensemble.client().create("/first", 0);
    ensemble.wait_for_metric(old, "synced_followers", "2");
    ensemble.wait_for_metric(old, "synced_observers", "1");
    let of_old = messages(&mut ensemble, old);
    check("the first leader", &of_old, &patterns(&SETTINGS));
    check(
        "the first leader",
        &of_old,
        &patterns(&[
            "LOOKING",
            "New election. My id = ~, proposed zxid=0x0",
            NOTIFICATION,
            "Peer state changed: leading",
            "LEADING",
            "LEADING - LEADER ELECTION TOOK - ~ MS",
            "Peer state changed: leading - discovery",
            "Follower sid: 4 : info : 127.0.0.4:~:~:observer",
            "Synchronizing with Learner sid: ~ maxCommittedLog=0x~ minCommittedLog=0x~ lastProcessedZxid=0x~ \
             peerLastZxid=0x~",
            "Peer state changed: leading - synchronization",
            "Received NEWLEADER-ACK message from 4",
            "Have quorum of supporters, sids: [[~, ~]]; starting up and setting last processed zxid: 0x100000000",
            "Peer state changed: leading - broadcast",
        ]),
    );

    ensemble.kill(old);
    let new = ensemble.leader_but(&[old, observer]);
    let follower = (0..3).find(|at| *at != old && *at != new).unwrap();
    let (old_id, new_id, follower_id) = (old + 1, new + 1, follower + 1);
    [follower, observer].into_iter().for_each(|at| ensemble.wait_until_serving(at));
    let of_follower = messages(&mut ensemble, follower);
    check("the follower", &of_follower, &patterns(&SETTINGS));
    check("the follower", &of_follower, &joined("following"));
    check(
        "the follower",
        &of_follower,
        &patterns(&[
            "Getting a diff from the leader 0x~",
            "Peer state changed: following - synchronization - diff",
            "Exception when following the leader cause=",
            "shutdown Follower",
            "Shutting down",
            "Peer state changed: looking",
            &format!("New election. My id = {follower_id}, proposed zxid=0x1000000"),
            NOTIFICATION,
        ]),
    );
    let of_observer = messages(&mut ensemble, observer);
    check("the observer", &of_observer, &joined("observing"));
    check(
        "the observer",
        &of_observer,
        &patterns(&[
            "New election. My id = 4, proposed zxid=0x8000000000000000",
            "Observing new leader sid=~ addr=/127.0.0.~:~",
            "Exception when observing the leader cause=",
            "shutdown Observer",
        ]),
    );

    // The old leader returns, and the observer has lost its disk.
    ensemble.client().create("/second", 0);
    ensemble.restart(old);
    let of_old = messages(&mut ensemble, old);
    check("the old leader", &of_old, &joined("following"));
    check(
        "the old leader",
        &of_old,
        &patterns(&[
            "Reading snapshot ~/snapshot.0",
            "The digest value is empty in snapshot",
            "~ txns loaded in ~ ms",
            "Snapshot loaded in ~ ms, highest zxid is 0x10000000~, digest is ~",
        ]),
    );
    ensemble.kill(observer);
    std::fs::remove_dir_all(ensemble.directory(observer).join("data/version-2")).unwrap();
    ensemble.restart(observer);
    let of_observer = messages(&mut ensemble, observer);
    let expected = ["Getting a snapshot from leader 0x2~", "Peer state changed: observing - synchronization - snap"];
    check("the empty observer", &of_observer, &patterns(&expected));
    ensemble.kill(observer);
    ensemble.restart(observer);
    let expected = "The digest in the snapshot has digest version of 2, with zxid as 0x2~, and digest value as ~";
    check("the restarted observer", &messages(&mut ensemble, observer), &patterns(&[expected]));

    ensemble.kill(old);
    ensemble.kill(follower);
    let process = ensemble.processes[new].as_mut().unwrap();
    process.wait_for("Not sufficient followers synced");
    process.wait_for("Peer state changed: looking");
    ensemble.restart(old); // meanwhile the new leader has dialled the follower in vain
    let of_new = messages(&mut ensemble, new);
    let expected = [
        format!("Follower sid: {old_id} : info : 127.0.0.{old_id}:~:~:participant"),
        format!(
            "Synchronizing with Learner sid: {old_id} maxCommittedLog=0x2~ minCommittedLog=0x~ lastProcessedZxid=0x2~ \
             peerLastZxid=0x100000~"
        ),
        format!("Sending DIFF zxid=0x2~ for peer sid: {old_id}"),
        format!("Received NEWLEADER-ACK message from {old_id}"),
        format!("Cannot open channel to {follower_id} at election address 127.0.0.{follower_id}:"),
        "Sending snapshot last zxid of peer is 0x0, zxid of leader is 0x2~, send zxid of db as 0x2~, 1 concurrent \
         snapshot sync, snapshot sync was not exempt from throttle"
            .to_owned(),
        "Have quorum of supporters, sids: [[~, ~]]; starting up and setting last processed zxid: 0x200000000"
            .to_owned(),
        "******* GOODBYE sid:4 /127.0.0.1:~ ********".to_owned(),
        format!(
            "Shutdown called. For the reason Not sufficient followers synced, only synced with sids: [ [{new_id}] ]"
        ),
        "Shutting down".to_owned(),
    ];
    check("the new leader", &of_new, &expected);
}
