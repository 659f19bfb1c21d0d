//! A walk over a subtree: parents before children, siblings by name.
//!
//! Nodes are asked about before their turn comes, [`IN_FLIGHT`] at a time, and told in order. What is held is the lists of names
//! between the root and the node that is told now, and the answers that came ahead of their turn: however large the subtree, as
//! little as its shape allows.
//!
//! A node that goes in between is left out. One that may not be read is told with its reason, and what is below it is not seen.
//!
//! A walk may take long, so it outlives its connection: once the root was seen, it waits for another connection as long as the
//! session may last, and goes on.

use crate::command_error::{self, Failure};
use ox_client::acl::Acl;
use ox_client::{Client, Error, ErrorCode, Node, RetryPolicy, Stat, Watch, path};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Nodes that are asked about at the same time.
pub(crate) const IN_FLIGHT: usize = 64;

/// What is asked about each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Its metadata.
    Stat,
    /// Its data, too.
    Data,
    /// Its data and who may do what with it.
    Whole,
    /// Its children only, and a watch for them stays.
    Watch,
}

/// A node on the way.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    /// 0 for the root of the walk.
    pub(crate) depth: usize,
    /// Whether no sibling follows.
    pub(crate) is_last: bool,
    /// Without data where that was not asked for; with nothing where that is denied.
    pub(crate) node: Node,
    pub(crate) acl: Vec<Acl>,
    /// Whether the server hides a part of the list.
    pub(crate) acl_is_masked: bool,
    /// Why nothing about it and below it can be seen.
    pub(crate) denied: Option<String>,
}

impl Seen {
    pub(crate) fn stat(&self) -> &Stat {
        &self.node.stat
    }

    /// The session that it goes with. Containers and nodes with a time to live look like others to clients.
    pub(crate) fn owner(&self) -> Option<i64> {
        Some(self.node.stat.ephemeral_owner).filter(|owner| *owner != 0)
    }

    /// Why it cannot be kept whole elsewhere.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let masked = || format!("Its access control list is shown in part only : {}", self.path);
        self.denied.clone().or_else(|| self.acl_is_masked.then(masked))
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(_, name)| name)
    }
}

/// A walk.
pub(crate) struct Walk {
    client: Client,
    /// The same, for what is below the root.
    patient: Client,
    look: Look,
    depth_max: usize,
    left_out: Option<String>,
    /// From the root to where the walk is.
    levels: Vec<Level>,
    permits: Arc<Semaphore>,
    /// Left at nodes that were seen.
    watches: Vec<(String, Watch)>,
}

/// Siblings whose turn is still to come.
struct Level {
    /// The node above them; `None` above the root of the walk.
    parent: Option<String>,
    ahead: VecDeque<Asked>,
    names: std::vec::IntoIter<String>,
}

/// A node that was asked about.
struct Asked {
    path: String,
    answer: Task,
}

/// Ends with its owner.
struct Task(JoinHandle<Result<Answer, Error>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Default)]
struct Answer {
    node: Node,
    acl: Vec<Acl>,
    children: Vec<String>,
    watch: Option<Watch>,
    denied: Option<String>,
}

impl Walk {
    pub(crate) fn new(client: &Client, root: &str, look: Look) -> Self {
        let names = vec![root.to_owned()].into_iter();
        let top = Level { parent: None, ahead: VecDeque::new(), names };
        let lasts = client.session().map_or(Duration::ZERO, |session| session.timeout);
        Self {
            client: client.clone(),
            patient: client.with_retry(RetryPolicy::until_elapsed(lasts)),
            look,
            depth_max: usize::MAX,
            left_out: None,
            levels: vec![top],
            permits: Arc::new(Semaphore::new(IN_FLIGHT)),
            watches: Vec::new(),
        }
    }

    /// A node and all below it, parents before children. All of it must be open to this session.
    pub(crate) async fn paths(client: &Client, root: &str) -> Result<Vec<String>, Failure> {
        let mut walk = Self::new(client, root, Look::Stat);
        let mut paths = Vec::new();
        while let Some(seen) = walk.next().await? {
            if let Some(reason) = seen.denied {
                return Err(Failure::Told(reason));
            }
            paths.push(seen.path);
        }
        Ok(paths)
    }

    /// Goes no deeper.
    pub(crate) fn with_depth(mut self, depth_max: usize) -> Self {
        self.depth_max = depth_max;
        self
    }

    /// Leaves out a node and what is below it.
    pub(crate) fn without(mut self, path: Option<&str>) -> Self {
        self.left_out = path.map(str::to_owned);
        self
    }

    /// The next node; the root must be there.
    pub(crate) async fn next(&mut self) -> Result<Option<Seen>, Error> {
        loop {
            self.ask_ahead();
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some(mut asked) = level.ahead.pop_front() else {
                self.levels.pop();
                continue;
            };
            let is_last = level.ahead.is_empty() && level.names.as_slice().is_empty();
            let answer = match (&mut asked.answer.0).await {
                Ok(answer) => answer,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => return Ok(None), // the runtime is going down
            };
            let depth = self.levels.len() - 1;
            match answer {
                Ok(answer) => return Ok(Some(self.arrive(asked.path, is_last, answer))),
                Err(error) if error.code() == Some(ErrorCode::NoNode) && 0 < depth => (), // gone meanwhile
                Err(error) => return Err(error),
            }
        }
    }

    /// Leaves out what is below the node that was seen last.
    pub(crate) fn prune(&mut self) {
        self.levels.pop();
    }

    /// The names of what is below the node that was seen last.
    pub(crate) fn names_below(&self) -> &[String] {
        self.levels.last().map_or(&[], |level| level.names.as_slice())
    }

    /// The watches that were left since this was asked.
    pub(crate) fn take_watches(&mut self) -> Vec<(String, Watch)> {
        std::mem::take(&mut self.watches)
    }

    fn arrive(&mut self, path: String, is_last: bool, answer: Answer) -> Seen {
        let Answer { node, acl, children: mut names, watch, denied } = answer;
        let depth = self.levels.len() - 1;
        self.watches.extend(watch.map(|watch| (path.clone(), watch)));
        if let Some(left_out) = &self.left_out {
            names.retain(|name| path::child(&path, name) != *left_out);
        }
        names.sort_unstable();
        self.levels.push(Level { parent: Some(path.clone()), ahead: VecDeque::new(), names: names.into_iter() });
        let acl_is_masked = acl.iter().any(is_masked);
        Seen { path, depth, is_last, node, acl, acl_is_masked, denied }
    }

    /// Asks about the nodes whose turn comes next.
    fn ask_ahead(&mut self) {
        let mut budget = IN_FLIGHT;
        for (depth, level) in self.levels.iter_mut().enumerate().rev() {
            while level.ahead.len() < budget
                && let Some(name) = level.names.next()
            {
                let path = match &level.parent {
                    Some(parent) => path::child(parent, &name),
                    None => name,
                };
                let client = if depth == 0 { &self.client } else { &self.patient }.clone();
                let (permits, look) = (Arc::clone(&self.permits), self.look);
                let (asked, goes_on) = (path.clone(), depth < self.depth_max);
                let answer = Task(tokio::spawn(async move {
                    let _permit = permits.acquire().await;
                    ask(&client, &asked, look, goes_on).await
                }));
                level.ahead.push_back(Asked { path, answer });
            }
            budget = budget.saturating_sub(level.ahead.len());
            if budget == 0 {
                return;
            }
        }
    }
}

async fn ask(client: &Client, path: &str, look: Look, goes_on: bool) -> Result<Answer, Error> {
    let mut answer = Answer::default();
    match ask_openly(client, path, look, goes_on, &mut answer).await {
        Ok(()) => (),
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => {
            answer = Answer { denied: Some(command_error::text(&error)), ..Answer::default() };
        }
        Err(error) => return Err(error),
    }
    Ok(answer)
}

async fn ask_openly(client: &Client, path: &str, look: Look, goes_on: bool, answer: &mut Answer) -> Result<(), Error> {
    if look == Look::Watch {
        let (names, watch) = client.children_and_watch(path).await?;
        (answer.children, answer.watch) = (names, Some(watch));
        return Ok(());
    }
    if look == Look::Stat {
        if !goes_on && let Some(stat) = client.exists(path).await? {
            answer.node.stat = stat;
            return Ok(());
        }
        (answer.children, answer.node.stat) = client.children_with_stat(path).await?;
        return Ok(());
    }
    answer.node = client.get(path).await?;
    if look == Look::Whole {
        answer.acl = client.get_acl(path).await?.0;
    }
    if goes_on && 0 < answer.node.stat.num_children {
        answer.children = client.children(path).await?;
    }
    Ok(())
}

/// Servers hide the hash of a password from those who may not change the list.
fn is_masked(acl: &Acl) -> bool {
    &*acl.scheme == "digest" && acl.id.split_once(':').is_some_and(|(_, hash)| hash == "x")
}
