//! `oxkeeper log check` and `recover`, as an operator uses them.

use crate::process::{self, Site};
use crate::tools::{golden, run_command, testdata};
use serde_json::Value;
use std::path::Path;

fn parsed(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn clean_and_damaged_logs_have_different_verdicts() {
    let clean = run_command(Path::new("."), &[Path::new("log"), "check".as_ref(), &testdata("log.1")]);
    assert_eq!(clean.code, Some(0), "{}", clean.err);
    assert!(
        clean.out.contains("log.1: clean\n  25 good records, 0x1 to 0x19, Sun Nov 15 06:44:09 UTC 2026 to "),
        "{}",
        clean.out
    );
    let bad = run_command(Path::new("."), &[Path::new("log"), "check".as_ref(), &testdata("log.1.bad")]);
    assert_eq!(bad.code, Some(1), "{}", bad.err);
    assert!(bad.out.contains("log.1.bad: damaged\n  24 good records"), "{}", bad.out);
    assert!(bad.out.contains("(0x2 is missing)"), "{}", bad.out);
    assert!(bad.out.contains("hint: oxkeeper log recover "), "{}", bad.out);
}

#[test]
fn directory_gets_one_verdict() {
    for (set, code, text) in [
        (
            "e-corrupt/undamaged",
            0,
            "a server would start with it\n  from snapshot.d and 12 transactions after it, up to 0x19",
        ),
        (
            "e-corrupt/torn-tail-cut",
            1,
            "from snapshot.d and 11 transactions after it, up to 0x18\n  it would truncate ",
        ),
        (
            "e-corrupt/missing-middle-log",
            1,
            "a server would not start with it\n  no complete history: transactions after 0x7",
        ),
        ("e-corrupt/flip-data-covered", 1, "the fault of log.8 does not matter"),
        ("e-corrupt/torn-then-next-log", 1, "the fault of log.1 does not matter"),
        ("e-corrupt/flip-eor-mid", 1, "(Apache takes it for the end of the log and silently loses the rest.)"),
        ("e-corrupt/empty-last-log", 0, "clean and empty"),
        ("g-ensemble/1", 0, "an ensemble member would start with it"),
    ] {
        let directory = golden(set);
        for dir in [".", "version-2"] {
            let told = run_command(directory.path(), &["log", "check", dir]);
            assert_eq!(told.code, Some(code), "{set}: {}{}", told.out, told.err);
            assert!(told.out.contains(text), "{set}: {}", told.out);
            assert_eq!(told.err, "");
        }
    }
}

#[test]
fn json_output_is_complete() {
    let directory = golden("e-corrupt/flip-crc-mid");
    let told = run_command(directory.path(), &["log", "check", "--json", "."]);
    assert_eq!(told.code, Some(1));
    let values = parsed(&told.out);
    let damaged = values.iter().find(|value| value["verdict"] == "damaged").unwrap();
    assert_eq!((&damaged["first"], &damaged["last"]), (&"0xe".into(), &"0x19".into()));
    assert_eq!((&damaged["faults"][0]["after"], &damaged["faults"][0]["before"]), (&"0x10".into(), &"0x12".into()));
    let whole = values.last().unwrap();
    assert_eq!(whole["starts"], false);
    assert!(whole["hint"].as_str().unwrap().contains("allowGaps"));
    let told = run_command(directory.path(), &["log", "recover", "--json", "version-2/log.e"]);
    let plan = &parsed(&told.out)[0];
    let fates: Vec<&str> =
        plan["steps"].as_array().unwrap().iter().map(|step| step["action"].as_str().unwrap()).collect();
    assert_eq!((told.code, &fates[..]), (Some(1), &["keep", "drop", "drop"][..]));
}

#[test]
fn unreadable_file_does_not_stop_the_check() {
    let directory = golden("e-corrupt/undamaged");
    let told = run_command(directory.path(), &["log", "check", "nowhere", "version-2/log.1"]);
    assert_eq!(told.code, Some(2));
    assert!(told.out.contains("log.1: clean"), "{}", told.out);
    assert!(told.err.contains("nowhere"), "{}", told.err);
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    let told = run_command(directory.path(), &["log", "check", "empty"]);
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("hint: give dataLogDir"), "{}", told.err);
}

#[test]
fn logs_and_snapshots_may_be_in_separate_directories() {
    let directory = golden("e-corrupt/undamaged");
    let path = directory.path();
    std::fs::create_dir_all(path.join("logs/version-2")).unwrap();
    for log in ["log.1", "log.8", "log.e"] {
        std::fs::rename(path.join("version-2").join(log), path.join("logs/version-2").join(log)).unwrap();
    }
    let told = run_command(path, &["log", "check", "logs"]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert!(told.out.contains("add --snapshots <dataDir>"), "{}", told.out);
    let told = run_command(path, &["log", "check", "logs", "--snapshots", "."]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert!(told.out.contains("up to 0x19"), "{}", told.out);
}

/// The whole procedure: a server that refuses to start, check, recovery, start.
#[test]
fn refused_server_starts_with_the_recovered_log() {
    let directory = golden("e-corrupt/flip-crc-mid");
    let path = directory.path();
    let site = Site::new(path, "");
    std::fs::create_dir_all(path.join("data")).unwrap();
    std::fs::rename(path.join("version-2"), path.join("data/version-2")).unwrap();
    let refused = process::start(&["server", "zoo.cfg"], path).end();
    assert!(refused.said.contains("log.e is damaged at byte"), "{}", refused.said);

    let log = "data/version-2/log.e";
    let before = std::fs::read(path.join(log)).unwrap();
    let preview = run_command(path, &["log", "recover", log]);
    assert_eq!(preview.code, Some(1), "{}", preview.err);
    assert!(
        preview.out.contains("Kept: 3 records, 0xe to 0x10. Dropped: 8 records, 0x12 to 0x19, and 114 damaged bytes."),
        "{}",
        preview.out
    );
    assert!(preview.out.contains("With it in place: a server would start with it"), "{}", preview.out);
    assert!(preview.out.contains("Nothing was written."), "{}", preview.out);
    let unasked = run_command(path, &["log", "recover", "-r", log]);
    assert_eq!(unasked.code, Some(2));
    assert!(unasked.err.contains("hint: --yes"), "{}", unasked.err);
    assert!(!path.join("data/version-2/log.e.fixed").exists());

    let written = run_command(path, &["log", "recover", "-r", "-y", log]);
    assert_eq!(written.code, Some(0), "{}", written.err);
    assert!(written.out.contains("log.e.fixed was written: 3 records"), "{}", written.out);
    assert_eq!(std::fs::read(path.join(log)).unwrap(), before, "the original is untouched");
    let again = run_command(path, &["log", "recover", "-r", "-y", log]);
    assert_eq!(again.code, Some(2));
    assert!(again.err.contains("Recovery file data/version-2/log.e.fixed already exists"), "{}", again.err);

    std::fs::rename(path.join(log), path.join("log.e.damaged")).unwrap();
    std::fs::rename(path.join("data/version-2/log.e.fixed"), path.join(log)).unwrap();
    let running = site.start();
    assert_eq!(running.client().exists("/").err, 0);
    running.stop();
}

#[test]
fn clean_log_needs_no_recovery() {
    let directory = golden("e-corrupt/undamaged");
    let told = run_command(directory.path(), &["log", "recover", "-r", "version-2/log.e"]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert!(told.out.contains("there is nothing to recover"), "{}", told.out);
    assert!(!directory.path().join("version-2/log.e.fixed").exists());
    let told = run_command(directory.path(), &["log", "recover", "version-2"]);
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("version-2 is a directory\nhint: oxkeeper log check version-2"), "{}", told.err);
}

/// The synced position must be removed when records before it are lost.
#[test]
fn recovery_before_the_synced_position_advises_to_remove_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let site = Site::new(path, "");
    let running = site.start();
    let mut client = running.client();
    for number in 0..20 {
        client.create(&format!("/n{number}"), &[b'x'; 100]);
    }
    running.process.kill();
    let log = path.join("data/version-2/log.1");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[1500] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let told = run_command(path, &["log", "recover", "-r", "-y", "data/version-2/log.1"]);
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    assert!(
        told.out.contains("and oxk.synced deleted, because it records a dropped position: a server would start"),
        "{}",
        told.out
    );
    // The printed advice works.
    assert!(told.out.contains("  rm data/version-2/oxk.synced\n"), "{}", told.out);
    std::fs::rename(path.join("data/version-2/log.1.fixed"), &log).unwrap();
    std::fs::remove_file(path.join("data/version-2/oxk.synced")).unwrap();
    let running = site.start();
    assert_eq!(running.client().exists("/n1").err, 0);
    running.stop();
}

/// A backup of a running server is intact, and server and tool agree about a copy whose last record is incomplete.
#[test]
fn intact_copy_has_its_own_verdict() {
    let home = tempfile::tempdir().unwrap();
    let running = Site::new(home.path(), "").start();
    let mut client = running.client();
    (0..20).for_each(|number| assert_eq!(client.create(&format!("/n{number}"), b"data").err, 0));
    let copy = |name: &str| {
        let to = home.path().join(name);
        std::fs::create_dir(&to).unwrap();
        Site::new(&to, "");
        let copied =
            std::process::Command::new("cp").arg("-r").arg(home.path().join("data")).arg(&to).status().unwrap();
        assert!(copied.success());
        to
    };
    let hot = copy("hot");
    running.stop();
    let told = run_command(&hot, &["log", "check", "data"]);
    assert_eq!(told.code, Some(3), "{}{}", told.out, told.err);
    assert!(told.out.contains("data/version-2: an intact copy of a running server, up to 0x15\n"), "{}", told.out);
    let told = run_command(&hot, &["log", "check", "--json", "data"]);
    assert_eq!((told.code, &parsed(&told.out).last().unwrap()["intactCopyUpTo"]), (Some(3), &"0x15".into()));

    let stopped = copy("stopped");
    let told = run_command(&stopped, &["log", "check", "--json", "data"]);
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    let logs = parsed(&told.out);
    let newest = logs.iter().rfind(|value| value["records"].as_u64().is_some_and(|records| 0 < records)).unwrap();
    let used = newest["length"].as_u64().unwrap() - newest["padding"].as_u64().unwrap();
    let log = std::fs::OpenOptions::new().write(true).open(newest["file"].as_str().unwrap()).unwrap();
    log.set_len(used - 2).unwrap();
    let told = run_command(&stopped, &["log", "check", "data"]);
    assert_eq!(told.code, Some(3), "{}{}", told.out, told.err);
    assert!(
        told.out.contains("an incomplete record: the end of the log was not copied, or was removed"),
        "{}",
        told.out
    );
    let said = Site::new(&stopped, "").start().stop();
    assert!(said.contains("incomplete end of the log truncated: it is a copy"), "{said}");
    assert!(said.contains(" after=0x") && said.contains("the original had reached 0x15 at least"), "{said}");
    for text in ["never acknowledged", "DroppedTail", "Zxid("] {
        assert!(!said.contains(text) && !told.out.contains(text), "{text}: {said}{}", told.out);
    }
}

#[test]
fn file_that_is_not_a_log_is_refused() {
    let directory = golden("e-corrupt/undamaged");
    std::fs::write(directory.path().join("zoo.cfg"), "dataDir=/var/lib/zookeeper\nclientPort=2181\n").unwrap();
    let told = run_command(directory.path(), &["log", "check", "zoo.cfg"]);
    assert_eq!((told.code, told.out.as_str()), (Some(2), ""));
    assert_eq!(told.err, "error: zoo.cfg is not a log: neither its name (log.ZXID) nor its content is that of one\n");
    let dumped = run_command(directory.path(), &["log", "dump", "."]);
    assert_eq!(dumped.code, Some(0), "{}", dumped.err);
    let logs = std::fs::read_dir(directory.path().join("version-2")).unwrap();
    let logs = logs.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("log.")).count();
    assert_eq!(dumped.out.matches("ZooKeeper Transactional Log File").count(), logs, "{}", dumped.out);
    let empty = tempfile::tempdir().unwrap();
    let told = run_command(empty.path(), &["log", "dump", "."]);
    assert!(told.code == Some(2) && told.err.contains("no logs in "), "{}", told.err);
}
