//! `create`: creates a node of any mode.

use crate::acl_text;
use crate::command_error::{self, CommandError};
use crate::options::CommandArgs;
use crate::shell::{Shell, ShellMode};
use ox_client::{CreateMode, CreateOptions, Error, ErrorCode, Null};
use serde::Serialize;
use std::time::Duration;

/// The largest TTL that servers can store, in milliseconds.
const TTL_MS_MAX: i64 = 0x00ff_ffff_ffff;

#[derive(Serialize)]
struct CreatedJson<'a> {
    path: &'a str,
}

/// Mode and ACL of the new node.
pub(super) fn options(shell: &Shell, args: &CommandArgs) -> Result<CreateOptions, CommandError> {
    let options = CreateOptions::new(mode(args)?);
    let Some(text) = args.operand(2) else { return Ok(options) };
    let list = acl_text::parse(shell, text)?;
    if !list.is_empty() {
        return Ok(options.with_acl(list));
    }
    shell.info("KeeperErrorCode = InvalidACL");
    Err(CommandError::message("Acl is not valid : null"))
}

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    mode(args)?; // Compat: wrong options are reported before a wrong path
    let path = shell.path(args.required(0)?)?;
    let options = options(shell, args)?;
    let data = super::import::bytes(shell, args, 1)?;
    let client = shell.connected_client().await?;
    if shell.is_single_command && args.has("-e") && !shell.is_zkcli() {
        shell.info("warning: the session ends with this command, which deletes the node");
    }
    if args.has("-p")
        && let Some(parent) = ox_client::path::parent(&path)
    {
        client.ensure_path(parent).await?;
    }
    let created = match data {
        Some(data) => client.create(&path, data, options).await,
        None => client.create(&path, Null, options).await,
    };
    match created {
        Ok(created) if shell.is_json(args) && !shell.is_zkcli() => {
            shell.catch_up();
            return shell.out.json(&CreatedJson { path: &created.path });
        }
        // A script needs the name of a sequential node.
        Ok(created) if !shell.is_zkcli() && shell.mode == ShellMode::Script => return shell.print(&created.path),
        Ok(created) => shell.info(&format!("Created {}", created.path)),
        Err(error) if !shell.is_zkcli() => return Err(native_error(error, &path)),
        Err(error) => {
            match error.code() {
                Some(ErrorCode::EphemeralOnLocalSession) => {
                    shell.info("Unable to create ephemeral node on a local session");
                }
                Some(ErrorCode::InvalidAcl) => shell.info(&command_error::coded(&error)),
                _ => (),
            }
            return Err(error.into());
        }
    }
    Ok(())
}

/// The node that does not exist is the parent.
fn native_error(error: Error, path: &str) -> CommandError {
    match (error.code(), ox_client::path::parent(path)) {
        // Only a chroot can be a root that does not exist; its message differs.
        (Some(ErrorCode::NoNode), Some("/")) => CommandError::MissingRoot,
        (Some(ErrorCode::NoNode), Some(parent)) => CommandError::MissingParent(parent.to_owned()),
        _ => error.into(),
    }
}

fn mode(args: &CommandArgs) -> Result<CreateMode, CommandError> {
    let (is_ephemeral, is_sequential) = (args.has("-e"), args.has("-s"));
    if args.has("-c") && (is_ephemeral || is_sequential) {
        return Err(CommandError::message(
            "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.",
        ));
    }
    if let Some(ttl) = args.value("-t") {
        let ms: i64 = ttl.parse().map_err(|_| CommandError::message("-t argument must be a long value"))?;
        if is_ephemeral {
            return Err(CommandError::message("TTLs cannot be used with Ephemeral znodes"));
        }
        if args.has("-c") {
            return Err(CommandError::message("TTLs cannot be used with Container znodes"));
        }
        let Some(ms) = u64::try_from(ms).ok().filter(|_| (1..=TTL_MS_MAX).contains(&ms)) else {
            return Err(CommandError::message(format!("ttl must be positive and cannot be larger than: {TTL_MS_MAX}")));
        };
        let ttl = Duration::from_millis(ms);
        return Ok(match is_sequential {
            true => CreateMode::PersistentSequentialWithTtl(ttl),
            false => CreateMode::PersistentWithTtl(ttl),
        });
    }
    Ok(match (is_ephemeral, is_sequential) {
        _ if args.has("-c") => CreateMode::Container,
        (false, false) => CreateMode::Persistent,
        (true, false) => CreateMode::Ephemeral,
        (false, true) => CreateMode::PersistentSequential,
        (true, true) => CreateMode::EphemeralSequential,
    })
}
