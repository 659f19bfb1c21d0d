//! Commands about the session and the shell: `addauth`, `close`, `connect`, `printwatches`, `quit`, `version`, `whoami`.

use crate::command_error::Failure;
use crate::events::Standing;
use crate::options::Args;
use crate::output::Paint;
use crate::shell::Shell;
use ox_client::{ErrorKind, Null};
use serde::Serialize;

pub(super) async fn addauth(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let scheme = args.required(0)?;
    let client = shell.server().await?;
    let proven = match args.operand(1) {
        Some(auth) => client.add_auth(scheme, auth).await,
        None => client.add_auth(scheme, Null).await,
    };
    match proven {
        // Compat: the event tells it.
        Err(error) if *error.kind() == ErrorKind::AuthFailed => {
            shell.await_end().await;
            Ok(())
        }
        done => Ok(done?),
    }
}

pub(super) async fn close(shell: &mut Shell, _: &Args) -> Result<(), Failure> {
    shell.close().await;
    Ok(())
}

pub(super) async fn connect(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    if let Some(server) = args.operand(0) {
        shell.invocation.server = server.to_owned();
    }
    shell.connect().await?;
    if shell.await_connection().await != Standing::Connected {
        // Compat: it is no failure, for the shell goes on trying.
        shell.say(&format!("No server of {} answers; still trying.", shell.invocation.server));
    }
    Ok(())
}

pub(super) async fn printwatches(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    match args.operand(0) {
        None => {
            let is = if shell.prints_events() { "on" } else { "off" };
            shell.print(&format!("printwatches is {is}"))
        }
        Some(word) => {
            shell.catch_up();
            shell.set_prints_events(word == "on");
            Ok(())
        }
    }
}

pub(super) async fn quit(shell: &mut Shell, _: &Args) -> Result<(), Failure> {
    shell.is_done = true;
    shell.close().await;
    Ok(())
}

pub(super) async fn version(shell: &mut Shell, _: &Args) -> Result<(), Failure> {
    // Compat: tools look for the version of the ZooKeeper whose commands these are.
    shell.print(&format!("ZooKeeper CLI version: 3.9.3-oxkeeper-{}", env!("CARGO_PKG_VERSION")))
}

#[derive(Serialize)]
struct IdentityJson {
    scheme: String,
    user: String,
}

pub(super) async fn whoami(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let identities = shell.server().await?.who_am_i().await?;
    if shell.is_json(args) {
        let list: Vec<_> = identities
            .into_iter()
            .map(|identity| IdentityJson { scheme: identity.scheme, user: identity.id })
            .collect();
        return shell.out.json(&list);
    }
    shell.print("Auth scheme: User")?;
    for identity in identities {
        shell.print(&format!(
            "{}: {}",
            shell.out.paint(Paint::Label, &identity.scheme),
            shell.out.foreign(&identity.id)
        ))?;
    }
    Ok(())
}
