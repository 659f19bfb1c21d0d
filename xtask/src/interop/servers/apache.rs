//! Apache ZooKeeper from Maven, in the version of `interop/apache/pom.xml`. The jars are stored under `interop/cache`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::interop::tool;
use crate::interop::workspace::Workspace;

const LOGBACK: &str = r#"<configuration>
  <appender name="CONSOLE" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5level [%t] %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="CONSOLE"/></root>
</configuration>
"#;

/// The main class of standalone servers and of members.
pub(crate) const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// Apache computes digests from paths in the platform's encoding, which is ASCII without a locale.
pub(crate) const ENCODING: &str = "-Dfile.encoding=UTF-8";

/// Sufficient for tests. By default the JVM may use a quarter of the machine's memory.
const HEAP: &str = "-Xmx512m";

/// Downloads the jars unless they are in the cache.
pub(crate) fn fetch(workspace: &Workspace) -> Result<()> {
    let pom = workspace.source("apache").join("pom.xml");
    let lib = lib(workspace);
    let stamp = workspace.cache("apache").join("stamp");
    tool::once(&stamp, &[&pom], || {
        if lib.exists() {
            std::fs::remove_dir_all(&lib)?;
        }
        tool::run(
            Command::new("mvn")
                .args(["--batch-mode", "--quiet", "dependency:copy-dependencies"])
                .arg("--file")
                .arg(&pom)
                .arg(format!("-DoutputDirectory={}", lib.display())),
        )
        .context("fetch Apache ZooKeeper")
    })
}

fn lib(workspace: &Workspace) -> PathBuf {
    workspace.cache("apache").join("lib")
}

/// The class path: first a log configuration for warnings, which is written below `dir`, then the jars.
pub(crate) fn class_path(workspace: &Workspace, dir: &Path) -> Result<String> {
    let conf = dir.join("conf");
    std::fs::create_dir_all(&conf)?;
    std::fs::write(conf.join("logback.xml"), LOGBACK).context("write logback.xml")?;
    Ok(format!("{}:{}/*", conf.display(), lib(workspace).display()))
}

/// The command line of a server in the foreground. Warnings are written to standard output.
pub(super) fn argv(workspace: &Workspace) -> Result<Vec<String>> {
    Ok(java(&["-cp", &class_path(workspace, &workspace.cache("apache"))?]))
}

/// Java with the options that all Apache servers share, and those for a version.
pub(super) fn java(options: &[&str]) -> Vec<String> {
    let all = [&["java", HEAP, ENCODING, "{properties}"], options, &[MAIN, "{config}"]].concat();
    all.into_iter().map(str::to_owned).collect()
}
