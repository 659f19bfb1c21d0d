//! The hand-written scenarios, one file per subject of the protocol.

use crate::intended_differences;
use crate::script::Script;
use anyhow::{Context as _, Result, ensure};

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../scenarios/", $name, ".txt")))),*];
    };
}

scenarios![
    "acl",
    "auth",
    "enforced-auth",
    "ephemerals",
    "eventacl",
    "flags",
    "frames",
    "handshake",
    "malformed",
    "multi",
    "multi-spoilt",
    "multiread",
    "nulls",
    "order",
    "ours-deadly",
    "ours-internal",
    "ours-rearm",
    "ours-usage",
    "paths",
    "pipeline",
    "quota",
    "quota-enforced",
    "rearm",
    "removewatches",
    "sequence",
    "sessions",
    "stat",
    "super",
    "timers",
    "watches",
    "xids"
];

/// All scenarios, parsed and checked.
pub fn scenarios() -> Result<Vec<Script>> {
    FILES.iter().map(|(name, text)| parse(name, text)).collect()
}

/// Parses a scenario and refuses requests that Apache must not get.
pub fn parse(name: &str, text: &str) -> Result<Script> {
    let script = Script::parse(name, text)?;
    for line in script.batches.iter().flat_map(|batch| &batch.0) {
        if !script.ours_only {
            let unfit = intended_differences::unfit_for_apache(line);
            ensure!(unfit.is_none(), "{name}: {line}: {}", unfit.unwrap_or_default());
        }
    }
    Ok(script)
}

/// The scenarios for `profile`: those that name it, and those that name none if the profile is a general one.
pub fn for_profile(profile: &crate::profile::Profile, ours_only: bool) -> Result<Vec<Script>> {
    let mut scripts = scenarios().context("parse the scenarios")?;
    scripts.retain(|script| {
        let named = script.profiles.iter().any(|name| name == profile.name);
        script.ours_only == ours_only && (named || (script.profiles.is_empty() && profile.general))
    });
    Ok(scripts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use std::path::Path;

    #[test]
    fn every_scenario_file_is_listed_and_parses() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        let mut listed: Vec<_> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        listed.sort();
        assert_eq!(files, listed);
        for script in scenarios().unwrap() {
            assert!(!script.is_empty(), "{}", script.title);
            assert!(script.profiles.iter().all(|name| Profile::named(name).is_some()), "{}", script.title);
        }
    }

    #[test]
    fn intended_differences_name_existing_scenarios() {
        let scripts = scenarios().unwrap();
        for intended in intended_differences::INTENDED {
            if let Some(name) = intended.pinned_by.split([';', ' ']).next().filter(|name| name.starts_with("ours-")) {
                assert!(scripts.iter().any(|script| script.ours_only && script.title == name), "{}", intended.what);
            }
        }
    }
}
