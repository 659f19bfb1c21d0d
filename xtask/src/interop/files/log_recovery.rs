//! Damages a log, repairs it with `oxkeeper log recover`, and starts a server on it.
//!
//! ```text
//! writer starts empty -> all kinds of transactions -> read the tree -> some more transactions -> kill
//! flip a bit in the first of these -> `log recover` truncates the log before the damaged record
//! reader opens the data -> same tree, and it accepts writes
//! ```

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::super::servers::{Software, oxkeeper};
use super::super::tool;
use super::super::workspace::Workspace;
use super::{SESSION_MS, VARIANTS, check_digests, compare, content, data_directory, spec};
use crate::catch::catching;
use ox_testkit::RawClient;

/// Records the synced position. It must be deleted, because the truncated log ends before that position.
const SYNCED_POSITION: &str = "oxk.synced";

/// Returns the number of nodes in the recovered tree.
pub(super) fn recover(workspace: &Workspace, writer: Software, reader: Software) -> Result<usize> {
    let home = tempfile::Builder::new().prefix("oxkeeper-recovered-").tempdir()?;
    let result = catching(|| damage_and_recover(workspace, writer, reader, home.path()));
    result.map_err(|e| e.context(format!("files kept in {}", home.keep().display())))
}

fn damage_and_recover(workspace: &Workspace, writer: Software, reader: Software, home: &Path) -> Result<usize> {
    let [log_only, ..] = &VARIANTS;
    let mut server = spec(workspace, writer, log_only)?.start_in(home).context("first server")?;
    let mut client = RawClient::open(server.address(), SESSION_MS);
    content::authenticate(&mut client);
    content::write(&mut client, server.address());
    let before = client.walk();
    content::write_lost(&mut client);
    log_only.stop(&mut server)?;
    let log = data_directory::newest_log(&server.data_dir())?;
    damage(&log)?;
    repair(workspace, &log, home)?;
    let server = spec(workspace, reader, log_only)?.start_in(home).context("second server")?;
    let mut client = RawClient::open(server.address(), SESSION_MS);
    content::authenticate(&mut client);
    compare(&before, &client.walk())?;
    check_digests(&server)?;
    content::write_lost(&mut client);
    Ok(before.len())
}

/// Flips a bit in the first record of the nodes to lose.
fn damage(log: &Path) -> Result<()> {
    let mut bytes = std::fs::read(log)?;
    let name = content::LOST.as_bytes();
    let offset = bytes.windows(name.len()).position(|window| window == name).context("no record to damage")?;
    bytes[offset] ^= 1;
    Ok(std::fs::write(log, bytes)?)
}

/// Follows the documentation of the tool: moves the damaged log away and gives the repaired one its name.
fn repair(workspace: &Workspace, log: &Path, home: &Path) -> Result<()> {
    let oxkeeper = oxkeeper::binary(workspace);
    tool::run(Command::new(oxkeeper).args(["log", "recover", "-r", "--yes"]).arg(log))?;
    let mut fixed = log.as_os_str().to_owned();
    fixed.push(".fixed");
    std::fs::rename(log, home.join("damaged"))?;
    std::fs::rename(fixed, log)?;
    let marker = log.with_file_name(SYNCED_POSITION);
    if marker.exists() {
        std::fs::remove_file(marker)?;
    }
    Ok(())
}
