//! `cargo xtask cases`: known bugs of ZooKeeper and similar systems, and the regression test of each.
//!
//! The name of a test lists the cases that it covers: `k123_...`, or several as in `k75_k158_...`. The task runs these tests,
//! or reads their results from the output of `cargo test`, and prints one line per case. A case that is due and has no test is `open`; a failed test is an error. A weakness that
//! we cannot fix without breaking clients is `kept`: `COMPAT.md` mentions it, and its test shows it.
//!
//! `--write` puts the list of cases into `docs/reference/requirements.md`, without running a test.

use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Flags of `cargo xtask cases`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the list of cases into `docs/reference/requirements.md` and run no tests.
    #[arg(long, conflicts_with = "results")]
    write: bool,
    /// Take the results from this file, the output of `cargo test --workspace`, and run no tests.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

/// From when on a case needs a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Now,
    /// Never met: clients depend on this weakness of the protocol. The test shows the weakness.
    Kept,
}

impl Due {
    /// The cell of the table in `docs/reference/requirements.md`.
    fn cell(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Kept => "not met: [COMPAT.md](../../COMPAT.md)",
        }
    }
}

/// Number, due date and the statement that must hold.
struct Case(u32, Due, &'static str);

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case(1, Due::Now, "votes, FOLLOWERINFO and ACKEPOCH carry the last zxid of the log, not of the tree"),
    Case(2, Due::Now, "a learner acknowledges NEWLEADER only after its history is durable"),
    Case(3, Due::Now, "an ACK is never sent before the fsync that covers it"),
    Case(4, Due::Now, "currentEpoch is stored after the history is durable"),
    Case(5, Due::Now, "one log writer takes all transactions, in order, across role changes"),
    Case(6, Due::Now, "a COMMIT that arrives after the NEWLEADER ACK is applied once"),
    Case(7, Due::Now, "a proposal ACK before the NEWLEADER ACK does not end a leadership"),
    Case(8, Due::Now, "no queue, task or write of an old role reaches the next role"),
    Case(9, Due::Now, "a gap in the transaction log is refused"),
    Case(10, Due::Now, "a disk error stops the server; after a restart its vote is the durable zxid"),
    Case(11, Due::Now, "transactions that follow a TRUNC are logged"),
    Case(12, Due::Now, "a partly received snapshot is never used"),
    Case(13, Due::Now, "a snapshot from the leader is durable before it is acknowledged"),
    Case(14, Due::Now, "a received snapshot contains every change up to the zxid in its name"),
    Case(15, Due::Now, "a DIFF is never read from on-disk logs with a gap"),
    Case(16, Due::Now, "a DIFF is never read from logs of a history that the learner does not share"),
    Case(17, Due::Now, "TRUNC goes to the last common zxid, across log files and epochs"),
    Case(18, Due::Now, "records written after a truncation can be read back"),
    Case(19, Due::Now, "a truncation that fails is not acknowledged"),
    Case(20, Due::Now, "truncated transactions never reappear"),
    Case(21, Due::Now, "a crash at any point of a truncation recovers"),
    Case(22, Due::Now, "a failed attempt to lead uses up its epoch and changes no zxid"),
    Case(23, Due::Now, "a learner receives every transaction once, in order, whenever it connects"),
    Case(24, Due::Now, "a start takes no snapshot of transactions that may still be truncated"),
    Case(25, Due::Now, "a restart of all servers keeps the tree and the sessions"),
    Case(26, Due::Now, "an observer logs every transaction that it is informed of"),
    Case(27, Due::Now, "a read-only server creates no transactions"),
    Case(28, Due::Now, "a read-only server replies only after its tree is loaded"),
    Case(29, Due::Now, "an incomplete packet has no effect"),
    Case(30, Due::Now, "a role ends only after its disk jobs are complete"),
    Case(31, Due::Now, "uncommitted proposals of a leader end with its epoch"),
    Case(32, Due::Now, "a server starts from a snapshot without later log records"),
    Case(33, Due::Now, "a second snapshot from the leader replaces the first"),
    Case(34, Due::Now, "purge and snapshots never touch files that a SNAP is replacing"),
    Case(35, Due::Now, "a leader whose log cannot be written steps down"),
    Case(36, Due::Now, "an error while a log file is created ends the role, not only a thread"),
    Case(37, Due::Now, "an empty newest log, or a partial header in it, does not prevent a start"),
    Case(38, Due::Now, "records larger than the preallocation step can be read back"),
    Case(39, Due::Now, "a zeroed block inside an older log is detected as damage"),
    Case(40, Due::Now, "a torn last record is truncated without an operator"),
    Case(41, Due::Now, "a server with damaged records does not vote"),
    Case(42, Due::Now, "the directory entry of a new log is durable before its first ACK"),
    Case(43, Due::Now, "the content of a snapshot decides whether it is valid; other files do not"),
    Case(44, Due::Now, "a snapshot is fsynced before older snapshots are purged"),
    Case(45, Due::Now, "purge counts only snapshots that load"),
    Case(46, Due::Now, "purge keeps every log that a kept snapshot needs"),
    Case(47, Due::Now, "a server with logs but without a snapshot never starts empty"),
    Case(48, Due::Now, "the epoch files are valid after a crash at any point"),
    Case(49, Due::Now, "a missing epoch file beside a history is damage, not epoch 0"),
    Case(50, Due::Now, "the last zxid is taken from verified records only"),
    Case(51, Due::Now, "a stop at any point leaves valid files"),
    Case(52, Due::Now, "a full disk during a snapshot neither stops the server nor leaves a bad file"),
    Case(53, Due::Now, "no ACK follows a failed fsync"),
    Case(54, Due::Now, "a truncation lowers the synced position"),
    Case(55, Due::Now, "no deferred deletion removes a new file of the same name"),
    Case(56, Due::Now, "a snapshot succeeds even if an older file cannot be deleted"),
    Case(57, Due::Now, "an empty member does not vote while other members have a history"),
    Case(58, Due::Now, "a data directory copied from another server is refused"),
    Case(59, Due::Now, "a standalone server replies only after its own fsync"),
    Case(60, Due::Now, "after a crash no transaction is applied twice and none is missing"),
    Case(61, Due::Now, "a snapshot request of the AdminServer does not change the tree"),
    Case(62, Due::Now, "a start removes the leftovers of a crash"),
    Case(63, Due::Now, "zxid, tree and sessions change in one step"),
    Case(64, Due::Now, "replay over a fuzzy snapshot yields the same pzxid"),
    Case(65, Due::Now, "a snapshot never contains a part of a multi"),
    Case(66, Due::Now, "child counters are correct after replay"),
    Case(67, Due::Now, "after replay every node refers to a known ACL"),
    Case(68, Due::Now, "a snapshot is written from an immutable view"),
    Case(69, Due::Now, "a check outside of a multi is refused; in old logs it has no effect"),
    Case(70, Due::Now, "every result type of a multi round-trips"),
    Case(71, Due::Now, "a failed multi removes exactly its own pending changes"),
    Case(72, Due::Now, "quotas survive multi, restart and replay"),
    Case(73, Due::Now, "a version counter never becomes -1 by increment"),
    Case(74, Due::Now, "the server resolves credentials once, before it proposes"),
    Case(75, Due::Now, "a refused multi has no effect"),
    Case(76, Due::Now, "all checks of a request precede its first change"),
    Case(77, Due::Now, "one function validates session and owner ids"),
    Case(78, Due::Now, "the tree may change while a snapshot is written"),
    Case(79, Due::Now, "an election ends with any single link broken"),
    Case(80, Due::Now, "a server that starts late joins the established leader"),
    Case(81, Due::Now, "a returning server joins although votes differ in zxid and round"),
    Case(82, Due::Now, "a leader reacts promptly when a supporter changes its vote"),
    Case(83, Due::Now, "malformed messages on the election port affect no other connection"),
    Case(84, Due::Now, "observers do not count in a quorum"),
    Case(85, Due::Now, "a leader steps down before its zxid counter overflows"),
    Case(86, Due::Now, "an unreachable address delays no other connection"),
    Case(87, Due::Now, "closing the connection to a dead leader does not delay a role change"),
    Case(88, Due::Now, "a host name that cannot be resolved is looked up again"),
    Case(89, Due::Now, "a wildcard address is never advertised to peers"),
    Case(90, Due::Now, "servers of older versions understand the election handshake"),
    Case(91, Due::Now, "observers open no election connections to each other"),
    Case(92, Due::Now, "one bad connection does not end an accept loop"),
    Case(93, Due::Now, "a snapshot for a slow learner does not delay commits or pings"),
    Case(94, Due::Now, "a role ends without a deadlock"),
    Case(95, Due::Now, "a leader whose disk hangs steps down"),
    Case(96, Due::Now, "announced lengths are bounded on all ports"),
    Case(97, Due::Now, "a long synchronisation that makes progress is not timed out"),
    Case(98, Due::Now, "a follower that falls too far behind is disconnected"),
    Case(99, Due::Now, "a confirmation of leadership is used for one sync only"),
    Case(100, Due::Now, "a deposed leader does not reply to sync"),
    Case(101, Due::Now, "a server that bridges a partial partition causes no repeated elections"),
    Case(102, Due::Now, "a reconfiguration needs a quorum of the old and of the new members"),
    Case(103, Due::Now, "server lists may change in a rolling restart"),
    Case(104, Due::Now, "a proposed configuration is never restored as the committed one"),
    Case(105, Due::Now, "the members come from one source: the configuration file, or the last committed reconfiguration"),
    Case(106, Due::Now, "a server's role changes only by an explicit request"),
    Case(107, Due::Now, "a member can be added while another one is down"),
    Case(108, Due::Now, "clients of old versions are served as by Apache 3.9"),
    Case(109, Due::Now, "a snapshot whose later logs are missing is refused"),
    Case(110, Due::Now, "a second process on one data directory is refused"),
    Case(111, Due::Now, "no ephemeral node outlives its session"),
    Case(112, Due::Now, "a session exists only after its createSession is committed"),
    Case(113, Due::Now, "a local session is upgraded atomically"),
    Case(114, Due::Now, "session ids never collide with the owner ids of containers and TTL nodes"),
    Case(115, Due::Now, "a session moves to its client's newest connection"),
    Case(116, Due::Now, "a wall clock that jumps expires no session"),
    Case(117, Due::Now, "mass expiry delays no heartbeat"),
    Case(118, Due::Now, "the watches of a closed connection are removed"),
    Case(119, Due::Now, "a handshake resumes the named session, reports it expired, or is closed; it never starts another session"),
    Case(120, Due::Now, "reads keep a session alive"),
    Case(121, Due::Now, "a deposed leader expires no session"),
    Case(122, Due::Now, "a closed session is not revived"),
    Case(123, Due::Now, "repeated leader changes do not keep an abandoned session alive"),
    Case(124, Due::Now, "a read-only server neither creates, renews nor closes global sessions"),
    Case(125, Due::Now, "a failed SASL exchange leaves no identity"),
    Case(126, Due::Now, "a container that never had a child is removed if so configured"),
    Case(127, Due::Now, "setWatches sends exactly the events that the client missed"),
    Case(128, Due::Now, "a client may set its watches again in several packets"),
    Case(129, Due::Now, "watch modes on one path are independent of each other"),
    Case(130, Due::Now, "a recursive watch receives no child events"),
    Case(131, Due::Now, "watches on the root and on shared paths are delivered"),
    Case(132, Due::Now, "a reply with zxid Z follows every event up to Z"),
    Case(133, Due::Now, "a lagging server reports no change twice"),
    Case(134, Due::Now, "a slow reader is disconnected; its events are never dropped"),
    Case(135, Due::Now, "replacing the tree by a snapshot loses no event"),
    Case(136, Due::Now, "child watches do not fire on data changes"),
    Case(137, Due::Now, "an event carries the zxid of the change"),
    Case(138, Due::Now, "replies leave in the order of the requests"),
    Case(139, Due::Now, "no request waits forever"),
    Case(140, Due::Now, "every operation is served by leaders, followers and observers"),
    Case(141, Due::Now, "unknown and oversize requests get an error or a closed connection"),
    Case(142, Due::Now, "no request of a closed connection is executed"),
    Case(143, Due::Now, "reads never overtake earlier writes of their connection"),
    Case(144, Due::Now, "throttling does not block a handshake"),
    Case(145, Due::Now, "a session with very many ephemeral nodes can be closed and replayed"),
    Case(146, Due::Now, "send queues to peers that do not read are bounded"),
    Case(147, Due::Now, "failed connections leak no descriptor, thread or memory"),
    Case(148, Due::Now, "an ACL is freed with its last node"),
    Case(149, Due::Now, "a snapshot delays no client"),
    Case(150, Due::Now, "requests that free memory are served while memory is low"),
    Case(151, Due::Now, "the cost of a request is bounded by its size"),
    Case(152, Due::Now, "a slow reader of a four-letter command blocks no other client"),
    Case(153, Due::Now, "reads and deletes are served on a full disk"),
    Case(154, Due::Now, "a quorum SASL identity without a host is refused"),
    Case(155, Due::Now, "an unauthenticated peer on the quorum port is refused"),
    Case(156, Due::Now, "a recursive watch reveals no unreadable node"),
    Case(157, Due::Now, "getACL shows password hashes to administrators only"),
    Case(158, Due::Now, "the operations of a multi pass the same permission checks as single operations"),
    Case(159, Due::Now, "an AdminServer command needs every permission in its list"),
    Case(160, Due::Now, "TLS host names are verified"),
    Case(161, Due::Now, "two CA certificates of one subject are both kept"),
    Case(162, Due::Now, "malformed ids, TTLs and credentials get an error"),
    Case(163, Due::Now, "ACL lists are stored byte for byte"),
    Case(164, Due::Now, "logs contain no secrets and no unescaped text of peers"),
    Case(165, Due::Kept, "session passwords cannot be derived from session ids"),
    Case(166, Due::Now, "a reconfiguration needs permission"),
    Case(167, Due::Now, "setWatches reveals no unreadable node"),
];

/// Names of the tests of one case.
#[derive(Default)]
struct TestResults {
    passed: Vec<String>,
    failed: Vec<String>,
}

/// Runs the tests of all cases and prints their results, or writes the list of cases.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.write {
        return write_page();
    }
    let output = match &args.results {
        Some(file) => fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?,
        None => run_tests()?,
    };
    report(&parse_results(&output))
}

fn report(results: &BTreeMap<u32, TestResults>) -> Result<()> {
    let compat = fs::read_to_string(Workspace::find().root().join("COMPAT.md")).context("read COMPAT.md")?;
    let (mut open, mut kept, mut failed) = (0, 0, 0);
    println!("{:<5} {:<9} {:<80} test", "case", "result", "what must hold");
    for Case(number, due, statement) in CASES {
        let (result, names) = match results.get(number) {
            Some(tests) if !tests.failed.is_empty() => ("FAILED", tests.failed.join(", ")),
            Some(tests) if *due == Due::Kept => match compat_line(&compat, *number) {
                Some(line) => ("kept", format!("on purpose, COMPAT.md:{line}; shown by {}", tests.passed.join(", "))),
                None => ("FAILED", format!("COMPAT.md does not mention K{number}")),
            },
            Some(tests) => ("ok", tests.passed.join(", ")),
            None => ("open", String::new()),
        };
        open += u32::from(result == "open");
        kept += u32::from(result == "kept");
        failed += u32::from(result == "FAILED");
        println!("K{number:<4} {result:<9} {statement:<80} {names}");
    }
    println!("{} cases, {open} open, {kept} kept on purpose, {failed} failed", CASES.len());
    if 0 < failed { bail!("{failed} known cases failed") } else { Ok(()) }
}

/// The line of `COMPAT.md` that mentions a case, counted from 1.
fn compat_line(compat: &str, number: u32) -> Option<usize> {
    let name = format!("(K{number})");
    (1..).zip(compat.lines()).find(|(_, line)| line.contains(&name)).map(|(at, _)| at)
}

/// Runs every test of the workspace whose name starts with `k`, and returns the output.
fn run_tests() -> Result<String> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--workspace", "--no-fail-fast", "--", "::k"])
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo test")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The results of the tests in the output of `cargo test`, by case.
fn parse_results(output: &str) -> BTreeMap<u32, TestResults> {
    let mut results: BTreeMap<u32, TestResults> = BTreeMap::new();
    for line in output.lines() {
        let Some((name, result)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) else {
            continue;
        };
        let last = name.rsplit("::").next().unwrap_or(name);
        for number in numbers(last) {
            let tests = results.entry(number).or_default();
            let tests = if result.starts_with("ok") { &mut tests.passed } else { &mut tests.failed };
            tests.push(last.to_owned());
        }
    }
    results
}

/// The cases that the name of a test refers to.
fn numbers(name: &str) -> impl Iterator<Item = u32> {
    name.split('_').filter_map(|word| word.strip_prefix('k')?.parse().ok())
}

const PAGE: &str = "docs/reference/requirements.md";
const BEGIN: &str = "<!-- cases: cargo xtask cases --write -->\n";
const END: &str = "<!-- end of cases -->\n";

fn write_page() -> Result<()> {
    let path = Workspace::find().root().join(PAGE);
    let text = fs::read_to_string(&path).context(PAGE)?;
    fs::write(&path, with_table(&text)?).context(PAGE)
}

/// The page with the list of cases between its two markers.
fn with_table(page: &str) -> Result<String> {
    let (before, rest) =
        page.split_once(BEGIN).context("docs/reference/requirements.md has no place for the list of cases")?;
    let (_, after) = rest.split_once(END).context("the list of cases in docs/reference/requirements.md has no end")?;
    let mut table = "| number | due | what must hold |\n|---|---|---|\n".to_owned();
    for Case(number, due, statement) in CASES {
        table.extend([&*format!("| K{number} | {} | {statement} |\n", due.cell())]);
    }
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compat_line_is_found_by_whole_number() {
        let compat = "# Title\n| a | (K16) |\n| b | weak (K165). |\n";
        assert_eq!([16, 165, 5].map(|number| compat_line(compat, number)), [Some(2), Some(3), None]);
    }

    #[test]
    fn test_names_list_their_cases() {
        let check = |name, expected: &[u32]| assert_eq!(numbers(name).collect::<Vec<_>>(), expected, "{name}");
        check("k73_version_never_becomes_minus_one", &[73]);
        check("k77_k114_owner_ids_mean_the_same_everywhere", &[77, 114]);
        check("k138_replies_keep_their_order_and_k139_none_is_missing", &[138, 139]);
        check("keys_of_10k_nodes", &[]);
    }

    #[test]
    fn case_numbers_have_no_gap() {
        assert!((1..).zip(CASES).all(|(number, case)| case.0 == number));
    }

    #[test]
    fn requirements_page_lists_the_current_cases() {
        let page = fs::read_to_string(Workspace::find().root().join(PAGE)).unwrap();
        assert!(with_table(&page).unwrap() == page, "run `cargo xtask cases --write`");
    }
}
