//! `oxkeeper snapshot compare`: how two trees differ, node by node or, as Apache's comparer, by the size of subtrees.

mod layers;

use layers::Detail;

use super::source::tree;
use crate::commands::output::{BAD, GOOD, conclude};
use crate::commands::progress::Watched;
use anyhow::{Result, bail};
use ox_inspect::compare::{
    DiffCounts, Difference, NodeDifference, StatDifference, TreeSide, differences, other_sessions,
};
use ox_proto::Acl;
use ox_tree::FrozenView;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints every node that differs: - only left, + only right, ~ changed. For a directory, or a zoo.cfg with dataDir and
dataLogDir, it compares the newest state: the newest snapshot and the logs after it.
Exit code: 0 if there is no difference, 1 if there is one, 2 if the result is unknown.
With -b or -n it prints the same as Apache's zkSnapshotComparer, subtrees whose size differs by more than this number of
bytes or nodes; the exit code is then 0.")]
pub(crate) struct Args {
    /// A snapshot, dataDir, or zoo.cfg
    #[arg(value_name = "LEFT", required_unless_present = "left")]
    left_source: Option<PathBuf>,
    /// The source to compare it with
    #[arg(value_name = "RIGHT", required_unless_present = "right")]
    right_source: Option<PathBuf>,
    /// The first source, as an option of Apache's comparer
    #[arg(short, long, value_name = "LEFT", requires = "right", conflicts_with = "left_source")]
    left: Option<PathBuf>,
    /// The second source, as an option of Apache's comparer
    #[arg(short, long, value_name = "RIGHT", requires = "left", conflicts_with = "right_source")]
    right: Option<PathBuf>,
    /// Apache's format: subtrees that differ by more bytes than this
    #[arg(short, long, value_name = "N")]
    bytes: Option<i64>,
    /// Apache's format: subtrees that differ by more nodes than this
    #[arg(short, long, value_name = "N")]
    nodes: Option<i64>,
    /// Apache's format: every step of the comparison
    #[arg(short, long)]
    debug: bool,
    /// Apache's format: ask which level or subtree to compare
    #[arg(short, long, conflicts_with = "debug")]
    interactive: bool,
    /// Compare data and ACLs only, not versions, times, zxids and sessions
    #[arg(long)]
    content: bool,
    /// dataLogDir of LEFT, if the logs are not in the same directory
    #[arg(long, value_name = "DIR")]
    left_logs: Option<PathBuf>,
    /// dataLogDir of RIGHT, if the logs are not in the same directory
    #[arg(long, value_name = "DIR")]
    right_logs: Option<PathBuf>,
    /// Print one JSON object per difference, and one with the counts
    #[arg(long, conflicts_with_all = ["bytes", "nodes", "debug", "interactive"])]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    conclude(|out| {
        let left = args.left.as_deref().or(args.left_source.as_deref());
        let right = args.right.as_deref().or(args.right_source.as_deref());
        let (Some(left), Some(right)) = (left, right) else { bail!("two snapshots or directories are needed") };
        let sides = [(left, args.left_logs.as_deref()), (right, args.right_logs.as_deref())];
        if args.bytes.is_some() || args.nodes.is_some() || args.debug || args.interactive {
            let least = (args.bytes.unwrap_or(0), args.nodes.unwrap_or(0));
            layers::compare(sides, least, Detail::of(args.debug, args.interactive), out)?;
            return Ok(GOOD);
        }
        let [left, right] = [read(sides[0])?.0, read(sides[1])?.0];
        let tally = if args.json { in_json(&left, &right, args, out)? } else { in_text(&left, &right, args, out)? };
        Ok(if is_same(&tally, args) { GOOD } else { BAD })
    })
}

pub(crate) struct SnapshotComparison {
    pub(crate) left: PathBuf,
    pub(crate) right: PathBuf,
    /// Subtrees that differ by more bytes, or by more nodes, are printed.
    pub(crate) bytes: i64,
    pub(crate) nodes: i64,
    pub(crate) is_debug: bool,
    pub(crate) is_interactive: bool,
}

/// Prints what Apache's comparer prints.
pub(crate) fn compare_as_apache(wanted: &SnapshotComparison) -> ExitCode {
    let SnapshotComparison { left, right, bytes, nodes, is_debug, is_interactive } = wanted;
    let detail = Detail::of(*is_debug, *is_interactive);
    conclude(|out| layers::compare([(left, None), (right, None)], (*bytes, *nodes), detail, out).map(|()| GOOD))
}

fn is_same(tally: &DiffCounts, args: &Args) -> bool {
    DiffCounts { sessions: if args.content { 0 } else { tally.sessions }, ..*tally }.is_same()
}

/// The tree of one side, and the seconds it took to read.
fn read((path, logs): (&Path, Option<&Path>)) -> Result<(FrozenView, f64)> {
    let (disk, started) = (Watched::new(), Instant::now());
    let frozen = tree(&disk, path, logs)?;
    Ok((frozen, started.elapsed().as_secs_f64()))
}

fn name(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

fn in_text(left: &FrozenView, right: &FrozenView, args: &Args, out: &mut dyn Write) -> Result<DiffCounts> {
    let tally = differences(left, right, !args.content, |difference| match difference {
        Difference::Only(side, node) => {
            let mark = if *side == TreeSide::Left { '-' } else { '+' };
            writeln!(out, "{mark} {}  {}", name(node.path), size(node.data))
        }
        Difference::Changed(change) => writeln!(out, "~ {}  {}", name(change.path), changes(change).join(", ")),
    })?;
    if !args.content {
        for id in other_sessions(left, right) {
            writeln!(out, "- session {id}")?;
        }
        for id in other_sessions(right, left) {
            writeln!(out, "+ session {id}")?;
        }
    }
    let DiffCounts { same, changed, only_left, only_right, .. } = tally;
    if is_same(&tally, args) {
        writeln!(out, "No difference in {same} nodes.")?;
    } else {
        writeln!(out, "{only_left} only left, {only_right} only right, {changed} changed, {same} the same.")?;
    }
    if left.last_zxid() != right.last_zxid() {
        writeln!(out, "Left is at {}, right at {}.", left.last_zxid(), right.last_zxid())?;
    }
    Ok(tally)
}

fn size(data: Option<&[u8]>) -> String {
    data.map_or("no data".to_owned(), |data| format!("{} bytes", data.len()))
}

fn changes(change: &NodeDifference<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    if change.was_recreated {
        texts.push("created again".to_owned());
    }
    if let Some((left, right)) = change.data {
        let same_size = left.map(<[u8]>::len) == right.map(<[u8]>::len);
        texts.push(if same_size {
            format!("data ({})", size(left))
        } else {
            format!("data {} -> {}", size(left), size(right))
        });
    }
    if let Some((left, right)) = change.acl {
        texts.push(format!("acl {} -> {}", list(left), list(right)));
    }
    texts.extend(change.stat.iter().map(|StatDifference { name, values: (left, right), is_hex }| {
        if *is_hex { format!("{name} {left:#x} -> {right:#x}") } else { format!("{name} {left} -> {right}") }
    }));
    texts
}

/// An empty ACL is the open one.
fn list(acls: &[Acl]) -> String {
    if acls.is_empty() {
        return "world:anyone:cdrwa".to_owned();
    }
    acls.iter().map(Acl::to_string).collect::<Vec<_>>().join(",")
}

fn in_json(left: &FrozenView, right: &FrozenView, args: &Args, out: &mut dyn Write) -> Result<DiffCounts> {
    let tally = differences(left, right, !args.content, |difference| {
        let value = match difference {
            Difference::Only(side, node) => json!({
                "path": name(node.path),
                "only": if *side == TreeSide::Left { "left" } else { "right" },
                "bytes": node.data.map(<[u8]>::len),
            }),
            Difference::Changed(change) => change_json(change),
        };
        writeln!(out, "{value}")
    })?;
    let DiffCounts { same, changed, only_left, only_right, sessions } = tally;
    let counts = json!({
        "same": same, "changed": changed, "onlyLeft": only_left, "onlyRight": only_right, "otherSessions": sessions,
        "leftZxid": left.last_zxid().to_string(), "rightZxid": right.last_zxid().to_string(),
    });
    writeln!(out, "{counts}")?;
    Ok(tally)
}

fn change_json(change: &NodeDifference<'_>) -> Value {
    let mut value = json!({ "path": name(change.path), "recreated": change.was_recreated });
    if let Some((left, right)) = change.data {
        value["dataBytes"] = json!([left.map(<[u8]>::len), right.map(<[u8]>::len)]);
    }
    if let Some((left, right)) = change.acl {
        value["acl"] = json!([list(left), list(right)]);
    }
    for StatDifference { name, values: (left, right), is_hex } in &change.stat {
        value[name] = if *is_hex { json!([format!("{left:#x}"), format!("{right:#x}")]) } else { json!([left, right]) };
    }
    value
}
