//! The completions of the packages, in the shells themselves. A shell that is not installed is left out.

use crate::tools::run_command;
use std::path::Path;
use std::process::{Command, Stdio};

/// Prints what `oxkeeper sta` becomes by Tab, in a zsh of its own that loads the file by `compinit`.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty tab zsh -f -i
zpty -w tab 'PS1= RPS1= PS2=; unsetopt beep; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; print read""y'
zpty -r tab shown '*ready*'
zpty -w -n tab $'oxkeeper sta\t --wa\t'
zpty -r tab shown '*oxkeeper status*--watch*'
print -r -- $shown
zpty -d tab
"#;

/// The output of a shell; `None` if it is not installed.
fn output(shell: &str, arguments: &[&str], directory: &Path) -> Option<String> {
    if Command::new(shell).arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("{shell} is not installed: its completions are not tested");
        return None;
    }
    let mut command = Command::new("timeout");
    let output = command.args(["60", shell]).args(arguments).current_dir(directory).env("HOME", directory);
    let output = output.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn commands_and_options_are_completed() {
    let directory = tempfile::tempdir().unwrap();
    for (shell, file) in [("bash", "oxkeeper"), ("zsh", "_oxkeeper"), ("fish", "oxkeeper.fish")] {
        let generated = run_command(directory.path(), &["generate", "completions", shell]);
        std::fs::write(directory.path().join(file), generated.out).unwrap();
    }
    let bash = "source ./oxkeeper; for words in 'oxkeeper sta' 'oxkeeper status --wa'; do COMP_WORDS=($words) \
                COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _oxkeeper oxkeeper \"${COMP_WORDS[-1]}\" oxkeeper; \
                echo \"${COMPREPLY[@]}\"; done";
    if let Some(shown) = output("bash", &["--norc", "-c", bash], directory.path()) {
        assert_eq!(shown, "status\n--watch\n");
    }
    if let Some(shown) = output("zsh", &["-f", "-c", ZSH], directory.path()) {
        assert!(shown.contains("oxkeeper status") && shown.contains("--watch"), "{shown:?}");
    }
    let fish = "source oxkeeper.fish; complete -C 'oxkeeper sta'; complete -C 'oxkeeper status --wa'";
    if let Some(shown) = output("fish", &["--no-config", "-c", fish], directory.path()) {
        let words: Vec<&str> = shown.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words, ["status", "--watch"], "{shown}");
    }
}
