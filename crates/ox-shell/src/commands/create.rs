//! `create`: creates a node of any mode.

use crate::acl_text;
use crate::command_error::{self, CommandError};
use crate::options::CommandArgs;
use crate::shell::Shell;
use ox_client::{CreateMode, CreateOptions, ErrorCode, Null};
use std::time::Duration;

/// The largest TTL that servers can store, in milliseconds.
const TTL_MS_MAX: i64 = 0x00ff_ffff_ffff;

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let mode = mode(args)?;
    let path = shell.path(args.required(0)?)?;
    let mut options = CreateOptions::new(mode);
    if let Some(text) = args.operand(2) {
        let list = acl_text::parse(shell, text);
        if list.is_empty() {
            shell.info("KeeperErrorCode = InvalidACL");
            return Err(CommandError::message("Acl is not valid : null"));
        }
        options = options.with_acl(list);
    }
    let client = shell.connected_client().await?;
    let created = match args.operand(1) {
        Some(data) => client.create(&path, data, options).await,
        None => client.create(&path, Null, options).await,
    };
    match created {
        Ok(created) => shell.info(&format!("Created {}", created.path)),
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
