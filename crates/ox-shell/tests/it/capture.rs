//! A shell whose streams can be read.

use ox_server::Ephemeral;
use ox_shell::Invocation;
use ox_shell::output::Output;
use ox_shell::shell::{Place, Shell};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

/// What was written to a stream.
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
    /// What is new since the last look.
    pub(crate) fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

/// Streams for a shell.
pub(crate) fn streams() -> (Output, Text, Text) {
    let (out, err) = (Text::default(), Text::default());
    (Output::new(Box::new(out.clone()), Box::new(err.clone())), out, err)
}

/// A shell with a session.
pub(crate) struct Session {
    pub(crate) shell: Shell,
    pub(crate) runtime: Runtime,
    out: Text,
    err: Text,
}

/// What a command wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Session {
    pub(crate) fn begin(server: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (output, out, err) = streams();
        let invocation = Invocation { server: server.to_owned(), ..Invocation::default() };
        let mut shell = Shell::new(invocation, Place::Script, output);
        runtime.block_on(async {
            shell.connect().await.unwrap();
            shell.await_connection().await;
        });
        let this = Self { shell, runtime, out, err };
        this.taken();
        this
    }

    pub(crate) fn with(server: &Ephemeral) -> Self {
        Self::begin(&server.address().to_string())
    }

    fn taken(&self) -> Written {
        Written { out: self.out.take(), err: self.err.take() }
    }

    /// Runs a line.
    pub(crate) fn run(&mut self, line: &str) -> Written {
        let _ = self.runtime.block_on(self.shell.run_line(line));
        self.taken()
    }

    /// Runs a line that prints no errors, and gives what it prints.
    pub(crate) fn ok(&mut self, line: &str) -> String {
        let written = self.run(line);
        assert_eq!(self.shell.status(), 0, "{line}: {}", written.err);
        written.out
    }
}
