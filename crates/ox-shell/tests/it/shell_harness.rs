//! A shell with its own server.

use crate::capture::{Text, streams};
use ox_client::{Client, CreateMode, CreateOptions, Null, acl};
use ox_server::{Server, TestServer};
use ox_shell::Invocation;
use ox_shell::shell::{Shell, ShellMode};

/// A server, a shell with a session, and a second client.
pub(crate) struct ShellHarness {
    pub(crate) server: TestServer,
    pub(crate) shell: Shell,
    pub(crate) out: Text,
    pub(crate) err: Text,
    pub(crate) other: Client,
}

/// Exit code and output of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandResult {
    pub(crate) status: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandResult {
    /// The output lines of a command that must succeed without messages.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<&str> {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{}", self.out);
        self.out.lines().collect()
    }
}

impl ShellHarness {
    pub(crate) async fn new() -> Self {
        let server = Server::ephemeral().unwrap();
        let other = Client::connect(&server.address().to_string()).await.unwrap();
        let invocation = Invocation { server: server.address().to_string(), ..Invocation::default() };
        let (output, out, err) = streams();
        let mut shell = Shell::new(invocation, ShellMode::Script, output);
        shell.set_prints_events(false);
        shell.connect().await.unwrap();
        Self { server, shell, out, err, other }
    }

    /// Runs a line and returns its result.
    pub(crate) async fn run(&mut self, line: &str) -> CommandResult {
        let _ = self.shell.run_line(line).await; // the exit code reports it
        CommandResult { status: self.shell.status(), out: self.out.take(), err: self.err.take() }
    }

    /// Creates nodes from paths with optional data: `/a=1 /a/b`.
    pub(crate) async fn create_nodes(&self, nodes: &str) {
        for node in nodes.split_whitespace() {
            let (path, data) = node.split_once('=').unwrap_or((node, ""));
            self.other.create(path, data, CreateMode::Persistent).await.unwrap();
        }
    }

    /// Creates nodes with every kind of data (text, empty, null, binary) and with blanks and non-ASCII characters in
    /// their names.
    pub(crate) async fn create_odd_nodes(&self) {
        self.create_nodes("/odd=text /odd/empty /odd/größe=名前").await;
        let other = &self.other;
        other.create("/odd/null", Null, CreateMode::Persistent).await.unwrap();
        other.create("/odd/bytes", [0xff, 0, 0xfe, b'\n', b'x'], CreateMode::Persistent).await.unwrap();
        other.create("/odd/two words", "a\nb\nc\n", CreateMode::Persistent).await.unwrap();
    }

    /// Creates a node that only its owner may read, with a child.
    pub(crate) async fn create_locked_node(&self, path: &str) {
        let owner = Client::connect(&self.server.address().to_string()).await.unwrap();
        owner.add_auth("digest", "bob:secret").await.unwrap();
        let options = CreateOptions::new(CreateMode::Persistent).with_acl(acl::creator());
        owner.create(path, "secret", &options).await.unwrap();
        owner.create(&format!("{path}/below"), "secret", &options).await.unwrap();
        owner.close().await.unwrap();
    }
}
