//! `ls`: lists the children of a node, or a subtree.

use crate::command_error::CommandError;
use crate::commands;
use crate::options::CommandArgs;
use crate::output::Paint;
use crate::shell::{ActiveWatch, Shell, WatchHandle};
use crate::stat_text::{self, StatJson};
use crate::walk::{NodeFields, Walk};
use ox_client::{Client, path};
use serde::Serialize;

#[derive(Serialize)]
struct Listing {
    path: String,
    children: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stat: Option<StatJson>,
}

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    if args.has("-?") {
        return help(shell);
    }
    let typed = match args.operand(0) {
        Some(typed) => typed.to_owned(),
        None if shell.allows_relative_paths() => shell.directory().to_owned(),
        None => return Err(CommandError::Usage),
    };
    let mut watches = args.has("-w");
    if args.operand(1).is_some() {
        shell.info("'ls path [watch]' has been deprecated. Please use 'ls [-w] path' instead.");
        watches = true;
    }
    let path = shell.path(&typed)?;
    let client = shell.connected_client().await?;
    if args.has("-R") {
        return recurse(shell, &client, path, watches, shell.is_json(args)).await;
    }
    let (names, stat) = match watches {
        true => {
            let (names, watch) = client.children_and_watch(&path).await?;
            shell.watches.push(ActiveWatch { path: path.clone(), watch: WatchHandle::Children(watch) });
            let stat = if args.has("-s") { Some(client.children_with_stat(&path).await?.1) } else { None };
            (names, stat)
        }
        false if args.has("-s") => {
            let (names, stat) = client.children_with_stat(&path).await?;
            (names, Some(stat))
        }
        false => (client.children(&path).await?, None),
    };
    let names = sorted(names);
    if shell.is_json(args) {
        let stat = stat.as_ref().map(StatJson::from);
        return shell.out.json(&Listing { path, children: names, stat });
    }
    let painted: Vec<_> = names.iter().map(|name| shell.out.paint(Paint::Name, name)).collect();
    shell.print(&format!("[{}]", painted.join(", ")))?;
    match stat {
        Some(stat) => stat_text::print(&shell.out, &stat),
        None => Ok(()),
    }
}

/// Compat: a node, all its children, then the subtree of the first child: siblings before grandchildren.
async fn recurse(
    shell: &mut Shell,
    client: &Client,
    path: String,
    watches: bool,
    json: bool,
) -> Result<(), CommandError> {
    let mut walk = Walk::new(client, &path, if watches { NodeFields::Watch } else { NodeFields::Stat });
    let mut all = Vec::new();
    let mut is_begun = false;
    while let Some(visited) = walk.next().await? {
        let left = walk.take_watches().into_iter();
        shell.watches.extend(left.map(|(path, watch)| ActiveWatch { path, watch: WatchHandle::Children(watch) }));
        if let Some(reason) = visited.denied {
            return Err(CommandError::Message(reason));
        }
        let root = (!is_begun).then(|| visited.path.clone());
        is_begun = true;
        let below = walk.names_below().iter().map(|name| path::child(&visited.path, name));
        for path in root.into_iter().chain(below) {
            if json {
                all.push(path);
            } else {
                shell.print(&path)?;
            }
        }
    }
    if json { shell.out.json(&all) } else { Ok(()) }
}

/// Compat: sorted by UTF-16 units, like Java.
pub(super) fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
    names
}

fn help(shell: &Shell) -> Result<(), CommandError> {
    let command = commands::find("ls").ok_or(CommandError::Usage)?;
    shell.print("usage: ls [options] path")?;
    shell.out.bytes(command.option_table().as_bytes())?;
    Err(CommandError::Usage)
}
