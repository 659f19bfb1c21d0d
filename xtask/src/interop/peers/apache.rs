//! Apache ZooKeeper from Maven, the version of `interop/apache/pom.xml`: one folder of jars under `interop/cache`.

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

/// The folder of jars.
pub(crate) fn lib(workspace: &Workspace) -> PathBuf {
    workspace.cache("apache").join("lib")
}

/// The command that runs a server in the foreground; warnings go to its standard output.
pub(super) fn command(
    workspace: &Workspace,
    dir: &Path,
    config: &Path,
    jvm_flags: &[String],
    properties: &[(String, String)],
) -> Result<Command> {
    let conf = dir.join("conf");
    std::fs::create_dir_all(&conf)?;
    std::fs::write(conf.join("logback.xml"), LOGBACK).context("write logback.xml")?;
    let mut command = Command::new("java");
    command
        .args(jvm_flags)
        .args(properties.iter().map(|(name, value)| format!("-D{name}={value}")))
        .arg("-cp")
        .arg(format!("{}:{}/*", conf.display(), lib(workspace).display()))
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(config);
    Ok(command)
}
