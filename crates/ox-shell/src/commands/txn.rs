//! `txn`: several operations in one transaction.

use super::{CommandSpec, EXTENSION, JSON};
use crate::command_error::{self, CommandError};
use crate::options::{CommandArgs, Opt};
use crate::shell::Shell;
use crate::tokenize;
use ox_client::{Created, Multi, MultiResults, Null, Slot, Stat};
use serde::Serialize;
use std::io::Read;
use std::path::Path;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "txn",
    syntax: "[--file file|-] [--json] ['create|set|delete|check ...']...",
    help: "Execute operations in one transaction: all of them, or none",
    options: &[Opt::with("--file", "file", "Read the operations from a file, one per line; - is standard input"), JSON],
    operands: 0..=usize::MAX,
    paths: &[],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

/// `check` exists in transactions only.
const CHECK_OPTIONS: &[Opt] = &[Opt::with("-v", "version", "Version that the data must have")];

/// An operation and where its result is found.
struct Operation {
    name: &'static str,
    path: String,
    slot: ResultSlot,
}

enum ResultSlot {
    Create(Slot<Created>),
    Set(Slot<Stat>),
    Nothing,
}

#[derive(Serialize)]
struct ResultJson {
    op: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i32>,
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let lines = match args.value("--file") {
        Some(file) => operations_of(file)?,
        None => args.operands().to_vec(),
    };
    if lines.is_empty() {
        return Err(CommandError::Usage);
    }
    let mut multi = shell.connected_client().await?.multi();
    let mut operations = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let added = add(shell, &mut multi, line);
        operations.push(added.map_err(|failure| not_executed(at, &failure.native_text()))?);
    }
    match multi.commit().await {
        Ok(results) => print(shell, args, operations, &results),
        Err(error) => match error.failed_at() {
            Some(at) => Err(not_executed(at, &command_error::native_text(&error))),
            None => Err(error.into()),
        },
    }
}

/// A hint follows the consequence.
fn not_executed(at: usize, text: &str) -> CommandError {
    let (text, hint) = text.find("\nhint: ").map_or((text, ""), |at| text.split_at(at));
    CommandError::message(format!("Operation {}: {text}\nNothing was changed.{hint}", at + 1))
}

fn operations_of(file: &str) -> Result<Vec<String>, CommandError> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text),
        _ => std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| super::export::file_error(Path::new(file), &error))?;
    let is_operation = |line: &&str| !line.is_empty() && !line.starts_with('#');
    Ok(text.lines().map(str::trim).filter(is_operation).map(str::to_owned).collect())
}

fn add(shell: &Shell, multi: &mut Multi, line: &str) -> Result<Operation, CommandError> {
    if let Some(refusal) = tokenize::refusal(line) {
        return Err(CommandError::message(refusal));
    }
    let words = tokenize::split(line);
    let Some((name, rest)) = words.split_first() else { return Err(CommandError::message("Empty operation")) };
    let (name, options, operands) = match name.as_str() {
        "create" => ("create", super::find("create").map_or(&[][..], |command| command.options), 1..=3),
        "set" => ("set", super::find("set").map_or(&[][..], |command| command.options), 2..=2),
        "delete" | "rm" => ("delete", super::find("delete").map_or(&[][..], |command| command.options), 1..=1),
        "check" => ("check", CHECK_OPTIONS, 1..=1),
        _ => return Err(CommandError::message(format!("{name} is not create, set, delete or check"))),
    };
    let args = CommandArgs::parse(options, rest)?;
    if !operands.contains(&args.operands().len()) {
        let hint = match rest.is_empty() {
            true => "\nhint: quote each operation: txn 'create /a data' 'set /b data'",
            false => "",
        };
        return Err(CommandError::message(format!("Wrong number of arguments of {name}: {line}{hint}")));
    }
    if args.is_stdin(1) {
        return Err(CommandError::message(
            "A transaction reads no data from standard input; data that is a dash follows --",
        ));
    }
    let path = shell.path(args.required(0)?)?;
    let slot = match name {
        "create" if args.has("-p") => return Err(CommandError::message("-p is not possible in a transaction")),
        "create" => {
            let options = super::create::options(shell, &args)?;
            ResultSlot::Create(match args.operand(1) {
                Some(data) => multi.create(&path, data, options),
                None => multi.create(&path, Null, options),
            })
        }
        "set" => ResultSlot::Set(multi.set(&path, super::set::data(shell, &args)?, super::version(&args)?)),
        "delete" => {
            multi.delete(&path, super::version(&args)?);
            ResultSlot::Nothing
        }
        _ => {
            multi.check(&path, super::version(&args)?);
            ResultSlot::Nothing
        }
    };
    Ok(Operation { name, path, slot })
}

fn print(
    shell: &Shell,
    args: &CommandArgs,
    operations: Vec<Operation>,
    results: &MultiResults,
) -> Result<(), CommandError> {
    let result = |operation: Operation| {
        let (path, version) = match operation.slot {
            ResultSlot::Create(slot) => (results.get(slot).path.clone(), None),
            ResultSlot::Set(slot) => (operation.path, Some(results.get(slot).version)),
            ResultSlot::Nothing => (operation.path, None),
        };
        ResultJson { op: operation.name, path, version }
    };
    let done: Vec<_> = operations.into_iter().map(result).collect();
    if shell.is_json(args) {
        return shell.out.json(&done);
    }
    for ResultJson { op, path, version } in done {
        let version = version.map(|version| format!(" version {version}")).unwrap_or_default();
        shell.print(&format!("{op} {path}{version}"))?;
    }
    Ok(())
}
