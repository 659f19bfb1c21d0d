//! Operations on the session or the ensemble: authentication, ephemerals, configuration.

use super::call::{Kind, decode};
use super::node_ops::{names, node};
use super::{Call, Client};
use crate::connect_failure::ConnectCause;
use crate::core::{Failure, SessionEnd, WatchClass};
use crate::error::{Error, ErrorKind, RequestOutcome};
use crate::server_list::ServerAddress;
use crate::types::{AuthInfo, MembershipChange, Node, NodeData};
use crate::watch::Watch;
use ox_proto::jute::Jute;
use ox_proto::reply::ClientInfo;
use ox_proto::request::{PathRequest, PathWatch, ReconfigRequest};
use ox_proto::{OpCode, Zxid};
use std::borrow::Cow;
use std::time::Duration;
use tokio::sync::oneshot;

/// The node of the ensemble configuration, outside of any chroot.
const CONFIG: &str = "/zookeeper/config";

impl Client {
    /// Authenticates this session, on the current and on every later connection. With the scheme `digest`, `auth` is
    /// `user:password`.
    ///
    /// If the server rejects the credentials, the session ends with
    /// [`SessionState::AuthFailed`](crate::SessionState::AuthFailed).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.add_auth("digest", "bob:secret").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add_auth(&self, scheme: &str, auth: impl NodeData) -> Result<(), Error> {
        let (waiter, reply) = oneshot::channel();
        let added =
            self.shared().change(|session, now_ms, _| session.add_auth(now_ms, scheme, auth.bytes(), Some(waiter)));
        let failed = |ended: Option<SessionEnd>| {
            let kind = match ended {
                None => ErrorKind::ConnectionLoss,
                Some(SessionEnd::Expired) => ErrorKind::SessionExpired,
                Some(SessionEnd::AuthFailed) => ErrorKind::AuthFailed,
                Some(SessionEnd::Closed) => ErrorKind::Closed,
            };
            self.shared().explain(Error::new("add auth", None, kind, RequestOutcome::NoEffect))
        };
        added.map_err(|ended| failed(Some(ended)))?;
        match reply.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Failure { ended, .. })) => Err(failed(ended)),
            Err(_) => Err(failed(Some(SessionEnd::Closed))),
        }
    }

    /// Sends a four-letter command, for example `srvr`, to a server, and returns the reply. It needs no session; TLS is
    /// used as for sessions. A reply ends after 8 MB.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// # let server = server.address().to_string();
    /// let reply = client.four_letter(&server.parse()?, "srvr", std::time::Duration::from_secs(5)).await?;
    /// assert!(reply.contains("Mode: standalone"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn four_letter(
        &self,
        server: &ServerAddress,
        command: &str,
        limit: Duration,
    ) -> Result<String, ConnectCause> {
        self.shared().dialer.four_letter(server, command, limit).await
    }

    /// Returns the identities that the server has authenticated for this connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.add_auth("digest", "bob:secret").await?;
    /// let mut users: Vec<_> = client.who_am_i().await?.into_iter().map(|info| info.scheme).collect();
    /// users.sort();
    /// assert_eq!(users, ["digest", "ip"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn who_am_i(&self) -> Result<Vec<AuthInfo>, Error> {
        let (name, op) = ("who am i", OpCode::WhoAmI);
        let reply = self.call(Call { name, op, path: None, kind: Kind::Read, encode: &|_| (), watch: None }).await?;
        let infos: Option<Vec<ClientInfo<'_>>> = decode(name, None, &reply)?;
        let text = |text: Option<Cow<'_, str>>| text.unwrap_or_default().into_owned();
        let infos = infos.unwrap_or_default().into_iter();
        Ok(infos.map(|info| AuthInfo { scheme: text(info.scheme), id: text(info.user) }).collect())
    }

    /// Returns the ephemeral nodes of this session whose paths begin with `prefix`. Unlike in Java, `prefix` and the
    /// returned paths are relative to the chroot, like everywhere else.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.create("/mine", b"", ox_client::CreateMode::Ephemeral).await?;
    /// assert_eq!(client.ephemerals("/").await?, ["/mine"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ephemerals(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let name = "ephemerals";
        let inner = match self.server_path(name, prefix)? {
            inner if prefix == "/" && inner != "/" => Cow::Owned(format!("{inner}/")),
            inner => inner,
        };
        let encode = |out: &mut Vec<u8>| PathRequest { path: Some(Cow::Borrowed(&inner)) }.put(out);
        let op = OpCode::GetEphemerals;
        let call = Call { name, op, path: Some(prefix), kind: Kind::Read, encode: &encode, watch: None };
        let reply = self.call(call).await?;
        let found = names(decode(name, Some(prefix), &reply)?);
        Ok(found.into_iter().map(|path| self.shared().client_path(path)).collect())
    }

    /// Returns the ensemble configuration as text, in the format of the dynamic configuration file.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let members = String::from_utf8(client.config().await?.data)?;
    /// assert!(members.is_empty()); // a standalone server
    /// # Ok(())
    /// # }
    /// ```
    pub async fn config(&self) -> Result<Node, Error> {
        let name = "config";
        let encode = |out: &mut Vec<u8>| PathWatch { path: Some(CONFIG.into()), watch: false }.put(out);
        let op = OpCode::GetData;
        let call = Call { name, op, path: Some(CONFIG), kind: Kind::Read, encode: &encode, watch: None };
        let reply = self.call(call).await?;
        Ok(node(&decode(name, Some(CONFIG), &reply)?))
    }

    /// Returns the ensemble configuration and a watch that fires when it changes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let (members, changed) = client.config_and_watch().await?;
    /// # drop((members, changed));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn config_and_watch(&self) -> Result<(Node, Watch), Error> {
        let (watcher, reply) =
            self.read_server_path_and_watch("config", OpCode::GetData, WatchClass::Data, CONFIG, CONFIG).await;
        Ok((node(&decode("config", Some(CONFIG), &reply?)?), Watch(watcher)))
    }

    /// Changes the members of the ensemble if the version of the current configuration is `version` (any version for
    /// `None`). Returns the new configuration.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::MembershipChange;
    /// let join = MembershipChange::Incremental { joining: vec!["server.4=zk4:2888:3888;2181".to_owned()], leaving: Vec::new() };
    /// assert!(client.reconfig(&join, None).await.is_err()); // a standalone server
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reconfig(&self, change: &MembershipChange, version: Option<Zxid>) -> Result<Node, Error> {
        let name = "reconfig";
        let list = |servers: &[String]| (!servers.is_empty()).then(|| Cow::Owned(servers.join(",")));
        let (joining, leaving, members) = match change {
            MembershipChange::Incremental { joining, leaving } => (list(joining), list(leaving), None),
            MembershipChange::Full(members) => (None, None, list(members)),
        };
        let config = version.map_or(-1, |version| version.0);
        let request = ReconfigRequest { joining, leaving, members, config };
        let op = OpCode::Reconfig;
        let encode = |out: &mut Vec<u8>| request.put(out);
        let reply = self.call(Call { name, op, path: None, kind: Kind::Write, encode: &encode, watch: None }).await?;
        Ok(node(&decode(name, None, &reply)?))
    }
}
