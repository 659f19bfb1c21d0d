//! The Java process that runs Curator's recipes. It reads one task per line and replies with one line per task.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::oneshot;

use crate::interop::suites::{self, java};
use crate::interop::workspace::Workspace;

const MAIN: &str = "oxkeeper.curator.CuratorWorker";

/// Receivers of the replies that have not arrived yet, by task id.
type PendingTasks = Arc<Mutex<HashMap<usize, oneshot::Sender<String>>>>;

/// A running process, which is killed on drop.
pub(super) struct CuratorWorker {
    child: Child,
    input: Mutex<ChildStdin>,
    pending: PendingTasks,
    next_id: AtomicUsize,
}

impl CuratorWorker {
    pub(super) fn start(workspace: &Workspace) -> Result<Self> {
        let log_path = workspace.suite_log("curator");
        std::fs::create_dir_all(log_path.parent().context("the log has no parent directory")?)?;
        let log = File::options().create(true).append(true).open(log_path)?;
        let mut command = java::java_command(workspace, MAIN);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().with_context(|| {
                format!("start the Curator worker\nhint: it needs the same programs as the {} suite", suites::JAVA.name)
            })?;
        let input = child.stdin.take().context("standard input is not piped")?;
        let output = child.stdout.take().context("standard output is not piped")?;
        let pending = PendingTasks::default();
        let replied = Arc::clone(&pending);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Some((id, reply)) = line.split_once(' ') else { continue };
                let Ok(id) = id.parse::<usize>() else { continue };
                let sender = replied.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                // The receiver is gone if the case has failed meanwhile.
                sender.map(|sender| sender.send(reply.to_owned()));
            }
            replied.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
        Ok(Self { child, input: Mutex::new(input), pending, next_id: AtomicUsize::new(0) })
    }

    /// Runs a task with a new Curator client and returns its result.
    pub(super) async fn run(&self, server: &str, session_timeout: Duration, task: &str) -> Result<String> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let line = format!("{id} {server} {} {task}\n", session_timeout.as_millis());
        let written = {
            let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
            input.write_all(line.as_bytes()).and_then(|()| input.flush())
        };
        written.context("write to the Curator worker")?;
        let reply = reply.await.with_context(|| format!("the Curator worker ended without a reply to `{task}`"))?;
        match reply.split_once(' ') {
            Some(("ok", result)) => Ok(result.to_owned()),
            _ => bail!("Curator task `{task}`: {reply}"),
        }
    }
}

impl Drop for CuratorWorker {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
