//! Everything below a node.

use crate::paths;
use ox_client::{Client, Error, ErrorCode};
use tokio::task::JoinHandle;

/// Requests about nodes that are under way at the same time.
const ASKED_AT_ONCE: usize = 256;

/// A node and all below it, parents before children. What goes while it is looked at is left out.
pub async fn list(client: &Client, root: &str) -> Result<Vec<String>, Error> {
    let mut found = vec![root.to_owned()];
    // The root must be there.
    let mut level: Vec<_> = client.children(root).await?.iter().map(|name| paths::child(root, name)).collect();
    while !level.is_empty() {
        let mut next = Vec::new();
        for (path, names) in children(client, &level).await? {
            next.extend(names.into_iter().flatten().map(|name| paths::child(&path, &name)));
        }
        found.append(&mut level);
        level = next;
    }
    Ok(found)
}

/// The children of some nodes, in order; `None` for a node that is not there.
pub async fn children(client: &Client, nodes: &[String]) -> Result<Vec<(String, Option<Vec<String>>)>, Error> {
    let asked = each(nodes, |path| {
        let client = client.clone();
        async move { client.children(&path).await }
    });
    let answers = asked.await.into_iter().map(|(path, names)| match names {
        Ok(mut names) => {
            names.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16())); // Compat: as Java sorts
            Ok((path, Some(names)))
        }
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok((path, None)),
        Err(error) => Err(error),
    });
    answers.collect()
}

/// Does something with each of some nodes, with many at the same time; gives what became of it, in order.
pub async fn each<T, F>(nodes: &[String], mut ask: impl FnMut(String) -> F) -> Vec<(String, T)>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut answers = Vec::with_capacity(nodes.len());
    for some in nodes.chunks(ASKED_AT_ONCE) {
        let tasks: Vec<_> =
            some.iter().map(|path| (path.clone(), AbortOnDrop(tokio::spawn(ask(path.clone()))))).collect();
        for (path, mut task) in tasks {
            match (&mut task.0).await {
                Ok(answer) => answers.push((path, answer)),
                Err(error) => {
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic); // a fault of ours; else the runtime is going down
                    }
                }
            }
        }
    }
    answers
}

/// A task that goes with whoever waits for it: Ctrl-C stops what a command has begun.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A subtree in words, for a question.
pub fn describe(root: &str, paths: &[String]) -> String {
    match paths.len().saturating_sub(1) {
        0 => root.to_owned(),
        1 => format!("{root} and the node below it"),
        below => format!("{root} and the {below} nodes below it"),
    }
}
