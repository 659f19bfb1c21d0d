//! What weakens the protection of a server (S2, S3, S20): settings, the user that it runs as, and files that other users
//! can access. Each is one line of the log at start, and `weak_settings` counts them.

use ox_config::{Config, weak_settings};
use ox_store::StoreError;
use ox_store::names::VERSION_DIR;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Permission bits of the group and of others.
const OF_OTHERS: u32 = 0o077;
/// The group of a file of another user may read it: that is how the server does, for example secrets of Kubernetes.
const GROUP_READ: u32 = 0o040;

/// Logs each weakness, and returns their number.
pub(crate) fn report(config: &Config) -> u64 {
    let mut count = 0;
    for weak in weak_settings(config) {
        count += 1;
        if weak.is_default {
            tracing::info!(setting = weak.key, problem = weak.text, "weak protection");
        } else {
            tracing::warn!(setting = weak.key, problem = weak.text, "weak protection");
        }
    }
    if rustix::process::geteuid().is_root() {
        count += 1;
        tracing::warn!(problem = "the server runs as root: use an account of its own", "weak protection");
    }
    for path in open_paths(config) {
        count += 1;
        let file = path.display();
        tracing::warn!(%file, problem = "other users can access it: chmod go-rwx", "weak protection");
    }
    count
}

/// Data directories and files with secrets that other users can access.
fn open_paths(config: &Config) -> Vec<PathBuf> {
    let mut paths = data_dirs(config);
    let of_clients = config.tls.as_ref().map(|tls| &tls.keys);
    let of_servers = config.member.as_ref().and_then(|member| member.tls.as_ref()).map(|tls| &tls.keys);
    for keys in [of_clients, of_servers].into_iter().flatten() {
        let files = [&keys.key_store.location, &keys.key_store.password_path, &keys.trust_store.password_path];
        paths.extend(files.into_iter().flatten().cloned());
    }
    let of_servers = config.member.as_ref().and_then(|member| member.sasl.as_ref());
    paths.extend(config.sasl.jaas_file.clone());
    paths.extend(of_servers.and_then(|sasl| sasl.jaas_file.clone()));
    paths.sort();
    paths.dedup();
    paths.retain(|path| is_open(path));
    paths
}

pub(crate) fn is_open(path: &Path) -> bool {
    let is_own = |uid| uid == rustix::process::geteuid().as_raw();
    fs::metadata(path).is_ok_and(|metadata| is_open_mode(metadata.mode(), is_own(metadata.uid())))
}

fn is_open_mode(mode: u32, is_own: bool) -> bool {
    mode & if is_own { OF_OTHERS } else { OF_OTHERS & !GROUP_READ } != 0
}

fn data_dirs(config: &Config) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = [&config.data_dir, &config.data_log_dir].map(|dir| dir.join(VERSION_DIR)).into();
    dirs.dedup();
    dirs
}

/// A symbolic link among the logs and snapshots, which would be followed out of the data directory. The directory
/// itself may be one.
pub(crate) fn find_link(config: &Config) -> Result<Option<PathBuf>, StoreError> {
    for dir in data_dirs(config) {
        let unusable = |source| StoreError::UnusableDirectory { path: dir.clone(), source };
        let entries = match fs::read_dir(&dir) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            entries => entries.map_err(unusable)?,
        };
        for entry in entries {
            let entry = entry.map_err(unusable)?;
            if entry.file_type().map_err(unusable)?.is_symlink() {
                return Ok(Some(entry.path()));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn config_in(dir: &Path) -> Config {
        let (data_dir, data_log_dir) = (dir.to_owned(), dir.to_owned());
        Config { data_dir, data_log_dir, ..Config::default_standalone() }
    }

    #[test]
    fn s20_open_directories_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join(VERSION_DIR);
        let config = config_in(dir.path());
        assert!(open_paths(&config).is_empty(), "it does not exist");
        fs::create_dir(&data).unwrap();
        for (mode, expected) in [(0o700, 0), (0o750, 1), (0o701, 1)] {
            fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open_paths(&config).len(), expected, "{mode:o}");
        }
    }

    #[test]
    fn s20_group_may_read_a_file_of_another_user() {
        for (mode, of_own, of_other) in
            [(0o600, false, false), (0o440, true, false), (0o460, true, true), (0o444, true, true)]
        {
            assert_eq!((is_open_mode(mode, true), is_open_mode(mode, false)), (of_own, of_other), "{mode:o}");
        }
    }

    #[test]
    fn s20_links_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let config = config_in(dir.path());
        assert_eq!(find_link(&config).unwrap(), None);
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        symlink("elsewhere", dir.path().join(VERSION_DIR)).unwrap();
        assert_eq!(find_link(&config).unwrap(), None, "the directory may be a link");
        let link = dir.path().join(VERSION_DIR).join("log.1");
        symlink("/etc/passwd", &link).unwrap();
        assert_eq!(find_link(&config).unwrap(), Some(link));
    }

    #[test]
    fn unreadable_directory_is_named_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        // A loop of links cannot be read by root either.
        symlink(VERSION_DIR, dir.path().join(VERSION_DIR)).unwrap();
        let error = find_link(&config_in(dir.path())).unwrap_err();
        assert!(error.to_string().contains(&dir.path().join(VERSION_DIR).display().to_string()), "{error}");
        assert_eq!((error.exit_code(), error.remedy().is_some()), (3, true));
    }
}
