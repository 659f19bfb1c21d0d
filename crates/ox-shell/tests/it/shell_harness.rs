//! A shell in front of a server of its own.

use crate::capture::{Text, streams};
use ox_client::{Client, CreateMode, CreateOptions, Null, acl};
use ox_server::{Ephemeral, Server};
use ox_shell::Invocation;
use ox_shell::shell::{Place, Shell};

/// A server, a shell with a session, and another client.
pub(crate) struct Desk {
    pub(crate) server: Ephemeral,
    pub(crate) shell: Shell,
    pub(crate) out: Text,
    pub(crate) err: Text,
    pub(crate) other: Client,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) status: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// The lines of a command that did what it was asked to, and had nothing to say.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<&str> {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{}", self.out);
        self.out.lines().collect()
    }
}

impl Desk {
    pub(crate) async fn new() -> Self {
        let server = Server::ephemeral().unwrap();
        let other = Client::connect(&server.address().to_string()).await.unwrap();
        let invocation = Invocation { server: server.address().to_string(), ..Invocation::default() };
        let (output, out, err) = streams();
        let mut shell = Shell::new(invocation, Place::Script, output);
        shell.set_prints_events(false);
        shell.connect().await.unwrap();
        Self { server, shell, out, err, other }
    }

    /// Runs a line.
    pub(crate) async fn run(&mut self, line: &str) -> Done {
        let _ = self.shell.run_line(line).await; // the status says it
        Done { status: self.shell.status(), out: self.out.take(), err: self.err.take() }
    }

    /// Creates nodes from paths, each with data behind a sign: `/a=1 /a/b`.
    pub(crate) async fn plant(&self, nodes: &str) {
        for node in nodes.split_whitespace() {
            let (path, data) = node.split_once('=').unwrap_or((node, ""));
            self.other.create(path, data, CreateMode::Persistent).await.unwrap();
        }
    }

    /// One node of each kind of data: text, none, null and bytes that are no text; names with blanks and foreign letters.
    pub(crate) async fn plant_odd_ones(&self) {
        self.plant("/odd=text /odd/empty /odd/größe=名前").await;
        let other = &self.other;
        other.create("/odd/null", Null, CreateMode::Persistent).await.unwrap();
        other.create("/odd/bytes", [0xff, 0, 0xfe, b'\n', b'x'], CreateMode::Persistent).await.unwrap();
        other.create("/odd/two words", "a\nb\nc\n", CreateMode::Persistent).await.unwrap();
    }

    /// A node that only its owner may read, with a child.
    pub(crate) async fn plant_locked(&self, path: &str) {
        let owner = Client::connect(&self.server.address().to_string()).await.unwrap();
        owner.add_auth("digest", "bob:secret").await.unwrap();
        let options = CreateOptions::new(CreateMode::Persistent).with_acl(acl::creator());
        owner.create(path, "secret", &options).await.unwrap();
        owner.create(&format!("{path}/below"), "secret", &options).await.unwrap();
        owner.close().await.unwrap();
    }
}
