//! `edit`: edits a node's data in an editor.
//!
//! The data is written to a temporary file, which is deleted only after the node was updated. An edit is never lost: on
//! failure the command prints the name of the file.

use super::{CommandSpec, EXTENSION};
use crate::command_error::CommandError;
use crate::ctrl_c::CtrlC;
use crate::options::{CommandArgs, Opt};
use crate::output::Output;
use crate::shell::Shell;
use crate::subtree_output;
use crate::tokenize;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ox_client::{ErrorCode, Version};
use std::fs::{self, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "edit",
    syntax: "[-b] [--from file] [--editor program] path",
    help: "Edit a node's data in $VISUAL or $EDITOR; fails if another client changes it meanwhile",
    options: &[
        Opt::switch("-b", "Edit as base64, for binary data"),
        Opt::with("--from", "file", "Start with this file instead of the data, for example after a conflict"),
        Opt::with("--editor", "program", "Editor to run"),
    ],
    operands: 1..=1,
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

/// The temporary file that is edited.
struct Draft {
    file: PathBuf,
    out: Output,
    /// The node's data; an edit that does not change it is skipped.
    known: Vec<u8>,
    was_for_editor: Arc<AtomicBool>,
    /// Whether the file contains changes that exist nowhere else.
    has_unsaved_edit: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.has_unsaved_edit {
            self.out.error(&format!("Your edit is kept in {}", self.file.display()));
        } else {
            let _ = fs::remove_file(&self.file); // at worst a temporary file remains
        }
    }
}

impl Draft {
    fn new(shell: &Shell, path: &str, data: &[u8], known: Vec<u8>) -> Result<Self, CommandError> {
        let (out, was_for_editor) = (shell.out.clone(), shell.was_for_editor());
        // The file name ends with the node's name, so that editors recognise the format.
        let name: String = path.chars().rev().take_while(|letter| *letter != '/').collect();
        let name: String =
            name.chars().rev().filter(|letter| letter.is_alphanumeric() || ".-_".contains(*letter)).collect();
        for number in 0..1000 {
            let file = std::env::temp_dir().join(format!("oxkeeper-{}-{number}-{name}", std::process::id()));
            match create(&file, data) {
                Ok(()) => return Ok(Self { file, out, known, was_for_editor, has_unsaved_edit: false }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => (),
                Err(error) => return Err(super::export::file_error(&file, &error)),
            }
        }
        Err(CommandError::message(format!("No free file name in {}", std::env::temp_dir().display())))
    }

    /// Runs the editor and returns the contents of the file.
    fn edit(&mut self, editor: &str) -> Result<Vec<u8>, CommandError> {
        let words = tokenize::split(editor);
        let (program, rest) = words.split_first().map_or(("vi", &[][..]), |(first, rest)| (first.as_str(), rest));
        let mut ctrl_c = CtrlC::listen();
        let status = Program::new(program).args(rest).arg(&self.file).status();
        if ctrl_c.was_pressed() {
            self.was_for_editor.store(true, Ordering::Relaxed);
        }
        self.has_unsaved_edit = fs::read(&self.file).map_or(true, |edited| edited != self.known);
        match status {
            Ok(status) if status.success() => {
                fs::read(&self.file).map_err(|error| super::export::file_error(&self.file, &error))
            }
            Ok(status) => Err(CommandError::message(format!("{program} failed ({status}): nothing was changed"))),
            Err(error) => Err(CommandError::message(format!("{program} cannot be run: {error}\nhint: set EDITOR"))),
        }
    }
}

/// The editor to run, possibly with arguments. The default needs a terminal; others may be scripts.
fn editor(args: &CommandArgs) -> Result<String, CommandError> {
    let wanted = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let mut all = args.value("--editor").map(str::to_owned).into_iter().chain(wanted);
    let found = all.find(|editor| !editor.trim().is_empty());
    match found {
        Some(editor) => Ok(editor),
        None if std::io::stdin().is_terminal() => Ok("vi".to_owned()),
        None => Err(CommandError::message(
            "edit needs a terminal\nhint: `edit --editor true --from file path` stores a file",
        )),
    }
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

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = subtree_output::start(shell, args, 0)?;
    let editor = editor(args)?;
    let client = shell.connected_client().await?;
    let node = client.get(&path).await?;
    let is_base64 = args.has("-b");
    if !is_base64 && std::str::from_utf8(&node.data).is_err() {
        return Err(CommandError::message(format!("The data of {path} is not text; -b edits it as base64")));
    }
    let shown = if is_base64 { BASE64_STANDARD.encode(&node.data).into_bytes() } else { node.data.clone() };
    let begin = match args.value("--from") {
        Some(file) => fs::read(file).map_err(|error| super::export::file_error(Path::new(file), &error))?,
        None => shown.clone(),
    };
    shell.catch_up();
    shell.out.flush()?;
    let mut draft = Draft::new(shell, &path, &begin, shown)?;
    let edited = draft.edit(&editor)?;
    let data = match is_base64 {
        true => {
            let text: Vec<u8> = edited.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
            BASE64_STANDARD.decode(text).map_err(|error| CommandError::message(format!("Not base64: {error}")))?
        }
        false => without_added_newline(edited, &node.data),
    };
    if data == node.data {
        draft.has_unsaved_edit = false;
        shell.info("Nothing changed");
        return Ok(());
    }
    match client.set(&path, data, Version::Is(node.stat.version)).await {
        Ok(stat) => {
            draft.has_unsaved_edit = false;
            shell.info(&format!("Changed {path}, now version {}", stat.version));
            Ok(())
        }
        Err(error) if error.code() == Some(ErrorCode::BadVersion) => Err(CommandError::message(format!(
            "{path} was changed by another client meanwhile and is left as it is.\n\
             hint: edit --from {} {path}",
            draft.file.display()
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Editors terminate the last line, whether it was terminated before or not.
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
    fn newline_added_by_editor_is_removed() {
        assert_eq!(without_added_newline(b"a\n".to_vec(), b"b"), b"a");
        assert_eq!(without_added_newline(b"a\n".to_vec(), b"b\n"), b"a\n");
        assert_eq!(without_added_newline(b"a\n\n".to_vec(), b"b"), b"a\n");
        assert_eq!(without_added_newline(b"\n".to_vec(), b""), b"");
    }
}
