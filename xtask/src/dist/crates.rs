//! The crates for applications: packaged and built as `cargo publish` does, without an upload.

use super::Release;
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;

/// In the order of their dependencies. `ox-sasl`, `ox-tls` and `ox-kerberos` belong to `ox-client`'s feature `security`: a
/// registry accepts no crate with a dependency that it does not have, even an optional one.
const PUBLISHED: [&str; 6] = ["ox-proto", "ox-sasl", "ox-tls", "ox-kerberos", "ox-client", "ox-recipes"];

pub(super) fn check(release: &Release) -> Result<()> {
    let root = release.workspace.root();
    let metadata = tool::output(
        Command::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(&root),
    )?;
    let metadata: Value = serde_json::from_str(&metadata).context("read cargo's metadata")?;
    for name in PUBLISHED {
        let package =
            metadata["packages"].as_array().and_then(|all| all.iter().find(|package| package["name"] == name));
        described(package.with_context(|| format!("there is no crate {name}"))?).with_context(|| name.to_owned())?;
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["publish", "--dry-run", "--locked", "--allow-dirty"]).current_dir(&root);
    PUBLISHED.iter().for_each(|name| _ = cargo.args(["-p", name]));
    tool::run(&mut cargo).context("package and build the crates")?;
    println!("publishable: {}", PUBLISHED.join(", "));
    Ok(())
}

/// Checks what the page of a crate on a registry shows.
fn described(package: &Value) -> Result<()> {
    for field in ["description", "license", "readme", "documentation"] {
        ensure!(package[field].as_str().is_some_and(|text| !text.is_empty()), "the manifest has no {field}");
    }
    for field in ["keywords", "categories"] {
        ensure!(package[field].as_array().is_some_and(|list| !list.is_empty()), "the manifest has no {field}");
    }
    Ok(())
}
