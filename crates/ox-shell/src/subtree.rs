//! Everything below a node.

use crate::paths;
use ox_client::{Client, Error, ErrorCode};
use tokio::task::JoinSet;

/// Lists of children that are asked for at the same time.
const ASKED_AT_ONCE: usize = 256;

/// A node and all below it, parents before children. What goes while it is looked at is left out.
pub async fn list(client: &Client, root: &str) -> Result<Vec<String>, Error> {
    let mut found = vec![root.to_owned()];
    let mut level = vec![root.to_owned()];
    while !level.is_empty() {
        let mut next = Vec::new();
        for some in level.chunks(ASKED_AT_ONCE) {
            for (path, names) in children(client, some, root).await? {
                next.extend(names.iter().map(|name| paths::child(&path, name)));
            }
        }
        found.extend(next.iter().cloned());
        level = next;
    }
    Ok(found)
}

/// The children of some nodes, in order. The root must be there.
async fn children(client: &Client, some: &[String], root: &str) -> Result<Vec<(String, Vec<String>)>, Error> {
    let mut asked = JoinSet::new();
    for (at, path) in some.iter().cloned().enumerate() {
        let client = client.clone();
        asked.spawn(async move {
            let names = client.children(&path).await;
            (at, path, names)
        });
    }
    let mut answers = Vec::with_capacity(some.len());
    while let Some(answer) = asked.join_next().await {
        let Ok((at, path, names)) = answer else { continue }; // the runtime is going down
        match names {
            Ok(mut names) => {
                names.sort_unstable();
                answers.push((at, path, names));
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) && path != root => (),
            Err(error) => return Err(error),
        }
    }
    answers.sort_unstable_by_key(|(at, ..)| *at);
    Ok(answers.into_iter().map(|(_, path, names)| (path, names)).collect())
}

/// A subtree in words, for a question.
pub fn describe(root: &str, paths: &[String]) -> String {
    match paths.len().saturating_sub(1) {
        0 => root.to_owned(),
        1 => format!("{root} and the node below it"),
        below => format!("{root} and the {below} nodes below it"),
    }
}
