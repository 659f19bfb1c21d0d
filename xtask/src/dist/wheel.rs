//! The Python wheel: the binary as a script, `oxkeeper.Server`, and pytest fixtures.

use super::archive::{ZipMember, zip};
use super::{Built, Release};
use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt::Write;
use std::path::PathBuf;

const ENTRY_POINTS: &str = "[pytest11]\noxkeeper = oxkeeper.pytest_plugin\n";
const MODULES: [&str; 2] = ["__init__.py", "pytest_plugin.py"];

/// The path of the wheel.
pub(super) fn path(release: &Release, built: &Built) -> PathBuf {
    release.output.join(name(release, built))
}

fn name(release: &Release, built: &Built) -> String {
    format!("oxkeeper-{}-py3-none-{}.whl", release.version, tags(built).join("."))
}

/// The systems that the wheel runs on. The binary is static, so every Linux will do; pip has no such tag.
fn tags(built: &Built) -> [String; 2] {
    let arch = built.arch.name();
    [format!("manylinux_2_17_{arch}"), format!("musllinux_1_1_{arch}")]
}

pub(super) fn write(release: &Release, built: &Built) -> Result<()> {
    let info = format!("oxkeeper-{}.dist-info", release.version);
    let mut wheel = "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\n".to_owned();
    for tag in tags(built) {
        let _ = writeln!(wheel, "Tag: py3-none-{tag}"); // a String accepts everything
    }
    let member = |path: String, content: Vec<u8>| ZipMember { path, mode: 0o644, content };
    let mut members = Vec::new();
    for module in MODULES {
        let text = release.text(&format!("python/oxkeeper/{module}"))?;
        members.push(member(format!("oxkeeper/{module}"), text.into_bytes()));
    }
    let script = format!("oxkeeper-{}.data/scripts/oxkeeper", release.version);
    members.push(ZipMember { path: script, mode: 0o755, content: built.read()? });
    members.push(member(format!("{info}/METADATA"), release.text("python/METADATA")?.into_bytes()));
    members.push(member(format!("{info}/WHEEL"), wheel.into_bytes()));
    members.push(member(format!("{info}/entry_points.txt"), ENTRY_POINTS.as_bytes().to_vec()));
    let record = record(&members, &format!("{info}/RECORD"));
    members.push(member(format!("{info}/RECORD"), record.into_bytes()));
    release.write(&name(release, built), &zip(&members)?).map(drop)
}

/// The list of files with their digests, which ends with itself.
fn record(members: &[ZipMember], own: &str) -> String {
    let mut record = String::new();
    for ZipMember { path, content, .. } in members {
        let digest = URL_SAFE_NO_PAD.encode(super::checksums::digest(content));
        let _ = writeln!(record, "{path},sha256={digest},{}", content.len()); // a String accepts everything
    }
    record + own + ",,\n"
}
