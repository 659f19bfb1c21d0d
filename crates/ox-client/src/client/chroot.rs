//! Paths of the application and paths of the server.

use super::{Client, Shared};
use crate::error::{Error, ErrorKind};
use std::borrow::Cow;

/// Whether a chroot is one, and how it is kept: empty for the root.
pub(crate) fn chroot(path: &str) -> Result<String, Error> {
    let path = path.trim_end_matches('/');
    let is_valid = path.is_empty() || (path.starts_with('/') && path.split('/').skip(1).all(|name| !name.is_empty()));
    if !is_valid {
        return Err(Error::early("connect", Some(path), ErrorKind::InvalidPath));
    }
    Ok(path.to_owned())
}

impl Shared {
    /// A path of the server as the application knows it.
    pub(crate) fn outer(&self, path: String) -> String {
        if self.chroot.is_empty() {
            return path;
        }
        match path.strip_prefix(&self.chroot) {
            Some("") => "/".to_owned(),
            Some(below) if below.starts_with('/') => below.to_owned(),
            _ => path,
        }
    }
}

impl Client {
    /// A path of the application as the server knows it.
    pub(crate) fn inner<'a>(&self, op: &'static str, path: &'a str) -> Result<Cow<'a, str>, Error> {
        if !path.starts_with('/') {
            return Err(Error::early(op, Some(path), ErrorKind::InvalidPath));
        }
        let chroot = &self.shared().chroot;
        Ok(match (chroot.is_empty(), path) {
            (true, _) => Cow::Borrowed(path),
            (false, "/") => Cow::Owned(chroot.clone()),
            (false, _) => Cow::Owned(format!("{chroot}{path}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chroots() {
        assert_eq!(chroot("").unwrap(), "");
        assert_eq!(chroot("/").unwrap(), "");
        assert_eq!(chroot("/a/b/").unwrap(), "/a/b");
        assert!(chroot("a").is_err() && chroot("/a//b").is_err());
    }
}
