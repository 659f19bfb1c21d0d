//! Scenario scripts: `testdata/*.txt`, each a sequence of commands with the expected effects.
//!
//! A block of commands ends with `----`, and the expected lines follow up to an empty line. With `UPDATE_SCRIPTS=1` the
//! expected lines are rewritten; read the difference before you commit it. `SCRIPT=name` runs the scripts whose name
//! contains `name`. `testdata/README.md` lists scripts and commands.

mod args;
mod commands;

pub(crate) use commands::Interpreter;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The expected line of a block that has no effect.
const NOTHING: &str = "(nothing)";

/// Runs a script. Returns its text with the actual effects, and the differences.
fn run(name: &str, text: &str) -> (String, Vec<String>) {
    let (mut interpreter, mut actual, mut differences) = (Interpreter::default(), String::new(), Vec::new());
    let mut lines = (1..).zip(text.lines()).peekable();
    let mut effects: Vec<String> = Vec::new();
    while let Some((number, line)) = lines.next() {
        let _ = writeln!(actual, "{line}");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line != "----" {
            let ran = catch_unwind(AssertUnwindSafe(|| interpreter.run(line)));
            match ran.unwrap_or_else(|_| Err("a server panicked".to_owned())) {
                Ok(lines) => effects.extend(lines),
                Err(error) => {
                    differences.push(format!("{name}:{number}: `{line}`: {error}"));
                    return (text.to_owned(), differences);
                }
            }
            continue;
        }
        let mut expected = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
            expected.push(line.to_owned());
        }
        let mut found = std::mem::take(&mut effects);
        if found.is_empty() {
            found.push(NOTHING.to_owned());
        }
        found.iter().for_each(|line| actual.push_str(&format!("{line}\n")));
        if found != expected {
            differences.push(format!("{name}:{number}:\n{}", difference(&expected, &found)));
        }
    }
    if !effects.is_empty() {
        differences.push(format!("{name}: the last commands have no expected effects"));
    }
    (actual, differences)
}

/// The lines around the first difference: `-` is expected, `+` is what happened.
fn difference(expected: &[String], found: &[String]) -> String {
    let same = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let after = expected[same..].iter().rev().zip(found[same..].iter().rev()).take_while(|(a, b)| a == b).count();
    let context =
        |sign: char, lines: &[String]| lines.iter().map(|line| format!("{sign} {line}\n")).collect::<String>();
    let before = context(' ', &expected[same.saturating_sub(3)..same]);
    let (gone, new) = (&expected[same..expected.len() - after], &found[same..found.len() - after]);
    format!("{before}{}{}", context('-', gone), context('+', new))
}

#[test]
fn scripts_have_expected_effects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let (wanted, updates) = (std::env::var("SCRIPT").unwrap_or_default(), std::env::var_os("UPDATE_SCRIPTS").is_some());
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    assert!(!paths.is_empty(), "{} contains no script", folder.display());
    let table = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut failures = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains(&wanted) {
            continue;
        }
        if !table.contains(&format!("({name})")) {
            failures.push(format!("README.md does not list `{name}`"));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (actual, differences) = run(&name, &text);
        if updates && actual != text {
            std::fs::write(&path, actual).unwrap();
        }
        failures.extend(differences.into_iter().filter(|difference| !updates || difference.contains('`')));
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

/// Known cases (`cargo xtask cases`), each with the script that shows it.
macro_rules! known_cases {
    ($($test:ident: $script:literal,)*) => {$(
        #[test]
        fn $test() {
            let path = format!("{}/testdata/{}.txt", env!("CARGO_MANIFEST_DIR"), $script);
            let (_, differences) = run($script, &std::fs::read_to_string(path).unwrap());
            assert!(differences.is_empty(), "{}", differences.join("\n"));
        }
    )*};
}

known_cases! {
    k001_k008_k030_vote_matches_log_when_old_role_has_ended: "follower_loses_leader",
    k002_history_is_acknowledged_when_durable: "sync_waits_for_disk",
    k003_k004_k005_k006_disk_gets_history_epoch_proposals_in_order: "sync_proposals_before_newleader",
    k007_ack_before_newleader_counts_later: "sync_early_ack",
    k009_gap_in_history_is_refused: "sync_gap",
    k011_transactions_after_truncation_are_logged: "sync_trunc_then_diff",
    k014_snapshot_is_complete_when_installed: "sync_snap_overlap",
    k019_failed_truncation_asks_for_snapshot: "sync_trunc_fails",
    k022_failed_leadership_uses_epoch_and_keeps_vote: "discovery_times_out",
    k026_observer_logs_informs_without_acks: "broadcast_observer_checks_informs",
    k041_quarantined_member_does_not_vote: "quarantined_member_gets_snapshot",
    k080_late_server_joins_existing_leader: "election_late_server_joins_leader",
    k081_restarted_server_joins_although_votes_differ: "election_dead_leader_not_joined",
    k082_leader_steps_down_without_enough_supporters: "lost_support",
    k083_forged_round_does_not_stop_elections: "election_forged_round",
    k084_only_voters_count: "newleader_acks_of_voters_count",
    k091_observers_do_not_reply_to_each_other: "election_observer_asks",
    k095_leader_with_stalled_disk_steps_down: "leader_disk_stalls",
    k097_long_synchronisation_may_exceed_init_limit: "sync_takes_long",
    k098_follower_without_acks_is_closed: "broadcast_follower_without_acks",
    k100_sync_needs_fresh_proof_of_leadership: "proof_of_leadership",
    k102_reconfig_needs_quorum_of_synced_followers: "reconfig_refused",
    k103_static_configuration_does_not_change: "reconfig_config_from_notification",
}

#[test]
fn script_with_another_effect_or_an_unknown_command_fails() {
    let check = |text: &str, expected: &str| {
        let (_, differences) = run("x.txt", text);
        assert!(differences.iter().any(|difference| difference.contains(expected)), "{differences:?}");
    };
    let start = "ensemble voters=1\npeer 1\nstart 1\n----\n";
    check(&format!("{start}1: start\n"), "x.txt:4:\n  1: start\n+   looking\n");
    check(&format!("{start}1: stop\n\nstatus 1\n----\n"), "x.txt:8:\n+ 1: LEADING");
    check("peer 1\n", "x.txt:1: `peer 1`: no ensemble is defined");
    check("ensemble voters=1 votes=3\n", "x.txt:1: `ensemble voters=1 votes=3`: unknown: votes=3");
    check(start.trim_end_matches("----\n"), "x.txt: the last commands have no expected effects");
    let (actual, _) = run("x.txt", &format!("{start}wrong\n"));
    assert_eq!(run("x.txt", &actual), (actual.clone(), Vec::new()), "the rewritten script passes");
}
