//! A shell whose streams are captured.

use ox_server::TestServer;
use ox_shell::Invocation;
use ox_shell::output::Output;
use ox_shell::shell::{Shell, ShellMode};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

/// An address without a listener, reserved as long as this value lives.
pub(crate) struct UnusedPort(socket2::Socket);

impl UnusedPort {
    pub(crate) fn new() -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> String {
        self.0.local_addr().unwrap().as_socket().unwrap().to_string()
    }
}

/// The bytes written to a stream.
#[derive(Clone, Default)]
pub(crate) struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Text {
    /// Takes the text written since the last call.
    pub(crate) fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

/// Captured streams for a shell.
pub(crate) fn streams() -> (Output, Text, Text) {
    let (out, err) = (Text::default(), Text::default());
    (Output::new(Box::new(out.clone()), Box::new(err.clone())), out, err)
}

/// A shell in the style of `zkCli` with an open session.
pub(crate) struct Session {
    pub(crate) shell: Shell,
    pub(crate) runtime: Runtime,
    out: Text,
    err: Text,
}

/// The output of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Session {
    pub(crate) fn begin(server: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (output, out, err) = streams();
        let invocation = Invocation { server: server.to_owned(), zkcli: true, ..Invocation::default() };
        let mut shell = Shell::new(invocation, ShellMode::Script, output);
        runtime.block_on(async {
            shell.connect().await.unwrap();
            shell.await_connection().await;
        });
        let this = Self { shell, runtime, out, err };
        this.taken();
        this
    }

    pub(crate) fn with(server: &TestServer) -> Self {
        Self::begin(&server.address().to_string())
    }

    fn taken(&self) -> Written {
        Written { out: self.out.take(), err: self.err.take() }
    }

    /// Runs a line and returns its output.
    pub(crate) fn run(&mut self, line: &str) -> Written {
        let _ = self.runtime.block_on(self.shell.run_line(line));
        self.taken()
    }

    /// Runs a line that must print no errors, and returns its output.
    pub(crate) fn ok(&mut self, line: &str) -> String {
        let written = self.run(line);
        assert_eq!(self.shell.status(), 0, "{line}: {}", written.err);
        written.out
    }
}
