//! Translation between paths of the application and of the server, which differ by the chroot.

use super::{Client, Shared};
use crate::error::{Error, ErrorKind};
use std::borrow::Cow;

/// Validates a chroot; the root becomes the empty string.
pub(crate) fn chroot(path: &str) -> Result<String, Error> {
    let path = path.trim_end_matches('/');
    let is_valid = path.is_empty() || (path.starts_with('/') && path.split('/').skip(1).all(|name| !name.is_empty()));
    if !is_valid {
        return Err(Error::early("connect", Some(path), ErrorKind::InvalidPath));
    }
    Ok(path.to_owned())
}

impl Shared {
    /// Strips the chroot from a path of the server.
    pub(crate) fn client_path(&self, path: String) -> String {
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
    /// Validates a path of the application and prefixes it with the chroot.
    pub(crate) fn server_path<'a>(&self, op: &'static str, path: &'a str) -> Result<Cow<'a, str>, Error> {
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
    fn chroot_valid_is_normalised_invalid_is_rejected() {
        assert_eq!(chroot("").unwrap(), "");
        assert_eq!(chroot("/").unwrap(), "");
        assert_eq!(chroot("/a/b/").unwrap(), "/a/b");
        assert!(chroot("a").is_err() && chroot("/a//b").is_err());
    }
}
