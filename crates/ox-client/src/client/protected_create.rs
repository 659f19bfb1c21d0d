//! Protected creates, which survive lost replies, and the write barrier that they use.

use super::{Call, Client, Kind};
use crate::error::{Error, RequestOutcome};
use crate::path::child;
use crate::retry::RetryPolicy;
use crate::types::{CreateOptions, Created, NodeData, Version};
use ox_proto::jute::Jute;
use ox_proto::multi::MultiHeader;
use ox_proto::{ErrorCode, OpCode};
use std::time::Duration;
use tokio::runtime::Handle;

/// The prefix of Curator's protected node names.
const PROTECTED_PREFIX: &str = "_c_";

/// Pause between retries while the server is read-only.
const PAUSE: Duration = Duration::from_millis(200);

/// A unique name prefix in Curator's format: `_c_`, a random UUID, a dash.
fn protected_prefix() -> String {
    let bits = rand::random::<u128>();
    // A version 4 UUID has fixed version and variant bits.
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let text = format!("{bits:032x}");
    format!("{PROTECTED_PREFIX}{}-{}-{}-{}-{}-", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

impl Client {
    /// Creates a node whose name begins with a prefix that is unique to this call, like Curator's protected nodes. When
    /// the reply is lost, the client searches for the prefix after reconnecting and creates the node again only if it
    /// does not exist. The call thus creates the node exactly once or fails, and leaves no orphaned node behind.
    ///
    /// If the future is dropped or fails, a background task finds and deletes the node as long as the session lasts.
    /// (If the session ends first, an ephemeral node ends with it; a persistent node may remain.)
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
        data: impl NodeData,
        options: impl Into<CreateOptions>,
    ) -> Result<Created, Error> {
        let options = options.into();
        self.new_node_path(path, &options)?;
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = if parent.is_empty() { "/" } else { parent };
        let prefix = protected_prefix();
        let prefixed = child(parent, &format!("{prefix}{name}"));
        let runtime = Handle::try_current().ok();
        let mut cleanup = OrphanCleanup { client: self, parent, prefix: &prefix, is_armed: false, runtime };
        loop {
            cleanup.is_armed = true;
            let error = match self.create_bytes(&prefixed, data.bytes(), &options).await {
                Ok(created) => {
                    cleanup.is_armed = false;
                    return Ok(created);
                }
                Err(error) => error.with_path(path),
            };
            if error.outcome() == RequestOutcome::NoEffect {
                cleanup.is_armed = false;
                return Err(error);
            }
            if !error.is_retriable() {
                return Err(error);
            }
            let found = self.find_protected(parent, &prefix).await;
            let unknown =
                |error: Error| Error::new("create", Some(path), error.kind().clone(), RequestOutcome::Unknown);
            if let Some(created) = found.map_err(unknown)? {
                cleanup.is_armed = false;
                return Ok(created);
            }
        }
    }

    /// Waits until the outcome of every earlier write of this session is final, including writes sent on a connection
    /// that was lost. Reads sent after this show whether a write with an unknown [outcome](Error::outcome) was
    /// executed.
    ///
    /// The barrier is an empty [`Multi`](crate::Multi), retried by the [`RetryPolicy`]. Unlike a [`Client::sync`],
    /// which some servers answer on their own, an empty write takes the same path through the leader as the writes
    /// before it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, RequestOutcome};
    /// let created = client.create("/once", b"", CreateMode::Persistent).await;
    /// let exists = match created {
    ///     Err(error) if error.outcome() == RequestOutcome::Unknown => {
    ///         client.write_barrier().await?;
    ///         client.exists("/once").await?.is_some()
    ///     }
    ///     created => created.is_ok(),
    /// };
    /// assert!(exists);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_barrier(&self) -> Result<(), Error> {
        let encode = |out: &mut Vec<u8>| MultiHeader::END.put(out);
        let (name, op, kind) = ("write barrier", OpCode::Multi, Kind::Idempotent);
        self.call(Call { name, op, path: None, kind, encode: &encode, watch: None }).await.map(drop)
    }

    /// Finds the node whose name begins with `prefix`, after all earlier writes have taken effect.
    async fn find_protected(&self, parent: &str, prefix: &str) -> Result<Option<Created>, Error> {
        self.write_barrier().await?;
        let names = match self.children(parent).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(None),
            names => names?,
        };
        let Some(name) = names.into_iter().find(|name| name.starts_with(prefix)) else { return Ok(None) };
        let path = child(parent, &name);
        Ok(self.exists(&path).await?.map(|stat| Created { path, stat }))
    }
}

/// Deletes the node of a create whose outcome is unknown when the create is dropped or fails.
struct OrphanCleanup<'a> {
    client: &'a Client,
    parent: &'a str,
    prefix: &'a str,
    is_armed: bool,
    /// The runtime on which the request was sent: the future may be dropped outside of it.
    runtime: Option<Handle>,
}

impl Drop for OrphanCleanup<'_> {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if !self.is_armed || self.client.state().is_final() {
            return;
        }
        let client = self.client.with_retry(RetryPolicy::times(u32::MAX)); // until the session ends
        let (parent, prefix) = (self.parent.to_owned(), self.prefix.to_owned());
        drop(runtime.spawn(async move {
            // The create, if still in flight, precedes these requests in session order.
            while let Err(error) = client.delete_protected(&parent, &prefix).await {
                if error.code() == Some(ErrorCode::NotReadOnly) {
                    tokio::time::sleep(PAUSE).await; // the driver is searching for a read-write server
                } else if !error.is_retriable() {
                    return tracing::warn!(%error, parent, "cannot delete the node of an abandoned protected create");
                }
            }
        }));
    }
}

impl Client {
    async fn delete_protected(&self, parent: &str, prefix: &str) -> Result<(), Error> {
        let Some(found) = self.find_protected(parent, prefix).await? else { return Ok(()) };
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
    fn protected_prefix_is_a_random_uuid() {
        let prefix = protected_prefix();
        assert_eq!(prefix.len(), PROTECTED_PREFIX.len() + 37);
        let dashes: Vec<_> = prefix.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!(dashes, [11, 16, 21, 26, 39]);
        assert_eq!(&prefix[17..18], "4");
        assert!("89ab".contains(&prefix[22..23]));
        assert_ne!(prefix, super::protected_prefix());
    }
}
