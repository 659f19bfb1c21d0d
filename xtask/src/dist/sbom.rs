//! The bill of materials: every crate that the binary contains, in CycloneDX's JSON.

use super::Release;
use crate::interop::tool;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

pub(super) fn write(release: &Release) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-musl"]);
    let metadata = tool::output(cargo.current_dir(release.workspace.root())).context("list the dependencies")?;
    let metadata: Value = serde_json::from_str(&metadata).context("read cargo's metadata")?;
    let lock = std::fs::read_to_string(release.workspace.root().join("Cargo.lock")).context("read Cargo.lock")?;
    let text = serde_json::to_string_pretty(&bill(release, &metadata, &checksums(&lock))?)?;
    release.write(&format!("oxkeeper-{}.cdx.json", release.version), text.as_bytes()).map(drop)
}

/// The checksums of `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) = (field("name"), field("version"), field("checksum")) {
            found.insert((name, version), checksum);
        }
    }
    found
}

fn bill(release: &Release, metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(metadata, "packages").into_iter().map(|package| (id(&package), package)).collect();
    let nodes: BTreeMap<String, Vec<String>> =
        list(&metadata["resolve"], "nodes").iter().map(|node| (id(node), linked(node))).collect();
    let root = packages.iter().find(|(_, package)| package["name"] == "oxkeeper").context("there is no oxkeeper")?.0;
    let (mut reached, mut pending) = (BTreeSet::new(), vec![root.clone()]);
    while let Some(next) = pending.pop() {
        if reached.insert(next.clone()) {
            pending.extend(nodes.get(&next).into_iter().flatten().cloned());
        }
    }
    let reference = |id: &String| package_url(&packages[id]);
    let components: Vec<Value> =
        reached.iter().filter(|id| *id != root).map(|id| component(&packages[id], checksums)).collect();
    let dependencies: Vec<Value> = reached
        .iter()
        .map(
            |id| json!({ "ref": reference(id), "dependsOn": nodes[id].iter().map(reference).collect::<BTreeSet<_>>() }),
        )
        .collect();
    let time = jiff::Timestamp::from_second(i64::try_from(release.seconds)?)?.to_string();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": component(&packages[root], checksums),
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The packages whose code a package links: neither test nor build dependencies.
fn linked(node: &Value) -> Vec<String> {
    let dependencies = node["deps"].as_array().cloned().unwrap_or_default();
    let is_normal = |dependency: &Value| {
        dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let linked = dependencies.iter().filter(|dependency| is_normal(dependency));
    linked.filter_map(|dependency| dependency["pkg"].as_str().map(str::to_owned)).collect()
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let (name, version, url) = (text("name"), text("version"), package_url(package));
    let kind = if name == "oxkeeper" { "application" } else { "library" };
    let mut component = json!({
        "type": kind,
        "bom-ref": url,
        "purl": url,
        "name": name,
        "version": version,
        "licenses": [{ "expression": text("license").replace('/', " OR ") }],
    });
    if let Some(checksum) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn package_url(package: &Value) -> String {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version").replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_each_locked_package_is_found() {
        let lock = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"bytes\"\n\
             version = \"1.2.3\"\nsource = \"registry\"\nchecksum = \"ab12\"\n";
        let expected = BTreeMap::from([(("bytes".to_owned(), "1.2.3".to_owned()), "ab12".to_owned())]);
        assert_eq!(checksums(lock), expected);
    }

    #[test]
    fn only_code_that_is_linked_counts() {
        let node = json!({ "deps": [
            { "pkg": "normal", "dep_kinds": [{ "kind": null }] },
            { "pkg": "both", "dep_kinds": [{ "kind": "build" }, { "kind": null }] },
            { "pkg": "build", "dep_kinds": [{ "kind": "build" }] },
            { "pkg": "test", "dep_kinds": [{ "kind": "dev" }] },
        ] });
        assert_eq!(linked(&node), ["normal", "both"]);
    }
}
