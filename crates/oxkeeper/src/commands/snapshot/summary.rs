//! `oxkeeper snapshot summary`: which subtrees use the space.

use super::source::tree;
use crate::commands::output::{BAD, GOOD, conclude};
use crate::commands::progress::Watched;
use anyhow::{Result, bail};
use ox_inspect::summary::{Subtree, summarize};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints every node that has children, with the number of its descendants and the bytes of data in its subtree.
For a directory, or a zoo.cfg with dataDir and dataLogDir, it reads the newest state: the newest snapshot and the logs
after it.
Exit code: 0 with a summary, 2 if the files cannot be read.")]
pub(crate) struct Args {
    /// A snapshot, dataDir, or zoo.cfg
    #[arg(value_name = "FILE|DIR|zoo.cfg")]
    source: PathBuf,
    /// The node to begin with
    #[arg(long, default_value = "/")]
    path: String,
    /// How many levels to print; 0 means all. Deeper levels are counted in any case
    #[arg(long, default_value_t = 0)]
    depth: usize,
    /// dataLogDir, if the logs are not in the same directory
    #[arg(long, alias = "dataLogDir", value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Print one JSON object per subtree
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    conclude(|out| {
        let disk = Watched::new();
        let frozen = tree(&disk, &args.source, args.logs.as_deref())?;
        disk.clear();
        if !args.path.starts_with('/') {
            bail!("{} is not a path\nhint: paths begin with /", args.path);
        }
        let depth = Some(args.depth).filter(|depth| *depth != 0);
        let Some(subtrees) = summarize(&frozen, &args.path, depth) else {
            bail!("there is no node {} in {}", args.path, args.source.display());
        };
        if args.json {
            in_json(&subtrees, out)?
        } else {
            as_apache(&subtrees, out)?
        }
        Ok(GOOD)
    })
}

/// Prints what Apache's toolkit prints, with its exit code 1 for a node that does not exist.
pub(crate) fn summarize_as_apache(file: &Path, start: &str, depth: usize) -> ExitCode {
    conclude(|out| {
        let frozen = tree(&Watched::new(), file, None)?;
        match summarize(&frozen, start, Some(depth).filter(|depth| *depth != 0)) {
            Some(subtrees) => as_apache(&subtrees, out).map(|()| GOOD),
            None => {
                crate::say(format_args!("error: there is no node {start} in {}", file.display()));
                Ok(BAD)
            }
        }
    })
}

fn as_apache(subtrees: &[Subtree], out: &mut dyn Write) -> Result<()> {
    for Subtree { path, depth, descendants, bytes } in subtrees {
        let dashes = "--".repeat(*depth);
        writeln!(out, "{dashes} {path}\n{dashes}   children: {descendants}\n{dashes}   data: {bytes}")?;
    }
    Ok(writeln!(out)?)
}

fn in_json(subtrees: &[Subtree], out: &mut dyn Write) -> Result<()> {
    for Subtree { path, depth, descendants, bytes } in subtrees {
        writeln!(out, "{}", json!({ "path": path, "depth": depth, "descendants": descendants, "bytes": bytes }))?;
    }
    Ok(())
}
