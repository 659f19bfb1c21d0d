//! The suite of the JavaScript client node-zookeeper-client.

use std::process::Command;

use anyhow::{Context, Result};

use super::Suite;
use crate::interop::tool;
use crate::interop::workspace::Workspace;

pub(super) const SUITE: Suite = Suite { name: "node", needs: &["node", "npm"], prepare, command };

/// Copies the manifest into the cache, because npm installs into the directory of the manifest.
fn prepare(workspace: &Workspace) -> Result<()> {
    let source = workspace.source("node");
    let cache = workspace.cache("node");
    let manifests = ["package.json", "package-lock.json"];
    tool::once(&cache.join("stamp"), &manifests.map(|name| source.join(name)).each_ref().map(AsRef::as_ref), || {
        std::fs::create_dir_all(&cache)?;
        for name in manifests {
            std::fs::copy(source.join(name), cache.join(name))?;
        }
        tool::run(Command::new("npm").args(["ci", "--silent"]).current_dir(&cache)).context("install the Node client")
    })
}

fn command(workspace: &Workspace) -> Command {
    let mut command = Command::new("node");
    command
        .arg(workspace.source("node").join("main.js"))
        .env("NODE_PATH", workspace.cache("node").join("node_modules"));
    command
}
