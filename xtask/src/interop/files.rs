//! One software opens the data directory that another has written.
//!
//! ```text
//! writer starts empty -> all kinds of transactions -> walk -> stop
//! reader opens it     -> session resumed -> same walk, same zxid -> more transactions -> walk -> stop
//! writer opens it     -> session resumed -> same walk -> session closed: its ephemerals go
//! ```
//!
//! A log that was damaged and recovered is opened, too (`log_recovery.rs`).
//!
//! Data, ACLs and every field of every stat must be equal, so a zxid or time lost on the way shows.

mod content;
mod data_directory;
mod log_recovery;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use ox_proto::Zxid;

use super::servers::{SUPER_DIGEST, ServerSpec, ServerUnderTest, Software};
use super::tree_walk::{Tree, differences, walk};
use super::wire::{SessionHandle, WireClient};
use super::workspace::Workspace;
use super::{Args, Target};

/// Differences that go into an error message.
const DIFFERENCES_SHOWN: usize = 10;

/// Transactions between snapshots, where there shall be many.
const SNAP_COUNT: u32 = 50;

/// One way to write and leave a directory.
struct Variant {
    name: &'static str,
    snapshots: Snapshots,
    stop: fn(&mut ServerUnderTest) -> Result<()>,
}

/// How snapshots are made.
enum Snapshots {
    /// So seldom that all transactions are in the log.
    None,
    /// Often; the value of Apache's compression property, or nothing. Only the newest one is left to the next server.
    Often(&'static str),
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "log only, killed", snapshots: Snapshots::None, stop: ServerUnderTest::kill },
    Variant { name: "snapshots, killed", snapshots: Snapshots::Often(""), stop: ServerUnderTest::kill },
    Variant { name: "gz snapshots, stopped", snapshots: Snapshots::Often("gz"), stop: ServerUnderTest::terminate },
    Variant { name: "snappy snapshots, killed", snapshots: Snapshots::Often("snappy"), stop: ServerUnderTest::kill },
];

impl Variant {
    /// Stops a server and leaves its directory as the variant wants it.
    fn leave(&self, server: &mut ServerUnderTest) -> Result<()> {
        (self.stop)(server)?;
        match self.snapshots {
            Snapshots::None => Ok(()),
            Snapshots::Often("") => data_directory::keep_newest_snapshot(&server.data_dir(), ""),
            Snapshots::Often(method) => data_directory::keep_newest_snapshot(&server.data_dir(), &format!(".{method}")),
        }
    }
}

/// What must survive a change of server.
struct Left {
    tree: Tree,
    session_handle: SessionHandle,
}

/// Runs all variants between the servers that `args` names: Apache and itself, or Oxkeeper and Apache both ways.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let pairs: &[(Software, Software)] = match args.server {
        Target::Start(Software::Apache | Software::Apache38) => &[(Software::Apache, Software::Apache)],
        Target::Start(Software::Oxkeeper) => &[
            (Software::Oxkeeper, Software::Oxkeeper),
            (Software::Oxkeeper, Software::Apache),
            (Software::Apache, Software::Oxkeeper),
        ],
        Target::Running(_) => bail!("files belong to servers that xtask starts\nhint: --server oxkeeper or apache"),
    };
    for software in [Software::Apache, Software::Oxkeeper] {
        if pairs.iter().any(|(writer, reader)| [*writer, *reader].contains(&software)) {
            software.prepare(workspace)?;
        }
    }
    let mut failures = 0;
    for (writer, reader) in pairs {
        for variant in &VARIANTS {
            let start = Instant::now();
            match round_trip(workspace, *writer, *reader, variant) {
                Ok(nodes) => {
                    let seconds = start.elapsed().as_secs_f64();
                    println!("ok   {writer} -> {reader} -> {writer}, {}: {nodes} nodes, {seconds:.1} s", variant.name);
                }
                Err(e) => {
                    failures += 1;
                    println!("fail {writer} -> {reader} -> {writer}, {}: {e:#}", variant.name);
                }
            }
        }
    }
    if matches!(args.server, Target::Start(Software::Oxkeeper)) {
        for (writer, reader) in pairs {
            let start = Instant::now();
            match log_recovery::recover(workspace, *writer, *reader) {
                Ok(nodes) => {
                    let seconds = start.elapsed().as_secs_f64();
                    println!("ok   {writer} -> log recover -> {reader}: {nodes} nodes, {seconds:.1} s");
                }
                Err(e) => {
                    failures += 1;
                    println!("fail {writer} -> log recover -> {reader}: {e:#}");
                }
            }
        }
    }
    ensure!(failures == 0, "{failures} ways to hand over a data directory failed");
    Ok(())
}

/// Returns the number of nodes that made the whole way.
fn round_trip(workspace: &Workspace, writer: Software, reader: Software, variant: &Variant) -> Result<usize> {
    let home = tempfile::Builder::new().prefix("oxkeeper-files-").tempdir()?;
    let done = hand_over(workspace, writer, reader, variant, home.path());
    done.map_err(|e| e.context(format!("files kept in {}", home.keep().display())))
}

fn hand_over(
    workspace: &Workspace,
    writer: Software,
    reader: Software,
    variant: &Variant,
    home: &Path,
) -> Result<usize> {
    let first = write_first(&spec(workspace, writer, variant), variant, home).context("first server")?;
    let second = take_over(&spec(workspace, reader, variant), variant, home, &first).context("second server")?;
    let server = spec(workspace, writer, variant).start_in(home).context("third server")?;
    let client = resume(&server, &second).context("third server")?;
    check_digests(&server)?;
    content::check_ephemerals(client, server.address()).context("third server")?;
    Ok(second.tree.len())
}

fn write_first(spec: &ServerSpec, variant: &Variant, home: &Path) -> Result<Left> {
    let mut server = spec.start_in(home)?;
    let mut client = WireClient::connect(server.address())?;
    content::authenticate(&mut client)?;
    content::write(&mut client, server.address())?;
    let left = Left { tree: walk(&mut client)?, session_handle: client.session_handle() };
    variant.leave(&mut server)?;
    Ok(left)
}

fn take_over(spec: &ServerSpec, variant: &Variant, home: &Path, before: &Left) -> Result<Left> {
    let mut server = spec.start_in(home)?;
    let mut client = resume(&server, before)?;
    content::write_more(&mut client)?;
    check_digests(&server)?;
    let left = Left { tree: walk(&mut client)?, session_handle: client.session_handle() };
    variant.leave(&mut server)?;
    Ok(left)
}

/// Resumes the session on a server that has opened the directory, and compares all there is.
fn resume(server: &ServerUnderTest, before: &Left) -> Result<WireClient> {
    let mut client = WireClient::resume(server.address(), &before.session_handle).context("resume the session")?;
    ensure!(client.session_handle().session == before.session_handle.session, "the session has another id");
    content::authenticate(&mut client)?;
    let tree = walk(&mut client)?;
    compare(&before.tree, &tree)?;
    let (was, is): (Zxid, Zxid) = (before.session_handle.last_zxid, client.session_handle().last_zxid);
    ensure!(was == is, "the last zxid was {was:?}, is {is:?}");
    Ok(client)
}

fn compare(before: &Tree, after: &Tree) -> Result<()> {
    let different = differences(before, after);
    if different.is_empty() {
        return Ok(());
    }
    let shown = different.iter().take(DIFFERENCES_SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    bail!("{} nodes differ\n{shown}", different.len())
}

/// The server has compared its tree with the digests in the files and found no difference.
fn check_digests(server: &ServerUnderTest) -> Result<()> {
    let metrics = server.four_letter_command("mntr")?;
    let mismatches = metrics.lines().find_map(|line| line.strip_prefix("zk_digest_mismatches_count\t"));
    ensure!(mismatches == Some("0"), "digest mismatches: {mismatches:?}");
    Ok(())
}

fn spec(workspace: &Workspace, software: Software, variant: &Variant) -> ServerSpec {
    let spec = ServerSpec::new(workspace, software)
        .setting("maxSessionTimeout", super::wire::SESSION_TIMEOUT_MS)
        .property("zookeeper.extendedTypesEnabled", true)
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST);
    match variant.snapshots {
        Snapshots::None => spec,
        Snapshots::Often(method) => {
            spec.property("zookeeper.snapCount", SNAP_COUNT).property("zookeeper.snapshot.compression.method", method)
        }
    }
}
