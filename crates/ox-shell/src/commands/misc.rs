//! Small commands: `getAllChildrenNumber`, `getEphemerals`, `sync`, `cd`, `pwd`.

use crate::command_error::{self, CommandError};
use crate::options::CommandArgs;
use crate::shell::Shell;
use ox_client::ErrorKind;

pub(super) async fn count(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = shell.path(args.required(0)?)?;
    let count = shell.connected_client().await?.all_children_number(&path).await?;
    if shell.is_json(args) { shell.out.json(&count) } else { shell.print(&count.to_string()) }
}

pub(super) async fn ephemerals(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = shell.path(args.operand(0).unwrap_or("/"))?;
    let found = super::ls::sorted(shell.connected_client().await?.ephemerals(&path).await?);
    match shell.is_zkcli() {
        _ if shell.is_json(args) => shell.out.json(&found),
        true => shell.print(&format!("[{}]", found.join(", "))),
        false => super::ls::print_names(shell, &found),
    }
}

pub(super) async fn sync(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = shell.path(args.required(0)?)?;
    match shell.connected_client().await?.sync(&path).await {
        Ok(()) if shell.is_zkcli() => shell.print("Sync is OK"),
        Ok(()) => Ok(()),
        Err(error) if !shell.is_zkcli() => Err(error.into()),
        Err(error) => {
            let code = match (error.code(), error.kind()) {
                (Some(code), _) => code.code(),
                (None, ErrorKind::UnknownCode(code)) => *code,
                (None, _) => -4, // connection loss
            };
            // Compat: reported, but not a failure.
            shell.print(&format!("Sync has failed. rc={code}"))?;
            Err(CommandError::Silent(command_error::OK))
        }
    }
}

pub(super) async fn cd(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = crate::paths::resolve(shell.directory(), args.operand(0).unwrap_or("/"));
    crate::paths::validate(&path)?;
    match shell.connected_client().await?.exists(&path).await? {
        Some(_) => {
            shell.set_directory(path);
            Ok(())
        }
        None => Err(CommandError::message(format!("Node does not exist: {path}"))),
    }
}

pub(super) async fn pwd(shell: &mut Shell, _: &CommandArgs) -> Result<(), CommandError> {
    shell.print(shell.directory())
}
