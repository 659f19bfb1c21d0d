//! `delete`: deletes a node without children.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::shell::Shell;

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    if args.operand(1).is_some() {
        // Compat: the operand is ignored.
        shell.info("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.");
    }
    let version = super::version(args)?;
    let path = shell.path(args.required(0)?)?;
    shell.connected_client().await?.delete(&path, version).await?;
    Ok(())
}
