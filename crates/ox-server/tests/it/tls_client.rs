//! Certificates in a temporary directory, and TLS clients that look like plain ones to the tests: a tunnel in this
//! process encrypts what they send.

use ox_testkit::{RawClient, RawConnection, RawHandshake};
use ox_tls::generate::{CertificateSubject, DevelopmentCa, Validity};
use ox_tls::{
    CertificateInfo, ClientEndpoint, ClientTls, PeerEndpoint, ServerTls, SettingsGroup, StoreFiles, StorePassword,
    TlsSettings,
};
use rustls::{ClientConnection, HandshakeKind};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// From 2020 to the end of 2119.
pub(crate) const VALID: Validity = Validity { not_before: 1_577_836_800, not_after: 4_733_510_400 };
/// The whole year of 2020.
pub(crate) const EXPIRED: Validity = Validity { not_before: 1_577_836_800, not_after: 1_609_459_200 };

/// A CA, and stores with certificates that it has issued.
pub(crate) struct Certificates {
    directory: TempDir,
    ca: DevelopmentCa,
}

impl Certificates {
    /// Creates a CA, and `server.pem` for a server on this host.
    pub(crate) fn new() -> Self {
        Self::of_ca("Test CA")
    }

    pub(crate) fn of_ca(name: &str) -> Self {
        let ca = DevelopmentCa::create(name, VALID).unwrap();
        let certificates = Self { directory: tempfile::tempdir().unwrap(), ca };
        certificates.write("ca.pem", certificates.ca.certificate());
        certificates.issue("server", VALID);
        certificates
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes `<name>.pem` with a new key, and a certificate for `CN=<name>` and the loopback address.
    pub(crate) fn issue(&self, name: &str, validity: Validity) -> PathBuf {
        self.issue_as(name, "127.0.0.1", validity)
    }

    /// The same for another host name or address.
    pub(crate) fn issue_for(&self, name: &str, host: &str) -> PathBuf {
        self.issue_as(name, host, VALID)
    }

    fn issue_as(&self, name: &str, host: &str, validity: Validity) -> PathBuf {
        let address = host.parse().ok();
        let host_names = if address.is_some() { Vec::new() } else { vec![host.to_owned()] };
        let addresses = address.into_iter().collect();
        let subject = CertificateSubject { common_name: name.to_owned(), host_names, addresses };
        self.write(&format!("{name}.pem"), &self.ca.issue(&subject, validity).unwrap().key_store())
    }

    /// Writes `ca.crl`, a list that revokes the certificates of these names.
    pub(crate) fn revoke(&self, names: &[&str]) -> PathBuf {
        let revoked: Vec<_> = names.iter().map(|name| self.certificate_of(name)).collect();
        let list = self.ca.revocation_list(&revoked, VALID).unwrap();
        self.write("ca.crl.new", &list);
        std::fs::rename(self.path("ca.crl.new"), self.path("ca.crl")).unwrap();
        self.path("ca.crl")
    }

    fn certificate_of(&self, name: &str) -> CertificateInfo {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.client_auth = Some("none".to_owned());
        settings.key_store.location = Some(self.path(&format!("{name}.pem")));
        let server = ServerTls::build(&settings, &StoreFiles::read(&settings).unwrap()).unwrap();
        server.certificates()[0].clone()
    }

    /// Lines of `zoo.cfg` for a secure port with `server.pem`.
    pub(crate) fn secure_port(&self) -> String {
        format!("secureClientPort=0\nsecureClientPortAddress=127.0.0.1\n{}", self.stores())
    }

    pub(crate) fn stores(&self) -> String {
        let (key, trust) = (self.path("server.pem"), self.path("ca.pem"));
        format!("ssl.keyStore.location={}\nssl.trustStore.location={}\n", key.display(), trust.display())
    }

    /// A client without a certificate.
    pub(crate) fn anonymous(&self) -> TlsClient {
        TlsClient::new(None, &self.path("ca.pem"))
    }

    /// A client with the certificate `CN=<name>`.
    pub(crate) fn client(&self, name: &str) -> TlsClient {
        TlsClient::new(Some((&self.issue(name, VALID), None)), &self.path("ca.pem"))
    }
}

/// The settings of a client. Its connections resume each other's TLS sessions.
pub(crate) struct TlsClient {
    endpoint: ClientEndpoint,
}

/// What happened in a tunnel.
#[derive(Clone, Debug, Default)]
pub(crate) struct TunnelReport {
    pub(crate) kind: Option<HandshakeKind>,
    pub(crate) server_subject: String,
    /// The error that ended the connection.
    pub(crate) error: Option<String>,
}

impl TlsClient {
    /// The key store, if any, comes with its password.
    pub(crate) fn new(key_store: Option<(&Path, Option<&str>)>, trust_store: &Path) -> Self {
        Self::with(key_store, trust_store, |_| ())
    }

    pub(crate) fn with(
        key_store: Option<(&Path, Option<&str>)>,
        trust_store: &Path,
        change: impl FnOnce(&mut TlsSettings),
    ) -> Self {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.key_store.location = key_store.map(|(path, _)| path.to_owned());
        settings.key_store.password = key_store.and_then(|(_, password)| password).map(StorePassword::new);
        settings.trust_store.location = Some(trust_store.to_owned());
        change(&mut settings);
        let tls = ClientTls::build(&settings, &StoreFiles::read(&settings).unwrap()).unwrap();
        Self { endpoint: tls.endpoint(PeerEndpoint::new("127.0.0.1".parse().unwrap(), [])) }
    }

    /// Connects and completes the client's part of the handshake. With TLS 1.3 the server may refuse the certificate
    /// afterwards.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<(RawConnection, Arc<Mutex<TunnelReport>>)> {
        self.begin(address)?.finish()
    }

    /// Connects and sends the first flight of a handshake.
    pub(crate) fn begin(&self, address: SocketAddr) -> io::Result<BegunHandshake> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut tls = ClientConnection::new(self.endpoint.config.clone(), self.endpoint.server_name.clone()).unwrap();
        while tls.wants_write() {
            tls.write_tls(&mut socket)?;
        }
        Ok(BegunHandshake { socket, tls })
    }

    pub(crate) fn raw(&self, address: SocketAddr) -> RawConnection {
        self.connect(address).expect("the handshake succeeds").0
    }

    /// A client with a new session.
    pub(crate) fn open(&self, address: SocketAddr) -> RawClient {
        let handshake = RawHandshake::new(crate::server_fixture::TIMEOUT_MS);
        RawClient::try_open_over(self.raw(address), &handshake).expect("a session")
    }

    /// Connects although the server refuses the handshake, and returns why.
    pub(crate) fn refusal(&self, address: SocketAddr) -> String {
        match self.connect(address) {
            Err(error) => error.to_string(),
            Ok((mut raw, report)) => {
                raw.try_send(b"ruok");
                assert_eq!(raw.rest(), b"", "a refused client gets no reply");
                let error = report.lock().unwrap().error.clone();
                error.unwrap_or_default()
            }
        }
    }
}

/// A handshake whose first flight is sent.
pub(crate) struct BegunHandshake {
    socket: TcpStream,
    tls: ClientConnection,
}

impl BegunHandshake {
    pub(crate) fn await_answer(&self) {
        assert_ne!(self.socket.peek(&mut [0]).unwrap(), 0, "the server closes the connection");
    }

    pub(crate) fn finish(mut self) -> io::Result<(RawConnection, Arc<Mutex<TunnelReport>>)> {
        while self.tls.is_handshaking() {
            self.tls.complete_io(&mut self.socket)?;
        }
        let Self { socket, tls } = self;
        let certificate = CertificateInfo::parse(&tls.peer_certificates().unwrap()[0]).unwrap();
        let report = TunnelReport { kind: tls.handshake_kind(), server_subject: certificate.subject, error: None };
        let report = Arc::new(Mutex::new(report));
        Ok((RawConnection::over(tunnel(socket, tls, &report)), report))
    }
}

/// The plain end of a tunnel: one thread encrypts, the other decrypts.
fn tunnel(socket: TcpStream, tls: ClientConnection, report: &Arc<Mutex<TunnelReport>>) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (inner, _) = listener.accept().unwrap();
    inner.set_nodelay(true).unwrap();
    let tls = Arc::new(Mutex::new(tls));
    let (plain_in, socket_out, tls_out) = (inner.try_clone().unwrap(), socket.try_clone().unwrap(), Arc::clone(&tls));
    std::thread::spawn(move || encrypt(plain_in, socket_out, &tls_out));
    let report = Arc::clone(report);
    std::thread::spawn(move || {
        let error = decrypt(&inner, &socket, &tls).err();
        report.lock().unwrap().error = error.map(|error| error.to_string());
        let _ = inner.shutdown(Shutdown::Both);
        let _ = socket.shutdown(Shutdown::Both);
    });
    plain
}

fn encrypt(mut plain: TcpStream, mut socket: TcpStream, tls: &Mutex<ClientConnection>) {
    let mut buffer = vec![0; 48 << 10];
    loop {
        let count = plain.read(&mut buffer).unwrap_or(0);
        let mut records = Vec::new();
        {
            let mut tls = tls.lock().unwrap();
            if count == 0 {
                tls.send_close_notify();
            } else if tls.writer().write_all(&buffer[..count]).is_err() {
                return; // the server has refused the certificate
            }
            while tls.wants_write() {
                tls.write_tls(&mut records).unwrap();
            }
        }
        if socket.write_all(&records).is_err() || count == 0 {
            let _ = socket.shutdown(Shutdown::Write);
            return;
        }
    }
}

fn decrypt(mut plain: &TcpStream, mut socket: &TcpStream, tls: &Mutex<ClientConnection>) -> io::Result<()> {
    let (mut records, mut text) = (vec![0; 64 << 10], Vec::new());
    loop {
        let count = socket.read(&mut records)?;
        let mut rest = &records[..count];
        let mut tls = tls.lock().unwrap();
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            tls.process_new_packets().map_err(io::Error::other)?;
            match tls.reader().read_to_end(&mut text) {
                Ok(_) => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                Err(error) => return Err(error),
            }
        }
        drop(tls);
        plain.write_all(&text)?;
        text.clear();
        if count == 0 {
            return Ok(());
        }
    }
}
