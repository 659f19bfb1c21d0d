//! tar in the POSIX format (ustar).

use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const BLOCK: usize = 512;
/// Longest name, and longest directory in front of it.
const NAME_MAX: usize = 100;
const PREFIX_MAX: usize = 155;

/// User and group ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) u32);

impl Owner {
    pub(crate) const ROOT: Self = Self(0);
}

#[derive(Clone, Debug)]
enum Kind {
    File(Vec<u8>),
    Directory,
    Link(String),
}

/// A file, directory or symbolic link. Its path has neither a leading nor a trailing slash.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) path: String,
    mode: u32,
    owner: Owner,
    kind: Kind,
}

impl Entry {
    pub(crate) fn file(path: impl Into<String>, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, owner: Owner::ROOT, kind: Kind::File(content.into()) }
    }

    /// A file of the disk, which must be executable or not as `mode` says by itself.
    pub(crate) fn from_disk(path: impl Into<String>, source: &Path) -> Result<Self> {
        let content = std::fs::read(source).with_context(|| format!("read {}", source.display()))?;
        let is_executable = source.metadata()?.permissions().mode() & 0o111 != 0;
        Ok(Self::file(path, if is_executable { 0o755 } else { 0o644 }, content))
    }

    pub(crate) fn directory(path: impl Into<String>, mode: u32, owner: Owner) -> Self {
        Self { path: path.into(), mode, owner, kind: Kind::Directory }
    }

    pub(crate) fn link(path: impl Into<String>, target: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o777, owner: Owner::ROOT, kind: Kind::Link(target.into()) }
    }

    /// The content of a file.
    pub(crate) fn content(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::File(content) => Some(content),
            Kind::Directory | Kind::Link(_) => None,
        }
    }
}

/// An archive of the entries and of the directories above them, sorted by path. `prefix` is in front of every path.
pub(crate) fn tar(prefix: &str, entries: &[Entry], seconds: u64) -> Result<Vec<u8>> {
    let mut all = with_parents(entries);
    all.sort_by(|a, b| a.path.cmp(&b.path));
    for pair in all.windows(2) {
        ensure!(pair[0].path != pair[1].path, "two entries of the archive are {}", pair[0].path);
    }
    let mut out = Vec::new();
    for entry in &all {
        put(&mut out, prefix, entry, seconds).with_context(|| format!("archive {}", entry.path))?;
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    Ok(out)
}

fn with_parents(entries: &[Entry]) -> Vec<Entry> {
    let mut all = entries.to_vec();
    for entry in entries {
        let mut path = entry.path.as_str();
        while let Some((parent, _)) = path.rsplit_once('/') {
            if all.iter().all(|known| known.path != parent) {
                all.push(Entry::directory(parent, 0o755, Owner::ROOT));
            }
            path = parent;
        }
    }
    all
}

fn put(out: &mut Vec<u8>, prefix: &str, entry: &Entry, seconds: u64) -> Result<()> {
    let (flag, content, target): (u8, &[u8], &str) = match &entry.kind {
        Kind::File(content) => (b'0', content, ""),
        Kind::Directory => (b'5', &[], ""),
        Kind::Link(target) => (b'2', &[], target),
    };
    let slash = if flag == b'5' { "/" } else { "" };
    let path = format!("{prefix}{}{slash}", entry.path);
    let (directory, name) = split(&path)?;
    ensure!(target.len() <= NAME_MAX, "the target of the link is longer than {NAME_MAX} bytes");
    let size = u64::try_from(content.len())?;
    let mut header = [0; BLOCK];
    text(&mut header[0..100], name);
    octal(&mut header[100..108], entry.mode.into());
    octal(&mut header[108..116], entry.owner.0.into());
    octal(&mut header[116..124], entry.owner.0.into());
    octal(&mut header[124..136], size);
    octal(&mut header[136..148], seconds);
    header[156] = flag;
    text(&mut header[157..257], target);
    header[257..265].copy_from_slice(b"ustar\x0000");
    text(&mut header[345..500], directory);
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut header[148..155], sum);
    out.extend_from_slice(&header);
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    Ok(())
}

/// Splits a path that is too long for the name field at a slash.
fn split(path: &str) -> Result<(&str, &str)> {
    if path.len() <= NAME_MAX {
        return Ok(("", path));
    }
    let at = path.char_indices().find(|(at, c)| *c == '/' && path.len() - at - 1 <= NAME_MAX).map(|(at, _)| at);
    let at = at.filter(|at| *at <= PREFIX_MAX && at + 1 < path.len()).context("the path is too long for tar")?;
    Ok((&path[..at], &path[at + 1..]))
}

fn text(field: &mut [u8], value: &str) {
    field[..value.len()].copy_from_slice(value.as_bytes());
}

/// An octal number that fills the field, up to a final zero byte.
fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    text(&mut field[..digits], &format!("{value:0digits$o}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// What the system's tar lists.
    fn listed(archive: &[u8]) -> Vec<String> {
        let mut command = Command::new("tar");
        command.args(["--list", "--verbose", "--numeric-owner", "--file", "-"]).env("TZ", "UTC");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(archive).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        String::from_utf8(output.stdout).unwrap().lines().map(squeeze).collect()
    }

    #[test]
    fn archive_is_sorted_and_complete() {
        let entries = [
            Entry::link("usr/bin/zkCli.sh", "oxkeeper"),
            Entry::file("usr/bin/oxkeeper", 0o755, *b"binary"),
            Entry::directory("data", 0o750, Owner(1000)),
        ];
        let archive = tar("./", &entries, 86_400).unwrap();
        assert_eq!(archive.len() % BLOCK, 0);
        assert_eq!(
            listed(&archive),
            [
                "drwxr-x--- 1000/1000 0 1970-01-02 00:00 ./data/",
                "drwxr-xr-x 0/0 0 1970-01-02 00:00 ./usr/",
                "drwxr-xr-x 0/0 0 1970-01-02 00:00 ./usr/bin/",
                "-rwxr-xr-x 0/0 6 1970-01-02 00:00 ./usr/bin/oxkeeper",
                "lrwxrwxrwx 0/0 0 1970-01-02 00:00 ./usr/bin/zkCli.sh -> oxkeeper",
            ]
        );
        assert_eq!(archive, tar("./", &entries, 86_400).unwrap());
    }

    #[test]
    fn long_paths_are_split_and_longer_ones_refused() {
        let path = format!("{}/{}", "d".repeat(90), "f".repeat(90));
        let archive = tar("", &[Entry::file(path.clone(), 0o644, *b"x")], 0).unwrap();
        assert!(listed(&archive)[1].ends_with(&path));
        let error = tar("", &[Entry::file("f".repeat(101), 0o644, *b"x")], 0).unwrap_err();
        assert!(format!("{error:#}").ends_with("the path is too long for tar"), "{error:#}");
    }

    #[test]
    fn entry_that_is_given_twice_is_an_error() {
        let entry = Entry::file("a", 0o644, *b"x");
        assert!(tar("", &[entry.clone(), entry], 0).is_err());
    }
}
