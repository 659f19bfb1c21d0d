//! Runs cases one after the other and prints one line per case.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zookeeper_client::{
    Acls, Client, CreateMode, CreateOptions, Error, EventType, OneshotWatcher, PersistentWatcher, SessionState,
    StateWatcher, WatchedEvent,
};

const CASE_TIMEOUT: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(10);
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
pub const SHORT_TIMEOUT: Duration = Duration::from_secs(2);

pub const OPEN: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
pub const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

/// The server under test, a proxy in front of it, and the control port that injects faults.
#[derive(Clone)]
pub struct Fixture {
    pub server: String,
    pub proxy: String,
    pub control: String,
}

/// The payload of a panic that ends a case which cannot run on this server.
struct Skip(&'static str);

pub struct Suite {
    fixture: Fixture,
    filter: String,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Suite {
    pub fn new(fixture: Fixture, filter: String) -> Self {
        std::panic::set_hook(Box::new(|panic| {
            if panic.payload().downcast_ref::<Skip>().is_none() {
                eprintln!("{panic}");
            }
        }));
        Suite { fixture, filter, passed: 0, failed: 0, skipped: 0 }
    }

    /// Runs a case, which fails by a panic.
    pub async fn test(&mut self, name: &str, body: impl AsyncFn(&Case) + 'static) {
        if !name.contains(&self.filter) {
            return;
        }
        let start = Instant::now();
        let (fixture, root) = (self.fixture.clone(), format!("/rust-{}", name.replace(' ', "-")));
        let mut task = tokio::task::spawn_local(async move {
            let case = Case::start(fixture, root).await;
            body(&case).await;
        });
        let failure = match timeout(CASE_TIMEOUT, &mut task).await {
            Ok(Ok(())) => None,
            Ok(Err(e)) => match e.try_into_panic().map(|panic| panic.downcast::<Skip>()) {
                Ok(Ok(skip)) => {
                    self.skipped += 1;
                    println!("skip {name} {}", skip.0);
                    return;
                }
                Ok(Err(panic)) => Some(message(panic.as_ref())),
                Err(e) => Some(e.to_string()),
            },
            Err(_) => {
                task.abort();
                Some(format!("did not finish within {CASE_TIMEOUT:?}"))
            }
        };
        self.fixture.command("open").await;
        match failure {
            None => {
                self.passed += 1;
                println!("ok   {name} {}", start.elapsed().as_millis());
            }
            Some(reason) => {
                self.failed += 1;
                println!("fail {name} {}", reason.replace('\n', " "));
            }
        }
    }

    /// Prints the summary line and returns the exit code.
    pub fn finish(&self) -> ExitCode {
        println!("rust: {} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (None, Some(text)) => (*text).to_owned(),
        (None, None) => "panic".to_owned(),
    }
}

impl Fixture {
    /// Sends a control command and waits for its reply, which follows its effect.
    pub async fn command(&self, command: &str) {
        let mut stream = TcpStream::connect(&self.control).await.unwrap();
        stream.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).await.unwrap();
        match reply.trim() {
            "ok" => (),
            "error: not our server" => std::panic::panic_any(Skip("xtask did not start the server")),
            other => panic!("{command}: {other}"),
        }
    }
}

/// A running case with a separate root node.
pub struct Case {
    pub fixture: Fixture,
    pub root: String,
    /// Without the proxy, authenticated as super, to prepare and inspect nodes.
    pub zk: Client,
}

impl Case {
    async fn start(fixture: Fixture, root: String) -> Case {
        let zk = connect(&fixture.server, SESSION_TIMEOUT).await;
        zk.auth("digest", b"super:test").await.unwrap();
        delete_tree(&zk, &root).await;
        zk.create(&root, b"", &OPEN).await.unwrap();
        Case { fixture, root, zk }
    }

    pub fn path(&self, rest: &str) -> String {
        format!("{}/{rest}", self.root)
    }

    /// Creates a persistent node with an open ACL and returns its path.
    pub async fn node(&self, rest: &str, data: &str) -> String {
        let path = self.path(rest);
        self.zk.create(&path, data.as_bytes(), &OPEN).await.unwrap();
        path
    }

    pub async fn touch(&self, path: &str) {
        self.zk.set_data(path, b"touched", None).await.unwrap();
    }

    /// A client that connects without the proxy.
    pub async fn connect(&self) -> Client {
        connect(&self.fixture.server, SESSION_TIMEOUT).await
    }

    /// A client that connects through the proxy.
    pub async fn connect_by_proxy(&self, session_timeout: Duration) -> Client {
        connect(&self.fixture.proxy, session_timeout).await
    }

    pub async fn command(&self, command: &str) {
        self.fixture.command(command).await;
    }
}

async fn connect(address: &str, session_timeout: Duration) -> Client {
    let connector = Client::connector().with_session_timeout(session_timeout).with_server_version(3, 9, 3);
    timeout(WAIT, connector.connect(address)).await.expect("connecting takes too long").unwrap()
}

async fn delete_tree(zk: &Client, root: &str) {
    let mut paths = vec![root.to_owned()];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        match zk.list_children(&path).await {
            Ok(names) => paths.extend(names.iter().map(|name| format!("{path}/{name}"))),
            Err(Error::NoNode) => return,
            Err(e) => panic!("{path}: {e}"),
        }
        next += 1;
    }
    for path in paths.iter().rev() {
        zk.delete(path, None).await.unwrap();
    }
}

/// Checks the event of a one-shot watch and returns its zxid.
pub async fn expect_once(watcher: OneshotWatcher, kind: EventType, path: &str) -> i64 {
    check(timeout(WAIT, watcher.changed()).await.expect("no event"), kind, path)
}

/// Checks the next event of a persistent watch and returns its zxid.
pub async fn expect(watcher: &mut PersistentWatcher, kind: EventType, path: &str) -> i64 {
    check(timeout(WAIT, watcher.changed()).await.expect("no event"), kind, path)
}

fn check(event: WatchedEvent, kind: EventType, path: &str) -> i64 {
    assert_eq!((kind, path), (event.event_type, event.path.as_str()));
    event.zxid
}

/// Skips session states until the wanted one. A state that ended before this call is never seen.
pub async fn await_state(states: &mut StateWatcher, wanted: SessionState) {
    timeout(WAIT, async { while states.changed().await != wanted {} }).await.expect("session state not reached");
}

/// Waits until a client has reconnected after a lost connection.
pub async fn await_reply(client: &Client) {
    let replied = async {
        while client.check_stat("/").await == Err(Error::ConnectionLoss) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT, replied).await.expect("no connection");
}

/// Waits until a node does not exist.
pub async fn await_absence(zk: &Client, path: &str) {
    let gone = async {
        while zk.check_stat(path).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT, gone).await.expect("the node is not deleted");
}
