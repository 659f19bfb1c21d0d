//! `deleteall`: deletes a subtree.

use crate::command_error::{self, CommandError};
use crate::options::CommandArgs;
use crate::shell::Shell;
use crate::subtree_output;
use crate::walk::Walk;
use ox_client::{Client, Error, Version};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Default number of deletes per transaction.
const BATCH: usize = 1000;
/// Bytes of paths per transaction; servers accept twice as much.
const BATCH_BYTES: usize = 512 << 10;
/// Nodes that a hint names.
const NAMED_MAX: usize = 3;
/// Transactions in flight at the same time.
const IN_FLIGHT: usize = 10;

pub(super) async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let batch: i32 = match args.value("-b") {
        Some(text) => text.parse().map_err(|_| CommandError::message("-b argument must be an int value"))?,
        None => i32::try_from(BATCH).unwrap_or(i32::MAX),
    };
    let path = shell.path(args.required(0)?)?;
    let client = shell.connected_client().await?;
    let paths = Walk::paths(&client, &path).await?;
    if !shell.is_zkcli() && subtree_output::excluded(shell, "/").is_some() {
        refuse_protected(&path, &paths)?;
    }
    shell.confirm(args, &format!("Delete {}?", subtree_output::subtree(&path, paths.len())))?;
    let count = paths.len();
    let done = match usize::try_from(batch) {
        Ok(batch) if 0 < batch => delete_in_batches(&client, paths, batch).await,
        _ => {
            for path in paths.iter().rev() {
                client.delete(path, Version::Any).await?;
            }
            return Ok(());
        }
    };
    match done.error {
        None => Ok(()),
        Some(error) if !shell.is_zkcli() => {
            let left = count - done.deleted;
            let cause = CommandError::from(error).native_text();
            Err(CommandError::message(format!("{left} of {count} nodes of {path} were not deleted: {cause}")))
        }
        Some(_) => {
            // Compat: reported, but not a failure.
            shell.info("Failed to delete some node(s) in the subtree!");
            Ok(())
        }
    }
}

/// Servers delete neither the root nor `/zookeeper`; a batch with one of them would leave the other nodes, too.
fn refuse_protected(path: &str, paths: &[String]) -> Result<(), CommandError> {
    if !command_error::is_protected(path) || ox_client::path::parent(path).is_some_and(|parent| parent != "/") {
        return Ok(());
    }
    let is_child = |found: &&String| ox_client::path::parent(found) == Some("/") && *found != "/zookeeper";
    let nodes: Vec<String> = paths.iter().filter(is_child).take(NAMED_MAX).map(|node| format!("rmr {node}")).collect();
    let hint = match nodes.is_empty() || path != "/" {
        true => String::new(),
        false => format!("\nhint: name the nodes: {}", nodes.join(", ")),
    };
    Err(CommandError::message(format!(
        "{path} cannot be deleted: servers need / and /zookeeper. Nothing was deleted{hint}"
    )))
}

/// A batch that was sent; resolves to the number of its nodes.
type SentBatch = Pin<Box<dyn Future<Output = Result<usize, Error>>>>;

/// What a delete in batches did.
struct Deleted {
    deleted: usize,
    /// The first error that a batch got.
    error: Option<Error>,
}

impl Deleted {
    fn note(&mut self, done: Result<usize, Error>) {
        match done {
            Ok(count) => self.deleted += count,
            Err(error) => drop(self.error.get_or_insert(error)),
        }
    }
}

/// Deletes leaves first. After an error, no further batch is started.
async fn delete_in_batches(client: &Client, mut paths: Vec<String>, batch: usize) -> Deleted {
    let mut in_flight: VecDeque<SentBatch> = VecDeque::new();
    let mut all = Deleted { deleted: 0, error: None };
    while all.error.is_none() && !paths.is_empty() {
        let mut multi = client.multi();
        let (mut count, mut bytes) = (0, 0);
        while let Some(path) = paths.pop_if(|path| count < batch && (count == 0 || bytes + path.len() < BATCH_BYTES)) {
            (count, bytes) = (count + 1, bytes + path.len() + 16);
            multi.delete(&path, Version::Any);
        }
        // Requests are sent in the order of their first poll: children before their parents.
        let mut sent: SentBatch = Box::pin(async move { multi.commit().await.map(|_| count) });
        match poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await {
            Poll::Ready(done) => all.note(done),
            Poll::Pending => in_flight.push_back(sent),
        }
        if IN_FLIGHT <= in_flight.len()
            && let Some(oldest) = in_flight.pop_front()
        {
            all.note(oldest.await);
        }
    }
    for sent in in_flight {
        all.note(sent.await);
    }
    all
}
