//! `find`: nodes of a subtree that are as described.

use super::{Command, JSON, OURS};
use crate::command_error::Failure;
use crate::options::{Args, Opt};
use crate::output::Paint;
use crate::pattern::{self, Case};
use crate::shell::Shell;
use crate::stat_text::StatJson;
use crate::subtree_output::{self, DEPTH, NOT_READ, Troubles};
use crate::walk::{Look, Seen, Walk};
use jiff::Timestamp;
use regex::bytes::Regex;
use serde::Serialize;

pub(super) const COMMAND: Command = Command {
    name: "find",
    syntax: "[--name glob] [--regex re] [--data re] [-i] [--ephemeral] [--min-size bytes] [--max-size bytes] \
             [--newer time] [--older time] [-d depth] [--json] [path]",
    help: "List the nodes below a node that are as described",
    options: &[
        Opt::with("--name", "glob", "The name, with * ? [a-z]"),
        Opt::with("--regex", "re", "The path holds this regular expression"),
        Opt::with("--data", "re", "The data holds this regular expression"),
        Opt::switch("-i", "Upper and lower case are the same"),
        Opt::switch("--ephemeral", "Goes with a session"),
        Opt::with("--min-size", "bytes", "So much data at least: 300, 4k, 1m"),
        Opt::with("--max-size", "bytes", "So much data at most"),
        Opt::with("--newer", "time", "Data changed since: 90s, 15m, 2h, 7d ago, or a date as 2026-01-31T12:00:00Z"),
        Opt::with("--older", "time", "Data not changed since"),
        DEPTH,
        JSON,
    ],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

/// What is looked for. Everything that is given must hold.
struct Wanted {
    name: Option<Regex>,
    path: Option<Regex>,
    data: Option<Regex>,
    only_ephemeral: bool,
    bytes_min: Option<u64>,
    bytes_max: Option<u64>,
    since_ms: Option<i64>,
    before_ms: Option<i64>,
}

impl Wanted {
    fn new(args: &Args) -> Result<Self, Failure> {
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

    fn fits(&self, seen: &Seen) -> bool {
        let stat = seen.stat();
        let bytes = u64::try_from(stat.data_length).unwrap_or(0);
        let holds = |regex: &Option<Regex>, text: &[u8]| regex.as_ref().is_none_or(|regex| regex.is_match(text));
        holds(&self.name, seen.name().as_bytes())
            && holds(&self.path, seen.path.as_bytes())
            && (!self.only_ephemeral || seen.owner().is_some())
            && (seen.denied.is_none() || self.needs_no_more())
            && self.bytes_min.is_none_or(|min| min <= bytes)
            && self.bytes_max.is_none_or(|max| bytes <= max)
            && self.since_ms.is_none_or(|since| since <= stat.mtime)
            && self.before_ms.is_none_or(|before| stat.mtime < before)
            && holds(&self.data, &seen.node.data)
    }

    /// Whether a name tells everything: of some nodes no more can be seen.
    fn needs_no_more(&self) -> bool {
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

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let root = subtree_output::start(shell, args, 0)?;
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let wanted = Wanted::new(args)?;
    let client = shell.server().await?;
    let look = if wanted.data.is_some() { Look::Data } else { Look::Stat };
    let mut walk = Walk::new(&client, &root, look).with_depth(depth_max);
    let mut troubles = Troubles::new(&shell.out);
    while let Some(seen) = walk.next().await? {
        if let Some(reason) = &seen.denied {
            troubles.note(reason);
        }
        if !wanted.fits(&seen) {
            continue;
        }
        match shell.is_json(args) {
            true => {
                let stat = seen.denied.is_none().then(|| StatJson::from(seen.stat()));
                subtree_output::json_line(&shell.out, &Line { path: &seen.path, stat })?;
            }
            false => shell.out.line(&shell.out.paint(Paint::Name, &seen.path))?,
        }
    }
    troubles.end(NOT_READ)
}
