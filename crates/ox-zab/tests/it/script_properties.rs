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

/// All permutations of the commands.
fn orders<'a>(commands: &[&'a str]) -> Vec<Vec<&'a str>> {
    let Some((first, rest)) = commands.split_first() else { return vec![Vec::new()] };
    let insert = |order: Vec<&'a str>| {
        (0..=order.len()).map(move |at| [&order[..at], &[*first], &order[at..]].concat()).collect::<Vec<_>>()
    };
    orders(rest).into_iter().flat_map(insert).collect()
}

/// A leader steps down while ACKs and a configuration are in flight: in any order of events its role ends, and it can
/// lead again.
#[test]
fn k094_leader_steps_down_in_any_order_of_events() {
    let is_leading = |script: &mut Interpreter| run(script, &["status 3"])[0].contains("LEADING");
    let ack = "step 3 packet from=1 ACK 1:2";
    let closed = "step 3 closed from=1";
    let orders = orders(&[ack, "disk 3", "step 3 applied 1:2", closed, "step 3 step-down", "time 10s 3"]);
    assert_eq!(orders.len(), 720);
    for order in orders {
        let mut script = Interpreter::default();
        let established = [
            "ensemble voters=1,2,3 dynamic",
            "peer 3",
            "start",
            "step 3 notification from=1 LOOKING leader=3 zxid=0 epoch=0 round=1",
            "time 200ms",
            "step 3 link from=1",
            "step 3 packet from=1 FOLLOWERINFO accepted=0",
            "disk 3",
            "step 3 packet from=1 ACKEPOCH zxid=0 epoch=0",
            "disk 3",
            "step 3 packet from=1 ACK 1:0",
            "propose 3",
            "propose 3 reconfig voters=1,3",
        ];
        run(&mut script, &established);
        let mut lines = Vec::new();
        for command in &order {
            lines.extend(run(&mut script, &[command]));
            let has_ended = lines.iter().any(|line| line.starts_with("  step down"));
            assert!(!has_ended || !is_leading(&mut script), "{order:?}: it leads after its end");
        }
        lines.extend(run(&mut script, &["disk 3"]));
        assert!(lines.contains(&"  looking".to_owned()) && !is_leading(&mut script), "{order:?}: {lines:?}");
        run(&mut script, &["step 3 notification from=1 LOOKING leader=3 zxid=1:2 epoch=1 round=9", "time 1s 3"]);
        assert!(is_leading(&mut script), "{order:?}");
    }
}
