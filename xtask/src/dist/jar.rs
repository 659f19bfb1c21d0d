//! The Java library with `TestingServer`, built by Maven, and its POM.

use super::{Built, Release};
use crate::interop::tool;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The path of the library.
pub(super) fn path(release: &Release) -> PathBuf {
    release.output.join(format!("{}.jar", name(release)))
}

fn name(release: &Release) -> String {
    format!("oxkeeper-testing-{}", release.version)
}

pub(super) fn write(release: &Release, built: &[Built]) -> Result<()> {
    let pom = release.source("java/pom.xml");
    let description = std::fs::read_to_string(&pom).with_context(|| format!("read {}", pom.display()))?;
    let version = format!("<version>{}</version>", release.version);
    ensure!(description.contains(&version), "{} has another version than the workspace", pom.display());
    let work = release.workspace.target().join("jar");
    let (binaries, build) = (work.join("binaries"), work.join("build"));
    let _ = std::fs::remove_dir_all(&work); // may be missing
    for built in built {
        let directory = binaries.join(built.arch.name());
        std::fs::create_dir_all(&directory)?;
        std::fs::copy(&built.path, directory.join("oxkeeper")).context("copy the binary")?;
    }
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", "package", "--file"]).arg(&pom);
    maven.arg(format!("-Doxkeeper.build={}", build.display()));
    maven.arg(format!("-Doxkeeper.binaries={}", binaries.display()));
    maven.arg(format!("-Dproject.build.outputTimestamp={}", release.seconds));
    tool::run(&mut maven).context("build the library")?;
    let jar = std::fs::read(build.join(format!("{}.jar", name(release)))).context("read the library")?;
    release.write(&format!("{}.jar", name(release)), &jar)?;
    release.write(&format!("{}.pom", name(release)), description.as_bytes()).map(drop)
}
