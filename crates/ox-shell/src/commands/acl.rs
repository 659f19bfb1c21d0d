//! `getAcl` and `setAcl`: the ACL of a node.

use crate::acl_text;
use crate::command_error::{self, CommandError};
use crate::options::CommandArgs;
use crate::output::Paint;
use crate::pipeline::Pipeline;
use crate::shell::Shell;
use crate::stat_text::{self, StatJson};
use crate::subtree_output::{self, NodeErrors};
use crate::walk::{IN_FLIGHT, Walk};
use ox_client::acl::{Acl, perms};
use ox_client::{Error, Stat};
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct AclsJson {
    path: String,
    acl: Vec<AclJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stat: Option<StatJson>,
}

#[derive(Serialize)]
struct AclJson {
    scheme: String,
    id: String,
    perms: String,
}

pub(super) async fn get(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = shell.path(args.required(0)?)?;
    let (list, stat) = shell.connected_client().await?.get_acl(&path).await?;
    shell.catch_up();
    if shell.is_json(args) {
        let acl = list.iter().map(|entry| AclJson {
            scheme: entry.scheme.to_string(),
            id: entry.id.to_string(),
            perms: perms::letters(entry.perms),
        });
        let stat = args.has("-s").then(|| StatJson::from(&stat));
        return shell.out.json(&AclsJson { path, acl: acl.collect(), stat });
    }
    for entry in &list {
        let id = shell.out.escape_untrusted(&entry.id);
        if !shell.is_zkcli() {
            // As `setAcl` takes it.
            let scheme = shell.out.paint(Paint::Label, &entry.scheme);
            shell.out.line(&format!("{scheme}:{id}:{}", perms::letters(entry.perms)))?;
            continue;
        }
        shell.out.line(&format!("'{},'{id}", shell.out.paint(Paint::Label, &entry.scheme)))?;
        shell.out.line(&format!(": {}", perms::letters(entry.perms)))?;
    }
    if args.has("-s") { stat_text::print(&shell.out, &stat) } else { Ok(()) }
}

pub(super) async fn set(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = shell.path(args.required(0)?)?;
    let list = acl_text::parse(shell, args.required(1)?)?;
    let version = super::version(args)?;
    if list.is_empty() {
        return Err(CommandError::message("Acl is not valid : null"));
    }
    let client = shell.connected_client().await?;
    let warn = || {
        if !shell.is_zkcli() && list.iter().all(|entry| entry.perms & perms::ADMIN == 0) {
            shell.info("warning: without the permission `a`, only the super user can change this ACL again");
        }
    };
    if !args.has("-R") {
        let stat = match client.set_acl(&path, &list, version).await {
            Err(error) => return Err(super::name_versions(shell, &client, &path, args, error).await),
            Ok(stat) => stat,
        };
        shell.catch_up();
        warn();
        return if args.has("-s") { stat_text::print(&shell.out, &stat) } else { Ok(()) };
    }
    let paths = Walk::paths(&client, &path).await?;
    warn();
    shell.confirm(args, &format!("Change the ACL of {}?", subtree_output::subtree(&path, paths.len())))?;
    let list: Arc<[Acl]> = list.into();
    let mut node_errors = NodeErrors::new(&shell.out);
    let mut changes: Pipeline<Result<Stat, Error>> = Pipeline::new(IN_FLIGHT);
    for path in paths {
        let (client, list) = (client.clone(), Arc::clone(&list));
        let changed = changes.push(async move { client.set_acl(&path, &list, version).await }).await;
        changed.map_or(Ok(()), |changed| note(shell, changed, &mut node_errors))?;
    }
    while let Some(changed) = changes.next().await {
        note(shell, changed, &mut node_errors)?;
    }
    node_errors.end("could not be changed")
}

/// Compat: for `zkCli`, an error on one node of many goes to standard output, without a newline, and is not a failure.
fn note(shell: &Shell, changed: Result<Stat, Error>, node_errors: &mut NodeErrors) -> Result<(), CommandError> {
    match changed {
        Ok(_) => Ok(()),
        Err(error) if !shell.is_zkcli() => {
            node_errors.note(&command_error::native_text(&error));
            Ok(())
        }
        Err(error) => shell.out.bytes(command_error::coded(&error).as_bytes()),
    }
}
