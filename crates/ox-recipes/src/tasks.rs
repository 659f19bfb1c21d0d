//! Task coordination: workers that share a list of tasks, standby workers, and progress that survives failures.
//!
//! ```text
//! /collect
//!  ├─ tasks
//!  │   ├─ db-1.log     "…"               a task and its payload
//!  │   └─ db-2.log     "…"
//!  ├─ workers                            a wait queue of available workers, the oldest first
//!  │   ├─ _c_<uuid>-worker-0000000000    "alice"
//!  │   └─ _c_<uuid>-worker-0000000001    "bob"
//!  ├─ owners                             ephemeral: claims of workers on tasks
//!  │   ├─ db-1.log     the unique tag of a claim
//!  │   └─ db-2.log
//!  └─ progress
//!      └─ db-1.log     "17"              last committed progress
//! ```
//!
//! Without a coordinator, every worker computes the same quotas from the number of tasks and the queue of workers,
//! releases surplus tasks and claims free ones. The owner node ensures that two workers with different views do not
//! process the same task. If there are more workers than tasks, the last ones in the queue are on standby, and the one
//! with the smallest number takes over first.

use crate::cache::Cache;
use crate::error::{RecipeError, has_code};
use crate::nodes::{OwnedNode, child, ensure_containers, name_of, parent_of, with_container, with_session_retries};
use crate::wait_queue::{WaitNode, WaitQueue};
use ox_client::{Client, CreateMode, ErrorCode, Version};
use std::collections::BTreeMap;

const WORKER: &str = "worker-";

/// A list of tasks that is distributed among the workers that are present.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::tasks::{TaskList, TaskWorker};
/// let tasks = TaskList::new(&client, "/collect");
/// tasks.add("db-1.log", "tail it").await?;
/// let mut worker = TaskWorker::join(&client, "/collect", "alice").await?;
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
pub struct TaskList {
    client: Client,
    path: String,
}

impl TaskList {
    /// Creates a handle to the task list at a path, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskList;
    /// let tasks = TaskList::new(&client, "/collect");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: with_session_retries(client), path: path.to_owned() }
    }

    /// Adds a task. Returns false if a task of that name exists.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskList;
    /// let tasks = TaskList::new(&client, "/collect");
    /// tasks.add("db-1.log", "tail it").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add(&self, name: &str, payload: impl AsRef<[u8]>) -> Result<bool, RecipeError> {
        let parent = child(&self.path, "tasks");
        let (path, payload) = (child(&parent, name), payload.as_ref());
        let create = || self.client.create(&path, payload, CreateMode::Persistent);
        let mut is_sent = false;
        loop {
            match with_container(&self.client, &parent, create).await {
                Err(error) if error.is_retriable() => is_sent = true,
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(is_sent),
                made => return Ok(made.map(|_| true)?),
            }
        }
    }

    /// Removes a task from the list. Its worker releases it; its progress is kept.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskList;
    /// let tasks = TaskList::new(&client, "/collect");
    /// tasks.remove("db-1.log").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove(&self, name: &str) -> Result<(), RecipeError> {
        Ok(crate::nodes::delete(&self.client, &child(&child(&self.path, "tasks"), name)).await?)
    }

    /// Returns the last committed progress of a task.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskList;
    /// let tasks = TaskList::new(&client, "/collect");
    /// println!("{:?}", tasks.progress("db-1.log").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn progress(&self, name: &str) -> Result<Option<Vec<u8>>, RecipeError> {
        let node = self.client.get(&child(&child(&self.path, "progress"), name)).await;
        if has_code(&node, ErrorCode::NoNode) {
            return Ok(None);
        }
        Ok(Some(node?.data))
    }
}

/// A worker and the tasks assigned to it. Dropping it releases them to others.
///
/// **Limits.** A worker whose session has ended may not know it yet; [`TaskWorker::commit`] fails then, so that a
/// worker never overwrites the progress of a task it has lost.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::tasks::TaskWorker;
/// let mut worker = TaskWorker::join(&client, "/collect", "alice").await?;
/// loop {
///     println!("doing {:?}", worker.tasks());
///     worker.rebalance().await?; // waits for changes
/// #   break;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it releases all tasks"]
pub struct TaskWorker {
    tasks: TaskList,
    node: WaitNode,
    queue: WaitQueue,
    /// Caches whose changes trigger a rebalance: tasks, workers and owners.
    caches: [Cache; 3],
    assigned: BTreeMap<String, OwnedNode>,
    /// Tasks to be released with the next rebalance: the application may still be processing them.
    releasing: BTreeMap<String, OwnedNode>,
    /// Whether a call has returned since, so that the application knows which tasks to stop.
    is_announced: bool,
    /// Whether nothing is left to balance since the last change.
    is_balanced: bool,
}

impl TaskWorker {
    /// Joins the workers under a name and claims the first tasks.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskWorker;
    /// let worker = TaskWorker::join(&client, "/collect", "alice").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn join(client: &Client, path: &str, name: &str) -> Result<Self, RecipeError> {
        let tasks = TaskList::new(client, path);
        for part in ["tasks", "owners", "progress"] {
            ensure_containers(&tasks.client, &child(path, part)).await?;
        }
        let queue = WaitQueue::new(client, &child(path, "workers"), &[WORKER]);
        let node = queue.join(WORKER, name.as_bytes()).await?;
        let paths = ["tasks", "workers", "owners"].map(|part| child(path, part));
        let caches = [
            Cache::children(client, &paths[0]).await?,
            Cache::children(client, &paths[1]).await?,
            Cache::children(client, &paths[2]).await?,
        ];
        let (assigned, releasing) = (BTreeMap::new(), BTreeMap::new());
        let mut worker =
            Self { tasks, node, queue, caches, assigned, releasing, is_announced: false, is_balanced: false };
        worker.balance().await?;
        Ok(worker)
    }

    /// Returns the tasks assigned to this worker.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskWorker;
    /// let worker = TaskWorker::join(&client, "/collect", "alice").await?;
    /// println!("doing {:?}", worker.tasks());
    /// # Ok(())
    /// # }
    /// ```
    pub fn tasks(&self) -> Vec<String> {
        self.assigned.keys().cloned().collect()
    }

    /// Returns the payload of a task.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskWorker;
    /// let worker = TaskWorker::join(&client, "/collect", "alice").await?;
    /// for task in worker.tasks() {
    ///     println!("{task}: {:?}", worker.payload(&task));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn payload(&self, task: &str) -> Option<Vec<u8>> {
        let path = child(&child(&self.tasks.path, "tasks"), task);
        self.caches[0].get(&path).map(|node| node.data.clone())
    }

    /// Waits for changes of tasks or workers, and releases and claims tasks so that every worker has its share.
    ///
    /// Stop processing tasks that are no longer in [`TaskWorker::tasks`], [commit](TaskWorker::commit) their progress,
    /// and call this again: only then are they released. No other worker thus starts a task before this one has stopped
    /// it.
    ///
    /// Errors are final: the session has ended, or the node of this worker was deleted.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskWorker;
    /// let mut worker = TaskWorker::join(&client, "/collect", "alice").await?;
    /// worker.rebalance().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rebalance(&mut self) -> Result<(), RecipeError> {
        let [tasks, workers, owners] = &mut self.caches;
        if self.is_balanced {
            tokio::select! {
                changed = tasks.changed() => changed,
                changed = workers.changed() => changed,
                changed = owners.changed() => changed,
            }?;
        }
        self.balance().await
    }

    /// Stores the progress of a task. Fails if the task is no longer assigned to this worker.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskWorker;
    /// let worker = TaskWorker::join(&client, "/collect", "alice").await?;
    /// worker.commit("db-1.log", "17").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn commit(&self, task: &str, progress: impl AsRef<[u8]>) -> Result<(), RecipeError> {
        let lost = || RecipeError::node_deleted(&child(&child(&self.tasks.path, "owners"), task));
        let claim = self.assigned.get(task).or_else(|| self.releasing.get(task)).ok_or_else(lost)?;
        let progress = progress.as_ref();
        let (client, path) = (&self.tasks.client, child(&child(&self.tasks.path, "progress"), task));
        loop {
            if !claim.exists().await? {
                return Err(lost());
            }
            let exists = client.exists(&path).await?.is_some();
            let mut multi = client.multi();
            // The claim is an ephemeral node of this session: while it exists, so does the session.
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

    /// Releases all tasks, leaves, and returns when that is confirmed.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::tasks::TaskWorker;
    /// let worker = TaskWorker::join(&client, "/collect", "alice").await?;
    /// worker.leave().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(mut self) -> Result<(), RecipeError> {
        self.releasing.append(&mut self.assigned);
        self.release_pending().await?;
        self.node.leave().await
    }

    /// Releases the tasks that a rebalance took away.
    async fn release_pending(&mut self) -> Result<(), RecipeError> {
        // If this future is dropped, the claim is deleted in the background.
        while let Some((_, claim)) = self.releasing.pop_first() {
            claim.delete().await?;
        }
        Ok(())
    }

    /// Marks surplus tasks for release and claims free tasks up to the quota.
    async fn balance(&mut self) -> Result<(), RecipeError> {
        // If this future is dropped, the next call continues.
        self.is_balanced = false;
        if self.is_announced {
            self.release_pending().await?;
            self.is_announced = false;
        }
        let tasks = self.tasks.client.children(&child(&self.tasks.path, "tasks")).await;
        // Servers delete the empty container some time after the last task.
        let mut tasks = if has_code(&tasks, ErrorCode::NoNode) { Vec::new() } else { tasks? };
        tasks.sort();
        let workers = self.queue.members().await?;
        let Some(at) = workers.iter().position(|name| name == name_of(self.node.path())) else {
            return Err(self.node.deleted());
        };
        let quota = quota(tasks.len(), workers.len(), at);
        let gone: Vec<String> = self.assigned.keys().filter(|task| !tasks.contains(task)).cloned().collect();
        let surplus = self.assigned.keys().filter(|task| tasks.contains(task)).skip(quota).cloned();
        let surplus: Vec<String> = surplus.chain(gone).collect();
        for task in surplus {
            self.releasing.extend(self.assigned.remove_entry(&task));
        }
        for task in tasks {
            if quota <= self.assigned.len() {
                break;
            }
            // A task with an owner is released when that owner rebalances, which triggers another change.
            let path = child(&child(&self.tasks.path, "owners"), &task);
            if !self.assigned.contains_key(&task)
                && let Some(claim) = OwnedNode::claim(&self.tasks.client, path).await?
            {
                self.assigned.insert(task, claim);
            }
        }
        self.is_balanced = self.releasing.is_empty();
        self.is_announced = true;
        Ok(())
    }
}

/// The number of tasks for the worker at position `at` of the queue.
fn quota(tasks: usize, workers: usize, at: usize) -> usize {
    tasks / workers + usize::from(at < tasks % workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_sum_up_to_all_tasks() {
        for (tasks, workers, quotas) in
            [(5, 2, vec![3, 2]), (2, 3, vec![1, 1, 0]), (0, 1, vec![0]), (6, 3, vec![2, 2, 2])]
        {
            let found: Vec<_> = (0..workers).map(|at| quota(tasks, workers, at)).collect();
            assert_eq!(found, quotas);
        }
    }
}
