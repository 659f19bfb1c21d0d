//! `ls`: the children of a node, or everything below it.

use crate::commands;
use crate::failure::Failure;
use crate::options::Args;
use crate::output::Paint;
use crate::paths;
use crate::shell::{Held, HeldWatch, Shell};
use crate::stat_text::{self, StatJson};
use crate::subtree;
use ox_client::{Client, Error, ErrorCode};
use serde::Serialize;

#[derive(Serialize)]
struct Listing {
    path: String,
    children: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stat: Option<StatJson>,
}

pub(super) async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    if args.has("-?") {
        return help(shell);
    }
    let typed = match args.operand(0) {
        Some(typed) => typed.to_owned(),
        None if shell.is_at_ease() => shell.directory().to_owned(),
        None => return Err(Failure::Usage),
    };
    let mut watches = args.has("-w");
    if args.operand(1).is_some() {
        shell.say("'ls path [watch]' has been deprecated. Please use 'ls [-w] path' instead.");
        watches = true;
    }
    let path = shell.path(&typed)?;
    let client = shell.server().await?;
    if args.has("-R") {
        return recurse(shell, &client, path, watches, shell.is_json(args)).await;
    }
    let (names, stat) = match watches {
        true => {
            let (names, watch) = client.children_and_watch(&path).await?;
            shell.watches.push(Held { path: path.clone(), watch: HeldWatch::Children(watch) });
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

/// Compat: a node, all its children, then what is below the first child: siblings before grandchildren.
async fn recurse(shell: &mut Shell, client: &Client, path: String, watches: bool, json: bool) -> Result<(), Failure> {
    let mut all = Vec::new();
    let first = match watches {
        true => watch(shell, client, &path).await?,
        false => sorted(client.children(&path).await?),
    };
    if !json {
        shell.print(&path)?;
    }
    all.push(path.clone());
    let mut left = vec![(path, first)];
    while let Some((path, names)) = left.pop() {
        let below: Vec<_> = names.iter().map(|name| paths::child(&path, name)).collect();
        if !json {
            below.iter().try_for_each(|path| shell.print(path))?;
        }
        all.extend(below.iter().filter(|_| json).cloned());
        let next = match watches {
            true => watched(shell, client, below).await?,
            false => subtree::children(client, &below).await?,
        };
        let next = next.into_iter().filter_map(|(path, names)| Some((path, names?))); // others are gone meanwhile
        left.extend(next.collect::<Vec<_>>().into_iter().rev());
    }
    if json { shell.out.json(&all) } else { Ok(()) }
}

/// The children of a node, and a watch for them.
async fn watch(shell: &mut Shell, client: &Client, path: &str) -> Result<Vec<String>, Error> {
    let (names, watch) = client.children_and_watch(path).await?;
    shell.watches.push(Held { path: path.to_owned(), watch: HeldWatch::Children(watch) });
    Ok(sorted(names))
}

/// The children of some nodes, and watches for them; `None` for a node that is not there.
async fn watched(
    shell: &mut Shell,
    client: &Client,
    nodes: Vec<String>,
) -> Result<Vec<(String, Option<Vec<String>>)>, Error> {
    let mut found = Vec::with_capacity(nodes.len());
    for path in nodes {
        match watch(shell, client, &path).await {
            Ok(names) => found.push((path, Some(names))),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => found.push((path, None)),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Compat: by UTF-16 units, as Java sorts.
pub(super) fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
    names
}

fn help(shell: &Shell) -> Result<(), Failure> {
    let command = commands::find("ls").ok_or(Failure::Usage)?;
    shell.print("usage: ls [options] path")?;
    shell.out.bytes(command.option_table().as_bytes())?;
    Err(Failure::Usage)
}
