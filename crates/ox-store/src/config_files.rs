//! The configuration files that reconfigurations write, beside the file that the server was started with.
//!
//! ```text
//! zoo.cfg                      static settings; the last line names the dynamic file
//! zoo.cfg.dynamic.<version>    the committed configuration
//! zoo.cfg.dynamic.next         the proposed configuration, until it is committed
//! zoo.cfg.bak                  zoo.cfg as it was before the members moved to a dynamic file
//! ```
//! Each file is replaced atomically (`atomic_file.rs`), in this order: the new dynamic file, then its name in
//! `zoo.cfg`, then the removal of the proposed configuration. So a restart finds the old configuration together with
//! the proposed one, or the new one (R35).

use crate::atomic_file;
use crate::disk::{Disk, OpenMode, read_full};
use crate::error::{IoContext, StoreError};
use crate::limits::CONFIG_FILE_BYTES_MAX;
use ox_proto::ensemble::{Ensemble, is_member_key};
use ox_proto::{ServerId, properties, text};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The suffix of the file with the proposed configuration.
pub const NEXT: &str = ".dynamic.next";

/// The configuration files of a server.
pub struct ConfigFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    name: String,
    me: ServerId,
}

impl ConfigFiles {
    /// The files beside `path`, the configuration file of server `me`. `None` if the path has no file name.
    pub fn new(disk: Arc<dyn Disk>, path: &Path, me: ServerId) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_owned();
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(Self { disk, dir: dir.to_owned(), name, me })
    }

    /// Saves a copy of the configuration file.
    pub fn back_up(&self) -> Result<(), StoreError> {
        self.replace(&format!("{}.bak", self.name), &self.read()?)
    }

    /// Writes the proposed configuration.
    pub fn save_proposed(&self, ensemble: &Ensemble) -> Result<(), StoreError> {
        self.replace(&self.next_name(), lines(ensemble, true).as_bytes())
    }

    /// Removes the proposed configuration, which will not be committed.
    pub fn remove_proposed(&self) -> Result<(), StoreError> {
        atomic_file::remove(&*self.disk, &self.dir, &self.next_name())
    }

    /// Writes the committed configuration; `proposed` is a newer one, if any.
    pub fn save_committed(&self, ensemble: &Ensemble, proposed: Option<&Ensemble>) -> Result<(), StoreError> {
        let name = format!("{}.dynamic.{:x}", self.name, ensemble.version());
        self.replace(&name, lines(ensemble, false).as_bytes())?;
        let dir = self.disk.canonical(&self.dir).context("find", &self.dir)?;
        let edited = self.edited(ensemble, &dir.join(name))?;
        self.replace(&self.name, &edited)?;
        match proposed {
            Some(proposed) => self.save_proposed(proposed),
            None => self.remove_proposed(),
        }
    }

    /// The configuration file without the settings that moved to the dynamic file, which its last line names.
    fn edited(&self, ensemble: &Ensemble, members: &Path) -> Result<Vec<u8>, StoreError> {
        let publishes_client = ensemble.members().get(&self.me).is_some_and(|mine| mine.client.is_some());
        let is_moved = |key: &str| {
            is_member_key(key)
                || key.starts_with("dynamicConfigFile")
                || key.starts_with("peerType")
                || (publishes_client && key.starts_with("clientPort"))
        };
        let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
        let pairs = properties::parse(&self.read()?).map_err(malformed).context("read", &self.dir.join(&self.name))?;
        let mut kept: Vec<(&str, &str)> = Vec::new();
        for pair in &pairs {
            let key = text::trim(&pair.key);
            kept.retain(|(other, _)| *other != key); // the last value of a key wins
            if !is_moved(key) {
                kept.push((key, text::trim(&pair.value)));
            }
        }
        let members = members.display().to_string();
        kept.push(("dynamicConfigFile", &members));
        Ok(kept.iter().map(|(key, value)| properties::line(key, value)).collect::<String>().into_bytes())
    }

    fn read(&self) -> Result<Vec<u8>, StoreError> {
        let path = self.dir.join(&self.name);
        let file = self.disk.open(&path, OpenMode::Read).context("open", &path)?;
        let length = file.len().context("stat", &path)?.min(CONFIG_FILE_BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let count = read_full(&*file, &mut bytes, 0).context("read", &path)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        atomic_file::replace(&*self.disk, None, &self.dir, name, bytes)
    }

    fn next_name(&self) -> String {
        format!("{}{NEXT}", self.name)
    }
}

/// The sorted lines of the configuration, without a newline at the end.
fn lines(ensemble: &Ensemble, with_version: bool) -> String {
    let text = ensemble.to_string();
    let mut lines: Vec<&str> = text.lines().filter(|line| with_version || !line.starts_with("version=")).collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;
    use ox_proto::ensemble::Addresses;

    const CFG: &str = "/conf/zoo.cfg";
    const STATIC: &str = "# servers\ntickTime=2000\nserver.1=a:1:2;5\nserver.10=b:1:2;5\nclientPort=5\npeerType=observer\n\
                          path=C:\\\\data\ntickTime=3000\ngroup.1=1\n";

    fn files() -> (SimDisk, ConfigFiles) {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/conf")).unwrap();
        disk.install(Path::new(CFG), STATIC.as_bytes());
        let files = ConfigFiles::new(Arc::new(disk.clone()), Path::new(CFG), ServerId(1)).unwrap();
        (disk, files)
    }

    fn ensemble(version: i64) -> Ensemble {
        let text = format!("server.10=b:1:2;5\nserver.1=a:1:2;5\nserver.2=c:1:2\nversion={version:x}");
        Ensemble::parse(&text, Addresses::One).unwrap()
    }

    fn text(disk: &SimDisk, path: &str) -> Option<String> {
        disk.content(Path::new(path)).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn members_move_to_the_dynamic_file() {
        let (disk, files) = files();
        files.back_up().unwrap();
        files.save_proposed(&ensemble(0x1_0000_0005)).unwrap();
        let members =
            "server.10=b:1:2:participant;0.0.0.0:5\nserver.1=a:1:2:participant;0.0.0.0:5\nserver.2=c:1:2:participant";
        assert_eq!(text(&disk, "/conf/zoo.cfg.dynamic.next").unwrap(), format!("{members}\nversion=100000005"));
        files.save_committed(&ensemble(0x1_0000_0005), None).unwrap();
        assert_eq!(text(&disk, "/conf/zoo.cfg.dynamic.100000005").unwrap(), members);
        let edited = "path=C:\\\\data\ntickTime=3000\ndynamicConfigFile=/conf/zoo.cfg.dynamic.100000005\n";
        assert_eq!(text(&disk, CFG).unwrap(), edited);
        assert_eq!(text(&disk, "/conf/zoo.cfg.bak").unwrap(), STATIC);
        assert_eq!(text(&disk, "/conf/zoo.cfg.dynamic.next"), None);
        files.save_committed(&ensemble(0x2_0000_0000), Some(&ensemble(0x2_0000_0003))).unwrap();
        assert_eq!(text(&disk, CFG).unwrap(), edited.replace("100000005", "200000000"));
        assert!(text(&disk, "/conf/zoo.cfg.dynamic.next").unwrap().ends_with("version=200000003"));
    }

    #[test]
    fn unpublished_client_port_stays_in_the_static_file() {
        let (disk, files) = files();
        let unpublished = Ensemble::parse("server.1=a:1:2\nserver.2=c:1:2\nversion=7", Addresses::One).unwrap();
        files.save_committed(&unpublished, None).unwrap();
        assert!(text(&disk, CFG).unwrap().contains("clientPort=5\n"));
    }

    /// After a power cut at any disk call, the files contain the old configuration with the new one proposed, or the
    /// new one (K104, K105).
    #[test]
    fn k104_k105_power_cut_leaves_the_old_or_the_new_configuration() {
        for call in 0.. {
            let (disk, files) = files();
            files.save_committed(&ensemble(5), None).unwrap();
            files.save_proposed(&ensemble(9)).unwrap();
            disk.set_fault(disk.calls() + call, crate::disk::DiskFault::PowerCut);
            let is_done = files.save_committed(&ensemble(9), None).is_ok();
            disk.clear_faults();
            disk.power_on(crate::disk::KeepUnsynced::Nothing);
            let cfg = text(&disk, CFG).unwrap();
            let named = cfg.lines().last().and_then(|line| line.strip_prefix("dynamicConfigFile=")).unwrap();
            assert!(text(&disk, named).unwrap().starts_with("server.10=b"), "{call}: {named}");
            if named.ends_with(".5") {
                assert!(!is_done, "{call}");
                assert!(text(&disk, "/conf/zoo.cfg.dynamic.next").unwrap().ends_with("version=9"), "{call}");
            } else {
                assert!(named.ends_with(".9"), "{call}: {named}");
            }
            if is_done {
                break;
            }
        }
    }
}
