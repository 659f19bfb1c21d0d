//! `delete`: deletes a node without children.

use crate::command_error::{self, CommandError};
use crate::options::CommandArgs;
use crate::shell::Shell;
use ox_client::ErrorCode;

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    if args.operand(1).is_some() {
        // Compat: the operand is ignored.
        shell.info("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.");
    }
    let version = super::version(args)?;
    let path = shell.path(args.required(0)?)?;
    let client = shell.connected_client().await?;
    match client.delete(&path, version).await {
        Err(error) if !shell.is_zkcli() && error.code() == Some(ErrorCode::NotEmpty) => {
            let text = command_error::native_text(&error);
            Err(CommandError::message(format!("{text}\nhint: rmr deletes a node and its whole subtree")))
        }
        Err(error) => Err(super::name_versions(shell, &client, &path, args, error).await),
        Ok(()) => Ok(()),
    }
}
