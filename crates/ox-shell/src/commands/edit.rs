//! `edit`: a node's data in an editor.
//!
//! The data is written into a file of its own, which goes only when the node has it. Whatever happens, an edit is not lost: the
//! file is named.

use super::{Command, OURS};
use crate::command_error::Failure;
use crate::ctrl_c::Interrupts;
use crate::options::{Args, Opt};
use crate::output::Output;
use crate::shell::Shell;
use crate::subtree_output;
use crate::tokenize;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ox_client::{ErrorCode, Version};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const COMMAND: Command = Command {
    name: "edit",
    syntax: "[-b] [--from file] [--editor program] path",
    help: "Change a node's data in $VISUAL or $EDITOR, if nobody else changes it meanwhile",
    options: &[
        Opt::switch("-b", "As base64, for data that is no text"),
        Opt::with("--from", "file", "Begin with this file, such as one that an edit has left, not with the data"),
        Opt::with("--editor", "program", "Another editor"),
    ],
    takes: 1..=1,
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

/// The file that is edited.
struct Draft {
    file: PathBuf,
    out: Output,
    /// What the node holds: an edit that leaves it so is none.
    known: Vec<u8>,
    was_for_editor: Arc<AtomicBool>,
    /// Whether there is something in it that is nowhere else.
    is_precious: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_precious {
            self.out.complain(&format!("Your edit is kept in {}", self.file.display()));
        } else {
            let _ = fs::remove_file(&self.file); // a temporary file at worst
        }
    }
}

impl Draft {
    fn new(shell: &Shell, path: &str, data: &[u8], known: Vec<u8>) -> Result<Self, Failure> {
        let (out, was_for_editor) = (shell.out.clone(), shell.was_for_editor());
        // The name ends as the node's, so that editors know what it is.
        let name: String = path.chars().rev().take_while(|letter| *letter != '/').collect();
        let name: String =
            name.chars().rev().filter(|letter| letter.is_alphanumeric() || ".-_".contains(*letter)).collect();
        for number in 0..1000 {
            let file = std::env::temp_dir().join(format!("oxkeeper-{}-{number}-{name}", std::process::id()));
            match create(&file, data) {
                Ok(()) => return Ok(Self { file, out, known, was_for_editor, is_precious: false }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => (),
                Err(error) => return Err(super::export::trouble(&file, &error)),
            }
        }
        Err(Failure::told(format!("No free name in {}", std::env::temp_dir().display())))
    }

    /// Lets the user edit, and gives what the file holds then.
    fn edit(&mut self, editor: &str) -> Result<Vec<u8>, Failure> {
        let words = tokenize::split(editor);
        let (program, rest) = words.split_first().map_or(("vi", &[][..]), |(first, rest)| (first.as_str(), rest));
        let mut interrupts = Interrupts::listen();
        let status = Program::new(program).args(rest).arg(&self.file).status();
        if interrupts.has_come() {
            self.was_for_editor.store(true, Ordering::Relaxed);
        }
        self.is_precious = fs::read(&self.file).map_or(true, |edited| edited != self.known);
        match status {
            Ok(status) if status.success() => {
                fs::read(&self.file).map_err(|error| super::export::trouble(&self.file, &error))
            }
            Ok(status) => Err(Failure::told(format!("{program} ended with {status}: nothing is changed"))),
            Err(error) => Err(Failure::told(format!("{program} cannot be run: {error}\nhint: set EDITOR"))),
        }
    }
}

/// The program that the user wants, perhaps with arguments.
fn editor(args: &Args) -> String {
    let wanted = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let mut all = args.value("--editor").map(str::to_owned).into_iter().chain(wanted);
    all.find(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned())
}

#[cfg(unix)]
fn create(file: &Path, data: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(data)
}

#[cfg(not(unix))]
fn create(file: &Path, data: &[u8]) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(file)?.write_all(data)
}

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let path = subtree_output::start(shell, args, 0)?;
    let client = shell.server().await?;
    let node = client.get(&path).await?;
    let is_base64 = args.has("-b");
    if !is_base64 && std::str::from_utf8(&node.data).is_err() {
        return Err(Failure::told(format!("The data of {path} is no text; -b edits it as base64")));
    }
    let shown = if is_base64 { BASE64_STANDARD.encode(&node.data).into_bytes() } else { node.data.clone() };
    let begin = match args.value("--from") {
        Some(file) => fs::read(file).map_err(|error| super::export::trouble(Path::new(file), &error))?,
        None => shown.clone(),
    };
    shell.catch_up();
    shell.out.flush()?;
    let mut draft = Draft::new(shell, &path, &begin, shown)?;
    let edited = draft.edit(&editor(args))?;
    let data = match is_base64 {
        true => {
            let text: Vec<u8> = edited.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
            BASE64_STANDARD.decode(text).map_err(|error| Failure::told(format!("Not base64: {error}")))?
        }
        false => without_added_newline(edited, &node.data),
    };
    if data == node.data {
        draft.is_precious = false;
        shell.say("Nothing is changed");
        return Ok(());
    }
    match client.set(&path, data, Version::Is(node.stat.version)).await {
        Ok(stat) => {
            draft.is_precious = false;
            shell.say(&format!("Changed {path}, now version {}", stat.version));
            Ok(())
        }
        Err(error) if error.code() == Some(ErrorCode::BadVersion) => Err(Failure::told(format!(
            "{path} was changed by somebody else meanwhile, so it stays as they left it.\n\
             hint: edit --from {} {path}",
            draft.file.display()
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Editors end the last line, whether it was ended before or not.
fn without_added_newline(mut edited: Vec<u8>, before: &[u8]) -> Vec<u8> {
    if !before.ends_with(b"\n") && edited.ends_with(b"\n") {
        edited.pop();
    }
    edited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_that_an_editor_adds_is_taken_away() {
        assert_eq!(without_added_newline(b"a\n".to_vec(), b"b"), b"a");
        assert_eq!(without_added_newline(b"a\n".to_vec(), b"b\n"), b"a\n");
        assert_eq!(without_added_newline(b"a\n\n".to_vec(), b"b"), b"a\n");
        assert_eq!(without_added_newline(b"\n".to_vec(), b""), b"");
    }
}
