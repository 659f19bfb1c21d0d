//! The commands that look into files: what they say, and what they end with.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-store/testdata/tools").join(name)
}

fn run(arguments: &[&str], file: &Path, stdout: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    command.args(arguments).arg(file).stdout(stdout).stderr(Stdio::piped());
    command.spawn().and_then(std::process::Child::wait_with_output).expect("the binary runs")
}

#[test]
fn errors_name_their_cause_once() {
    for arguments in [["log", "dump"], ["snapshot", "dump"]] {
        let ended = run(&arguments, Path::new("nowhere/snapshot.1"), Stdio::piped());
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert_eq!(said.matches("No such file").count(), 1, "{said}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for (arguments, file) in [(["log", "dump"], "log.1"), (["snapshot", "dump"], "snapshot.15")] {
        let (_, closed) = std::io::pipe().unwrap();
        let ended = run(&arguments, &testdata(file), closed.into());
        assert_eq!((ended.status.code(), &*String::from_utf8_lossy(&ended.stderr)), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn of_a_damaged_file_what_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot.15");
    let whole = std::fs::read(testdata("snapshot.15")).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let ended = run(&["snapshot", "dump"], &file, Stdio::piped());
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8(ended.stdout).unwrap().contains("\n/app\n"));
    assert!(String::from_utf8(ended.stderr).unwrap().starts_with("error: "));
}
