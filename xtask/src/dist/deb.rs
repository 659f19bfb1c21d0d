//! The Debian package: an `ar` archive of `control.tar.gz` and `data.tar.gz`.

use super::archive::{Entry, ar, gzip, tar};
use super::{Built, Release, assets};
use anyhow::{Context, Result};
use md5::{Digest, Md5};
use std::fmt::Write;
use std::path::PathBuf;

/// Files that an administrator changes; dpkg keeps the changes.
const CONF_FILES: [(&str, &str); 2] =
    [("etc/oxkeeper/zoo.cfg", "zoo.cfg"), ("etc/default/oxkeeper", "oxkeeper.default")];
/// The names of ZooKeeper's scripts, which the binary answers to.
pub(super) const SCRIPTS: [&str; 8] = [
    "zkCleanup.sh",
    "zkCli.sh",
    "zkServer-initialize.sh",
    "zkServer.sh",
    "zkSnapShotToolkit.sh",
    "zkSnapshotComparer.sh",
    "zkSnapshotRecursiveSummaryToolkit.sh",
    "zkTxnLogToolkit.sh",
];

/// The path of the package.
pub(super) fn path(release: &Release, built: &Built) -> PathBuf {
    release.output.join(name(release, built))
}

fn name(release: &Release, built: &Built) -> String {
    format!("oxkeeper_{}_{}.deb", release.version, built.arch.debian())
}

pub(super) fn write(release: &Release, built: &Built) -> Result<()> {
    let files = files(release, built)?;
    let data = gzip(&tar("./", &files, release.seconds)?)?;
    let control = gzip(&tar("./", &control(release, built, &files)?, release.seconds)?)?;
    let members: [(&str, &[u8]); 3] =
        [("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)];
    release.write(&name(release, built), &ar(&members, release.seconds)).map(drop)
}

/// The files that are installed.
fn files(release: &Release, built: &Built) -> Result<Vec<Entry>> {
    let root = release.workspace.root();
    let text = |path: &str, source: &str| -> Result<Entry> {
        Ok(Entry::file(path, 0o644, release.text(&format!("debian/{source}"))?))
    };
    let mut files = vec![
        Entry::file("usr/bin/oxkeeper", 0o755, built.read()?),
        text("usr/lib/systemd/system/oxkeeper.service", "oxkeeper.service")?,
        Entry::link("usr/share/oxkeeper/conf", "/etc/oxkeeper"),
        Entry::link("usr/share/oxkeeper/logs", "/var/log/oxkeeper"),
        text("usr/share/doc/oxkeeper/copyright", "copyright")?,
    ];
    for (path, source) in CONF_FILES {
        files.push(text(path, source)?);
    }
    // The directory of scripts has siblings `conf` and `logs`, as in an installation of ZooKeeper.
    for script in SCRIPTS {
        files.push(Entry::link(format!("usr/share/oxkeeper/bin/{script}"), "../../../bin/oxkeeper"));
    }
    let assets = assets::generate(release, built)?;
    for (name, page) in &assets.man {
        files.push(Entry::file(format!("usr/share/man/man1/{name}.gz"), 0o644, gzip(page)?));
    }
    for completion in &assets.completions {
        files.push(Entry::file(completion.path("usr/share"), 0o644, completion.text.clone()));
    }
    let changes = std::fs::read(root.join("CHANGELOG.md")).context("read CHANGELOG.md")?;
    files.push(Entry::file("usr/share/doc/oxkeeper/changelog.gz", 0o644, gzip(&changes)?));
    Ok(files)
}

/// The description of the package, and the scripts that dpkg runs.
fn control(release: &Release, built: &Built, files: &[Entry]) -> Result<Vec<Entry>> {
    let bytes: usize = files.iter().filter_map(Entry::content).map(<[u8]>::len).sum();
    let control = release.text("debian/control")?;
    let control = control.replace("@ARCH@", built.arch.debian()).replace("@SIZE@", &bytes.div_ceil(1024).to_string());
    let mut sums = String::new();
    for file in files {
        if let Some(content) = file.content().filter(|_| CONF_FILES.iter().all(|(path, _)| *path != file.path)) {
            let digest = Md5::digest(content).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
            let _ = writeln!(sums, "{digest}  {}", file.path); // a String accepts everything
        }
    }
    let conf_files = CONF_FILES.iter().fold(String::new(), |text, (path, _)| text + "/" + path + "\n");
    let mut entries = vec![
        Entry::file("control", 0o644, control),
        Entry::file("conffiles", 0o644, conf_files),
        Entry::file("md5sums", 0o644, sums),
    ];
    for script in ["postinst", "prerm", "postrm"] {
        entries.push(Entry::file(script, 0o755, release.text(&format!("debian/{script}"))?));
    }
    Ok(entries)
}
