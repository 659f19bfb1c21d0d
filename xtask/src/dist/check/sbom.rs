//! The bill of materials: complete, and without test tools.

use super::super::Release;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn check(release: &Release) -> Result<()> {
    let path = release.output.join(format!("oxkeeper-{}.cdx.json", release.version));
    let bill: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let list = |name: &str| bill[name].as_array().cloned().unwrap_or_default();
    let components = list("components");
    let names: BTreeSet<&str> = components.iter().filter_map(|component| component["name"].as_str()).collect();
    for name in ["ox-server", "ox-tls", "rustls", "aws-lc-sys", "tikv-jemalloc-sys", "mio"] {
        ensure!(names.contains(name), "{name} is missing");
    }
    for name in ["ox-testkit", "xtask", "proptest", "tempfile"] {
        ensure!(!names.contains(name), "{name} is not in the binary");
    }
    let references: BTreeSet<&str> = components.iter().filter_map(|component| component["bom-ref"].as_str()).collect();
    for component in &components {
        let name = &component["name"];
        ensure!(
            component["licenses"][0]["expression"].as_str().is_some_and(|text| !text.is_empty()),
            "{name}: no licence"
        );
        let is_own = name.as_str().is_some_and(|name| name.starts_with("ox-"));
        ensure!(is_own || component["hashes"].is_array(), "{name} has no checksum");
    }
    for dependency in list("dependencies") {
        for target in dependency["dependsOn"].as_array().into_iter().flatten() {
            ensure!(target.as_str().is_some_and(|target| references.contains(target)), "{target} is not listed");
        }
    }
    Ok(())
}
