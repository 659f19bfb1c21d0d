//! `addWatch` and `removewatches`: watches of the session.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::shell::{ActiveWatch, Shell, WatchHandle};
use ox_client::{AddWatchMode, ErrorKind, WatcherType};

pub(super) async fn add(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    match args.value("-m").map(str::to_ascii_uppercase).as_deref() {
        None => (),
        Some("PERSISTENT") => shell.watch_mode = AddWatchMode::Persistent,
        Some("PERSISTENT_RECURSIVE") => shell.watch_mode = AddWatchMode::PersistentRecursive,
        Some(_) => return Err(CommandError::Usage),
    }
    let mode = shell.watch_mode;
    let path = shell.path(args.required(0)?)?;
    let watch = shell.connected_client().await?.watch(&path, mode).await?;
    shell.watches.push(ActiveWatch { path, watch: WatchHandle::Persistent(mode, watch) });
    Ok(())
}

pub(super) async fn remove(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let kind = match args.given(&["-c", "-d", "-p", "-r", "-a"]).next() {
        Some("-c") => WatcherType::Children,
        Some("-d") => WatcherType::Data,
        Some("-p") => WatcherType::Persistent,
        Some("-r") => WatcherType::PersistentRecursive,
        _ => WatcherType::Any,
    };
    let path = shell.path(args.required(0)?)?;
    let client = match shell.connected_client().await {
        Err(_) if args.has("-l") => shell.client()?,
        client => client?,
    };
    match client.remove_watches(&path, kind).await {
        Err(error) if args.has("-l") && *error.kind() == ErrorKind::ConnectionLoss => (), // the server's watch ended with the connection
        done => done?,
    }
    shell.catch_up();
    let removed = shell.take_watches(&path, kind);
    for name in ["ChildWatchRemoved", "DataWatchRemoved", "PersistentWatchRemoved"] {
        if removed.iter().any(|held| held.removal() == name) {
            shell.watch_removed(name, &path);
        }
    }
    Ok(())
}
