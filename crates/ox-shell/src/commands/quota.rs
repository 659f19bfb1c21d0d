//! `setquota`, `listquota` and `delquota`: limits for the number of nodes and bytes below a node.
//!
//! A quota consists of two nodes below `/zookeeper/quota`: the limits, and the usage, which the server maintains.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::quota_text::Quota;
use crate::shell::Shell;
use ox_client::{Client, CreateMode, Error, ErrorCode, Null, Version, path};
use serde::Serialize;

const QUOTAS: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// The options that select a limit; exactly one is permitted.
pub(super) const KINDS: [&str; 4] = ["-n", "-b", "-N", "-B"];

fn quota_path(path: &str) -> String {
    format!("{QUOTAS}{path}")
}

fn limits_path(path: &str) -> String {
    format!("{QUOTAS}{path}/{LIMITS}")
}

fn stats_path(path: &str) -> String {
    format!("{QUOTAS}{path}/{STATS}")
}

/// Compat: only one is permitted; the error is that of commons-cli.
fn kind(args: &CommandArgs) -> Result<Option<&'static str>, CommandError> {
    let mut given = args.given(&KINDS);
    let first = given.next();
    if let (Some(first), Some(second)) = (first, given.find(|kind| Some(*kind) != first)) {
        let (first, second) = (first.trim_start_matches('-'), second.trim_start_matches('-'));
        return Err(CommandError::parse(
            "AlreadySelected",
            format!(
                "The option '{second}' was specified but an option from this group has already been selected: '{first}'"
            ),
        ));
    }
    Ok(first)
}

/// The path operand; the root cannot have a quota.
fn path(shell: &Shell, args: &CommandArgs) -> Result<String, CommandError> {
    let path = shell.path(args.required(0).map_err(|_| CommandError::Usage)?)?;
    match path.as_str() {
        "/" if !shell.is_zkcli() => Err(CommandError::message("The root cannot have a quota; name a node below it")),
        "/" => Err(CommandError::message("Path must not end with / character")),
        _ => Ok(path),
    }
}

pub(super) async fn set(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let Some(kind) = kind(args)? else {
        return Err(CommandError::parse(
            "MissingOption",
            "Missing required option: [-n num soft quota, -b bytes soft quota, -N num hard quota, -B bytes hard quota]",
        ));
    };
    if args.required(0)?.starts_with(QUOTAS) {
        return rejected(shell, &format!("cannot set a quota under the path: {QUOTAS}"));
    }
    let counts = matches!(kind, "-n" | "-N");
    let value = args.value(kind).unwrap_or_default();
    let value = if counts { value.parse::<i32>().map(i64::from) } else { value.parse::<i64>() };
    let value = match value {
        Err(_) => {
            return match shell.is_zkcli() {
                true => rejected(shell, "NumberFormatException happens when parsing the option value"),
                false => {
                    rejected(shell, &format!("{kind} must be a number, not `{}`", args.value(kind).unwrap_or_default()))
                }
            };
        }
        Ok(value) if counts && value <= 0 => {
            return rejected(shell, "the num quota must be greater than zero");
        }
        Ok(value) if value < 0 => {
            return rejected(shell, "the bytes quota must be greater than or equal to zero");
        }
        Ok(value) => value,
    };
    let path = path(shell, args)?;
    let client = shell.connected_client().await?;
    check_neighbours(&client, &path).await?;
    let (limits, stats) = write(&client, &path, kind, value).await?;
    let is_above =
        |used: i64, limits: [Option<i64>; 2]| limits.into_iter().flatten().any(|limit| (0..used).contains(&limit));
    for (name, used, limits) in [
        ("count", stats.count, [limits.soft_count(), limits.hard_count]),
        ("bytes", stats.bytes, [limits.soft_bytes(), limits.hard_bytes]),
    ] {
        if !is_above(used, limits) {
            continue;
        }
        match shell.is_zkcli() {
            true => shell
                .print(&format!("[Warning]: the {name} quota you create is less than the existing {name}:{used}"))?,
            false => shell.info(&format!("warning: the {name} quota is less than the current use, {used}")),
        }
    }
    Ok(())
}

/// Compat: for `zkCli`, a rejected command is reported, but not a failure.
fn rejected(shell: &Shell, text: &str) -> Result<(), CommandError> {
    if !shell.is_zkcli() {
        return Err(CommandError::message(text));
    }
    shell.info(text);
    Ok(())
}

/// Fails if an ancestor or a descendant already has a quota.
async fn check_neighbours(client: &Client, path: &str) -> Result<(), CommandError> {
    if client.exists(path).await?.is_none() {
        return Err(CommandError::message(format!("{path} does not exist.")));
    }
    if let Some(below) = quota_below(client, path).await? {
        return Err(CommandError::message(format!("{path} has a child {below} which has a quota")));
    }
    let mut above = path::parent(path);
    while let Some(node) = above.filter(|node| *node != "/") {
        if client.exists(&limits_path(node)).await?.is_some() {
            return Err(CommandError::message(format!("{path} has a parent {node} which has a quota")));
        }
        above = path::parent(node);
    }
    Ok(())
}

/// Finds a descendant that has a quota.
async fn quota_below(client: &Client, path: &str) -> Result<Option<String>, Error> {
    let mut left = vec![quota_path(path)];
    while let Some(node) = left.pop() {
        let names = match client.children(&node).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
            names => names?,
        };
        if node != quota_path(path) && names.iter().any(|name| name == LIMITS) {
            return Ok(Some(node[QUOTAS.len()..].to_owned()));
        }
        left.extend(names.iter().filter(|name| *name != LIMITS && *name != STATS).map(|name| path::child(&node, name)));
    }
    Ok(None)
}

/// Writes a limit. Returns all limits and the usage.
async fn write(client: &Client, path: &str, kind: &str, value: i64) -> Result<(Quota, Quota), Error> {
    let mut node = QUOTAS.to_owned();
    for name in path.split('/').skip(1) {
        node = path::child(&node, name);
        unless_exists(client.create(&node, Null, CreateMode::Persistent).await.map(drop))?;
    }
    let limits = match client.get(&limits_path(path)).await {
        Ok(found) => {
            let mut limits = Quota::parse(&found.data);
            limits.set(kind, value);
            client.set(&limits_path(path), limits.to_string(), Version::Any).await?;
            limits
        }
        Err(error) if error.code() == Some(ErrorCode::NoNode) => {
            let mut limits = Quota::unlimited();
            limits.set(kind, value);
            client.create(&limits_path(path), limits.to_string(), CreateMode::Persistent).await?;
            let nothing = Quota::default().to_string();
            unless_exists(client.create(&stats_path(path), nothing, CreateMode::Persistent).await.map(drop))?;
            limits
        }
        Err(error) => return Err(error),
    };
    let stats = client.get(&stats_path(path)).await?;
    Ok((limits, Quota::parse(&stats.data)))
}

fn unless_exists(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
        done => done,
    }
}

#[derive(Serialize)]
struct QuotaJson {
    path: String,
    limits: Option<Limits>,
    used: Option<Used>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    count: Option<i64>,
    bytes: Option<i64>,
    hard_count: Option<i64>,
    hard_bytes: Option<i64>,
}

#[derive(Serialize)]
struct Used {
    count: i64,
    bytes: i64,
}

pub(super) async fn list(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let path = path(shell, args)?;
    let client = shell.connected_client().await?;
    let (limits, stats) = match (client.get(&limits_path(&path)).await, client.get(&stats_path(&path)).await) {
        (Ok(limits), Ok(stats)) => (Some(Quota::parse(&limits.data)), Some(Quota::parse(&stats.data))),
        (Err(error), _) | (_, Err(error)) if error.code() == Some(ErrorCode::NoNode) => (None, None),
        (Err(error), _) | (_, Err(error)) => return Err(error.into()),
    };
    if shell.is_json(args) {
        let limits = limits.map(|limits| Limits {
            count: limits.soft_count(),
            bytes: limits.soft_bytes(),
            hard_count: limits.hard_count.filter(|limit| 0 <= *limit),
            hard_bytes: limits.hard_bytes.filter(|limit| 0 <= *limit),
        });
        let used = stats.map(|stats| Used { count: stats.count, bytes: stats.bytes });
        return shell.out.json(&QuotaJson { path, limits, used });
    }
    if !shell.is_zkcli() {
        let (Some(limits), Some(stats)) = (limits, stats) else {
            return Err(CommandError::message(format!("No quota: {path}")));
        };
        shell.print(&format!("limits {limits}"))?;
        return shell.print(&format!("used {stats}"));
    }
    shell.info(&format!("absolute path is {}", limits_path(&path)));
    match (limits, stats) {
        (Some(limits), Some(stats)) => {
            shell.print(&format!("Output quota for {path} {limits}"))?;
            shell.print(&format!("Output stat for {path} {stats}"))
        }
        _ => {
            // Compat: reported, but not a failure.
            shell.info(&format!("quota for {path} does not exist."));
            Ok(())
        }
    }
}

pub(super) async fn delete(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let kind = kind(args)?;
    let path = path(shell, args)?;
    let client = shell.connected_client().await?;
    let found = match client.get(&limits_path(&path)).await {
        Err(error) if error.code() == Some(ErrorCode::NoNode) => {
            return match shell.is_zkcli() {
                true => shell.print(&format!("Quota does not exist for {path}")),
                false => Err(CommandError::message(format!("No quota: {path}"))),
            };
        }
        found => found?,
    };
    if let Some(kind) = kind {
        let mut limits = Quota::parse(&found.data);
        limits.set(kind, -1);
        client.set(&limits_path(&path), limits.to_string(), Version::Any).await?;
        return Ok(());
    }
    for node in [limits_path(&path), stats_path(&path)] {
        match client.delete(&node, Version::Any).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => (),
            done => done?,
        }
    }
    // Deletes ancestors that have become empty.
    let mut node = quota_path(&path);
    while node != QUOTAS {
        match client.delete(&node, Version::Any).await {
            Err(error) if error.code() == Some(ErrorCode::NotEmpty) => break,
            done => done?,
        }
        node.truncate(node.rfind('/').unwrap_or(0));
    }
    Ok(())
}
