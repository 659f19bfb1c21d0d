//! A damaged log, recovered by `oxkeeper log recover`: servers start on it and show exactly what was kept.
//!
//! ```text
//! writer starts empty -> all kinds of transactions -> walk -> some more -> killed
//! a bit of the first of those turns -> recovered: everything from there on is cut
//! reader opens it     -> same walk, and it takes writes
//! ```

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::super::servers::Software;
use super::super::tool;
use super::super::tree_walk::walk;
use super::super::wire::WireClient;
use super::super::workspace::Workspace;
use super::{VARIANTS, check_digests, compare, content, data_directory, spec};

/// What Oxkeeper notes about the logs that it has synced; it goes with the records that are cut.
const NOTE: &str = "oxk.synced";

/// Returns the number of nodes that were kept.
pub(super) fn recover(workspace: &Workspace, writer: Software, reader: Software) -> Result<usize> {
    let home = tempfile::Builder::new().prefix("oxkeeper-recovered-").tempdir()?;
    let done = damage_and_recover(workspace, writer, reader, home.path());
    done.map_err(|e| e.context(format!("files kept in {}", home.keep().display())))
}

fn damage_and_recover(workspace: &Workspace, writer: Software, reader: Software, home: &Path) -> Result<usize> {
    let [log_only, ..] = &VARIANTS;
    let mut server = spec(workspace, writer, log_only).start_in(home).context("first server")?;
    let mut client = WireClient::connect(server.address())?;
    content::authenticate(&mut client)?;
    content::write(&mut client, server.address())?;
    let before = walk(&mut client)?;
    content::write_doomed(&mut client)?;
    log_only.leave(&mut server)?;
    let log = data_directory::newest_log(&server.data_dir())?;
    damage(&log)?;
    repair(workspace, &log, home)?;
    let server = spec(workspace, reader, log_only).start_in(home).context("second server")?;
    let mut client = WireClient::connect(server.address())?;
    content::authenticate(&mut client)?;
    compare(&before, &walk(&mut client)?)?;
    check_digests(&server)?;
    content::write_doomed(&mut client).context("write behind what was kept")?;
    Ok(before.len())
}

/// Turns a bit of the first record that shall be lost.
fn damage(log: &Path) -> Result<()> {
    let mut bytes = std::fs::read(log)?;
    let name = content::DOOMED.as_bytes();
    let at = bytes.windows(name.len()).position(|some| some == name).context("no record to damage")?;
    bytes[at] ^= 1;
    Ok(std::fs::write(log, bytes)?)
}

/// As the documentation says: the damaged log goes out of the way, the new one takes its name.
fn repair(workspace: &Workspace, log: &Path, home: &Path) -> Result<()> {
    let oxkeeper = workspace.target().join("release/oxkeeper");
    tool::run(Command::new(oxkeeper).args(["log", "recover", "-r", "--yes"]).arg(log))?;
    let mut fixed = log.as_os_str().to_owned();
    fixed.push(".fixed");
    std::fs::rename(log, home.join("damaged"))?;
    std::fs::rename(fixed, log)?;
    let folder = log.parent().context("a log is in a folder")?;
    if folder.join(NOTE).exists() {
        std::fs::remove_file(folder.join(NOTE))?;
    }
    Ok(())
}
