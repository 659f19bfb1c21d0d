//! `ls`: lists the children of a node, or a subtree.

use crate::command_error::{self, CommandError};
use crate::commands;
use crate::options::CommandArgs;
use crate::output::Paint;
use crate::shell::{ActiveWatch, Shell, WatchHandle};
use crate::stat_text::{self, StatJson};
use crate::subtree_output::{NOT_READ, NodeErrors};
use crate::table::or_dash;
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
    if args.has("-l") {
        return long(shell, &client, &path, args.has("-R"), shell.is_json(args)).await;
    }
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
    match shell.is_zkcli() {
        true => {
            let painted: Vec<_> = names.iter().map(|name| shell.out.paint(Paint::Name, name)).collect();
            shell.print(&format!("[{}]", painted.join(", ")))?;
        }
        false => print_names(shell, &names)?,
    }
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
        if let Some(error) = visited.denied {
            return Err(error.into());
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

/// Prints names in the native style: one per line, or in columns on a terminal.
pub(super) fn print_names(shell: &Shell, names: &[String]) -> Result<(), CommandError> {
    shell.catch_up();
    let shown: Vec<_> = names.iter().map(|name| shell.out.escape_untrusted(name)).collect();
    let width = shown.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 2;
    let columns = shell.out.width().map_or(1, |total| (total / width).max(1));
    let rows = shown.len().div_ceil(columns);
    for row in 0..rows {
        let cells = shown.iter().skip(row).step_by(rows);
        let mut line = String::new();
        let mut gap = 0;
        for name in cells {
            line.push_str(&" ".repeat(gap));
            line.push_str(&shell.out.paint(Paint::Name, name));
            gap = width - name.chars().count();
        }
        shell.out.line(&line)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct LongEntry {
    name: String,
    /// Absent if the client may not read the node.
    #[serde(flatten)]
    stat: Option<StatJson>,
}

/// Children, or a whole subtree as paths, with the values that are asked for most.
async fn long(shell: &Shell, client: &Client, path: &str, is_subtree: bool, json: bool) -> Result<(), CommandError> {
    let depth = if is_subtree { usize::MAX } else { 1 };
    let mut walk = Walk::new(client, path, NodeFields::Stat).with_depth(depth);
    let mut node_errors = NodeErrors::new(&shell.out);
    let (mut entries, mut has_titles) = (Vec::new(), !shell.out.is_terminal());
    while let Some(visited) = walk.next().await? {
        match &visited.denied {
            Some(error) if visited.depth == 0 => return Err(error.clone().into()),
            Some(error) => node_errors.note(&command_error::native_text(error)),
            None if visited.depth == 0 && !is_subtree => continue,
            None => (),
        }
        let name = if is_subtree { &visited.path } else { visited.name() };
        let stat = visited.denied.is_none().then(|| visited.stat());
        if json {
            entries.push(LongEntry { name: name.to_owned(), stat: stat.map(StatJson::from) });
            continue;
        }
        if !std::mem::replace(&mut has_titles, true) {
            let titles = format!("{:>8} {:>8}  {:19}  NAME", "CHILDREN", "BYTES", "MODIFIED");
            shell.print(&shell.out.paint(Paint::Label, &titles))?;
        }
        let name = shell.out.paint(Paint::Name, &shell.out.escape_untrusted(name));
        let kind = if visited.owner().is_some() { " (ephemeral)" } else { "" };
        let (children, bytes) = (stat.map(|stat| stat.num_children), stat.map(|stat| stat.data_length));
        let time = or_dash(stat.map(|stat| stat_text::short_date(stat.mtime)));
        shell.print(&format!("{:>8} {:>8}  {time:19}  {name}{kind}", or_dash(children), or_dash(bytes)))?;
    }
    if json {
        shell.out.json(&entries)?;
    }
    node_errors.end(NOT_READ)
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
