//! A KDC of MIT Kerberos with a realm of its own, on loopback, with all files in a temporary directory.

use ox_sasl::krb5::WallTime;
use ox_sasl::krb5::crypto::Etype;
use ox_sasl::krb5::initiator::Credential;
use ox_sasl::krb5::kdc::{AsExchange, InitialSecret, KdcStep, TgsExchange, tcp_frame, tcp_reply_length};
use ox_sasl::krb5::keytab::Keytab;
use ox_sasl::krb5::krb5_conf::Krb5Conf;
use ox_sasl::krb5::principal::Principal;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

pub(crate) const REALM: &str = "OXKEEPER.TEST";
pub(crate) const SERVICE: &str = "zookeeper/localhost@OXKEEPER.TEST";
pub(crate) const CLIENT: &str = "bob@OXKEEPER.TEST";
pub(crate) const PASSWORD: &str = "bob secret";

pub(crate) struct MitKdc {
    directory: TempDir,
    port: u16,
    process: Child,
}

impl MitKdc {
    /// `None` if MIT's programs are not installed. `key_types` are the encryption types of all keys.
    pub(crate) fn start(key_types: &str) -> Option<Self> {
        if !["/usr/sbin/krb5kdc", "/usr/sbin/kadmin.local", "/usr/bin/kinit"]
            .iter()
            .all(|path| fs::exists(path).unwrap())
        {
            eprintln!("skipped: krb5-kdc, krb5-admin-server or krb5-user is not installed");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        let path = directory.path().display();
        let conf = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n\
             dns_canonicalize_hostname = false\n ticket_lifetime = 1h\n renew_lifetime = 2h\n\
             [realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n[domain_realm]\n localhost = {REALM}\n"
        );
        let kdc_conf = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
             [realms]\n {REALM} = {{\n  database_name = {path}/principal\n  key_stash_file = {path}/stash\n  acl_file = {path}/acl\n\
             max_life = 12h\n  max_renewable_life = 7d\n  supported_enctypes = {key_types}\n  default_principal_flags = +preauth\n }}\n\
             [logging]\n kdc = FILE:{path}/kdc.log\n"
        );
        fs::write(directory.path().join("krb5.conf"), conf).unwrap();
        fs::write(directory.path().join("kdc.conf"), kdc_conf).unwrap();
        let environment = environment(&directory);
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).envs(environment.clone()).output().unwrap();
            assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run("/usr/sbin/kdb5_util", &["create", "-s", "-r", REALM, "-P", "master"]);
        for query in [
            format!("addprinc -pw \"{PASSWORD}\" {CLIENT}"),
            format!("addprinc -randkey {SERVICE}"),
            format!("ktadd -norandkey -k {path}/bob.keytab {CLIENT}"),
            format!("ktadd -norandkey -k {path}/zk.keytab {SERVICE}"),
        ] {
            run("/usr/sbin/kadmin.local", &["-r", REALM, "-q", &query]);
        }
        let process = Command::new("/usr/sbin/krb5kdc")
            .args(["-n", "-r", REALM])
            .envs(environment.clone())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let kdc = Self { directory, port, process };
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(kdc);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the KDC does not listen");
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        environment(&self.directory)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn keytab(&self, name: &str) -> Keytab {
        Keytab::parse(&fs::read(self.file(name)).unwrap()).unwrap()
    }

    pub(crate) fn conf(&self) -> Krb5Conf {
        let text = fs::read_to_string(self.file("krb5.conf")).unwrap();
        Krb5Conf::parse("krb5.conf", &text, &mut |_| Err("no includes".to_owned())).unwrap()
    }

    /// Runs `kinit` for the client.
    pub(crate) fn kinit(&self, options: &[&str]) {
        let keytab = self.file("bob.keytab");
        let mut command = Command::new("kinit");
        command.args(options).arg("-k").arg("-t").arg(keytab).arg(CLIENT).envs(self.environment());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn over_udp(&self, request: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send_to(request, ("127.0.0.1", self.port)).unwrap();
        let mut reply = vec![0; 65536];
        let length = socket.recv(&mut reply).unwrap();
        reply.truncate(length);
        reply
    }

    pub(crate) fn over_tcp(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(&tcp_frame(request)).unwrap();
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).unwrap();
        let mut reply = vec![0; tcp_reply_length(prefix).unwrap()];
        stream.read_exact(&mut reply).unwrap();
        reply
    }

    /// Moves requests and replies, over UDP first.
    pub(crate) fn exchange(
        &self,
        first: Vec<u8>,
        mut on_reply: impl FnMut(&[u8]) -> Result<KdcStep, ox_sasl::krb5::KerberosError>,
    ) -> Result<Credential, ox_sasl::krb5::KerberosError> {
        let mut request = first;
        let mut reply = self.over_udp(&request);
        loop {
            match on_reply(&reply)? {
                KdcStep::Granted(credential) => return Ok(*credential),
                KdcStep::RepeatOverTcp => reply = self.over_tcp(&request),
                KdcStep::Send(next) => {
                    reply = self.over_udp(&next);
                    request = next;
                }
            }
        }
    }

    pub(crate) fn login(
        &self,
        secret: InitialSecret,
        etypes: &[Etype],
    ) -> Result<Credential, ox_sasl::krb5::KerberosError> {
        let client = Principal::parse(CLIENT, None).unwrap();
        let conf = self.conf();
        let exchange = AsExchange::new(client, secret, etypes)?;
        let mut exchange = exchange.with_lifetimes(conf.ticket_lifetime, conf.renew_lifetime);
        let first = exchange.start(now(), &mut random);
        self.exchange(first, |reply| exchange.on_reply(now(), reply, &mut random))
    }

    pub(crate) fn service_ticket(
        &self,
        tgt: Credential,
        service: &str,
    ) -> Result<Credential, ox_sasl::krb5::KerberosError> {
        let service = Principal::parse(service, None).unwrap();
        let mut exchange = TgsExchange::new(tgt, service, &Etype::ALL);
        let first = exchange.request(now(), &mut random);
        self.exchange(first, |reply| exchange.on_reply(now(), reply, &mut random))
    }
}

impl Drop for MitKdc {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn environment(directory: &TempDir) -> Vec<(String, String)> {
    let file = |name: &str| directory.path().join(name).display().to_string();
    vec![
        ("KRB5_CONFIG".to_owned(), file("krb5.conf")),
        ("KRB5_KDC_PROFILE".to_owned(), file("kdc.conf")),
        ("KRB5_KTNAME".to_owned(), file("zk.keytab")),
        ("KRB5CCNAME".to_owned(), format!("FILE:{}", file("ccache"))),
        ("KRB5RCACHENAME".to_owned(), "none:".to_owned()),
    ]
}

/// A port that is free for UDP and TCP.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a real KDC compares clocks")]
pub(crate) fn now() -> WallTime {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    WallTime(i64::try_from(elapsed.as_micros()).unwrap())
}

pub(crate) fn random(bytes: &mut [u8]) {
    fs::File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap();
}
