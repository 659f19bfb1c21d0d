//! Opens data directories of one implementation with the other.
//!
//! ```text
//! writer starts empty   -> all kinds of transactions -> read the tree -> stop
//! reader opens the data -> resume the session -> same tree, same zxid -> more transactions -> read the tree -> stop
//! writer opens the data -> resume the session -> same tree -> close the session -> its ephemeral nodes are deleted
//! ```
//!
//! The comparison includes data, ACLs and every field of every Stat. [`log_recovery`] does the same with a damaged log
//! that `oxkeeper log recover` has repaired.

mod content;
mod data_directory;
mod log_recovery;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use ox_testkit::{RawClient, RawHandshake, ServerSpec, ServerUnderTest, Tree, differences};

use super::servers::{SUPER_DIGEST, Software};
use super::workspace::Workspace;
use super::{Args, Target};
use crate::catch::catching;

/// Longer than any step of a case.
const SESSION_MS: i32 = 60_000;

/// Differences to quote in an error message.
const DIFFERENCES_SHOWN: usize = 10;

/// Transactions between snapshots, for variants with frequent snapshots.
const SNAP_COUNT: u32 = 50;

/// How a server writes its directory, and how it ends.
struct Variant {
    name: &'static str,
    snapshots: Snapshots,
    stop: fn(&mut ServerUnderTest) -> Result<()>,
}

/// How often a server writes snapshots.
enum Snapshots {
    /// Not at all: the next server replays the whole log.
    None,
    /// Often, with this value of Apache's compression property, or an empty text for none. The next server gets only
    /// the newest snapshot.
    Often(&'static str),
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "log only, killed", snapshots: Snapshots::None, stop: kill },
    Variant { name: "snapshots, killed", snapshots: Snapshots::Often(""), stop: kill },
    Variant { name: "gz snapshots, stopped", snapshots: Snapshots::Often("gz"), stop: ServerUnderTest::terminate },
    Variant { name: "snappy snapshots, killed", snapshots: Snapshots::Often("snappy"), stop: kill },
];

fn kill(server: &mut ServerUnderTest) -> Result<()> {
    server.kill();
    Ok(())
}

impl Variant {
    /// Stops a server and prepares its directory for the next one.
    fn stop(&self, server: &mut ServerUnderTest) -> Result<()> {
        (self.stop)(server)?;
        match self.snapshots {
            Snapshots::None => Ok(()),
            Snapshots::Often("") => data_directory::keep_newest_snapshot(&server.data_dir(), ""),
            Snapshots::Often(method) => data_directory::keep_newest_snapshot(&server.data_dir(), &format!(".{method}")),
        }
    }
}

/// The state that the next server must show.
struct ExpectedState {
    tree: Tree,
    handshake: RawHandshake,
}

/// Runs all variants: from Apache to Apache, or between Oxkeeper and Apache in both directions, as `args` selects.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let pairs: &[(Software, Software)] = match args.server {
        Target::Start(Software::Apache | Software::Apache38) => &[(Software::Apache, Software::Apache)],
        Target::Start(Software::Oxkeeper | Software::Previous) => &[
            (Software::Oxkeeper, Software::Oxkeeper),
            (Software::Oxkeeper, Software::Apache),
            (Software::Apache, Software::Oxkeeper),
        ],
        Target::Running(_) => {
            bail!("the files of a running server cannot be tested\nhint: use --server oxkeeper or apache")
        }
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
    ensure!(failures == 0, "{failures} tests of data directories failed");
    Ok(())
}

/// Returns the number of nodes in the tree.
fn round_trip(workspace: &Workspace, writer: Software, reader: Software, variant: &Variant) -> Result<usize> {
    let home = tempfile::Builder::new().prefix("oxkeeper-files-").tempdir()?;
    let result = catching(|| run_servers(workspace, writer, reader, variant, home.path()));
    result.map_err(|e| e.context(format!("files kept in {}", home.keep().display())))
}

fn run_servers(
    workspace: &Workspace,
    writer: Software,
    reader: Software,
    variant: &Variant,
    home: &Path,
) -> Result<usize> {
    let first = write_first(&spec(workspace, writer, variant)?, variant, home).context("first server")?;
    let second =
        open_and_continue(&spec(workspace, reader, variant)?, variant, home, &first).context("second server")?;
    let server = spec(workspace, writer, variant)?.start_in(home).context("third server")?;
    let client = resume(&server, &second).context("third server")?;
    check_digests(&server)?;
    content::check_ephemerals(client, server.address());
    Ok(second.tree.len())
}

fn write_first(spec: &ServerSpec, variant: &Variant, home: &Path) -> Result<ExpectedState> {
    let mut server = spec.start_in(home)?;
    let mut client = RawClient::open(server.address(), SESSION_MS);
    content::authenticate(&mut client);
    content::write(&mut client, server.address());
    let state = ExpectedState { tree: client.walk(), handshake: client.handshake() };
    variant.stop(&mut server)?;
    Ok(state)
}

fn open_and_continue(
    spec: &ServerSpec,
    variant: &Variant,
    home: &Path,
    before: &ExpectedState,
) -> Result<ExpectedState> {
    let mut server = spec.start_in(home)?;
    let mut client = resume(&server, before)?;
    content::write_more(&mut client);
    check_digests(&server)?;
    let state = ExpectedState { tree: client.walk(), handshake: client.handshake() };
    variant.stop(&mut server)?;
    Ok(state)
}

/// Resumes the session on a server that has opened the directory, and compares tree and last zxid.
fn resume(server: &ServerUnderTest, before: &ExpectedState) -> Result<RawClient> {
    let mut client = RawClient::try_open(server.address(), &before.handshake).context("resume the session")?;
    ensure!(client.session() == before.handshake.session, "the session id has changed");
    content::authenticate(&mut client);
    compare(&before.tree, &client.walk())?;
    let (was, is) = (before.handshake.last_zxid_seen, client.handshake().last_zxid_seen);
    ensure!(was == is, "the last zxid was {was:#x} and is {is:#x}");
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

/// Checks that the digests in the files match the tree of the server.
fn check_digests(server: &ServerUnderTest) -> Result<()> {
    let metrics = server.four_letter("mntr")?;
    let mismatches = metrics.lines().find_map(|line| line.strip_prefix("zk_digest_mismatches_count\t"));
    ensure!(mismatches == Some("0"), "digest mismatches: {mismatches:?}");
    Ok(())
}

fn spec(workspace: &Workspace, software: Software, variant: &Variant) -> Result<ServerSpec> {
    let spec = software
        .spec(workspace)?
        .setting("maxSessionTimeout", SESSION_MS)
        .property("zookeeper.extendedTypesEnabled", true)
        .property("zookeeper.DigestAuthenticationProvider.superDigest", SUPER_DIGEST);
    Ok(match variant.snapshots {
        Snapshots::None => spec,
        Snapshots::Often(method) => {
            spec.property("zookeeper.snapCount", SNAP_COUNT).property("zookeeper.snapshot.compression.method", method)
        }
    })
}
