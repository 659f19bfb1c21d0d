//! Runs recipe cases, each with its own nodes, our clients and Curator's.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use ox_client::{Client, CreateMode};
use ox_testkit::Proxy;
use tokio::time::{sleep, timeout};

use super::critical_section::CriticalSection;
use super::curator_worker::CuratorWorker;
use super::print_result;
use crate::interop::workspace::Workspace;

/// Longer than any case takes on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Longer than any interruption of a connection.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// For sessions whose expiry a case waits for.
pub(super) const SHORT_SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a case closes all connections, and the interval. Curator needs up to a second to reconnect.
const DROPS: usize = 3;
const DROP_INTERVAL: Duration = Duration::from_millis(900);

/// A server, a proxy in front of it, and a process with Curator.
pub(super) struct RecipeRunner {
    name: String,
    server: String,
    proxy: Proxy,
    pub(super) worker: CuratorWorker,
    pub(super) rounds: usize,
    only: Option<String>,
    failed: usize,
}

impl RecipeRunner {
    pub(super) fn start(
        workspace: &Workspace,
        name: &str,
        server: SocketAddr,
        rounds: usize,
        only: Option<&str>,
    ) -> Result<Self> {
        let (proxy, worker) = (Proxy::start(server), CuratorWorker::start(workspace)?);
        let (name, server, only) = (name.to_owned(), server.to_string(), only.map(str::to_owned));
        Ok(Self { name, server, proxy, worker, rounds, only, failed: 0 })
    }

    /// Runs a case and prints its result.
    pub(super) async fn case(&mut self, name: &str, body: impl AsyncFn(&Case<'_>) -> Result<()>) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only)) {
            return;
        }
        let root = format!("/{}", name.replace(' ', "-"));
        let result = async {
            let client = connect(&self.server, SESSION_TIMEOUT).await?;
            client.create(&root, b"", CreateMode::Persistent).await?;
            let case = Case { runner: self, root, client };
            let result = timeout(TIMEOUT, body(&case)).await;
            let result = result.with_context(|| format!("did not finish within {TIMEOUT:?}"))?;
            case.client.close().await?;
            result
        };
        let result = result.await;
        self.failed += usize::from(!print_result(name, &self.name, result));
    }

    pub(super) fn failed(&self) -> usize {
        self.failed
    }
}

async fn connect(server: &str, session_timeout: Duration) -> Result<Client> {
    Ok(Client::builder().servers(server)?.session_timeout(session_timeout).connect().await?)
}

pub(super) struct Case<'a> {
    pub(super) runner: &'a RecipeRunner,
    pub(super) root: String,
    /// Connected without the proxy, to prepare and inspect nodes.
    pub(super) client: Client,
}

impl Case<'_> {
    /// A path below the node of the case.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("{}/{rest}", self.root)
    }

    /// Creates a persistent node below the node of the case.
    pub(super) async fn node(&self, rest: &str, data: &str) -> Result<()> {
        self.client.create(&self.path(rest), data, CreateMode::Persistent).await?;
        Ok(())
    }

    /// Connects another client, without the proxy.
    pub(super) async fn connect(&self, session_timeout: Duration) -> Result<Client> {
        connect(&self.runner.server, session_timeout).await
    }

    /// Runs a task with Curator, without the proxy.
    pub(super) async fn curator(&self, task: &str, arguments: &str) -> Result<String> {
        self.run_curator(&self.runner.server, SESSION_TIMEOUT, task, arguments).await
    }

    /// The same with a session that expires soon after its client has died.
    pub(super) async fn curator_with_short_session(&self, task: &str) -> Result<String> {
        self.run_curator(&self.runner.server, SHORT_SESSION_TIMEOUT, task, "").await
    }

    async fn run_curator(
        &self,
        server: &str,
        session_timeout: Duration,
        task: &str,
        arguments: &str,
    ) -> Result<String> {
        let line = format!("{task} {} {arguments}", self.root);
        self.runner.worker.run(server, session_timeout, line.trim_end()).await
    }

    /// Two of our clients and two of Curator's compete for a recipe, each for the configured number of rounds. With
    /// `drops_connections` the proxy closes all connections several times.
    pub(super) async fn contend(
        &self,
        task: &str,
        limit: &str,
        drops_connections: bool,
        work: impl AsyncFn(&Client, usize) -> Result<()>,
    ) -> Result<()> {
        let server =
            if drops_connections { self.runner.proxy.address().to_string() } else { self.runner.server.clone() };
        let arguments = format!("{} {limit}", self.runner.rounds);
        let curator = || self.run_curator(&server, SESSION_TIMEOUT, task, &arguments);
        let ours = async || {
            let client = connect(&server, SESSION_TIMEOUT).await?;
            for round in 0..self.runner.rounds {
                work(&client, round).await?;
            }
            client.close().await?;
            anyhow::Ok(())
        };
        let all = async { tokio::try_join!(curator(), curator(), ours(), ours()) };
        let drops = async {
            for _ in 0..if drops_connections { DROPS } else { 0 } {
                sleep(DROP_INTERVAL).await;
                self.runner.proxy.close_all();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            result = all => drop(result?),
            () = drops => (),
        }
        Ok(())
    }

    /// The same for recipes with one owner: checks that all entries are counted, and that later owners have larger
    /// tokens.
    pub(super) async fn contend_exclusively(
        &self,
        task: &str,
        drops_connections: bool,
        work: impl AsyncFn(&Client, &CriticalSection) -> Result<()>,
    ) -> Result<()> {
        let section = CriticalSection::open(self).await?;
        self.contend(task, "", drops_connections, async |client, _| work(client, &section).await).await?;
        section.check(4 * self.runner.rounds).await
    }
}
