//! A server on a free port, with a directory of its own.

use ox_config::{Config, Environment, StartArgs, SystemProperties};
use ox_server::{Build, Fatal, Server, StartError};
use ox_store::disk::{Disk, RealDisk};
use ox_testkit::{RawClient, RawConnection, RawHandshake};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const FILE: &str = "zoo.cfg";

/// Long enough that no session expires unintentionally.
pub(crate) const TIMEOUT_MS: i32 = 30_000;

/// A running server, which can be restarted on its data.
pub(crate) struct ServerFixture {
    dir: TempDir,
    settings: String,
    properties: String,
    disk: Arc<dyn Disk>,
    server: Option<Server>,
}

impl ServerFixture {
    /// Starts a server with the defaults of a standalone server.
    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// Starts a server with additional settings of `zoo.cfg`.
    pub(crate) fn with(settings: &str) -> Self {
        Self::with_properties(settings, "")
    }

    /// Starts a server with system properties too (`-Dname=value ...`), for settings that `zoo.cfg` cannot contain.
    pub(crate) fn with_properties(settings: &str, properties: &str) -> Self {
        Self::begun(Arc::new(RealDisk), settings, properties)
    }

    /// Tries to start a server that is expected to refuse.
    pub(crate) fn try_start(settings: &str, properties: &str) -> Result<(), StartError> {
        let dir = tempfile::tempdir().unwrap();
        let (settings, properties) = (settings.to_owned(), properties.to_owned());
        let served = Self { dir, settings, properties, disk: Arc::new(RealDisk), server: None };
        Server::start_on(Arc::clone(&served.disk), Build::UNKNOWN, served.config()).map(|_| ())
    }

    /// Starts a server with its files on the given disk.
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
        self.try_begin().expect("the server starts");
    }

    /// Starts a stopped server, which may refuse.
    pub(crate) fn try_begin(&mut self) -> Result<(), StartError> {
        self.server = Some(Server::start_on(Arc::clone(&self.disk), Build::UNKNOWN, self.config())?);
        Ok(())
    }

    /// The directory of the data.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration of the server. `maxClientCnxns` is unlimited unless the test sets it.
    pub(crate) fn config(&self) -> Config {
        Self::config_with(self.dir.path(), &self.settings, &self.properties)
    }

    pub(crate) fn config_with(dir: &Path, settings: &str, properties: &str) -> Config {
        let mut text = format!("dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\n", dir.display());
        for default in ["tickTime=2000", "maxSessionTimeout=60000", "maxClientCnxns=0", "preAllocSize=1024"] {
            if !settings.contains(default.split('=').next().unwrap()) {
                text.push_str(default);
                text.push('\n');
            }
        }
        text.push_str(settings);
        let read = |path: &Path| match path.to_str() {
            Some(FILE) => Ok(text.clone().into_bytes()),
            _ => std::fs::read(path),
        };
        let environment = Environment { read: &read, resolve: &|host| host.parse().ok() };
        let mut system = SystemProperties::default();
        system.add_flags(properties);
        Config::load(&StartArgs::File(FILE.into()), &system, &environment, &mut Vec::new())
            .expect("a valid configuration")
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server().address().expect("it listens")
    }

    pub(crate) fn secure_address(&self) -> SocketAddr {
        self.server().secure_address().expect("it listens")
    }

    /// Stops the server as a signal would, and returns how it ended.
    pub(crate) fn stop(&mut self) -> Result<(), Fatal> {
        let server = self.server.take().expect("it runs");
        server.handle().stop();
        server.wait()
    }

    /// Stops the server and starts it again on the same data.
    pub(crate) fn restart(&mut self) {
        self.stop().expect("it ends without an error");
        self.begin();
    }

    /// Opens a connection to the server.
    pub(crate) fn connect(&self) -> RawConnection {
        RawConnection::connect(self.address())
    }

    /// A client with a new session.
    pub(crate) fn client(&self) -> RawClient {
        RawClient::open(self.address(), TIMEOUT_MS)
    }

    /// A client that resumes a session; `None` when it is refused.
    pub(crate) fn resume(&self, client: &RawClient) -> Option<RawClient> {
        RawClient::try_open(self.address(), &RawHandshake::resume(&client.hello))
    }
}
