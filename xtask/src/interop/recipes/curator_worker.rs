//! The Java program with Curator that takes part: one process, told by lines what to do.

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

/// Those who wait for answers, by number.
type Waiting = Arc<Mutex<HashMap<usize, oneshot::Sender<String>>>>;

/// A running partner. It is killed with this.
pub(super) struct Partner {
    child: Child,
    input: Mutex<ChildStdin>,
    waiting: Waiting,
    next: AtomicUsize,
}

impl Partner {
    pub(super) fn start(workspace: &Workspace) -> Result<Self> {
        let log_path = workspace.suite_log("partner");
        std::fs::create_dir_all(log_path.parent().context("the log lies in a folder")?)?;
        let log = File::options().create(true).append(true).open(log_path)?;
        let mut command = java::command_of(workspace, MAIN);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().with_context(|| {
                format!("start the partner of the recipes\nhint: the {} suite needs the same", suites::JAVA.name)
            })?;
        let (input, output) = (child.stdin.take().context("piped")?, child.stdout.take().context("piped")?);
        let waiting = Waiting::default();
        let told = Arc::clone(&waiting);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Some((number, answer)) = line.split_once(' ') else { continue };
                let Ok(number) = number.parse::<usize>() else { continue };
                let waiter = told.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                // Nobody waits for the answer of a case that has failed.
                waiter.map(|waiter| waiter.send(answer.to_owned()));
            }
            told.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
        Ok(Self { child, input: Mutex::new(input), waiting, next: AtomicUsize::new(0) })
    }

    /// Has something done, and gives the result.
    pub(super) async fn ask(&self, server: &str, session: Duration, task: &str) -> Result<String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (waiter, answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, waiter);
        let line = format!("{number} {server} {} {task}\n", session.as_millis());
        let told = {
            let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
            input.write_all(line.as_bytes()).and_then(|()| input.flush())
        };
        told.context("tell the partner")?;
        let answer = answer.await.with_context(|| format!("the partner has ended before `{task}`"))?;
        match answer.split_once(' ') {
            Some(("ok", result)) => Ok(result.to_owned()),
            _ => bail!("Curator, {task}: {answer}"),
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
