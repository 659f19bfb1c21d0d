//! `set`: replaces the data of a node.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::shell::Shell;
use crate::stat_text;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The new data of the node, decoded.
pub(super) fn data(args: &CommandArgs) -> Result<Vec<u8>, CommandError> {
    let data = args.required(1)?;
    match args.has("-b") {
        true => BASE64_STANDARD.decode(data).map_err(|error| CommandError::Fatal(format!("not base64: {error}"))),
        false => Ok(data.as_bytes().to_vec()),
    }
}

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let version = super::version(args)?;
    let data = data(args)?;
    let path = shell.path(args.required(0)?)?;
    let stat = shell.connected_client().await?.set(&path, data, version).await?;
    shell.catch_up();
    if args.has("-s") { stat_text::print(&shell.out, &stat) } else { Ok(()) }
}
