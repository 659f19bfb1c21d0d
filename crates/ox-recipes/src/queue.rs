//! Queues of persistent nodes, in the layouts of Curator's `DistributedQueue`, `DistributedPriorityQueue` and
//! `DistributedDelayQueue` with lock safety.
//!
//! ```text
//! /queue                                  persistent: Curator's clients create it once and rely on it
//!  ├─ queue-0000000004                    FIFO: ordered by sequence number
//!  ├─ queue-1000000050000000007           priority 5: smaller priorities first, then by sequence number
//!  └─ queue-|18C8E2A4B00|0000000009       delay: due time in milliseconds since 1970, hexadecimal
//! /queue-locks                            persistent
//!  └─ queue-0000000004                    ephemeral: a consumer is processing that item
//! /queue-turns                            a lock: its owner takes the next item, the others wait
//! ```
//!
//! The data of an item has Curator's framing: `00 01 00 01`, then for every piece `01`, a four-byte length and the
//! bytes, then `02`.
//!
//! An item stays until the consumer that took it confirms it with [`QueueItem::done`]. If that consumer fails first,
//! another one receives the item. Every item is thus delivered *at least once*.

use crate::error::{RecipeError, has_code};
use crate::lock::Lock;
use crate::nodes::{OwnedNode, child, delete, ensure, with_parent, with_session_retries};
use ox_client::{Client, CreateMode, ErrorCode, Watch};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// Name prefix of item nodes.
const ITEM: &str = "queue-";

/// Version and markers of Curator's framing.
const VERSION: [u8; 4] = [0, 1, 0, 1];
const PIECE: u8 = 1;
const END: u8 = 2;

/// The order in which consumers take items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Name,
    Due,
}

/// A queue of items for consumers, in insertion order, by priority, or by due time.
///
/// All clients must use a queue in the same way: [`Queue::put`] only, [`Queue::put_with_priority`] only, or a queue
/// created by [`Queue::delayed`].
///
/// **Limits.** Consumers start items in order; with several consumers, items may finish in another order. The list of
/// children must fit into one reply, so keep queues below some ten thousand items.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::queue::Queue;
/// let queue = Queue::new(&client, "/mail");
/// queue.put("first").await?;
/// queue.put("second").await?;
/// let item = queue.take().await?; // waits while the queue is empty
/// assert_eq!(item.data(), b"first");
/// item.done().await?; // until then another consumer receives it if this client fails
/// assert_eq!(queue.take().await?.data(), b"second");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    path: String,
    locks: String,
    turns: Lock,
    order: Order,
}

impl Queue {
    /// Creates a handle to the queue at a path, with its locks at that path plus `-locks`, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self {
            client: with_session_retries(client),
            path: path.to_owned(),
            locks: format!("{path}-locks"),
            turns: Lock::new(client, &format!("{path}-turns")),
            order: Order::Name,
        }
    }

    /// Creates a handle to a queue whose items have due times; see [`Queue::put_due`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::queue::Queue;
    /// use std::time::{Duration, SystemTime};
    /// let queue = Queue::delayed(&client, "/later");
    /// let now = SystemTime::now();
    /// queue.put_due("second", now + Duration::from_millis(2)).await?;
    /// queue.put_due("first", now).await?;
    /// let item = queue.take().await?;
    /// assert_eq!(item.data(), b"first");
    /// # Ok(())
    /// # }
    /// ```
    pub fn delayed(client: &Client, path: &str) -> Self {
        Self { order: Order::Due, ..Self::new(client, path) }
    }

    /// Sets another path for the locks, for queues that are shared with Curator clients (their `lockPath`).
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail").with_locks("/mail-being-read");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_locks(mut self, path: &str) -> Self {
        path.clone_into(&mut self.locks);
        self
    }

    /// Appends an item to the queue.
    ///
    /// If the reply is lost, the outcome of the error is unknown: putting the item again may duplicate it, not doing so
    /// may lose it.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// queue.put("hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put(&self, data: impl AsRef<[u8]>) -> Result<(), RecipeError> {
        self.put_as(ITEM.to_owned(), data.as_ref()).await
    }

    /// Adds an item before all items with a larger priority value.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// queue.put_with_priority("later", 9).await?;
    /// queue.put_with_priority("urgent", -1).await?;
    /// let item = queue.take().await?;
    /// assert_eq!(item.data(), b"urgent");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_with_priority(&self, data: impl AsRef<[u8]>, priority: i32) -> Result<(), RecipeError> {
        self.put_as(format!("{ITEM}{}", by_priority(priority)), data.as_ref()).await
    }

    /// Adds an item that consumers take at its due time at the earliest, by their own clocks.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// use std::time::{Duration, SystemTime};
    /// let queue = Queue::delayed(&client, "/later");
    /// queue.put_due("wake up", SystemTime::now() + Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_due(&self, data: impl AsRef<[u8]>, due: SystemTime) -> Result<(), RecipeError> {
        self.put_as(format!("{ITEM}|{:08X}|", millis(due)), data.as_ref()).await
    }

    async fn put_as(&self, name: String, data: &[u8]) -> Result<(), RecipeError> {
        let (path, data) = (child(&self.path, &name), frame(data));
        let create = || self.client.create(&path, &data, CreateMode::PersistentSequential);
        with_parent(&self.client, &self.path, CreateMode::Persistent, create).await?;
        Ok(())
    }

    /// Waits for an item that no other consumer is processing. Dropping the future takes nothing.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// loop {
    ///     let item = queue.take().await?;
    ///     println!("{:?}", item.data());
    ///     item.done().await?;
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(&self) -> Result<QueueItem, RecipeError> {
        let turn = self.turns.acquire().await?;
        let item = self.next().await?;
        turn.release().await?;
        Ok(item)
    }

    async fn next(&self) -> Result<QueueItem, RecipeError> {
        loop {
            let (names, changed, freed) = self.free_items().await?;
            let now = millis(SystemTime::now());
            let mut due_in = None;
            for name in names {
                if self.order == Order::Due
                    && let Some(wait) = due(&name).checked_sub(now).filter(|wait| 0 < *wait)
                {
                    due_in = Some(Duration::from_millis(wait));
                    break; // all others are due later
                }
                if let Some(item) = self.claim(&name).await? {
                    return Ok(item);
                }
            }
            let change = async {
                tokio::select! {
                    event = changed => event,
                    event = freed => event,
                }
            };
            match due_in {
                None => drop(change.await),
                Some(wait) => drop(timeout(wait, change).await),
            }
        }
    }

    /// Waits for an item for at most `limit`.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// let item = queue.take_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take_within(&self, limit: Duration) -> Result<Option<QueueItem>, RecipeError> {
        timeout(limit, self.take()).await.ok().transpose()
    }

    /// Returns the number of items, including those being processed.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// println!("{}", queue.count().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn count(&self) -> Result<usize, RecipeError> {
        let names = self.client.children(&self.path).await;
        if has_code(&names, ErrorCode::NoNode) {
            return Ok(0);
        }
        Ok(names?.iter().filter(|name| name.starts_with(ITEM)).count())
    }

    /// Returns the unlocked items in order, and watches on the items and the locks.
    async fn free_items(&self) -> Result<(Vec<String>, Watch, Watch), RecipeError> {
        // Locks first: the watch on them then catches an item that is unlocked later.
        let (locked, freed) = self.list(&self.locks).await?;
        let (mut names, changed) = self.list(&self.path).await?;
        names.retain(|name| name.starts_with(ITEM) && !locked.contains(name));
        match self.order {
            Order::Name => names.sort(),
            Order::Due => names.sort_by(|a, b| due(a).cmp(&due(b)).then_with(|| a.cmp(b))),
        }
        Ok((names, changed, freed))
    }

    async fn list(&self, path: &str) -> Result<(Vec<String>, Watch), RecipeError> {
        loop {
            let found = self.client.children_and_watch(path).await;
            if !has_code(&found, ErrorCode::NoNode) {
                return Ok(found?);
            }
            ensure(&self.client, path, CreateMode::Persistent).await?;
        }
    }

    /// Locks an item, unless another consumer has it: a Curator client, which does not use the turns, or a client whose
    /// session has not expired yet.
    async fn claim(&self, name: &str) -> Result<Option<QueueItem>, RecipeError> {
        let Some(lock) = OwnedNode::claim(&self.client, child(&self.locks, name)).await? else { return Ok(None) };
        let path = child(&self.path, name);
        let node = self.client.get(&path).await;
        if has_code(&node, ErrorCode::NoNode) {
            lock.delete().await?;
            return Ok(None); // another consumer finished it first
        }
        let data = unframe(&path, &node?.data)?;
        Ok(Some(QueueItem { client: self.client.clone(), path, data, lock }))
    }
}

/// An item that this consumer is processing. Dropping it without [`QueueItem::done`] returns it to the queue.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::queue::Queue;
/// let queue = Queue::new(&client, "/mail");
/// let item = queue.take().await?;
/// drop(item); // another consumer receives it
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping an item returns it to the queue"]
pub struct QueueItem {
    client: Client,
    path: String,
    data: Vec<u8>,
    lock: OwnedNode,
}

impl QueueItem {
    /// The data of the item. Several pieces that Curator put as one item are concatenated.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// println!("{:?}", queue.take().await?.data());
    /// # Ok(())
    /// # }
    /// ```
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The path of the node.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// println!("{}", queue.take().await?.path());
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Deletes the item after it was processed.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// queue.take().await?.done().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn done(self) -> Result<(), RecipeError> {
        delete(&self.client, &self.path).await?;
        Ok(self.lock.delete().await?)
    }
}

/// A sign digit and eight hexadecimal digits, so that names sort by priority.
fn by_priority(priority: i32) -> String {
    format!("{}{:08X}", u8::from(0 <= priority), priority)
}

/// The due time of an item in milliseconds since 1970; 0 if the name has none.
fn due(name: &str) -> u64 {
    let time =
        |name: &str| u64::from_str_radix(name.strip_prefix(ITEM)?.strip_prefix('|')?.split_once('|')?.0, 16).ok();
    time(name).unwrap_or(0)
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn frame(data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX); // exceeds every request limit anyway
    [&VERSION[..], &[PIECE], &length.to_be_bytes(), data, &[END]].concat()
}

fn unframe(path: &str, bytes: &[u8]) -> Result<Vec<u8>, RecipeError> {
    let bad = || RecipeError::bad_data(path, "not a queue item");
    let mut rest = bytes.strip_prefix(&VERSION).ok_or_else(bad)?;
    let mut data = Vec::new();
    while let Some((&PIECE, after)) = rest.split_first() {
        let (length, after) = after.split_first_chunk().ok_or_else(bad)?;
        let (piece, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(bad)?;
        data.extend_from_slice(piece);
        rest = after;
    }
    if rest.first() == Some(&END) { Ok(data) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_names_sort_by_priority() {
        let mut names: Vec<_> = [3, -2, 0, i32::MIN, -1, i32::MAX].map(by_priority).into();
        names.sort();
        assert_eq!(names, [i32::MIN, -2, -1, 0, 3, i32::MAX].map(by_priority));
        assert_eq!((by_priority(5), by_priority(-1)), ("100000005".into(), "0FFFFFFFF".into()));
    }

    #[test]
    fn item_name_contains_due_time() {
        assert_eq!(due("queue-|18C8E2A4B00|0000000009"), 0x18C_8E2A_4B00);
        assert_eq!((due("queue-0000000009"), due("queue-|x|1")), (0, 0));
    }

    #[test]
    fn frame_round_trips_and_malformed_is_rejected() {
        assert_eq!(frame(b"ab"), [0, 1, 0, 1, 1, 0, 0, 0, 2, b'a', b'b', 2]);
        assert_eq!(unframe("/q", &frame(b"ab")), Ok(b"ab".to_vec()));
        assert_eq!(unframe("/q", &[0, 1, 0, 1, 1, 0, 0, 0, 1, b'a', 1, 0, 0, 0, 1, b'b', 2]), Ok(b"ab".to_vec()));
        for broken in [&b""[..], b"abc", &[0, 1, 0, 1], &[0, 1, 0, 1, 1, 0, 0, 0, 9, 1], &[0, 1, 0, 1, 1, 255]] {
            assert!(unframe("/q", broken).is_err(), "{broken:?}");
        }
    }
}
