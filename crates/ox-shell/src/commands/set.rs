//! `set`: replaces the data of a node.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::shell::Shell;
use crate::stat_text;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The new data of the node, decoded.
pub(super) fn data(shell: &Shell, args: &CommandArgs) -> Result<Vec<u8>, CommandError> {
    let data = super::import::bytes(shell, args, 1)?.unwrap_or_default();
    match args.has("-b") {
        true => BASE64_STANDARD
            .decode(data.trim_ascii_end())
            .map_err(|error| CommandError::Fatal(format!("not base64: {error}"))),
        false => Ok(data),
    }
}

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let version = super::version(args)?;
    let data = data(shell, args)?;
    let path = shell.path(args.required(0)?)?;
    let client = shell.connected_client().await?;
    let stat = match client.set(&path, data, version).await {
        Err(error) => return Err(super::name_versions(shell, &client, &path, args, error).await),
        Ok(stat) => stat,
    };
    shell.catch_up();
    if args.has("-s") { stat_text::print(&shell.out, &stat) } else { Ok(()) }
}
