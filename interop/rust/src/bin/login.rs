//! One login of the crate zookeeper-client: `login HOST:PORT PATH EXPECTED [ca FILE] [key FILE] [user NAME PASSWORD]`.
//!
//! `ca` turns TLS on, `key` names a PEM file with a private key and its certificate. EXPECTED is the identities of the client, as
//! `scheme:id,scheme:id` without that of its address, or `refused`. An accepted client creates the node with an ACL for its
//! identities only, and another client must not read it. Prints `ok`, or fails.

use std::fs;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Acls, Client, Connector, CreateMode, Error, SaslOptions, TlsOptions};

const WAIT: Duration = Duration::from_secs(15);
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// How a client proves its identity.
#[derive(Default)]
struct Login {
    ca: Option<String>,
    key: Option<String>,
    user: Option<(String, String)>,
}

impl Login {
    fn parse(mut words: &[String]) -> Login {
        let mut login = Login::default();
        while let [name, rest @ ..] = words {
            let next = rest.first().expect("a value").clone();
            words = match name.as_str() {
                "ca" => {
                    login.ca = Some(next);
                    &rest[1..]
                }
                "key" => {
                    login.key = Some(next);
                    &rest[1..]
                }
                "user" => {
                    login.user = Some((next, rest[1].clone()));
                    &rest[2..]
                }
                other => panic!("unknown word {other}"),
            };
        }
        login
    }

    fn connector(&self) -> Connector {
        let mut connector = Client::connector().with_session_timeout(SESSION_TIMEOUT).with_fail_eagerly();
        if let Some(ca) = &self.ca {
            let read = |file: &str| fs::read_to_string(file).expect("read a PEM file");
            let mut options = TlsOptions::new().with_pem_ca(&read(ca)).expect("CA certificates");
            if let Some(key) = &self.key {
                options = options.with_pem_identity(&read(key), &read(key)).expect("a key and its certificate");
            }
            connector = connector.with_tls(options);
        }
        if let Some((user, password)) = &self.user {
            connector = connector.with_sasl(SaslOptions::digest_md5(user.clone(), password.clone()));
        }
        connector
    }

    async fn connect(&self, server: &str) -> Result<Client, Error> {
        let scheme = if self.ca.is_some() { "tcp+tls" } else { "tcp" };
        let address = format!("{scheme}://{server}");
        timeout(WAIT, self.connector().connect(&address)).await.expect("connecting takes too long")
    }
}

async fn run(server: &str, path: &str, expected: &str, login: Login) {
    let client = match login.connect(server).await {
        Err(_) if expected == "refused" => return,
        client => client.expect("the client is accepted"),
    };
    assert_ne!("refused", expected, "the client is accepted");
    let users = client.list_auth_users().await.expect("whoami");
    let mut ids: Vec<String> = users.iter().map(|user| format!("{}:{}", user.scheme(), user.user())).collect();
    ids.retain(|id| !id.starts_with("ip:"));
    ids.sort();
    assert_eq!(expected, ids.join(","), "identities");
    client.create(path, b"x", &CreateMode::Persistent.with_acls(Acls::creator_all())).await.expect("create");
    assert_eq!(b"x", client.get_data(path).await.expect("get").0.as_slice());
    let without = Login { ca: login.ca.clone(), ..Login::default() };
    let other = without.connect(server).await.expect("a client without an identity");
    assert_eq!(Err(Error::NoAuth), other.get_data(path).await.map(drop));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, path, expected, rest @ ..] = arguments.as_slice() else { panic!("login HOST:PORT PATH EXPECTED ..") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("build the runtime");
    runtime.block_on(run(server, path, expected, Login::parse(rest)));
    println!("ok");
}
