//! The chroot: translation between paths of the application and of the server, and a chroot that does not exist.

use super::call::{Call, Kind};
use super::{Client, Shared, put_create};
use crate::error::{Error, ErrorKind};
use crate::path;
use crate::types::CreateOptions;
use ox_proto::jute::Jute;
use ox_proto::request::PathWatch;
use ox_proto::{ErrorCode, OpCode};
use std::borrow::Cow;
use std::sync::atomic::Ordering;

/// Validates a chroot; the root becomes the empty string.
pub(crate) fn chroot(chroot: &str) -> Result<String, Error> {
    let trimmed = chroot.trim_end_matches('/');
    match if trimmed.is_empty() { Ok(()) } else { path::validate(trimmed) } {
        Ok(()) => Ok(trimmed.to_owned()),
        Err(rule) => Err(invalid("connect", chroot, rule)),
    }
}

fn invalid(op: &'static str, path: &str, rule: &'static str) -> Error {
    Error::early(op, Some(path), ErrorKind::InvalidPath).with_detail(rule)
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
        path::validate(path).map_err(|rule| invalid(op, path, rule))?;
        Ok(self.with_chroot(path))
    }

    /// Like [`Client::server_path`] for a new node. A number follows the path of a sequential node, which may therefore
    /// end with a slash.
    pub(crate) fn new_node_path<'a>(&self, path: &'a str, options: &CreateOptions) -> Result<Cow<'a, str>, Error> {
        if !options.mode.is_sequential() {
            return self.server_path("create", path);
        }
        let numbered = if path.is_empty() { String::new() } else { format!("{path}1") };
        path::validate(&numbered).map_err(|rule| invalid("create", path, rule))?;
        Ok(self.with_chroot(path))
    }

    fn with_chroot<'a>(&self, path: &'a str) -> Cow<'a, str> {
        let chroot = &self.shared().chroot;
        match (chroot.is_empty(), path) {
            (true, _) => Cow::Borrowed(path),
            (false, "/") => Cow::Owned(chroot.clone()),
            (false, _) => Cow::Owned(format!("{chroot}{path}")),
        }
    }

    /// Creates the chroot of this client and its missing ancestors, as persistent and empty nodes with the open ACL.
    /// Without a chroot there is nothing to do. [`Builder::create_chroot`](crate::Builder::create_chroot) does it when the
    /// client connects.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// let client = ox_client::Client::connect(&format!("{}/apps/mail", server.address())).await?;
    /// let error = client.children("/").await.unwrap_err();
    /// assert_eq!(error.to_string(), "children /: no such node: the chroot /apps/mail does not exist");
    /// client.create_chroot().await?;
    /// assert!(client.children("/").await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_chroot(&self) -> Result<(), Error> {
        let chroot = &self.shared().chroot;
        let ends = chroot.match_indices('/').map(|(at, _)| at).skip(1).chain([chroot.len()]);
        if chroot.is_empty() || self.chroot_exists().await == Some(true) {
            return Ok(());
        }
        for end in ends {
            let node = &chroot[..end];
            let options = CreateOptions::default();
            let encode = |out: &mut Vec<u8>| put_create(out, node, Some(b""), &options);
            // Idempotent: it does not matter which attempt creates the node.
            let (name, op, kind) = ("create chroot", OpCode::Create2, Kind::Idempotent);
            match self.call(Call { name, op, path: Some(node), kind, encode: &encode, watch: None }).await {
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => (),
                created => drop(created?),
            }
        }
        Ok(())
    }

    /// Names the chroot in a NoNode error if it does not exist. A chroot that was seen once is not checked again.
    pub(crate) async fn name_missing_chroot(&self, error: Error) -> Error {
        let shared = self.shared();
        let is_concerned = error.code() == Some(ErrorCode::NoNode) && !shared.chroot.is_empty();
        if !is_concerned || shared.has_seen_chroot.load(Ordering::Relaxed) {
            return error;
        }
        match self.chroot_exists().await {
            Some(false) => error.with_detail(format!("the chroot {} does not exist", shared.chroot)),
            Some(true) | None => error,
        }
    }

    /// `None` if no server replies.
    async fn chroot_exists(&self) -> Option<bool> {
        let shared = self.shared();
        let path = Some(Cow::Borrowed(shared.chroot.as_str()));
        let encode = |out: &mut Vec<u8>| PathWatch { path: path.clone(), watch: false }.put(out);
        let (name, op, kind) = ("exists", OpCode::Exists, Kind::Read);
        let reply = self.send_once(&Call { name, op, path: None, kind, encode: &encode, watch: None }).await.ok()?;
        if reply.err == 0 {
            shared.has_seen_chroot.store(true, Ordering::Relaxed);
        }
        [0, ErrorCode::NoNode.code()].contains(&reply.err).then_some(reply.err == 0)
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
        let error = chroot("/a//b").unwrap_err();
        assert_eq!(error.to_string(), "connect /a//b: invalid path: it contains an empty name");
        assert!(chroot("a").is_err());
    }
}
