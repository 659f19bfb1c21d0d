//! `import`: what `export` has written, into the tree.

use super::YES;
use super::{Command, JSON, OURS};
use crate::bulk_create::{CONFLICT, Conflict, DRY_RUN, Graft, Manner};
use crate::command_error::Failure;
use crate::export_format::{FORMAT, Header, Record, VERSION};
use crate::options::Args;
use crate::paths;
use crate::progress::Progress;
use crate::shell::{Place, Shell};
use crate::subtree_diff::{at, below, is_within};
use crate::subtree_output;
use ox_client::path;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

pub(super) const COMMAND: Command = Command {
    name: "import",
    syntax: "[--conflict fail|skip|overwrite] [--dry-run] [--yes] [--json] file|- [path]",
    help: "Create the nodes of an export, where they were or at another place",
    options: &[CONFLICT, DRY_RUN, YES, JSON],
    takes: 1..=2,
    paths: &[1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let name = args.required(0)?;
    let target = args.operand(1).map(|typed| shell.path(typed)).transpose()?;
    let manner = Manner { conflict: Conflict::asked(args)?, dry_run: args.has("--dry-run"), json: shell.is_json(args) };
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(open(shell, name)?));
    let wrong = |error: serde_json::Error| Failure::told(format!("{name}: {error}"));
    let header = Header::deserialize(&mut reader).map_err(wrong)?;
    check(name, &header)?;
    let root = header.root.clone();
    let target = target.unwrap_or_else(|| root.clone());
    let client = shell.server().await?;
    if manner.conflict == Conflict::Overwrite && !manner.dry_run {
        shell.confirm(args, &format!("Write over what is at {target}?"))?;
    }
    if !manner.dry_run
        && let Some(parent) = path::parent(&target).filter(|parent| *parent != "/")
    {
        client.ensure_path(parent).await?;
    }
    let mut graft = Graft::new(&client, &shell.out, manner);
    let mut progress = Progress::new(&shell.out, "imported");
    let (mut ephemerals, mut has_failed) = (0, None);
    let nodes = header.nodes.unwrap_or_default().into_iter().map(Ok);
    for record in nodes.chain(reader.into_iter::<Record>()) {
        let planned = record.map_err(wrong).and_then(|record| {
            if record.ephemeral.is_some() {
                return Ok(None);
            }
            place(&root, &target, record).map(Some)
        });
        match planned {
            Ok(Some(planned)) => {
                progress.step(planned.data.0.as_ref().map_or(0, Vec::len));
                graft.put(planned).await?;
            }
            Ok(None) => ephemerals += 1,
            // What stands before it is imported, so that the count is true.
            Err(failure) => {
                has_failed = Some(failure);
                break;
            }
        }
    }
    let tally = graft.end().await?;
    drop(progress);
    let verb = if manner.dry_run { "Would import" } else { "Imported" };
    shell.say(&format!("{verb} {name} to {target}: {}", tally.describe()));
    if 0 < ephemerals {
        shell
            .say(&format!("{} left out: they belong to sessions", subtree_output::count(ephemerals, "ephemeral node")));
    }
    match (has_failed, tally.failed) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, failed) => Err(Failure::told(format!("{} could not be written", subtree_output::count(failed, "node")))),
    }
}

fn open(shell: &Shell, name: &str) -> Result<Box<dyn Read + Send>, Failure> {
    if name == "-" {
        // Lines that are run are kept; without any, this is the one command of the program, and the input is free.
        return match shell.place == Place::Script && shell.history.next() == 0 {
            true => Ok(Box::new(std::io::stdin())),
            false => Err(Failure::told("Standard input holds commands here; name a file")),
        };
    }
    match File::open(name) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(super::export::trouble(Path::new(name), &error)),
    }
}

fn check(name: &str, header: &Header) -> Result<(), Failure> {
    if header.format != FORMAT {
        return Err(Failure::told(format!("{name} is no export: its format is `{}`", header.format)));
    }
    if header.version != VERSION {
        return Err(Failure::told(format!("{name} is of version {}; this is {VERSION}", header.version)));
    }
    paths::validate(&header.root)
}

fn place(root: &str, target: &str, record: Record) -> Result<crate::bulk_create::Planned, Failure> {
    paths::validate(&record.path)?;
    if !is_within(&record.path, root) {
        return Err(Failure::told(format!("{} is not below {root}, where the export begins", record.path)));
    }
    let path = at(target, below(root, &record.path));
    record.planned(path).map_err(Failure::Told)
}
