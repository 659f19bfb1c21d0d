//! Apache's programs for files: logs, snapshots, old files and new members, compared with the recordings.

use crate::scripts::{Installation, output, recorded};
use crate::tools::{CommandOutput, testdata};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// An installation with the recordings' files in its directory.
fn with_files() -> Installation {
    let installed = Installation::new("");
    for name in ["log.1", "log.1.bad", "snapshot.15", "snapshot.b"] {
        fs::copy(testdata(name), installed.path(name)).unwrap();
    }
    installed
}

/// Runs a program with these answers to its questions.
fn run_with_input(installed: &Installation, program: &str, arguments: &[&str], input: &str) -> CommandOutput {
    let mut command = installed.command(program, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    CommandOutput {
        code: ended.status.code(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

fn timeless(text: &str) -> String {
    text.lines().filter(|line| !line.ends_with(" seconds")).map(|line| line.to_owned() + "\n").collect()
}

#[test]
fn logs_are_printed_and_repaired_as_recorded() {
    let installed = with_files();
    let check = |arguments: &[&str]| installed.check("txnlog-toolkit.txt", "zkTxnLogToolkit.sh", arguments);
    check(&["log.1"]);
    check(&["-d", "log.1"]);
    check(&["log.1.bad"]);
    check(&["-r", "-y", "log.1.bad"]);
    let fixed = fs::read(installed.path("log.1.bad.fixed")).unwrap();
    assert!(fixed.len() < fs::read(testdata("log.1.bad")).unwrap().len(), "a copy without padding");
    let dump = installed.run("zkTxnLogToolkit.sh", &["log.1.bad.fixed"]);
    assert!(!dump.out.contains("CRC ERROR") && dump.out.contains("/app,Hello,"), "{}", dump.out);
    assert_eq!(
        installed.run("zkTxnLogToolkit.sh", &["-r", "-v", "-y", "log.1.bad"]).code,
        Some(1),
        "it exists already"
    );
    fs::remove_file(installed.path("log.1.bad.fixed")).unwrap();
    let verbose = installed.run("zkTxnLogToolkit.sh", &["-r", "-v", "-y", "log.1.bad"]);
    let expected = recorded("txnlog-toolkit.txt", "zkTxnLogToolkit.sh -r -v -y log.1.bad", Some(0));
    assert_eq!(verbose.out, expected.out);
    check(&["-c", "-z", "0x5", "log.1"]);
    check(&["log.1.chopped5"]);
    check(&["-c", "-z", "0x999", "log.1"]);
    assert!(!installed.path("log.1.chopped2457").exists());
    check(&[]);
    check(&["-h"]);
    check(&["nosuch"]);
    check(&["-q", "log.1"]);
    fs::copy(testdata("snapshot.b"), installed.path("snapshot.1")).unwrap();
    check(&["snapshot.1"]);
}

#[test]
fn questions_about_checksums_are_those_of_apache() {
    let installed = with_files();
    let kept = run_with_input(&installed, "zkTxnLogToolkit.sh", &["-r", "log.1.bad"], "maybe\nno\n");
    assert_eq!(kept.out, recorded("txnlog-toolkit.txt", "zkTxnLogToolkit.sh -r log.1.bad", Some(0)).out);
    assert_eq!(
        fs::read(installed.path("log.1.bad.fixed")).unwrap()[..1000],
        fs::read(testdata("log.1.bad")).unwrap()[..1000]
    );
    fs::remove_file(installed.path("log.1.bad.fixed")).unwrap();
    let aborted = run_with_input(&installed, "zkTxnLogToolkit.sh", &["-r", "log.1.bad"], "a\n");
    assert_eq!((aborted.code, aborted.err.as_str()), (Some(0), "Recovery aborted.\n"));
    assert!(aborted.out.ends_with("Would you like to fix it (Yes/No/Abort) ? "), "{}", aborted.out);
}

#[test]
fn snapshots_are_printed_as_recorded() {
    let installed = with_files();
    // Children are printed in the order of the file, which is not Apache's.
    let nodes = |text: &str| {
        let mut parts: Vec<String> = text.split("----\n").map(str::to_owned).collect();
        parts.sort();
        parts
    };
    let sessions = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for arguments in [&["snapshot.15"][..], &["-d", "snapshot.15"]] {
        let ran = installed.run("zkSnapShotToolkit.sh", arguments);
        let expected =
            recorded("snapshot-toolkit.txt", &format!("zkSnapShotToolkit.sh {}", arguments.join(" ")), ran.code);
        assert_eq!(nodes(&ran.out).len(), nodes(&expected.out).len());
        assert_eq!(sessions(&ran.out), sessions(&expected.out));
    }
    let json = installed.run("zkSnapShotToolkit.sh", &["-json", "snapshot.15"]);
    assert!(json.out.starts_with("[1,0,{\"progname\":\"SnapshotFormatter.java\""), "{}", json.out);
    let check = |arguments: &[&str]| installed.check("snapshot-toolkit.txt", "zkSnapShotToolkit.sh", arguments);
    check(&[]);
    check(&["-d", "-json", "snapshot.15"]);
    let missing = installed.run("zkSnapShotToolkit.sh", &["nosuch"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.ends_with("/nosuch' does not exist.\n"), "{}", missing.err);
    assert_eq!(installed.run("zkSnapShotToolkit.sh", &["log.1"]).code, Some(2), "not named like a snapshot");
}

#[test]
fn snapshots_are_compared_and_summarised_as_recorded() {
    let installed = with_files();
    let arguments = ["-l", "snapshot.b", "-r", "snapshot.15", "-b", "2", "-n", "1"];
    for more in [None, Some("-d")] {
        let arguments: Vec<&str> = arguments.into_iter().chain(more).collect();
        let ran = installed.run("zkSnapshotComparer.sh", &arguments);
        let command = format!("zkSnapshotComparer.sh {}", arguments.join(" "));
        assert_eq!(timeless(&ran.out), timeless(&recorded("snapshot-comparer.txt", &command, ran.code).out));
    }
    let interactive = [&arguments[..], &["-i"]].concat();
    let answers = "\n2\n/app\n/nope\nfoo\n99\n\n";
    let ran = run_with_input(&installed, "zkSnapshotComparer.sh", &interactive, answers);
    let command = format!("zkSnapshotComparer.sh {}", interactive.join(" "));
    assert_eq!(timeless(&ran.out), timeless(&recorded("snapshot-comparer.txt", &command, ran.code).out));
    installed.check("snapshot-comparer.txt", "zkSnapshotComparer.sh", &["-l", "snapshot.b"]);
    let check = |arguments: &[&str]| {
        installed.check("snapshot-recursive-summary.txt", "zkSnapshotRecursiveSummaryToolkit.sh", arguments)
    };
    check(&["snapshot.15", "/", "1"]);
    check(&["snapshot.15", "/app", "0"]);
    check(&[]);
    let unknown = installed.run("zkSnapshotRecursiveSummaryToolkit.sh", &["snapshot.15", "/nosuch", "1"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (Some(1), ""));
}

/// A data directory with eight snapshots and logs that Apache wrote.
fn fill(data: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-store/testdata/c-snapshots/version-2");
    fs::create_dir_all(data).unwrap();
    let status = std::process::Command::new("cp").arg("-r").arg(from).arg(data).status().unwrap();
    assert!(status.success());
}

#[test]
fn old_files_are_removed_as_recorded() {
    let installed = Installation::new("");
    installed.run("zkServer-initialize.sh", &[]); // an existing directory
    let check = |arguments: &[&str]| installed.check("zkCleanup.txt", "zkCleanup.sh", arguments);
    check(&[]);
    check(&["-n", "1"]);
    let text = installed.run("zkCleanup.sh", &["-n", "abc"]);
    assert_eq!((text.code, text.err.as_str()), (Some(1), "'abc' can not be parsed to integer.\n"));
    let data = installed.path("data");
    fs::remove_dir_all(&data).unwrap();
    let missing = installed.run("zkCleanup.sh", &["-n", "3"]);
    assert_eq!(missing.code, Some(1));
    assert_eq!(missing.err, format!("Path '{}' does not exist. \n", data.display()));
    fill(&data);
    let names = |start: &str| {
        let names = fs::read_dir(data.join("version-2")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| name.starts_with(start));
        names.sort();
        names
    };
    let all = installed.run("zkCleanup.sh", &["-n", "100"]);
    assert_eq!((all.code, all.out.as_str()), (Some(0), ""), "{}", all.err);
    assert_eq!(names("snapshot.").len(), 8);
    let ran = installed.run("zkCleanup.sh", &["-n", "3"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(names("snapshot."), ["snapshot.6e", "snapshot.80", "snapshot.8b"]);
    assert_eq!(names("log."), ["log.5f", "log.6f", "log.82", "log.8c"], "those that the kept snapshots need");
    assert_eq!(ran.out.matches("Removing file: ").count(), 5 + 4, "{}", ran.out);
    let first = ran.out.lines().next().unwrap();
    let (date, path) = first.strip_prefix("Removing file: ").unwrap().split_once('\t').unwrap();
    assert!(date.ends_with('M') && date.matches(", ").count() == 2, "Java's date: {date}");
    assert!(path.starts_with(data.to_str().unwrap()), "{path}");
}

#[test]
fn data_directory_is_initialised_as_recorded() {
    let installed = Installation::new("");
    let check = |arguments: &[&str]| installed.check("zkServer-initialize.txt", "zkServer-initialize.sh", arguments);
    check(&["--help"]);
    check(&["--myid=7"]);
    let data = installed.path("data");
    assert_eq!(fs::read_to_string(data.join("myid")).unwrap(), "7\n");
    assert!(data.join("initialize").is_file() && data.join("version-2").is_dir());
    check(&[]);
    fs::write(data.join("version-2/log.1"), "old").unwrap();
    check(&["--force"]);
    assert!(!data.join("myid").exists() && !data.join("version-2/log.1").exists());
    check(&["--bogus"]);
    check(&["--configfile=/nonexistent"]);
    let wrong = installed.run("zkServer-initialize.sh", &["--force", "--myid", "one"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.out.contains("one is not a number"), "{}", wrong.out);
}

/// `--force` would delete the data of a running server.
#[test]
fn data_of_a_running_server_is_not_initialised() {
    let installed = Installation::new("");
    assert_eq!(installed.run("zkServer.sh", &["start"]).code, Some(0));
    let refused = installed.run("zkServer-initialize.sh", &["--force"]);
    assert_eq!(refused.code, Some(1), "{}", refused.out);
    assert!(refused.out.contains("is in use by"), "{}", refused.out);
    assert!(installed.path("data/version-2").is_dir());
    let called_by_argument = {
        let mut command = installed.command("oxkeeper", &["zkServer.sh", "status"]);
        command.env("ZOOCFGDIR", installed.path("conf"));
        output(command)
    };
    assert!(called_by_argument.out.contains("Client port found: "), "{}", called_by_argument.out);
}
