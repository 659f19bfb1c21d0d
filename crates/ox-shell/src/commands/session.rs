//! Commands on the session and the shell: `addauth`, `close`, `connect`, `printwatches`, `quit`, `version`, `whoami`.

use crate::command_error::CommandError;
use crate::events::ConnectionStatus;
use crate::options::CommandArgs;
use crate::output::Paint;
use crate::shell::Shell;
use ox_client::{ErrorKind, Null};
use serde::Serialize;

pub(super) async fn addauth(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let scheme = args.required(0)?;
    if !shell.is_zkcli() {
        let auth = args.required(1)?; // a server ends the session if the credentials are wrong
        // A server accepts a user alone: another identity than that of the user with a password.
        if scheme == "digest" && !auth.contains(':') {
            let text = "The password is missing: addauth digest user:password";
            return Err(CommandError::Fatal(text.to_owned()));
        }
    }
    let client = shell.connected_client().await?;
    let proven = match args.operand(1) {
        Some(auth) => client.add_auth(scheme, auth).await,
        None => client.add_auth(scheme, Null).await,
    };
    match proven {
        Err(error) if !shell.is_zkcli() => Err(error.into()),
        // Compat: the event reports it.
        Err(error) if *error.kind() == ErrorKind::AuthFailed => {
            shell.await_end().await;
            Ok(())
        }
        done => Ok(done?),
    }
}

pub(super) async fn close(shell: &mut Shell, _: &CommandArgs) -> Result<(), CommandError> {
    shell.close().await;
    Ok(())
}

pub(super) async fn connect(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    if let Some(server) = args.operand(0) {
        shell.invocation.server = server.to_owned();
        shell.invocation.profile = None;
        shell.invocation.auth = None; // the credentials of the profile are for its servers
    }
    shell.connect().await?;
    let status = shell.await_connection().await;
    if !shell.is_zkcli() {
        let client = shell.client()?;
        if status != ConnectionStatus::Connected {
            return Err(shell.unreachable(&client).await);
        }
        shell.done(&format!("Connected to {}.", shell.invocation.server));
        return Ok(());
    }
    if status != ConnectionStatus::Connected {
        // Compat: not a failure, because the client keeps trying.
        shell.info(&format!("No server of {} replies; still trying.", shell.invocation.server));
    }
    Ok(())
}

pub(super) async fn printwatches(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    match args.operand(0) {
        None => {
            let is = if shell.prints_events() { "on" } else { "off" };
            shell.print(&format!("printwatches is {is}"))
        }
        Some(word) if !shell.is_zkcli() && !matches!(word, "on" | "off") => Err(CommandError::Usage),
        Some(word) => {
            shell.catch_up();
            shell.set_prints_events(word == "on");
            Ok(())
        }
    }
}

pub(super) async fn quit(shell: &mut Shell, _: &CommandArgs) -> Result<(), CommandError> {
    shell.should_exit = true;
    shell.close().await;
    Ok(())
}

pub(super) async fn version(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    if shell.is_json(args) && !shell.is_zkcli() {
        return shell.out.json(&VersionJson { version: env!("CARGO_PKG_VERSION") });
    }
    if !shell.is_zkcli() {
        return shell.print(&format!("oxkeeper {}", env!("CARGO_PKG_VERSION")));
    }
    // Compat: tools parse the version of ZooKeeper whose commands these are.
    shell.print(&format!("ZooKeeper CLI version: 3.9.3-oxkeeper-{}", env!("CARGO_PKG_VERSION")))
}

#[derive(Serialize)]
struct VersionJson {
    version: &'static str,
}

#[derive(Serialize)]
struct IdentityJson {
    scheme: String,
    user: String,
}

pub(super) async fn whoami(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let identities = shell.connected_client().await?.who_am_i().await?;
    if shell.is_json(args) {
        let list: Vec<_> = identities
            .into_iter()
            .map(|identity| IdentityJson { scheme: identity.scheme, user: identity.id })
            .collect();
        return shell.out.json(&list);
    }
    if shell.is_zkcli() {
        shell.print("Auth scheme: User")?;
    }
    let separator = if shell.is_zkcli() { ": " } else { ":" };
    for identity in identities {
        shell.print(&format!(
            "{}{separator}{}",
            shell.out.paint(Paint::Label, &identity.scheme),
            shell.out.escape_untrusted(&identity.id)
        ))?;
    }
    Ok(())
}
