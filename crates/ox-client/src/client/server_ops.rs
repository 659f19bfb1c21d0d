//! Operations that are about the session or the ensemble, not about a node.

use super::call::{Kind, decode};
use super::node_ops::{names, node};
use super::{Call, Client};
use crate::core::{Class, Ending, Failure};
use crate::error::{Error, ErrorKind, Outcome};
use crate::types::{Data, Identity, Node, Reconfig};
use crate::watch::Watch;
use ox_proto::jute::Jute;
use ox_proto::reply::ClientInfo;
use ox_proto::request::{PathRequest, PathWatch, ReconfigRequest};
use ox_proto::{OpCode, Zxid};
use std::borrow::Cow;
use tokio::sync::oneshot;

/// Where the members of an ensemble stand, whatever the chroot.
const CONFIG: &str = "/zookeeper/config";

impl Client {
    /// Proves an identity to the server, now and on every later connection. With the scheme `digest` the proof is
    /// `user:password`.
    ///
    /// A server that does not accept it ends the session: the state becomes [`State::AuthFailed`](crate::State::AuthFailed).
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
    pub async fn add_auth(&self, scheme: &str, auth: impl Data) -> Result<(), Error> {
        let (waiter, answer) = oneshot::channel();
        let added =
            self.shared().change(|session, now_ms, _| session.add_auth(now_ms, scheme, auth.bytes(), Some(waiter)));
        let failed = |ending: Option<Ending>| {
            let kind = match ending {
                None => ErrorKind::ConnectionLoss,
                Some(Ending::Expired) => ErrorKind::SessionExpired,
                Some(Ending::AuthFailed) => ErrorKind::AuthFailed,
                Some(Ending::Closed) => ErrorKind::Closed,
            };
            Error::new("add auth", None, kind, Outcome::DidNotHappen)
        };
        added.map_err(|ending| failed(Some(ending)))?;
        match answer.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Failure { ending, .. })) => Err(failed(ending)),
            Err(_) => Err(failed(Some(Ending::Closed))),
        }
    }

    /// Who the server takes this client for.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.add_auth("digest", "bob:secret").await?;
    /// let mut users: Vec<_> = client.who_am_i().await?.into_iter().map(|who| who.scheme).collect();
    /// users.sort();
    /// assert_eq!(users, ["digest", "ip"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn who_am_i(&self) -> Result<Vec<Identity>, Error> {
        let (name, op) = ("who am i", OpCode::WhoAmI);
        let reply = self.call(Call { name, op, path: None, kind: Kind::Read, encode: &|_| (), watch: None }).await?;
        let infos: Option<Vec<ClientInfo<'_>>> = decode(name, None, &reply)?;
        let text = |text: Option<Cow<'_, str>>| text.unwrap_or_default().into_owned();
        let infos = infos.unwrap_or_default().into_iter();
        Ok(infos.map(|info| Identity { scheme: text(info.scheme), id: text(info.user) }).collect())
    }

    /// The ephemeral nodes of this session whose paths begin with `prefix`. Unlike in Java, `prefix` and the paths are
    /// below the chroot, as everywhere else.
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
        let inner = match self.inner(name, prefix)? {
            inner if prefix == "/" && inner != "/" => Cow::Owned(format!("{inner}/")),
            inner => inner,
        };
        let encode = |out: &mut Vec<u8>| PathRequest { path: Some(Cow::Borrowed(&inner)) }.put(out);
        let op = OpCode::GetEphemerals;
        let call = Call { name, op, path: Some(prefix), kind: Kind::Read, encode: &encode, watch: None };
        let reply = self.call(call).await?;
        let found = names(decode(name, Some(prefix), &reply)?);
        Ok(found.into_iter().map(|path| self.shared().outer(path)).collect())
    }

    /// The members of the ensemble, as text.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let members = String::from_utf8(client.config().await?.data)?;
    /// assert!(members.is_empty()); // a server alone
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

    /// The same, and a watch that tells when the members change.
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
        let (watcher, reply) = self.read_inner_and_watch("config", OpCode::GetData, Class::Data, CONFIG, CONFIG).await;
        Ok((node(&decode("config", Some(CONFIG), &reply?)?), Watch(watcher)))
    }

    /// Changes the members of the ensemble, if their configuration is still the one of `version` (any for `None`), and gives
    /// the new one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::Reconfig;
    /// let join = Reconfig::Change { joining: vec!["server.4=zk4:2888:3888;2181".to_owned()], leaving: Vec::new() };
    /// assert!(client.reconfig(&join, None).await.is_err()); // a server alone
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reconfig(&self, change: &Reconfig, version: Option<Zxid>) -> Result<Node, Error> {
        let name = "reconfig";
        let list = |servers: &[String]| (!servers.is_empty()).then(|| Cow::Owned(servers.join(",")));
        let (joining, leaving, members) = match change {
            Reconfig::Change { joining, leaving } => (list(joining), list(leaving), None),
            Reconfig::Members(members) => (None, None, list(members)),
        };
        let config = version.map_or(-1, |version| version.0);
        let request = ReconfigRequest { joining, leaving, members, config };
        let op = OpCode::Reconfig;
        let encode = |out: &mut Vec<u8>| request.put(out);
        let reply = self.call(Call { name, op, path: None, kind: Kind::Write, encode: &encode, watch: None }).await?;
        Ok(node(&decode(name, None, &reply)?))
    }
}
