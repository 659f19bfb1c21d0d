//! `import`: creates the nodes of an export.

use super::YES;
use super::{CommandSpec, EXTENSION, JSON};
use crate::bulk_create::{BulkCreate, BulkOptions, CONFLICT, Conflict, DRY_RUN};
use crate::command_error::CommandError;
use crate::export_format::{FORMAT, Header, NodeRecord, VERSION};
use crate::options::CommandArgs;
use crate::paths;
use crate::progress::Progress;
use crate::shell::{Shell, ShellMode};
use crate::subtree_diff::{at, below, is_within};
use crate::subtree_output;
use ox_client::path;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "import",
    syntax: "[--conflict fail|skip|overwrite] [--dry-run] [--yes] [--json] file|- [path]",
    help: "Create the nodes of an export, at their original path or another one",
    options: &[CONFLICT, DRY_RUN, YES, JSON],
    operands: 1..=2,
    paths: &[1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let name = args.required(0)?;
    let target = args.operand(1).map(|typed| shell.path(typed)).transpose()?;
    let options =
        BulkOptions { conflict: Conflict::from_args(args)?, dry_run: args.has("--dry-run"), json: shell.is_json(args) };
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(open(shell, name)?));
    let wrong = |error: serde_json::Error| CommandError::message(format!("{name}: {error}"));
    let header = Header::deserialize(&mut reader).map_err(|error| match error.is_eof() {
        true => CommandError::message(format!("{name} is not an export: it is empty, or ends in its first line")),
        false if error.is_io() => wrong(error),
        false => CommandError::message(format!("{name} is not an export: {error}")),
    })?;
    check(name, &header)?;
    let root = header.root.clone();
    let target = target.unwrap_or_else(|| root.clone());
    let client = shell.connected_client().await?;
    if options.conflict == Conflict::Overwrite && !options.dry_run {
        shell.confirm(args, &format!("Overwrite nodes at {target}?"))?;
    }
    if !options.dry_run
        && let Some(parent) = path::parent(&target).filter(|parent| *parent != "/")
    {
        client.ensure_path(parent).await?;
    }
    let mut graft = BulkCreate::new(&client, &shell.out, options);
    let mut progress = Progress::new(&shell.out, "imported");
    let (mut ephemerals, mut has_failed) = (0, None);
    let nodes = header.nodes.unwrap_or_default().into_iter().map(Ok);
    for record in nodes.chain(reader.into_iter::<NodeRecord>()) {
        let new_node = record.map_err(wrong).and_then(|record| {
            if record.ephemeral.is_some() {
                return Ok(None);
            }
            relocate(&root, &target, record).map(Some)
        });
        match new_node {
            Ok(Some(new_node)) => {
                progress.step(new_node.data.0.as_ref().map_or(0, Vec::len));
                graft.put(new_node).await?;
            }
            Ok(None) => ephemerals += 1,
            // Everything before the malformed record is imported, so that the counts are correct.
            Err(failure) => {
                has_failed = Some(failure);
                break;
            }
        }
    }
    let counts = graft.end().await?;
    drop(progress);
    let verb = if options.dry_run { "Would import" } else { "Imported" };
    shell.info(&format!("{verb} {name} to {target}: {}", counts.describe()));
    if 0 < ephemerals {
        shell
            .info(&format!("{} skipped: they belong to sessions", subtree_output::count(ephemerals, "ephemeral node")));
    }
    match (has_failed, counts.failed) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, failed) => {
            Err(CommandError::message(format!("{} could not be written", subtree_output::count(failed, "node"))))
        }
    }
}

/// The data that an operand is; `-` reads standard input.
pub(super) fn bytes(shell: &Shell, args: &CommandArgs, at: usize) -> Result<Option<Vec<u8>>, CommandError> {
    if shell.is_zkcli() || !args.is_stdin(at) {
        return Ok(args.operand(at).map(|data| data.as_bytes().to_vec()));
    }
    let mut data = Vec::new();
    let failed = |error| CommandError::message(format!("cannot read standard input: {error}"));
    stdin(shell, "data that is a dash follows --")?.read_to_end(&mut data).map_err(failed)?;
    Ok(Some(data))
}

/// A script records its lines in the history. Without any line, this is the only command of the program, and standard
/// input is available.
fn stdin(shell: &Shell, instead: &str) -> Result<std::io::Stdin, CommandError> {
    match shell.mode == ShellMode::Script && shell.history.next() == 0 {
        true => Ok(std::io::stdin()),
        false => Err(CommandError::message(format!("Standard input contains commands; {instead}"))),
    }
}

fn open(shell: &Shell, name: &str) -> Result<Box<dyn Read + Send>, CommandError> {
    if name == "-" {
        return Ok(Box::new(stdin(shell, "name a file")?));
    }
    match File::open(name) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(super::export::file_error(Path::new(name), &error)),
    }
}

fn check(name: &str, header: &Header) -> Result<(), CommandError> {
    if header.format != FORMAT {
        return Err(CommandError::message(format!("{name} is not an export: its format is `{}`", header.format)));
    }
    if header.version != VERSION {
        return Err(CommandError::message(format!(
            "{name} has version {}; this shell reads {VERSION}",
            header.version
        )));
    }
    paths::validate(&header.root)
}

fn relocate(root: &str, target: &str, record: NodeRecord) -> Result<crate::bulk_create::NewNode, CommandError> {
    paths::validate(&record.path)?;
    if !is_within(&record.path, root) {
        return Err(CommandError::message(format!("{} is not below {root}, the root of the export", record.path)));
    }
    let path = at(target, below(root, &record.path));
    record.new_node(path).map_err(CommandError::Message)
}
