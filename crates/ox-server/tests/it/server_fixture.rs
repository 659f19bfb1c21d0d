//! A server on a free port, with a directory of its own.

use crate::raw::{Client, Hello, Raw};
use ox_config::{Config, Environment, StartArgs, SystemProperties};
use ox_server::{Fatal, Server};
use ox_store::disk::{Disk, RealDisk};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const FILE: &str = "zoo.cfg";

/// Long enough for tests that do not mean to let a session expire.
pub(crate) const TIMEOUT_MS: i32 = 30_000;

/// A running server; its data outlives it.
pub(crate) struct Served {
    dir: TempDir,
    settings: String,
    properties: String,
    disk: Arc<dyn Disk>,
    server: Option<Server>,
}

impl Served {
    /// With the defaults of a standalone server.
    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// With some settings of `zoo.cfg` more.
    pub(crate) fn with(settings: &str) -> Self {
        Self::with_properties(settings, "")
    }

    /// With system properties too (`-Dname=value ...`), for what cannot stand in `zoo.cfg`.
    pub(crate) fn with_properties(settings: &str, properties: &str) -> Self {
        Self::begun(Arc::new(RealDisk), settings, properties)
    }

    /// With its files on a disk of the test's own.
    pub(crate) fn on(disk: Arc<dyn Disk>, settings: &str) -> Self {
        Self::begun(disk, settings, "")
    }

    fn begun(disk: Arc<dyn Disk>, settings: &str, properties: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (settings, properties) = (settings.to_owned(), properties.to_owned());
        let mut served = Self { dir, settings, properties, disk, server: None };
        served.begin();
        served
    }

    fn begin(&mut self) {
        self.server = Some(Server::start_on(Arc::clone(&self.disk), self.config()).expect("the server starts"));
    }

    /// The configuration it runs with. Tests count their connections themselves unless they say otherwise.
    pub(crate) fn config(&self) -> Config {
        let mut text = format!("dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\n", self.dir.path().display());
        for default in ["tickTime=2000", "maxSessionTimeout=60000", "maxClientCnxns=0", "preAllocSize=1024"] {
            if !self.settings.contains(default.split('=').next().unwrap()) {
                text.push_str(default);
                text.push('\n');
            }
        }
        text.push_str(&self.settings);
        let read = |path: &Path| match path.to_str() {
            Some(FILE) => Ok(text.clone().into_bytes()),
            _ => Err(ErrorKind::NotFound.into()),
        };
        let environment = Environment { read: &read, resolve: &|host| host.parse().ok() };
        let mut system = SystemProperties::default();
        system.add_flags(&self.properties);
        Config::load(&StartArgs::File(FILE.into()), &system, &environment, &mut Vec::new())
            .expect("a good configuration")
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server().address().expect("it listens")
    }

    /// Stops it as a signal would, and says how it ended.
    pub(crate) fn stop(&mut self) -> Result<(), Fatal> {
        let server = self.server.take().expect("it runs");
        server.stopper().stop();
        server.wait()
    }

    /// Stops it and starts it again on the same data.
    pub(crate) fn restart(&mut self) {
        self.stop().expect("it ends well");
        self.begin();
    }

    /// A socket to it.
    pub(crate) fn connect(&self) -> Raw {
        Raw::connect(self.address())
    }

    /// A client with a new session.
    pub(crate) fn client(&self) -> Client {
        Client::open(self.address(), TIMEOUT_MS)
    }

    /// A client that resumes a session; `None` when it is refused.
    pub(crate) fn resume(&self, client: &Client) -> Option<Client> {
        Client::try_open(self.address(), &Hello::again(&client.hello))
    }
}
