//! `cargo xtask cases`: known bugs of ZooKeeper and its kin, and the test that keeps each one out.
//!
//! A test belongs to a case by its name, `k123_...`, or to several: `k75_k158_...`. The task runs all of them and
//! prints the table; a case that is due and has no test is shown as open, one whose test fails is an error. What cannot be
//! mended without breaking clients is shown as kept, with its line in `COMPAT.md`; its test shows the weakness.

use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// When a case can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// With one server: now.
    Now,
    /// Needs a part of ensembles that is not tested by name yet.
    Ensemble,
    /// Needs TLS, SASL or the AdminServer.
    Security,
    /// Not at all: a weakness of the protocol that clients depend on.
    Kept,
}

/// One known case: its number, when it is due, what must hold.
struct Case(u32, Due, &'static str);

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case(1, Due::Now, "claims are made of the log, not of memory"),
    Case(2, Due::Now, "a history is acknowledged when it is durable"),
    Case(3, Due::Now, "no acknowledgement overtakes the disk"),
    Case(4, Due::Now, "the epoch is stored behind the history"),
    Case(5, Due::Now, "one writer gets everything in one order"),
    Case(6, Due::Now, "a commit may come behind the acknowledgement of the history"),
    Case(7, Due::Now, "early acknowledgements end no leadership"),
    Case(8, Due::Now, "nothing of an old role reaches a new one"),
    Case(9, Due::Now, "a hole in the history is refused"),
    Case(10, Due::Now, "a failing disk ends the server; the claim is what it holds"),
    Case(11, Due::Now, "what follows a truncation is logged"),
    Case(12, Due::Now, "half a received state is never used"),
    Case(13, Due::Now, "a leader's snapshot is durable before it counts"),
    Case(14, Due::Now, "a received state is complete when it is installed"),
    Case(15, Due::Now, "stored records with a hole are not sent to a learner"),
    Case(16, Due::Now, "stored records of another history are not sent to a learner"),
    Case(17, Due::Now, "a history is truncated exactly, across logs and epochs"),
    Case(18, Due::Now, "records behind a truncation are found again"),
    Case(19, Due::Now, "a truncation that fails is not done"),
    Case(20, Due::Now, "what was cut never comes back"),
    Case(21, Due::Now, "every crash point of a truncation recovers"),
    Case(22, Due::Now, "an attempt to lead changes no claim and uses its epoch up"),
    Case(23, Due::Now, "a learner gets everything once whenever it comes"),
    Case(24, Due::Now, "a start makes nothing permanent that may have to go"),
    Case(25, Due::Now, "a restart of all servers keeps state and sessions"),
    Case(26, Due::Now, "observers log what they are told"),
    Case(27, Due::Now, "a read-only server makes no transactions"),
    Case(28, Due::Now, "a read-only server answers when its tree is complete"),
    Case(29, Due::Now, "half a packet counts for nothing"),
    Case(30, Due::Now, "a role ends when the disk is done with it"),
    Case(31, Due::Now, "pending entries die with their epoch"),
    Case(32, Due::Now, "a snapshot behind which nothing is logged is enough"),
    Case(33, Due::Now, "a second snapshot takes the place of the first"),
    Case(34, Due::Now, "nobody works on files that are being replaced"),
    Case(35, Due::Now, "a leader whose log cannot be written leaves its office"),
    Case(36, Due::Now, "an error while a log is created ends the role, not only a thread"),
    Case(37, Due::Now, "an empty or half-headed newest log does not stop the start"),
    Case(38, Due::Now, "records larger than the preallocation step can be read back"),
    Case(39, Due::Now, "a zeroed block in an older log is noticed"),
    Case(40, Due::Now, "a torn last record is cut without an operator"),
    Case(41, Due::Now, "a server with damaged records does not vote"),
    Case(42, Due::Now, "a new log's name survives a power cut before the first ack"),
    Case(43, Due::Now, "a snapshot is judged by its content, not by side files"),
    Case(44, Due::Now, "a snapshot is synced before older ones may go"),
    Case(45, Due::Now, "purging counts only snapshots that load"),
    Case(46, Due::Now, "purging keeps every log that a kept snapshot needs"),
    Case(47, Due::Now, "logs without a snapshot never start an empty server"),
    Case(48, Due::Now, "epoch files are legal after a crash at any point"),
    Case(49, Due::Now, "a lost epoch file is damage, not zero"),
    Case(50, Due::Now, "the last zxid comes from verified content only"),
    Case(51, Due::Now, "stopping is safe at every point"),
    Case(52, Due::Now, "a full disk during a snapshot harms nothing"),
    Case(53, Due::Now, "a failed sync is never followed by an ack"),
    Case(54, Due::Now, "the durable mark goes back with a truncation"),
    Case(55, Due::Now, "no deferred deletion hits a new file of the same name"),
    Case(56, Due::Now, "an old file that cannot be deleted does not spoil the new one"),
    Case(57, Due::Now, "a wiped server does not help to elect a stale leader"),
    Case(58, Due::Now, "a copied data directory is recognised"),
    Case(59, Due::Now, "a single server answers only after its own sync"),
    Case(60, Due::Now, "a crash neither applies twice nor goes back"),
    Case(61, Due::Security, "an admin snapshot does not touch the live tree"),
    Case(62, Due::Now, "leftovers of a crash are cleaned up at start"),
    Case(63, Due::Now, "zxid, tree and sessions advance together"),
    Case(64, Due::Now, "replay over a fuzzy snapshot gives the same pzxid"),
    Case(65, Due::Now, "a snapshot never splits a multi"),
    Case(66, Due::Now, "child counters are right after replay"),
    Case(67, Due::Now, "every node's list is known after replay"),
    Case(68, Due::Now, "a snapshot is taken from a view that does not change"),
    Case(69, Due::Now, "a bare check is refused, and harmless in old logs"),
    Case(70, Due::Now, "every result type of a multi round-trips"),
    Case(71, Due::Now, "a failed multi undoes exactly what it projected"),
    Case(72, Due::Now, "quotas survive multi, restart and replay"),
    Case(73, Due::Now, "a version never becomes -1 by counting"),
    Case(74, Due::Now, "credentials are resolved once, before proposing"),
    Case(75, Due::Now, "a refused multi leaves nothing behind"),
    Case(76, Due::Now, "all checks come before the first change"),
    Case(77, Due::Now, "odd ids are judged in one place"),
    Case(78, Due::Now, "state may change while a snapshot is written"),
    Case(79, Due::Now, "elections end with any link broken"),
    Case(80, Due::Now, "a late server joins the leader there is"),
    Case(81, Due::Now, "who comes back joins although votes differ"),
    Case(82, Due::Ensemble, "a leader notices soon that a voter has changed its mind"),
    Case(83, Due::Now, "garbage on the election port harms nobody"),
    Case(84, Due::Now, "observers are not counted"),
    Case(85, Due::Now, "epochs end before their numbers do"),
    Case(86, Due::Now, "a dead address holds up no other connection"),
    Case(87, Due::Now, "a dead leader holds up no change of roles"),
    Case(88, Due::Now, "names that cannot be resolved are tried again"),
    Case(89, Due::Ensemble, "a wildcard address is told to nobody"),
    Case(90, Due::Ensemble, "the greeting is one that old servers understand"),
    Case(91, Due::Ensemble, "observers do not call each other"),
    Case(92, Due::Now, "one bad connection ends no accept loop"),
    Case(93, Due::Ensemble, "a state for a slow learner holds up nobody"),
    Case(94, Due::Ensemble, "roles end without deadlock"),
    Case(95, Due::Now, "a leader whose disk hangs steps down"),
    Case(96, Due::Now, "announced lengths are bounded on all ports"),
    Case(97, Due::Now, "a large history may take longer than the limit"),
    Case(98, Due::Now, "a follower that falls behind is cut off"),
    Case(99, Due::Now, "a proof of leadership is never used twice"),
    Case(100, Due::Now, "a deposed leader answers no sync"),
    Case(101, Due::Now, "a bridge between two parts does not unrest them"),
    Case(102, Due::Ensemble, "both configurations agree to a change of members"),
    Case(103, Due::Ensemble, "server lists may change in a rolling restart"),
    Case(104, Due::Ensemble, "a proposed configuration is not taken for the committed one"),
    Case(105, Due::Ensemble, "membership has one source"),
    Case(106, Due::Ensemble, "roles change by request only"),
    Case(107, Due::Ensemble, "a member can be added while one is down"),
    Case(108, Due::Now, "old clients are answered as they expect"),
    Case(109, Due::Now, "snapshots without their logs are noticed"),
    Case(110, Due::Now, "a directory is for one process"),
    Case(111, Due::Now, "no ephemeral node outlives its session"),
    Case(112, Due::Now, "a session exists only once its creation is committed"),
    Case(113, Due::Now, "local sessions upgrade atomically"),
    Case(114, Due::Now, "session ids never look like other owners"),
    Case(115, Due::Now, "a session follows its client to the new connection"),
    Case(116, Due::Now, "a jumping wall clock expires nobody"),
    Case(117, Due::Now, "a flood of expiries delays no heartbeat"),
    Case(118, Due::Now, "nothing stays of a closed connection's watches"),
    Case(119, Due::Now, "a handshake resumes the named session or reports it gone"),
    Case(120, Due::Now, "reads keep a session alive"),
    Case(121, Due::Now, "a deposed leader expires nobody"),
    Case(122, Due::Now, "a closed session is not revived"),
    Case(123, Due::Now, "leader changes do not keep sessions alive for ever"),
    Case(124, Due::Now, "a read-only server leaves global sessions alone"),
    Case(125, Due::Security, "a failed SASL exchange leaves no identity"),
    Case(126, Due::Now, "a container that was never used goes when configured"),
    Case(127, Due::Now, "re-arming tells exactly what was missed"),
    Case(128, Due::Now, "watches may be re-armed in several messages"),
    Case(129, Due::Now, "each watch mode of a path is independent"),
    Case(130, Due::Now, "recursive watchers get no child events"),
    Case(131, Due::Now, "watches on the root and shared paths are delivered"),
    Case(132, Due::Now, "a reply's zxid promises that earlier events were sent"),
    Case(133, Due::Now, "a lagging server reports no change twice"),
    Case(134, Due::Now, "a slow reader is closed rather than left without events"),
    Case(135, Due::Now, "replacing the tree loses no event"),
    Case(136, Due::Now, "child watches do not fire on data changes"),
    Case(137, Due::Now, "events carry the zxid that caused them"),
    Case(138, Due::Now, "replies leave in the order of requests"),
    Case(139, Due::Now, "no request waits without cause"),
    Case(140, Due::Now, "every operation is served in every role"),
    Case(141, Due::Now, "unknown and oversize requests are answered or closed"),
    Case(142, Due::Now, "nothing of a closed connection is executed"),
    Case(143, Due::Now, "fast reads never bypass the order"),
    Case(144, Due::Now, "throttling does not block a handshake"),
    Case(145, Due::Now, "a session with very many ephemerals can be closed and read back"),
    Case(146, Due::Now, "queues to those who do not read are bounded"),
    Case(147, Due::Now, "failed connections leak nothing"),
    Case(148, Due::Now, "an access control list goes with its last node"),
    Case(149, Due::Now, "a snapshot holds up no client"),
    Case(150, Due::Now, "short of space, what frees space is still served"),
    Case(151, Due::Now, "no request costs more than its size allows"),
    Case(152, Due::Now, "a slow reader of a status command blocks nobody"),
    Case(153, Due::Now, "out of space, reads and deletes go on"),
    Case(154, Due::Security, "a SASL identity without a host is refused"),
    Case(155, Due::Security, "strangers on the quorum port are refused"),
    Case(156, Due::Now, "recursive watches reveal no unreadable node"),
    Case(157, Due::Now, "hashes in lists are shown to administrators only"),
    Case(158, Due::Now, "elements of a multi pass the same checks"),
    Case(159, Due::Security, "admin commands check every permission"),
    Case(160, Due::Security, "host names are verified"),
    Case(161, Due::Security, "two authorities of one name are both kept"),
    Case(162, Due::Now, "malformed ids, TTLs and credentials get an error"),
    Case(163, Due::Now, "lists are kept byte for byte"),
    Case(164, Due::Now, "logs show no secrets and no foreign control characters"),
    Case(165, Due::Kept, "session passwords can be made secret"),
    Case(166, Due::Now, "reconfiguration needs permission"),
    Case(167, Due::Now, "re-arming reveals no unreadable node"),
];

/// What became of the tests of one case.
#[derive(Default)]
struct Found {
    passed: Vec<String>,
    failed: Vec<String>,
}

/// Runs the named tests and prints the table.
pub(crate) fn run() -> Result<()> {
    let compat = std::fs::read_to_string(Workspace::find().root().join("COMPAT.md")).context("read COMPAT.md")?;
    let found = run_tests()?;
    let (mut open, mut kept, mut failed) = (0, 0, 0);
    println!("{:<5} {:<9} {:<62} test", "case", "result", "what must hold");
    for Case(number, due, title) in CASES {
        let tests = found.get(number);
        let (result, names) = match tests {
            Some(found) if !found.failed.is_empty() => ("FAILED", found.failed.join(", ")),
            Some(found) if *due == Due::Kept => match compat_line(&compat, *number) {
                Some(line) => ("kept", format!("on purpose, COMPAT.md:{line}; shown by {}", found.passed.join(", "))),
                None => ("FAILED", format!("COMPAT.md does not say that K{number} is kept")),
            },
            Some(found) => ("ok", found.passed.join(", ")),
            None if matches!(due, Due::Now | Due::Kept) => ("open", String::new()),
            None if *due == Due::Ensemble => ("later", "ensembles".to_owned()),
            None => ("later", "needs TLS, SASL or the AdminServer".to_owned()),
        };
        open += u32::from(result == "open");
        kept += u32::from(result == "kept");
        failed += u32::from(result == "FAILED");
        println!("K{number:<4} {result:<9} {title:<62} {names}");
    }
    println!("{} cases, {open} open, {kept} kept on purpose, {failed} failed", CASES.len());
    if 0 < failed { bail!("{failed} known cases failed") } else { Ok(()) }
}

/// Where `COMPAT.md` tells of a case.
fn compat_line(compat: &str, number: u32) -> Option<usize> {
    let name = format!("(K{number})");
    (1..).zip(compat.lines()).find(|(_, line)| line.contains(&name)).map(|(at, _)| at)
}

/// Runs every test whose name starts with a case's number.
fn run_tests() -> Result<BTreeMap<u32, Found>> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--workspace", "--no-fail-fast", "--", "::k"])
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo test")?;
    let mut found: BTreeMap<u32, Found> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((name, result)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) else {
            continue;
        };
        let last = name.rsplit("::").next().unwrap_or(name);
        for number in numbers(last) {
            let tests = found.entry(number).or_default();
            let tests = if result.starts_with("ok") { &mut tests.passed } else { &mut tests.failed };
            tests.push(last.to_owned());
        }
    }
    Ok(found)
}

/// The cases that a test is for.
fn numbers(name: &str) -> impl Iterator<Item = u32> {
    name.split('_').filter_map(|word| word.strip_prefix('k')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_told() {
        let compat = "# Title\n| a | (K16) |\n| b | weak (K165). |\n";
        assert_eq!([16, 165, 5].map(|number| compat_line(compat, number)), [Some(2), Some(3), None]);
    }

    #[test]
    fn names_say_which_cases_a_test_is_for() {
        let check = |name, expected: &[u32]| assert_eq!(numbers(name).collect::<Vec<_>>(), expected, "{name}");
        check("k73_a_version_never_becomes_minus_one", &[73]);
        check("k77_k114_owners_mean_the_same_everywhere", &[77, 114]);
        check("k138_no_order_is_bent_and_k139_nothing_is_left", &[138, 139]);
        check("keys_of_10k_nodes", &[]);
    }
}
