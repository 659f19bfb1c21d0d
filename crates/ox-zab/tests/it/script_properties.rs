//! Properties that hold for many variants of one script.

use crate::scripts::Interpreter;
use std::collections::BTreeSet;

/// The lines that the commands cause.
fn run(script: &mut Interpreter, commands: &[&str]) -> Vec<String> {
    let lines = |command: &&str| script.run(command).unwrap_or_else(|error| panic!("{command}: {error}"));
    commands.iter().flat_map(lines).collect()
}

/// What is sent to server 1 in packets of this type.
fn sent_to_1<'a>(lines: &'a [String], packet: &str) -> Vec<&'a str> {
    let sent = lines.iter().filter_map(|line| line.trim().strip_prefix("send to ")?.split_once(": "));
    sent.filter(|(to, _)| to.split(',').any(|to| to == "1")).filter_map(|(_, text)| text.strip_prefix(packet)).collect()
}

/// Whatever is proposed and committed between the steps of a synchronisation, the learner is sent each transaction
/// once, in order, and each commit after its proposal.
#[test]
fn k023_learner_gets_every_transaction_once() {
    let steps = [
        "step 3 link from=1",
        "step 3 packet from=1 FOLLOWERINFO accepted=1",
        "step 3 packet from=1 ACKEPOCH zxid=1:5 epoch=1",
        "step 3 packet from=1 ACK 2:0",
    ];
    for moments in 0..32_u32 {
        let mut script = Interpreter::default();
        run(&mut script, &["ensemble voters=1,2,3", "peer 2 log=1:5", "peer 3 log=1:5", "start", "run 1s"]);
        let mut lines = Vec::new();
        for number in 0..5 {
            if moments >> number & 1 == 1 {
                lines.extend(run(&mut script, &["propose 3", "stabilize 2 3"]));
            }
            lines.extend(steps.get(number).into_iter().flat_map(|step| run(&mut script, &[step])));
        }
        let expected: Vec<String> = (1..=moments.count_ones()).map(|counter| format!("2:{counter}")).collect();
        assert_eq!(sent_to_1(&lines, "PROPOSAL "), expected, "{moments:b}");
        assert_eq!(sent_to_1(&lines, "COMMIT "), expected, "{moments:b}");
        for zxid in &expected {
            let at = |packet: &str| lines.iter().position(|line| line.ends_with(&format!(": {packet} {zxid}")));
            assert!(at("PROPOSAL") < at("COMMIT"), "{moments:b}: {zxid} is committed before it is proposed");
        }
    }
}

/// Observers that lose a leader together do not start their elections together. Voters do not wait.
#[test]
fn observer_delays_its_next_election() {
    let looks_at = |at_ms: usize, role: &str| {
        let (ensemble, at) = (format!("ensemble {role}"), format!("time {at_ms}ms"));
        let start = [&*ensemble, "peer 3 observer-delay=1s", "start", &at, "join 3 leader=2 epoch=1"];
        let mut script = Interpreter::default();
        run(&mut script, &start);
        let mut lines = run(&mut script, &["step 3 closed from=2"]);
        assert!(lines.contains(&"  step down: LinkLost".to_owned()), "{lines:?}");
        for delay_ms in 0..1_000 {
            if lines.contains(&"  looking".to_owned()) {
                return delay_ms;
            }
            lines = run(&mut script, &["time 1ms"]);
        }
        panic!("it never starts an election");
    };
    let delays: BTreeSet<i32> =
        (0..2_000).step_by(100).map(|at_ms| looks_at(at_ms, "voters=1,2 observers=3")).collect();
    assert!(5 < delays.len(), "{delays:?}");
    assert_eq!(looks_at(100, "voters=1,2,3"), 0);
}
