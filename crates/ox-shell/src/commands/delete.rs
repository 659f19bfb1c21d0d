//! `delete`: a node without children.

use crate::command_error::Failure;
use crate::options::Args;
use crate::shell::Shell;

pub(super) async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    if args.operand(1).is_some() {
        // Compat: and what stands there does not count.
        shell.say("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.");
    }
    let version = super::version(args)?;
    let path = shell.path(args.required(0)?)?;
    shell.server().await?.delete(&path, version).await?;
    Ok(())
}
