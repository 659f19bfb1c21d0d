//! Output and exit codes of the commands that examine files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Files that Apache's toolkits were recorded with.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-store/testdata/tools").join(name)
}

/// A copy of one of Apache's data directories.
pub(crate) fn golden(set: &str) -> tempfile::TempDir {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-store/testdata").join(set).join("version-2");
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("version-2");
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    directory
}

/// Exit code and output of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `oxkeeper` in a directory, without a terminal for its questions.
pub(crate) fn run_command<S: AsRef<std::ffi::OsStr>>(directory: &Path, arguments: &[S]) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.env_remove("SERVER_JVMFLAGS").env_remove("JVMFLAGS");
    let ended = command.output().expect("the binary runs");
    CommandOutput {
        code: ended.status.code(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// The recorded output of Apache's toolkit for a command line.
pub(crate) fn recorded(file: &str, command: &str) -> String {
    let all = std::fs::read_to_string(testdata(file)).unwrap();
    let start = format!("$ {command}\n--- stdout\n");
    let from = all.find(&start).unwrap() + start.len();
    let length = all[from..].find("--- stderr").unwrap();
    all[from..from + length].to_owned()
}

fn run(arguments: &[&str], file: &Path, stdout: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    command.args(arguments).arg(file).stdout(stdout).stderr(Stdio::piped());
    command.spawn().and_then(std::process::Child::wait_with_output).expect("the binary runs")
}

#[test]
fn errors_name_their_cause_once() {
    for (arguments, code) in [
        (["log", "dump"], 2),
        (["log", "check"], 2),
        (["log", "recover"], 2),
        (["snapshot", "dump"], 2),
        (["snapshot", "check"], 2),
        (["snapshot", "summary"], 2),
    ] {
        for file in ["nowhere/snapshot.1", "nowhere/else"] {
            let ended = run(&arguments, Path::new(file), Stdio::piped());
            let said = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(code), "{said}");
            assert_eq!(said.matches("No such file").count(), 1, "{said}");
        }
    }
}

#[test]
fn closed_pipe_is_no_error() {
    for (arguments, file) in [
        (["log", "dump"], "log.1"),
        (["log", "check"], "log.1.bad"),
        (["log", "recover"], "log.1.bad"),
        (["snapshot", "dump"], "snapshot.15"),
        (["snapshot", "check"], "snapshot.15"),
        (["snapshot", "summary"], "snapshot.15"),
    ] {
        let (_, closed) = std::io::pipe().unwrap();
        let ended = run(&arguments, &testdata(file), closed.into());
        assert_eq!((ended.status.code(), &*String::from_utf8_lossy(&ended.stderr)), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn damaged_file_is_printed_as_far_as_readable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot.15");
    let whole = std::fs::read(testdata("snapshot.15")).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let ended = run(&["snapshot", "dump"], &file, Stdio::piped());
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8(ended.stdout).unwrap().contains("\n/app\n"));
    assert!(String::from_utf8(ended.stderr).unwrap().starts_with("error: "));
}
