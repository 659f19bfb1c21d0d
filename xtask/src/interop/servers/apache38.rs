//! Apache ZooKeeper 3.8 from Debian's packages, which are unpacked into `interop/cache` and not installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::apache;
use crate::interop::tool;
use crate::interop::workspace::Workspace;

/// The packages, and the jars of each that a server without TLS and AdminServer needs.
const JARS: [(&str, &[&str]); 10] = [
    ("libzookeeper-java", &["zookeeper", "zookeeper-jute"]),
    ("libslf4j-java", &["slf4j-api", "slf4j-simple"]),
    ("libdropwizard-metrics-java", &["metrics-core"]),
    ("libcommons-cli-java", &["commons-cli"]),
    ("libcommons-io-java", &["commons-io"]),
    ("libjackson2-annotations-java", &["jackson-annotations"]),
    ("libjackson2-core-java", &["jackson-core"]),
    ("libjackson2-databind-java", &["jackson-databind"]),
    ("libsnappy-java", &["snappy-java"]),
    (
        "libnetty-java",
        &["netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport"],
    ),
];

/// The expected version, compared with the file name of the jar.
const VERSION: &str = "3.8";

const LOG_LEVEL: &str = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn";
const LOG_TIME: &str = "-Dorg.slf4j.simpleLogger.showDateTime=true";

/// Downloads the jars unless they are in the cache.
pub(super) fn fetch(workspace: &Workspace) -> Result<()> {
    let cache = workspace.cache("debian");
    // A cache that was made from a different list is made again.
    let list = cache.join("list");
    fs::create_dir_all(&cache)?;
    fs::write(&list, format!("{JARS:?}"))?;
    tool::once(&cache.join("stamp"), &[&list], || {
        fill(&cache).with_context(|| {
            format!("fetch Apache ZooKeeper {VERSION} from Debian's packages\nhint: `apt-get update` needs root")
        })
    })
}

fn fill(cache: &Path) -> Result<()> {
    let (packages, lib) = (cache.join("packages"), cache.join("lib"));
    for old in [&packages, &lib] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
        fs::create_dir_all(old)?;
    }
    let names = JARS.map(|(package, _)| package);
    let download = || tool::run(Command::new("apt-get").arg("download").args(names).current_dir(&packages));
    if download().is_err() {
        // The package lists may be outdated or missing.
        tool::run(Command::new("apt-get").arg("update"))?;
        download()?;
    }
    for package in fs::read_dir(&packages)? {
        let path = package?.path();
        tool::run(Command::new("dpkg-deb").arg("--extract").arg(path).arg(packages.join("root")))?;
    }
    let java = packages.join("root/usr/share/java");
    for jar in JARS.iter().flat_map(|(_, jars)| *jars) {
        let name = format!("{jar}.jar");
        fs::copy(java.join(&name), lib.join(&name)).with_context(|| format!("copy {name}"))?;
    }
    let version = file_with_prefix(&java, "zookeeper-3")?;
    ensure!(version.starts_with(&format!("zookeeper-{VERSION}.")), "Debian has {version} instead of {VERSION}");
    fs::remove_dir_all(&packages).context("remove the unpacked packages")
}

fn file_with_prefix(dir: &Path, prefix: &str) -> Result<String> {
    let mut names = fs::read_dir(dir)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.find(|name| name.starts_with(prefix)).with_context(|| format!("no file {prefix}* in {}", dir.display()))
}

/// The command line of a server in the foreground. Warnings are written to standard error.
pub(super) fn argv(workspace: &Workspace) -> Vec<String> {
    let classes = format!("{}/*", workspace.cache("debian").join("lib").display());
    apache::java(&[LOG_LEVEL, LOG_TIME, "-cp", &classes])
}
