//! The container image: an OCI layout with one layer, which contains the binary and nothing that runs besides it.
//!
//! ```text
//! oci-layout
//! index.json ── one manifest, or an index of one manifest per architecture
//! blobs/sha256/<digest> ── manifest ──> config, layer (tar, gzip)
//! ```
//!
//! Paths, user, volumes, ports, variables and commands are those of the official `zookeeper` image.

use super::archive::{Entry, Owner, gzip, tar};
use super::checksums::hex;
use super::deb::SCRIPTS;
use super::{Built, Release};
use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The installation directory of the official image of the version that this server is compatible with.
const HOME: &str = "apache-zookeeper-3.9.3-bin";
/// User and group `zookeeper` of the official image.
const USER: Owner = Owner(1000);
/// Directories of the user; those below `VOLUMES` survive the container.
const DIRECTORIES: [&str; 4] = ["conf", "data", "datalog", "logs"];
const VOLUMES: [&str; 3] = ["/data", "/datalog", "/logs"];
/// Clients, followers, elections, AdminServer.
const PORTS: [u16; 4] = [2181, 2888, 3888, 8080];

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The path of the image's archive.
pub(super) fn path(release: &Release) -> PathBuf {
    release.output.join(name(release))
}

fn name(release: &Release) -> String {
    format!("oxkeeper-{}-image.tar", release.version)
}

pub(super) fn write(release: &Release, built: &[Built]) -> Result<()> {
    let mut layout = Layout::default();
    let mut manifests = Vec::new();
    for built in built {
        manifests.push(layout.add_image(release, built)?);
    }
    let mut root = match <[Value; 1]>::try_from(manifests) {
        Ok([manifest]) => manifest,
        Err(manifests) => layout.add_json(INDEX, &index(&manifests)),
    };
    root["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    layout.entries.push(Entry::file("index.json", 0o644, index(&[root]).to_string()));
    layout.entries.push(Entry::file("oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string()));
    release.write(&name(release), &tar("", &layout.entries, release.seconds)?).map(drop)
}

fn index(manifests: &[Value]) -> Value {
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests })
}

/// The files of a layout.
#[derive(Default)]
struct Layout {
    entries: Vec<Entry>,
}

impl Layout {
    /// Adds a blob, and returns its descriptor.
    fn add(&mut self, media_type: &str, content: Vec<u8>) -> Value {
        let (digest, size) = (hex(&content), content.len());
        self.entries.push(Entry::file(format!("blobs/sha256/{digest}"), 0o644, content));
        json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size })
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().into_bytes())
    }

    /// Adds the image of one architecture, and returns the descriptor of its manifest.
    fn add_image(&mut self, release: &Release, built: &Built) -> Result<Value> {
        let layer = tar("", &root_files(release, built)?, release.seconds)?;
        let config = config(release, built, &hex(&layer))?;
        let layer = self.add("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&layer)?);
        let config = self.add_json("application/vnd.oci.image.config.v1+json", &config);
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
        let mut descriptor = self.add_json(MANIFEST, &manifest);
        descriptor["platform"] = json!({ "os": "linux", "architecture": built.arch.debian() });
        Ok(descriptor)
    }
}

fn root_files(release: &Release, built: &Built) -> Result<Vec<Entry>> {
    let mut files = vec![
        Entry::file("usr/bin/oxkeeper", 0o755, built.read()?),
        Entry::link("docker-entrypoint.sh", "usr/bin/oxkeeper"),
        Entry::link(format!("{HOME}/conf"), "../conf"),
        Entry::from_disk("usr/share/doc/oxkeeper/LICENSE", &release.workspace.root().join("LICENSE"))?,
        Entry::file("etc/passwd", 0o644, "root:x:0:0:root:/:\nzookeeper:x:1000:1000::/home/zookeeper:\n"),
        Entry::file("etc/group", 0o644, "root:x:0:\nzookeeper:x:1000:\n"),
        Entry::directory("home/zookeeper", 0o755, USER),
        Entry::directory("tmp", 0o1777, Owner::ROOT),
        Entry::directory("proc", 0o555, Owner::ROOT),
    ];
    files.extend(SCRIPTS.map(|script| Entry::link(format!("{HOME}/bin/{script}"), "../../usr/bin/oxkeeper")));
    files.extend(DIRECTORIES.map(|directory| Entry::directory(directory, 0o755, USER)));
    Ok(files)
}

fn config(release: &Release, built: &Built, layer: &str) -> Result<Value> {
    let set = |keys: &[String]| keys.iter().map(|key| (key.clone(), json!({}))).collect::<serde_json::Map<_, _>>();
    let created = Timestamp::from_second(i64::try_from(release.seconds)?)?.to_string();
    Ok(json!({
        "created": created,
        "architecture": built.arch.debian(),
        "os": "linux",
        "config": {
            "User": format!("{0}:{0}", USER.0),
            "ExposedPorts": set(&PORTS.map(|port| format!("{port}/tcp"))),
            "Env": [
                format!("PATH=/{HOME}/bin:/usr/bin"),
                "ZOO_CONF_DIR=/conf",
                "ZOO_DATA_DIR=/data",
                "ZOO_DATA_LOG_DIR=/datalog",
                "ZOO_LOG_DIR=/logs",
                "ZOOCFGDIR=/conf",
            ],
            "Entrypoint": ["/docker-entrypoint.sh"],
            "Cmd": ["zkServer.sh", "start-foreground"],
            "Volumes": set(&VOLUMES.map(str::to_owned)),
            "WorkingDir": format!("/{HOME}"),
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "oxkeeper",
                "org.opencontainers.image.description": env!("CARGO_PKG_DESCRIPTION"),
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    }))
}
