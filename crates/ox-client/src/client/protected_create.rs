//! Creating a node for certain, although answers may be lost.

use super::{Call, Client, Kind};
use crate::error::{Error, ErrorKind, Outcome};
use crate::path::child;
use crate::retry::RetryPolicy;
use crate::types::{CreateOptions, Created, Data, Version};
use ox_proto::jute::Jute;
use ox_proto::multi::MultiHeader;
use ox_proto::{ErrorCode, OpCode};
use std::time::Duration;
use tokio::runtime::Handle;

/// What Curator puts before the names of protected nodes.
const MARK: &str = "_c_";

/// Between looks whether the server takes writes.
const PAUSE: Duration = Duration::from_millis(200);

/// A name that nobody else has: Curator's mark with a random UUID.
fn mark() -> String {
    let bits = rand::random::<u128>();
    // The bits of a random UUID that are not random: version and variant.
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let text = format!("{bits:032x}");
    format!("{MARK}{}-{}-{}-{}-{}-", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

impl Client {
    /// Creates a node whose name begins with a mark that only this call knows, as Curator's protected nodes do: when the answer is
    /// lost, the client looks for the mark as soon as it is back, and creates the node only if it is not there. So the call
    /// succeeds once or fails, and never leaves a node that nobody knows of.
    ///
    /// When the future is dropped or fails on the way, the node is looked for and deleted in the background, as long as the
    /// session lasts. (Should the session end first, an ephemeral node goes with it; a persistent one may stay.)
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::CreateMode;
    /// client.create("/lock", b"", CreateMode::Container).await?;
    /// let created = client.create_protected("/lock/lock-", b"", CreateMode::EphemeralSequential).await?;
    /// // For example /lock/_c_1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0-lock-0000000000
    /// assert!(created.path.starts_with("/lock/_c_"));
    /// assert!(created.path.ends_with("-lock-0000000000"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_protected(
        &self,
        path: &str,
        data: impl Data,
        options: impl Into<CreateOptions>,
    ) -> Result<Created, Error> {
        let options = options.into();
        let Some((parent, name)) = path.rsplit_once('/') else {
            return Err(Error::early("create", Some(path), ErrorKind::InvalidPath));
        };
        let parent = if parent.is_empty() { "/" } else { parent };
        let mark = mark();
        let path = child(parent, &format!("{mark}{name}"));
        let runtime = Handle::try_current().ok();
        let mut ghost = Ghost { client: self, parent, mark: &mark, may_be: false, runtime };
        loop {
            ghost.may_be = true;
            let error = match self.create_bytes(&path, data.bytes(), &options).await {
                Ok(created) => {
                    ghost.may_be = false;
                    return Ok(created);
                }
                Err(error) => error,
            };
            if error.outcome() == Outcome::DidNotHappen {
                ghost.may_be = false;
                return Err(error);
            }
            if !error.is_retriable() {
                return Err(error);
            }
            let found = self.find_marked(parent, &mark).await;
            let unknown = |error: Error| Error::new("create", Some(&path), error.kind().clone(), Outcome::Unknown);
            if let Some(created) = found.map_err(unknown)? {
                ghost.may_be = false;
                return Ok(created);
            }
        }
    }

    /// Waits until every write that this session has sent before has happened, or never will, those included that were sent on a
    /// connection that is lost. What is read behind this is final: that is how to find out what became of a write whose
    /// [outcome](Error::outcome) is unknown.
    ///
    /// It is an empty [`Multi`](crate::Multi), tried again as long as the [`RetryPolicy`] says. A write of nothing goes the way
    /// that the others went; a [`Client::sync`] need not, on a server that answers it by itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, Outcome};
    /// let made = client.create("/once", b"", CreateMode::Persistent).await;
    /// let is_there = match made {
    ///     Err(error) if error.outcome() == Outcome::Unknown => {
    ///         client.settle().await?;
    ///         client.exists("/once").await?.is_some()
    ///     }
    ///     made => made.is_ok(),
    /// };
    /// assert!(is_there);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle(&self) -> Result<(), Error> {
        let encode = |out: &mut Vec<u8>| MultiHeader::END.put(out);
        let (name, op, kind) = ("settle", OpCode::Multi, Kind::Idempotent);
        self.call(Call { name, op, path: None, kind, encode: &encode, watch: None }).await.map(drop)
    }

    /// Looks for a node by its mark.
    async fn find_marked(&self, parent: &str, mark: &str) -> Result<Option<Created>, Error> {
        self.settle().await?;
        let names = match self.children(parent).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(None),
            names => names?,
        };
        let Some(name) = names.into_iter().find(|name| name.starts_with(mark)) else { return Ok(None) };
        let path = child(parent, &name);
        Ok(self.exists(&path).await?.map(|stat| Created { path, stat }))
    }
}

/// A node that may exist without anybody knowing.
struct Ghost<'a> {
    client: &'a Client,
    parent: &'a str,
    mark: &'a str,
    may_be: bool,
    /// Where the request was sent: the future may be dropped somewhere else.
    runtime: Option<Handle>,
}

impl Drop for Ghost<'_> {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if !self.may_be || self.client.state().is_final() {
            return;
        }
        let client = self.client.with_retry(RetryPolicy::times(u32::MAX)); // as long as the session lasts
        let (parent, mark) = (self.parent.to_owned(), self.mark.to_owned());
        drop(runtime.spawn(async move {
            // What is still under way is ahead of this in the session's order.
            while let Err(error) = client.lay(&parent, &mark).await {
                if error.code() == Some(ErrorCode::NotReadOnly) {
                    tokio::time::sleep(PAUSE).await; // a server that takes writes is looked for
                } else if !error.is_retriable() {
                    return tracing::warn!(%error, parent, "a node may be left behind");
                }
            }
        }));
    }
}

impl Client {
    async fn lay(&self, parent: &str, mark: &str) -> Result<(), Error> {
        let Some(found) = self.find_marked(parent, mark).await? else { return Ok(()) };
        match self.delete(&found.path, Version::Any).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_uuids() {
        let mark = mark();
        assert_eq!(mark.len(), MARK.len() + 37);
        let dashes: Vec<_> = mark.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!(dashes, [11, 16, 21, 26, 39]);
        assert_eq!(&mark[17..18], "4");
        assert!("89ab".contains(&mark[22..23]));
        assert_ne!(mark, super::mark());
    }
}
