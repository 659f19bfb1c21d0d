//! `oxkeeper snapshot check`, `summary` and `compare`: the output of Apache's toolkits, and more.

use crate::tools::{golden, recorded, run_command, testdata};
use serde_json::Value;
use std::path::Path;

fn here(arguments: &[&str]) -> crate::tools::CommandOutput {
    run_command(testdata("log.1").parent().unwrap(), arguments)
}

#[test]
fn summaries_equal_those_of_apache() {
    for (recorded_as, arguments) in [
        ("snapshot.15 / 1", &["--depth", "1"][..]),
        ("snapshot.15 / 0", &[]),
        ("snapshot.15 /app 0", &["--path", "/app"]),
    ] {
        let told = here(&[&["snapshot", "summary", "snapshot.15"], arguments].concat());
        let command = format!("zkSnapshotRecursiveSummaryToolkit.sh {recorded_as}");
        assert_eq!(told.out, recorded("snapshot-recursive-summary.txt", &command));
        assert_eq!((told.code, &*told.err), (Some(0), ""));
    }
    let told = here(&["snapshot", "summary", "snapshot.15", "--path", "/nosuch"]);
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("there is no node /nosuch"), "{}", told.err);
    let told = here(&["snapshot", "summary", "snapshot.15", "--json", "--path", "/big"]);
    assert_eq!(told.out, "{\"bytes\":50,\"depth\":0,\"descendants\":2,\"path\":\"/big\"}\n");
}

/// The text without times, which differ.
fn timeless(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.ends_with(" seconds"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn comparisons_equal_those_of_apache() {
    for more in [&[][..], &["-d"]] {
        let arguments = [&["snapshot", "compare", "-l", "snapshot.b", "-r", "snapshot.15", "-b", "2", "-n", "1"], more];
        let told = here(&arguments.concat());
        let flag = if more.is_empty() { "" } else { " -d" };
        let command = format!("zkSnapshotComparer.sh -l snapshot.b -r snapshot.15 -b 2 -n 1{flag}");
        assert_eq!(timeless(&told.out), timeless(&recorded("snapshot-comparer.txt", &command)));
        assert_eq!((told.code, &*told.err), (Some(0), ""));
        assert_eq!(told.out.lines().filter(|line| line.ends_with(" seconds")).count(), 4);
    }
}

#[test]
fn all_differences_are_reported() {
    let told = here(&["snapshot", "compare", "snapshot.b", "snapshot.15", "--content"]);
    let expected = "\
        ~ /app  data (5 bytes)\n\
        - /app/a  20 bytes\n\
        ~ /app/b  acl world:anyone:cdrwa -> digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa\n\
        + /big  30 bytes\n\
        + /big/c1  10 bytes\n\
        + /big/c2  10 bytes\n\
        + /ttl  2 bytes\n\
        1 only left, 4 only right, 2 changed, 8 the same.\n\
        Left is at 0xb, right at 0x15.\n";
    assert_eq!(told.out, expected);
    assert_eq!((told.code, &*told.err), (Some(1), ""));
    let told = here(&["snapshot", "compare", "snapshot.15", "snapshot.15"]);
    assert_eq!((told.code, &*told.out), (Some(0), "No difference in 14 nodes.\n"));
    let told = here(&["snapshot", "compare", "--json", "snapshot.b", "snapshot.15"]);
    let values: Vec<Value> = told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(values.iter().any(|value| value["path"] == "/app/a" && value["only"] == "left"), "{}", told.out);
    assert_eq!(values.last().unwrap()["onlyRight"], 4);
    let told = here(&["snapshot", "compare", "snapshot.b", "nowhere"]);
    assert_eq!(told.code, Some(2));
}

/// A directory stands for its newest snapshot and the logs after it.
#[test]
fn directory_stands_for_its_newest_state() {
    let (all, few) = (golden("e-corrupt/undamaged"), golden("e-corrupt/undamaged"));
    for name in ["snapshot.7", "snapshot.d"] {
        std::fs::remove_file(few.path().join("version-2").join(name)).unwrap();
    }
    let sides = [Path::new("snapshot"), "compare".as_ref(), all.path(), few.path()];
    let told = run_command(Path::new("."), &sides);
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    let snapshot = all.path().join("version-2/snapshot.d");
    let told = run_command(Path::new("."), &[Path::new("snapshot"), "compare".as_ref(), &snapshot, all.path()]);
    assert_eq!(told.code, Some(1), "{}{}", told.out, told.err);
    assert!(told.out.ends_with("Left is at 0xd, right at 0x19.\n"), "{}", told.out);
    let broken = golden("e-corrupt/missing-middle-log");
    let told = run_command(Path::new("."), &[Path::new("snapshot"), "summary".as_ref(), broken.path()]);
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("transactions after 0x7 are missing") && told.err.contains("hint: "), "{}", told.err);
}

#[test]
fn good_and_damaged_snapshots_have_different_verdicts() {
    let told = here(&["snapshot", "check", "snapshot.15", "snapshot.b"]);
    assert_eq!((told.code, &*told.err), (Some(0), ""));
    assert!(told.out.starts_with("snapshot.15: good\n  14 nodes (1 ephemeral) with 61 bytes of data"), "{}", told.out);
    for (set, code) in [
        ("e-corrupt/undamaged", 0),
        ("e-corrupt/gz-flip", 1),
        ("e-corrupt/snappy-flip", 1),
        ("e-corrupt/all-snapshots-flipped", 1),
        ("c-fuzzy", 0),
        ("d-snappy", 0),
    ] {
        let directory = golden(set);
        let told = run_command(directory.path(), &["snapshot", "check", "."]);
        assert_eq!((told.code, &*told.err), (Some(code), ""), "{set}: {}", told.out);
        assert_eq!(told.out.contains(": damaged\n"), code == 1, "{set}: {}", told.out);
        let told = run_command(directory.path(), &["snapshot", "check", "--json", "version-2"]);
        let values: Vec<Value> = told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(values.iter().any(|value| value["verdict"] == "damaged"), code == 1, "{set}");
    }
    let told = here(&["snapshot", "check", "log.1"]);
    assert_eq!(told.code, Some(2));
    assert!(told.err.contains("is not named like a snapshot"), "{}", told.err);
}

/// The nodes in the second line of a summary: those of the whole tree.
fn nodes(told: &crate::tools::CommandOutput) -> &str {
    told.out.lines().nth(1).unwrap_or_default().trim()
}

#[test]
fn logs_in_a_directory_of_their_own_are_read_and_reported() {
    let together = golden("e-corrupt/undamaged");
    let split = golden("e-corrupt/undamaged");
    let (data, logs) = (split.path().join("version-2"), split.path().join("logs/version-2"));
    std::fs::create_dir_all(&logs).unwrap();
    for entry in std::fs::read_dir(&data).unwrap() {
        let name = entry.unwrap().file_name();
        if name.to_str().unwrap().starts_with("log.") {
            std::fs::rename(data.join(&name), logs.join(&name)).unwrap();
        }
    }
    let summary = |path: &Path, more: &[&str]| {
        let told = run_command(path, &[&["snapshot", "summary"], more].concat());
        assert_eq!(told.code, Some(0), "{}", told.err);
        told
    };
    let whole = summary(together.path(), &["."]);
    let reported = |told: &crate::tools::CommandOutput| {
        let (data, logs) = (data.canonicalize().unwrap(), logs.canonicalize().unwrap());
        told.err.contains(&format!("read snapshots in {}, logs in {}", data.display(), logs.display()))
    };

    // Named by an option, or by the configuration file.
    let told = summary(split.path(), &[".", "--logs", "logs"]);
    assert!(nodes(&told) == nodes(&whole) && reported(&told), "{}{}", told.out, told.err);
    let config = format!("dataDir={0}\ndataLogDir={0}/logs\nclientPort=0\n", split.path().display());
    std::fs::write(split.path().join("zoo.cfg"), config).unwrap();
    let told = summary(split.path(), &["zoo.cfg"]);
    assert!(nodes(&told) == nodes(&whole) && reported(&told), "{}{}", told.out, told.err);

    // Named by neither of them.
    let told = summary(split.path(), &["."]);
    assert!(told.err.contains("warning: there are no logs in ") && told.err.contains("zoo.cfg"), "{}", told.err);
    assert_ne!(nodes(&told), nodes(&whole));
    let told = run_command(split.path(), &["snapshot", "summary", "version-2/snapshot.d", "--logs", "logs"]);
    assert!(told.code == Some(2) && told.err.contains("no logs are applied"), "{}", told.err);

    let together = together.path().to_str().unwrap();
    for (source, same) in [(&["."][..], false), (&[".", "--right-logs", "logs"], true), (&["zoo.cfg"], true)] {
        let told = run_command(split.path(), &[&["snapshot", "compare", together], source].concat());
        assert_eq!(told.code, Some(u8::from(!same).into()), "{source:?}: {}{}", told.out, told.err);
        assert_eq!(told.err.matches("read snapshots in ").count(), 2, "{}", told.err);
        assert_eq!(reported(&told), same, "{}", told.err);
        assert_eq!(told.err.contains("warning: there are no logs in "), !same, "{}", told.err);
    }
}
