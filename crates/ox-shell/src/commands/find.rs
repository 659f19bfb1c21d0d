//! `find`: lists nodes of a subtree by name, data, size or age.

use super::{CommandSpec, EXTENSION, JSON};
use crate::command_error::CommandError;
use crate::options::{CommandArgs, Opt};
use crate::output::Paint;
use crate::pattern::{self, Case};
use crate::shell::Shell;
use crate::stat_text::StatJson;
use crate::subtree_output::{self, DEPTH, NOT_READ, NodeErrors};
use crate::walk::{NodeFields, VisitedNode, Walk};
use jiff::Timestamp;
use regex::bytes::Regex;
use serde::Serialize;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "find",
    syntax: "[--name glob] [--regex re] [--data re] [-i] [--ephemeral] [--min-size bytes] [--max-size bytes] \
             [--newer time] [--older time] [-d depth] [--json] [path]",
    help: "List the nodes of a subtree that match all criteria",
    options: &[
        Opt::with("--name", "glob", "Name matches, with * ? [a-z]"),
        Opt::with("--regex", "re", "Path matches this regular expression"),
        Opt::with("--data", "re", "Data matches this regular expression"),
        Opt::switch("-i", "Ignore case"),
        Opt::switch("--ephemeral", "Ephemeral nodes only"),
        Opt::with("--min-size", "bytes", "At least this much data: 300, 4k, 1m"),
        Opt::with("--max-size", "bytes", "At most this much data"),
        Opt::with("--newer", "time", "Data changed since: 90s, 15m, 2h, 7d ago, or a date like 2026-01-31T12:00:00Z"),
        Opt::with("--older", "time", "Data not changed since"),
        DEPTH,
        JSON,
    ],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

/// The criteria, all of which must match.
struct Filter {
    name: Option<Regex>,
    path: Option<Regex>,
    data: Option<Regex>,
    only_ephemeral: bool,
    bytes_min: Option<u64>,
    bytes_max: Option<u64>,
    since_ms: Option<i64>,
    before_ms: Option<i64>,
}

impl Filter {
    fn new(args: &CommandArgs) -> Result<Self, CommandError> {
        let case = if args.has("-i") { Case::Ignored } else { Case::Matters };
        let now_ms = Timestamp::now().as_millisecond();
        let moment = |name| args.value(name).map(|text| pattern::moment(text, now_ms)).transpose();
        let size = |name| args.value(name).map(pattern::size).transpose();
        Ok(Self {
            name: args.value("--name").map(|text| pattern::glob(text, case)).transpose()?,
            path: args.value("--regex").map(|text| pattern::regex(text, case)).transpose()?,
            data: args.value("--data").map(|text| pattern::regex(text, case)).transpose()?,
            only_ephemeral: args.has("--ephemeral"),
            bytes_min: size("--min-size")?,
            bytes_max: size("--max-size")?,
            since_ms: moment("--newer")?,
            before_ms: moment("--older")?,
        })
    }

    fn matches(&self, visited: &VisitedNode) -> bool {
        let stat = visited.stat();
        let bytes = u64::try_from(stat.data_length).unwrap_or(0);
        let holds = |regex: &Option<Regex>, text: &[u8]| regex.as_ref().is_none_or(|regex| regex.is_match(text));
        holds(&self.name, visited.name().as_bytes())
            && holds(&self.path, visited.path.as_bytes())
            && (!self.only_ephemeral || visited.owner().is_some())
            && (visited.denied.is_none() || self.needs_path_only())
            && self.bytes_min.is_none_or(|min| min <= bytes)
            && self.bytes_max.is_none_or(|max| bytes <= max)
            && self.since_ms.is_none_or(|since| since <= stat.mtime)
            && self.before_ms.is_none_or(|before| stat.mtime < before)
            && holds(&self.data, &visited.node.data)
    }

    /// Whether name and path suffice: other fields of denied nodes are unknown.
    fn needs_path_only(&self) -> bool {
        let sizes = self.bytes_min.is_none() && self.bytes_max.is_none();
        sizes && self.since_ms.is_none() && self.before_ms.is_none() && self.data.is_none()
    }
}

#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stat: Option<StatJson>,
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let root = subtree_output::start(shell, args, 0)?;
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let filter = Filter::new(args)?;
    let client = shell.connected_client().await?;
    let fields = if filter.data.is_some() { NodeFields::Data } else { NodeFields::Stat };
    let mut walk = Walk::new(&client, &root, fields).with_depth(depth_max);
    let mut node_errors = NodeErrors::new(&shell.out);
    while let Some(visited) = walk.next().await? {
        if let Some(reason) = visited.denial() {
            node_errors.note(&reason);
        }
        if !filter.matches(&visited) {
            continue;
        }
        match shell.is_json(args) {
            true => {
                let stat = visited.denied.is_none().then(|| StatJson::from(visited.stat()));
                subtree_output::json_line(&shell.out, &Line { path: &visited.path, stat })?;
            }
            false => shell.out.line(&shell.out.paint(Paint::Name, &visited.path))?,
        }
    }
    node_errors.end(NOT_READ)
}
