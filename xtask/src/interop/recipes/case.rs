//! One case: a part of the tree, our clients, and the partner.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use ox_client::{Client, CreateMode};
use tokio::time::{sleep, timeout};

use super::critical_section::Book;
use super::curator_worker::Partner;
use super::told;
use crate::interop::proxy::Proxy;
use crate::interop::workspace::Workspace;

/// Longer than any case takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Longer than a connection is away in any case.
const SESSION: Duration = Duration::from_secs(20);

/// A session whose end is waited for.
pub(super) const SHORT_SESSION: Duration = Duration::from_secs(2);

/// How often connections are cut in a case, and the time between. Curator takes up to a second to come back.
const CUTS: usize = 3;
const BETWEEN_CUTS: Duration = Duration::from_millis(900);

/// A server, a proxy before it, and a partner.
pub(super) struct Stage {
    name: String,
    server: String,
    proxy: Proxy,
    pub(super) partner: Partner,
    pub(super) rounds: usize,
    only: Option<String>,
    failed: usize,
}

impl Stage {
    pub(super) fn start(
        workspace: &Workspace,
        name: &str,
        server: SocketAddr,
        rounds: usize,
        only: Option<&str>,
    ) -> Result<Self> {
        let (proxy, partner) = (Proxy::start(server)?, Partner::start(workspace)?);
        let (name, server, only) = (name.to_owned(), server.to_string(), only.map(str::to_owned));
        Ok(Self { name, server, proxy, partner, rounds, only, failed: 0 })
    }

    /// Runs one case.
    pub(super) async fn case(&mut self, name: &str, body: impl AsyncFn(&Case<'_>) -> Result<()>) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only)) {
            return;
        }
        let root = format!("/{}", name.replace(' ', "-"));
        let done = async {
            let client = connect(&self.server, SESSION).await?;
            client.create(&root, b"", CreateMode::Persistent).await?;
            let case = Case { stage: self, root, client };
            let done = timeout(PATIENCE, body(&case)).await.with_context(|| format!("not done after {PATIENCE:?}"))?;
            case.client.close().await?;
            done
        };
        let done = done.await;
        self.failed += usize::from(!told(name, &self.name, done));
    }

    pub(super) fn failed(&self) -> usize {
        self.failed
    }
}

async fn connect(server: &str, session: Duration) -> Result<Client> {
    Ok(Client::builder().servers(server)?.session_timeout(session).connect().await?)
}

/// One running case.
pub(super) struct Case<'a> {
    pub(super) stage: &'a Stage,
    pub(super) root: String,
    /// Straight to the server, for preparing and looking.
    pub(super) client: Client,
}

impl Case<'_> {
    /// A path below the case's own node.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("{}/{rest}", self.root)
    }

    /// Creates a persistent node.
    pub(super) async fn node(&self, rest: &str, data: &str) -> Result<()> {
        self.client.create(&self.path(rest), data, CreateMode::Persistent).await?;
        Ok(())
    }

    /// Another client, with a session of its own.
    pub(super) async fn connect(&self, session: Duration) -> Result<Client> {
        connect(&self.stage.server, session).await
    }

    /// Has Curator do something, straight on the server.
    pub(super) async fn ask(&self, task: &str, arguments: &str) -> Result<String> {
        self.ask_with(&self.stage.server, SESSION, task, arguments).await
    }

    /// The same with a session that ends soon after its client.
    pub(super) async fn ask_briefly(&self, task: &str) -> Result<String> {
        self.ask_with(&self.stage.server, SHORT_SESSION, task, "").await
    }

    async fn ask_with(&self, server: &str, session: Duration, task: &str, arguments: &str) -> Result<String> {
        let line = format!("{task} {} {arguments}", self.root);
        self.stage.partner.ask(server, session, line.trim_end()).await
    }

    /// Two of ours and two of Curator's do something in turns, each so often, while connections are cut now and then, if that
    /// is wanted.
    pub(super) async fn contend(
        &self,
        task: &str,
        most: &str,
        is_cut: bool,
        work: impl AsyncFn(&Client, usize) -> Result<()>,
    ) -> Result<()> {
        let server = if is_cut { self.stage.proxy.address().to_string() } else { self.stage.server.clone() };
        let arguments = format!("{} {most}", self.stage.rounds);
        let curator = || self.ask_with(&server, SESSION, task, &arguments);
        let own = async || {
            let client = connect(&server, SESSION).await?;
            for round in 0..self.stage.rounds {
                work(&client, round).await?;
            }
            client.close().await?;
            anyhow::Ok(())
        };
        let all = async { tokio::try_join!(curator(), curator(), own(), own()) };
        let cuts = async {
            for _ in 0..if is_cut { CUTS } else { 0 } {
                sleep(BETWEEN_CUTS).await;
                self.stage.proxy.drop_all();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = all => drop(done?),
            () = cuts => (),
        }
        Ok(())
    }

    /// The same where all are alone inside: all are counted, and later owners have larger tokens.
    pub(super) async fn contend_alone(
        &self,
        task: &str,
        is_cut: bool,
        work: impl AsyncFn(&Client, &Book) -> Result<()>,
    ) -> Result<()> {
        let book = Book::open(self).await?;
        self.contend(task, "", is_cut, async |client, _| work(client, &book).await).await?;
        book.check(4 * self.stage.rounds).await
    }
}
