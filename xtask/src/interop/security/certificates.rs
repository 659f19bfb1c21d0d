//! Certificates of clients that a server must refuse, with Apache's client: expired, of another CA, of another host,
//! revoked. Then all certificates change to a new CA while sessions are open, and none of them is lost.

use super::tls_suites::{CLI_PATIENCE, IDENTITY_PREFIX, java_properties, zkcli};
use crate::interop::servers::Software;
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use ox_client::{BlockingClient, Client, ClientProperties, CreateMode};
use ox_testkit::{ServerUnderTest, free_port, wait_until};
use ox_tls::CertificateInfo;
use ox_tls::generate::{CertificateSubject, DevelopmentCa, Validity};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const VALID: Validity = Validity { not_before: 1_577_836_800, not_after: 4_733_510_400 };
/// The whole year of 2020.
const EXPIRED: Validity = Validity { not_before: 1_577_836_800, not_after: 1_609_459_200 };
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// An address that no client has.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// Java's client sends only certificates of the CAs that the server names.
const NO_CERTIFICATE: &str = "peer sent no certificates";
/// Enough for some attempts to connect.
const REFUSAL_TIME: Duration = Duration::from_secs(4);
/// Sessions that stay while certificates change.
const SESSIONS: usize = 100;

/// A CA, and the directory for what it issues.
struct Issuer<'a> {
    ca: DevelopmentCa,
    dir: &'a Path,
}

impl<'a> Issuer<'a> {
    fn new(name: &str, dir: &'a Path) -> Result<Self> {
        Ok(Self { ca: DevelopmentCa::create(name, VALID)?, dir })
    }

    /// A PEM key store.
    fn issue(&self, name: &str, address: IpAddr, validity: Validity) -> Result<(PathBuf, CertificateInfo)> {
        let host_names = vec!["localhost".to_owned()];
        let subject = CertificateSubject { common_name: name.to_owned(), host_names, addresses: vec![address] };
        let issued = self.ca.issue(&subject, validity)?;
        let info = issued.info()?;
        let path = self.dir.join(format!("{name}.pem"));
        replace(&path, &issued.key_store())?;
        Ok((path, info))
    }
}

/// Replaces a file as a whole, so that no server reads a part of it.
fn replace(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    fs::rename(new, path).with_context(|| format!("write {}", path.display()))
}

/// A server that checks everything, and the files that it may read again.
struct Fixture<'a> {
    workspace: &'a Workspace,
    home: &'a Path,
    server: ServerUnderTest,
    secure: SocketAddr,
    trust: PathBuf,
}

pub(super) fn run(workspace: &Workspace, home: &Path) -> Result<()> {
    [Software::Apache, Software::Oxkeeper].iter().try_for_each(|software| software.prepare(workspace))?;
    let (ours, other) = (Issuer::new("Our CA", home)?, Issuer::new("Other CA", home)?);
    let (trust, revoked) = (home.join("trust.pem"), home.join("revoked.pem"));
    let (alice, _) = ours.issue("alice", HERE, VALID)?;
    let (mallory, of_mallory) = ours.issue("mallory", HERE, VALID)?;
    replace(&trust, ours.ca.certificate())?;
    replace(&revoked, &ours.ca.revocation_list(&[of_mallory], VALID)?)?;
    let (key_store, _) = ours.issue("server", HERE, VALID)?;
    let secure = SocketAddr::new(HERE, free_port());
    let spec = Software::Oxkeeper.spec(workspace)?.setting("secureClientPort", secure.port());
    let spec = spec.setting("ssl.keyStore.location", key_store.display()).setting("client.certReload", true);
    let spec = spec.setting("ssl.trustStore.location", trust.display()).setting("ssl.clientHostnameVerification", true);
    let spec = spec.setting("ssl.crl", true).setting("oxkeeper.ssl.crlFiles", revoked.display());
    let server = spec.start_in(&home.join("server"))?;
    let fixture = Fixture { workspace, home, server, secure, trust };
    fixture.expect_accepted(&alice, "alice")?;
    fixture.expect_refused(&ours.issue("late", HERE, EXPIRED)?.0, "invalid peer certificate: expired")?;
    fixture.expect_refused(&other.issue("foreign", HERE, VALID)?.0, NO_CERTIFICATE)?;
    fixture.expect_refused(&ours.issue("elsewhere", ELSEWHERE, VALID)?.0, "Failed to verify host address")?;
    fixture.expect_refused(&mallory, "revoked")?;
    // Java checks no list, so that only the server can refuse it.
    let sessions = fixture.sessions(&alice)?;
    fixture.rotate(&ours, &Issuer::new("New CA", home)?, &revoked)?;
    for (client, session) in &sessions {
        ensure!(client.exists("/alice")?.is_some(), "a session does not see its node");
        ensure!(client.session().map(|ticket| ticket.id) == *session, "a session is lost");
    }
    println!("     {SESSIONS} sessions stayed while all certificates changed");
    Ok(())
}

impl Fixture<'_> {
    /// What `zkCli whoami` shows with this key store.
    fn whoami(&self, key_store: &Path, patience: Duration) -> Result<String> {
        let stores = [("keyStore", key_store), ("trustStore", &self.trust)];
        let settings = stores.map(|(name, path)| (format!("ssl.{name}.location"), path.display().to_string()));
        zkcli(self.workspace, self.home, self.secure, &java_properties(&settings), patience)
    }

    fn expect_accepted(&self, key_store: &Path, name: &str) -> Result<()> {
        let shown = self.whoami(key_store, CLI_PATIENCE)?;
        ensure!(shown.contains(&format!("{IDENTITY_PREFIX}CN={name}")), "zkCli as {name} shows\n{shown}");
        println!("     accepted: {name}");
        Ok(())
    }

    /// The client gets no connection, and the log has the reason.
    fn expect_refused(&self, key_store: &Path, reason: &str) -> Result<()> {
        let count = || self.server.log().to_lowercase().matches(&reason.to_lowercase()).count();
        let before = count();
        let shown = self.whoami(key_store, REFUSAL_TIME)?;
        ensure!(!shown.contains(IDENTITY_PREFIX), "{} is accepted:\n{shown}", key_store.display());
        ensure!(before < count(), "{reason} is not logged:\n{}", self.server.log_tail());
        println!("     refused, {reason}: {}", key_store.display());
        Ok(())
    }

    /// Opens sessions with their ids.
    fn sessions(&self, key_store: &Path) -> Result<Vec<(BlockingClient, Option<ox_client::SessionId>)>> {
        let mut properties = ClientProperties::default();
        properties.set("zookeeper.client.secure", "true");
        properties.set("zookeeper.ssl.keyStore.location", &key_store.display().to_string());
        properties.set("zookeeper.ssl.trustStore.location", &self.trust.display().to_string());
        let sessions = (0..SESSIONS).map(|number| {
            let builder = properties.apply(Client::builder().servers(&self.secure.to_string())?)?;
            let client = builder.connect_blocking().context("open a session")?;
            if number == 0 {
                client.create("/alice", b"", CreateMode::Ephemeral)?;
            }
            let session = client.session().map(|ticket| ticket.id);
            Ok((client, session))
        });
        sessions.collect()
    }

    /// Both CAs, then certificates of the new one, then the new CA alone, as the documentation says.
    fn rotate(&self, old: &Issuer<'_>, new: &Issuer<'_>, revoked: &Path) -> Result<()> {
        let reloads = || self.server.log().matches("certificates of the client port reloaded").count();
        let step = |change: &dyn Fn() -> Result<()>| {
            let before = reloads();
            change()?;
            wait_until("the server has read its files again", || before < reloads());
            Ok::<(), anyhow::Error>(())
        };
        step(&|| {
            let none = new.ca.revocation_list(&[], VALID)?;
            replace(revoked, &format!("{}{none}", fs::read_to_string(revoked)?))?;
            replace(&self.trust, &format!("{}{}", old.ca.certificate(), new.ca.certificate()))
        })?;
        step(&|| new.issue("server", HERE, VALID).map(drop))?;
        let (bob, _) = new.issue("bob", HERE, VALID)?;
        self.expect_accepted(&bob, "bob")?;
        let (carol, _) = old.issue("carol", HERE, VALID)?;
        self.expect_accepted(&carol, "carol")?;
        step(&|| replace(&self.trust, new.ca.certificate()))?;
        self.expect_accepted(&bob, "bob")?;
        self.expect_refused(&carol, NO_CERTIFICATE)
    }
}
