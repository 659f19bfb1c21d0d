//! `export`: a subtree as JSON.

use super::{Command, OURS};
use crate::command_error::{FAILED, Failure};
use crate::export_format::{FORMAT, Header, Record, VERSION};
use crate::options::{Args, Opt};
use crate::output::Output;
use crate::progress::Progress;
use crate::shell::Shell;
use crate::subtree_output::{self, DEPTH, Troubles};
use crate::walk::{Look, Walk};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub(super) const COMMAND: Command = Command {
    name: "export",
    syntax: "[-o file] [--document] [-d depth] [--yes] [path]",
    help: "Write a node and everything below it as JSON, one node a line",
    options: &[
        Opt::with("-o", "file", "Into a file, which appears when it is whole"),
        Opt::switch("--document", "One JSON document instead of lines"),
        DEPTH,
        super::YES,
        super::JSON,
    ],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

/// Where the text goes.
enum Target {
    Standard(Output),
    File(Draft),
}

/// A file that has another name until it is whole.
struct Draft {
    writer: BufWriter<File>,
    /// None for what is no plain file, such as a pipe: nothing else may take its place.
    part: Option<PathBuf>,
    name: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            let _ = fs::remove_file(part); // a temporary file at worst
        }
    }
}

impl Draft {
    fn new(name: PathBuf) -> Result<Self, Failure> {
        let name = fs::canonicalize(&name).unwrap_or(name); // a link stays one
        if fs::metadata(&name).is_ok_and(|found| !found.is_file()) {
            let file = fs::OpenOptions::new().write(true).open(&name).map_err(|error| trouble(&name, &error))?;
            return Ok(Self { writer: BufWriter::new(file), part: None, name });
        }
        let mut part = name.clone().into_os_string();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        let _ = fs::remove_file(&part); // of a program that had this number before
        let file = private(&part).map_err(|error| trouble(&part, &error))?;
        Ok(Self { writer: BufWriter::new(file), part: Some(part), name })
    }

    fn end(mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| trouble(&self.name, &error))?;
        let Some(part) = &self.part else { return Ok(()) };
        self.writer.get_ref().sync_all().map_err(|error| trouble(&self.name, &error))?;
        fs::rename(part, &self.name).map_err(|error| trouble(&self.name, &error))?;
        self.part = None;
        Ok(())
    }
}

impl Target {
    fn open(out: &Output, name: Option<&str>) -> Result<Self, Failure> {
        match name {
            Some(name) => Ok(Self::File(Draft::new(PathBuf::from(name))?)),
            None => Ok(Self::Standard(out.clone())),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Standard(out) => out.bytes(bytes),
            Self::File(draft) => draft.writer.write_all(bytes).map_err(|error| trouble(&draft.name, &error)),
        }
    }

    fn end(self) -> Result<(), Failure> {
        match self {
            Self::Standard(_) => Ok(()),
            Self::File(draft) => draft.end(),
        }
    }
}

/// Access control lists hold hashes of passwords, and data may be secret: a file of its owner only.
#[cfg(unix)]
fn private(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn private(path: &Path) -> std::io::Result<File> {
    File::create_new(path)
}

pub(super) fn trouble(path: &Path, error: &std::io::Error) -> Failure {
    Failure::told(format!("{}: {error}", path.display()))
}

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let root = subtree_output::start(shell, args, 0)?;
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let client = shell.server().await?;
    if let Some(name) = args.value("-o")
        && Path::new(name).is_file()
    {
        shell.confirm(args, &format!("Write over {name}?"))?;
    }
    let mut walk =
        Walk::new(&client, &root, Look::Whole).with_depth(depth_max).without(subtree_output::left_out(shell, &root));
    // Before anything is written: is it there at all?
    let mut next = walk.next().await?;
    let mut target = Target::open(&shell.out, args.value("-o"))?;
    let is_document = args.has("--document");
    let header = text(&Header { format: FORMAT.to_owned(), version: VERSION, root: root.clone(), nodes: None })?;
    match is_document {
        true => target.write(format!("{},\"nodes\":[", header.trim_end_matches('}')).as_bytes())?,
        false => target.write(format!("{header}\n").as_bytes())?,
    }
    let mut troubles = Troubles::new(&shell.out);
    let mut progress = Progress::new(&shell.out, "exported");
    let mut count = 0;
    while let Some(seen) = next {
        match seen.obstacle() {
            Some(reason) => {
                troubles.note(&reason);
                walk.prune(); // there would be nothing to hang it on
            }
            None => {
                progress.step(seen.node.data.len());
                let before = if is_document && count == 0 {
                    "\n"
                } else if is_document {
                    ",\n"
                } else {
                    ""
                };
                let behind = if is_document { "" } else { "\n" };
                target.write(format!("{before}{}{behind}", text(&Record::new(seen))?).as_bytes())?;
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
        shell.say(&format!("Exported {} of {root} to {name}", subtree_output::count(count, "node")));
    }
    troubles.end("could not be exported")
}

fn text(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|_| Failure::Silent(FAILED))
}
