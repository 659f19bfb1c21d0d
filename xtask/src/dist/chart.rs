//! The Helm chart, packed as `helm package` does.

use super::Release;
use super::archive::{Entry, gzip, tar};
use anyhow::{Result, ensure};

pub(super) fn write(release: &Release) -> Result<()> {
    let directory = release.source("helm/oxkeeper");
    let description = std::fs::read_to_string(directory.join("Chart.yaml"))?;
    for line in [format!("version: {}", release.version), format!("appVersion: \"{}\"", release.version)] {
        ensure!(description.lines().any(|found| found == line), "Chart.yaml has no line `{line}`");
    }
    let mut entries = Vec::new();
    for file in super::files_below(&directory)? {
        entries.push(Entry::from_disk(file.display().to_string(), &directory.join(&file))?);
    }
    let archive = gzip(&tar("oxkeeper/", &entries, release.seconds)?)?;
    release.write(&format!("oxkeeper-{}.tgz", release.version), &archive).map(drop)
}
