//! Coordination of tasks: workers that share a list of tasks, a spare for each that breaks down, and progress that survives.
//!
//! ```text
//! /collect
//!  ├─ tasks
//!  │   ├─ db-1.log     "…"               a task: what to do
//!  │   └─ db-2.log     "…"
//!  ├─ workers                            a line: who can work, the longest first
//!  │   ├─ _c_<uuid>-worker-0000000000    "alice"
//!  │   └─ _c_<uuid>-worker-0000000001    "bob"
//!  ├─ owners                             ephemeral: who works on a task
//!  │   ├─ db-1.log     the uuid of a claim
//!  │   └─ db-2.log
//!  └─ progress
//!      └─ db-1.log     "17"              what was committed last
//! ```
//!
//! Nobody assigns: every worker computes the same quotas from the number of tasks and the line of workers, gives back what is too much,
//! and claims what is free. The owner's node makes sure that two workers that see different lists do not do the same task. When there
//! are more workers than tasks, the last in line stand by, and the one with the smallest number takes over first.

use crate::cache::Cache;
use crate::error::{Error, says};
use crate::nodes::{Owned, child, ensure_containers, in_container, name_of, parent_of, patient};
use crate::wait_queue::{Line, Seat};
use ox_client::{Client, CreateMode, ErrorCode, Version};
use std::collections::BTreeMap;

const WORKER: &str = "worker-";

/// A list of tasks that workers share, whoever of them is there.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::tasks::{Tasks, Worker};
/// let tasks = Tasks::new(&client, "/collect");
/// tasks.add("db-1.log", "tail it").await?;
/// let mut worker = Worker::join(&client, "/collect", "alice").await?;
/// while worker.tasks().is_empty() {
///     worker.rebalance().await?; // waits for changes
/// }
/// assert_eq!(worker.tasks(), ["db-1.log"]);
/// worker.commit("db-1.log", "17").await?;
/// assert_eq!(tasks.progress("db-1.log").await?.as_deref(), Some(&b"17"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Tasks {
    client: Client,
    path: String,
}

impl Tasks {
    /// The tasks at a path. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Tasks;
    /// let tasks = Tasks::new(&client, "/collect");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: patient(client), path: path.to_owned() }
    }

    /// Adds a task. False when there is one of that name already.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Tasks;
    /// let tasks = Tasks::new(&client, "/collect");
    /// tasks.add("db-1.log", "tail it").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add(&self, name: &str, what: impl AsRef<[u8]>) -> Result<bool, Error> {
        let parent = child(&self.path, "tasks");
        let (path, what) = (child(&parent, name), what.as_ref());
        let create = || self.client.create(&path, what, CreateMode::Persistent);
        let mut is_sent = false;
        loop {
            match in_container(&self.client, &parent, create).await {
                Err(error) if error.is_retriable() => is_sent = true,
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(is_sent),
                made => return Ok(made.map(|_| true)?),
            }
        }
    }

    /// Takes a task from the list. Its worker gives it up; its progress stays.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Tasks;
    /// let tasks = Tasks::new(&client, "/collect");
    /// tasks.remove("db-1.log").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        Ok(crate::nodes::delete(&self.client, &child(&child(&self.path, "tasks"), name)).await?)
    }

    /// What a worker committed last for a task.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Tasks;
    /// let tasks = Tasks::new(&client, "/collect");
    /// println!("{:?}", tasks.progress("db-1.log").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn progress(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let node = self.client.get(&child(&child(&self.path, "progress"), name)).await;
        if says(&node, ErrorCode::NoNode) {
            return Ok(None);
        }
        Ok(Some(node?.data))
    }
}

/// A worker and the tasks that it does now. Dropping it gives them to others.
///
/// **Limits.** A worker whose session is over may not know it yet: [`Worker::commit`] fails then, so progress is never
/// overwritten by somebody who lost the task.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::tasks::Worker;
/// let mut worker = Worker::join(&client, "/collect", "alice").await?;
/// loop {
///     println!("doing {:?}", worker.tasks());
///     worker.rebalance().await?; // waits for changes
/// #   break;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "who drops it works no more"]
pub struct Worker {
    tasks: Tasks,
    seat: Seat,
    line: Line,
    /// What makes workers look again: tasks, workers and owners.
    views: [Cache; 3],
    own: BTreeMap<String, Owned>,
    /// Given up, but not given back before the next look: the application may still be at it.
    leaving: BTreeMap<String, Owned>,
    /// A call has returned since: the application knows what it has to leave.
    is_told: bool,
    /// Nothing is left to do since the last change.
    is_settled: bool,
}

impl Worker {
    /// Joins the workers under a name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Worker;
    /// let worker = Worker::join(&client, "/collect", "alice").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn join(client: &Client, path: &str, name: &str) -> Result<Self, Error> {
        let tasks = Tasks::new(client, path);
        for part in ["tasks", "owners", "progress"] {
            ensure_containers(&tasks.client, &child(path, part)).await?;
        }
        let line = Line::new(client, &child(path, "workers"), &[WORKER]);
        let seat = line.join(WORKER, name.as_bytes()).await?;
        let paths = ["tasks", "workers", "owners"].map(|part| child(path, part));
        let views = [
            Cache::children(client, &paths[0]).await?,
            Cache::children(client, &paths[1]).await?,
            Cache::children(client, &paths[2]).await?,
        ];
        let (own, leaving) = (BTreeMap::new(), BTreeMap::new());
        let mut worker = Self { tasks, seat, line, views, own, leaving, is_told: false, is_settled: false };
        worker.settle().await?;
        Ok(worker)
    }

    /// The tasks that this worker does now.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Worker;
    /// let worker = Worker::join(&client, "/collect", "alice").await?;
    /// println!("doing {:?}", worker.tasks());
    /// # Ok(())
    /// # }
    /// ```
    pub fn tasks(&self) -> Vec<String> {
        self.own.keys().cloned().collect()
    }

    /// What to do for a task.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Worker;
    /// let worker = Worker::join(&client, "/collect", "alice").await?;
    /// for task in worker.tasks() {
    ///     println!("{task}: {:?}", worker.what(&task));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn what(&self, task: &str) -> Option<Vec<u8>> {
        let path = child(&child(&self.tasks.path, "tasks"), task);
        self.views[0].get(&path).map(|node| node.data.clone())
    }

    /// Waits for tasks or workers that come or go, and gives up and claims tasks so that all have their share.
    ///
    /// Stop working on what is not in [`Worker::tasks`] any more, [commit](Worker::commit) how far it got, and call again: only then
    /// others get it. So nobody begins with a task before this worker has stopped.
    ///
    /// Errors are final: the session is over, or somebody has deleted this worker's node.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Worker;
    /// let mut worker = Worker::join(&client, "/collect", "alice").await?;
    /// worker.rebalance().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rebalance(&mut self) -> Result<(), Error> {
        let [tasks, workers, owners] = &mut self.views;
        if self.is_settled {
            tokio::select! {
                changed = tasks.changed() => changed,
                changed = workers.changed() => changed,
                changed = owners.changed() => changed,
            }?;
        }
        self.settle().await
    }

    /// Shares progress. It fails when this worker does not do the task any more.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Worker;
    /// let worker = Worker::join(&client, "/collect", "alice").await?;
    /// worker.commit("db-1.log", "17").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn commit(&self, task: &str, progress: impl AsRef<[u8]>) -> Result<(), Error> {
        let lost = || Error::Lost { path: child(&child(&self.tasks.path, "owners"), task) };
        let claim = self.own.get(task).or_else(|| self.leaving.get(task)).ok_or_else(lost)?;
        let progress = progress.as_ref();
        let (client, path) = (&self.tasks.client, child(&child(&self.tasks.path, "progress"), task));
        loop {
            if !claim.is_there().await? {
                return Err(lost());
            }
            let exists = client.exists(&path).await?.is_some();
            let mut multi = client.multi();
            // The claim is an ephemeral node of this session: when it is there, so is the session.
            multi.check(claim.path(), Version::Any);
            if exists {
                multi.set(&path, progress, Version::Any);
            } else {
                multi.create(&path, progress, CreateMode::Persistent);
            }
            match multi.commit().await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_retriable() || error.code() == Some(ErrorCode::NodeExists) => (),
                Err(error) if error.failed_at() == Some(0) => return Err(lost()),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    ensure_containers(client, parent_of(&path)).await?
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives all tasks back, and returns when that is certain.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::Worker;
    /// let worker = Worker::join(&client, "/collect", "alice").await?;
    /// worker.leave().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(mut self) -> Result<(), Error> {
        self.leaving.append(&mut self.own);
        self.give_back().await?;
        self.seat.leave().await
    }

    /// Lets others have what was given up.
    async fn give_back(&mut self) -> Result<(), Error> {
        // Should this future be dropped, the claim is deleted in the background.
        while let Some((_, claim)) = self.leaving.pop_first() {
            claim.delete().await?;
        }
        Ok(())
    }

    /// Gives up what is too much, and claims what is free up to the quota.
    async fn settle(&mut self) -> Result<(), Error> {
        // Should this future be dropped, the next one goes on.
        self.is_settled = false;
        if self.is_told {
            self.give_back().await?;
            self.is_told = false;
        }
        let tasks = self.tasks.client.children(&child(&self.tasks.path, "tasks")).await;
        // Servers remove the list some time after the last task.
        let mut tasks = if says(&tasks, ErrorCode::NoNode) { Vec::new() } else { tasks? };
        tasks.sort();
        let workers = self.line.members().await?;
        let Some(at) = workers.iter().position(|name| name == name_of(self.seat.path())) else {
            return Err(self.seat.lost());
        };
        let quota = quota(tasks.len(), workers.len(), at);
        let gone: Vec<String> = self.own.keys().filter(|task| !tasks.contains(task)).cloned().collect();
        let surplus = self.own.keys().filter(|task| tasks.contains(task)).skip(quota).cloned();
        let surplus: Vec<String> = surplus.chain(gone).collect();
        for task in surplus {
            self.leaving.extend(self.own.remove_entry(&task));
        }
        for task in tasks {
            if quota <= self.own.len() {
                break;
            }
            // One that has an owner becomes free when that one has looked at the lists, too. That is a change.
            let path = child(&child(&self.tasks.path, "owners"), &task);
            if !self.own.contains_key(&task)
                && let Some(claim) = Owned::claim(&self.tasks.client, path).await?
            {
                self.own.insert(task, claim);
            }
        }
        self.is_settled = self.leaving.is_empty();
        self.is_told = true;
        Ok(())
    }
}

/// How many tasks the worker at a place in the line does.
fn quota(tasks: usize, workers: usize, at: usize) -> usize {
    tasks / workers + usize::from(at < tasks % workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_cover_all_tasks() {
        for (tasks, workers, quotas) in
            [(5, 2, vec![3, 2]), (2, 3, vec![1, 1, 0]), (0, 1, vec![0]), (6, 3, vec![2, 2, 2])]
        {
            let found: Vec<_> = (0..workers).map(|at| quota(tasks, workers, at)).collect();
            assert_eq!(found, quotas);
        }
    }
}
