//! The files of Kerberos: configuration, keytab, ticket cache.

use ox_sasl::krb5::ccache::CredentialCache;
use ox_sasl::krb5::keytab::Keytab;
use ox_sasl::krb5::krb5_conf::{Include, IncludedFiles, Krb5Conf};
use std::io::Read;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Far more than any of the files needs.
const FILE_BYTES_MAX: usize = 16 << 20;

const KRB5_CONF: &str = "/etc/krb5.conf";
const KEYTAB: &str = "/etc/krb5.keytab";

/// Reads a file of at most `bytes_max` bytes. The error names it.
pub fn read(file: &Path, bytes_max: usize) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(file).map_err(failed)?.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    if bytes_max < bytes.len() {
        return Err(format!("{}: the file is larger than {bytes_max} bytes", file.display()));
    }
    Ok(bytes)
}

/// The configuration: the given file, the one of `KRB5_CONFIG`, or `/etc/krb5.conf`.
pub fn krb5_conf(file: Option<&Path>) -> Result<Krb5Conf, String> {
    let file = file.map(Path::to_owned).or_else(|| std::env::var_os("KRB5_CONFIG").map(PathBuf::from));
    let file = file.unwrap_or_else(|| PathBuf::from(KRB5_CONF));
    let text = text(&file)?;
    Krb5Conf::parse(&file.display().to_string(), &text, &mut include).map_err(|error| error.to_string())
}

/// As [`krb5_conf`], for a server that only accepts tickets: it needs no configuration, so the default file may be missing.
pub fn krb5_conf_of_acceptor(file: Option<&Path>) -> Result<Krb5Conf, String> {
    let is_default = file.is_none() && std::env::var_os("KRB5_CONFIG").is_none();
    if is_default && !Path::new(KRB5_CONF).exists() {
        return Ok(Krb5Conf::default());
    }
    krb5_conf(file)
}

fn text(file: &Path) -> Result<String, String> {
    String::from_utf8(read(file, FILE_BYTES_MAX)?)
        .map_err(|_| format!("{}: the file is not UTF-8 text", file.display()))
}

fn include(include: Include<'_>) -> IncludedFiles {
    let named = |path: PathBuf| Ok((path.display().to_string(), text(&path)?));
    match include {
        Include::File(file) => Ok(vec![named(file.into())?]),
        Include::Directory(directory) => {
            let entries = std::fs::read_dir(directory).map_err(|error| format!("{directory}: {error}"))?;
            let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            files.retain(|file| file.file_name().is_some_and(|name| is_included(&name.to_string_lossy())));
            files.sort();
            files.into_iter().map(named).collect()
        }
    }
}

fn is_included(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    !name.starts_with('.') && (name.ends_with(".conf") || name.chars().all(is_plain))
}

/// The path of a keytab; `None` is the default one.
pub fn keytab_path(name: Option<&str>, conf: &Krb5Conf) -> Result<PathBuf, String> {
    path(name.or(conf.default_keytab_name.as_deref()).unwrap_or(KEYTAB)).map(Path::to_owned)
}

/// Reads a keytab. The error names the file.
pub fn keytab(file: &Path) -> Result<Keytab, String> {
    let bytes = Zeroizing::new(read(file, FILE_BYTES_MAX)?);
    Keytab::parse(&bytes).map_err(|error| format!("{}: {error}", file.display()))
}

/// The ticket cache; `None` is the default one.
pub fn ticket_cache(file: Option<&str>, conf: &Krb5Conf) -> Result<CredentialCache, String> {
    let variable = std::env::var("KRB5CCNAME").ok();
    let uid = uid();
    let default = conf.default_ccache_name.as_deref().map(|name| name.replace("%{uid}", &uid));
    let file = file.map(str::to_owned).or(variable).or(default).unwrap_or_else(|| format!("/tmp/krb5cc_{uid}"));
    let bytes = read(path(&file)?, FILE_BYTES_MAX).map_err(|error| format!("ticket cache {error}; run kinit"))?;
    CredentialCache::parse(&Zeroizing::new(bytes)).map_err(|error| format!("{file}: {error}"))
}

/// The path of a name with an optional type. Types other than files need the library of MIT.
fn path(name: &str) -> Result<&Path, String> {
    match name.split_once(':') {
        Some(("FILE" | "WRFILE", path)) => Ok(Path::new(path)),
        Some((kind, _)) if kind.chars().all(|char| char.is_ascii_uppercase()) => {
            Err(format!("{name}: only files are supported, not the type {kind}; use FILE:PATH"))
        }
        _ => Ok(Path::new(name)),
    }
}

fn uid() -> String {
    #[cfg(unix)]
    let uid = std::fs::metadata("/proc/self").map_or(0, |own| std::os::unix::fs::MetadataExt::uid(&own));
    #[cfg(not(unix))]
    let uid = 0;
    uid.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_types() {
        for (name, expected) in [("FILE:/a", Some("/a")), ("/a", Some("/a")), ("a:b", Some("a:b")), ("KEYRING:x", None)]
        {
            assert_eq!(path(name).ok(), expected.map(Path::new), "{name}");
        }
        for (name, expected) in [("a.conf", true), ("a_b-1", true), ("a.bak", false), (".a.conf", false)] {
            assert_eq!(is_included(name), expected, "{name}");
        }
    }

    #[test]
    fn configuration_includes_directories_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let more = dir.path().join("krb5.conf.d");
        std::fs::create_dir(&more).unwrap();
        std::fs::write(more.join("b"), "[libdefaults]\ndefault_realm = B\n").unwrap();
        std::fs::write(more.join("a"), "[libdefaults]\ndefault_realm = A\n").unwrap();
        std::fs::write(more.join("ignored~"), "nonsense").unwrap();
        let file = dir.path().join("krb5.conf");
        std::fs::write(&file, format!("includedir {}\n", more.display())).unwrap();
        assert_eq!(krb5_conf(Some(&file)).unwrap().default_realm.as_deref(), Some("A"));
        let error = krb5_conf(Some(&dir.path().join("none"))).unwrap_err();
        assert!(error.contains("none: "), "{error}");
    }
}
