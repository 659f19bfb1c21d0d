//! `deleteall`: deletes a subtree.

use crate::command_error::CommandError;
use crate::options::CommandArgs;
use crate::shell::Shell;
use crate::subtree_output;
use crate::walk::Walk;
use ox_client::{Client, Version};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Default number of deletes per transaction.
const BATCH: usize = 1000;
/// Bytes of paths per transaction; servers accept twice as much.
const BATCH_BYTES: usize = 512 << 10;
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
    shell.confirm(args, &format!("Delete {}?", subtree_output::subtree(&path, paths.len())))?;
    let is_whole = match usize::try_from(batch) {
        Ok(batch) if 0 < batch => delete_in_batches(&client, paths, batch).await,
        _ => {
            for path in paths.iter().rev() {
                client.delete(path, Version::Any).await?;
            }
            true
        }
    };
    if !is_whole && !shell.is_zkcli() {
        return Err(CommandError::message(format!(
            "Some nodes of {path} were not deleted: other clients changed them, or they are protected"
        )));
    }
    if !is_whole {
        // Compat: reported, but not a failure.
        shell.info("Failed to delete some node(s) in the subtree!");
    }
    Ok(())
}

/// Deletes leaves first. Returns false if a batch failed; no further batch is started then.
async fn delete_in_batches(client: &Client, mut paths: Vec<String>, batch: usize) -> bool {
    let mut in_flight: VecDeque<Pin<Box<dyn Future<Output = bool>>>> = VecDeque::new();
    let mut is_whole = true;
    while is_whole && !paths.is_empty() {
        let mut multi = client.multi();
        let (mut count, mut bytes) = (0, 0);
        while let Some(path) = paths.pop_if(|path| count < batch && (count == 0 || bytes + path.len() < BATCH_BYTES)) {
            (count, bytes) = (count + 1, bytes + path.len() + 16);
            multi.delete(&path, Version::Any);
        }
        // Requests are sent in the order of their first poll: children before their parents.
        let mut sent: Pin<Box<dyn Future<Output = bool>>> = Box::pin(async move { multi.commit().await.is_ok() });
        match poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await {
            Poll::Ready(should_exit) => is_whole &= should_exit,
            Poll::Pending => in_flight.push_back(sent),
        }
        if IN_FLIGHT <= in_flight.len()
            && let Some(oldest) = in_flight.pop_front()
        {
            is_whole &= oldest.await;
        }
    }
    for sent in in_flight {
        is_whole &= sent.await;
    }
    is_whole
}
