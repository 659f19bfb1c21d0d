//! `export`: writes a subtree as JSON.

use super::{CommandSpec, EXTENSION};
use crate::command_error::{CommandError, FAILED};
use crate::export_format::{FORMAT, Header, NodeRecord, VERSION};
use crate::options::{CommandArgs, Opt};
use crate::output::Output;
use crate::progress::Progress;
use crate::shell::Shell;
use crate::subtree_output::{self, DEPTH, NodeErrors};
use crate::walk::{NodeFields, Walk};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "export",
    syntax: "[-o file] [--document] [-d depth] [--yes] [path]",
    help: "Write a subtree as JSON, one node per line",
    options: &[
        Opt::with("-o", "file", "Write to a file, which is created when the export is complete"),
        Opt::switch("--document", "Write one JSON document instead of lines"),
        DEPTH,
        super::YES,
        super::JSON,
    ],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

/// The destination of the export.
enum Target {
    Standard(Output),
    File(Draft),
}

/// An output file under a temporary name until it is complete.
struct Draft {
    writer: BufWriter<File>,
    /// The temporary file; `None` if the target is not a regular file, for example a pipe, which must not be replaced.
    part: Option<PathBuf>,
    name: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            let _ = fs::remove_file(part); // at worst a temporary file remains
        }
    }
}

impl Draft {
    fn new(name: PathBuf) -> Result<Self, CommandError> {
        let name = fs::canonicalize(&name).unwrap_or(name); // follow a symbolic link instead of replacing it
        if fs::metadata(&name).is_ok_and(|found| !found.is_file()) {
            let file = fs::OpenOptions::new().write(true).open(&name).map_err(|error| file_error(&name, &error))?;
            return Ok(Self { writer: BufWriter::new(file), part: None, name });
        }
        let mut part = name.clone().into_os_string();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        let _ = fs::remove_file(&part); // left over from a process with the same id
        let file = create_private(&part).map_err(|error| file_error(&part, &error))?;
        Ok(Self { writer: BufWriter::new(file), part: Some(part), name })
    }

    fn end(mut self) -> Result<(), CommandError> {
        self.writer.flush().map_err(|error| file_error(&self.name, &error))?;
        let Some(part) = &self.part else { return Ok(()) };
        self.writer.get_ref().sync_all().map_err(|error| file_error(&self.name, &error))?;
        fs::rename(part, &self.name).map_err(|error| file_error(&self.name, &error))?;
        self.part = None;
        Ok(())
    }
}

impl Target {
    fn open(out: &Output, name: Option<&str>) -> Result<Self, CommandError> {
        match name {
            Some(name) => Ok(Self::File(Draft::new(PathBuf::from(name))?)),
            None => Ok(Self::Standard(out.clone())),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        match self {
            Self::Standard(out) => out.bytes(bytes),
            Self::File(draft) => draft.writer.write_all(bytes).map_err(|error| file_error(&draft.name, &error)),
        }
    }

    fn end(self) -> Result<(), CommandError> {
        match self {
            Self::Standard(_) => Ok(()),
            Self::File(draft) => draft.end(),
        }
    }
}

/// ACLs contain password hashes, and data may be secret: readable by the owner only.
#[cfg(unix)]
fn create_private(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> std::io::Result<File> {
    File::create_new(path)
}

pub(super) fn file_error(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::message(format!("{}: {error}", path.display()))
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let root = subtree_output::start(shell, args, 0)?;
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let client = shell.connected_client().await?;
    if let Some(name) = args.value("-o")
        && Path::new(name).is_file()
    {
        shell.confirm(args, &format!("Overwrite {name}?"))?;
    }
    let mut walk = Walk::new(&client, &root, NodeFields::All)
        .with_depth(depth_max)
        .without(subtree_output::excluded(shell, &root));
    // Fails before anything is written if the root does not exist.
    let mut next = walk.next().await?;
    let mut target = Target::open(&shell.out, args.value("-o"))?;
    let is_document = args.has("--document");
    let header = text(&Header { format: FORMAT.to_owned(), version: VERSION, root: root.clone(), nodes: None })?;
    match is_document {
        true => target.write(format!("{},\"nodes\":[", header.trim_end_matches('}')).as_bytes())?,
        false => target.write(format!("{header}\n").as_bytes())?,
    }
    let mut node_errors = NodeErrors::new(&shell.out);
    let mut progress = Progress::new(&shell.out, "exported");
    let mut count = 0;
    while let Some(visited) = next {
        match visited.copy_blocker() {
            Some(reason) => {
                node_errors.note(&reason);
                walk.prune(); // its children would have no parent
            }
            None => {
                progress.step(visited.node.data.len());
                let before = if is_document && count == 0 {
                    "\n"
                } else if is_document {
                    ",\n"
                } else {
                    ""
                };
                let separator = if is_document { "" } else { "\n" };
                target.write(format!("{before}{}{separator}", text(&NodeRecord::new(visited))?).as_bytes())?;
                count += 1;
            }
        }
        next = walk.next().await?;
    }
    if is_document {
        target.write(b"\n]}\n")?;
    }
    target.end()?;
    drop(progress);
    if let Some(name) = args.value("-o") {
        shell.info(&format!("Exported {} of {root} to {name}", subtree_output::count(count, "node")));
    }
    node_errors.end("could not be exported")
}

fn text(value: &impl Serialize) -> Result<String, CommandError> {
    serde_json::to_string(value).map_err(|_| CommandError::Silent(FAILED))
}
