//! Queues of persistent nodes, in the layouts of Curator's `DistributedQueue`, `DistributedPriorityQueue` and
//! `DistributedDelayQueue` with lock safety.
//!
//! ```text
//! /queue                                  persistent: Curator's clients make it once, and count on it
//!  ├─ queue-0000000004                    FIFO: the number is the order
//!  ├─ queue-1000000050000000007           priority 5: smaller ones first, the number decides among equals
//!  └─ queue-|18C8E2A4B00|0000000009       delay: due at so many milliseconds since 1970, in hexadecimal digits
//! /queue-locks                            persistent
//!  └─ queue-0000000004                    ephemeral: somebody works on that item
//! /queue-turns                            a lock: its owner looks for the next item, the others wait in line
//! ```
//!
//! An item's data is Curator's frame: `00 01 00 01`, then `01`, a length of four bytes and the bytes for every piece, then `02`.
//!
//! An item stays until the consumer that took it says that it is done. When that consumer dies first, another one gets the
//! item. So every item is delivered *at least once*.

use crate::error::{Error, says};
use crate::lock::Lock;
use crate::nodes::{Owned, below, child, delete, ensure, patient};
use ox_client::{Client, CreateMode, ErrorCode, Watch};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// What the names of items begin with.
const ITEM: &str = "queue-";

/// Marks Curator's frame, and its pieces.
const VERSION: [u8; 4] = [0, 1, 0, 1];
const PIECE: u8 = 1;
const END: u8 = 2;

/// How the items of a queue are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Name,
    Due,
}

/// A queue of items that wait for consumers, in the order in which they were put, by priority, or by time.
///
/// All users of a queue must use it in the same way: [`Queue::put`] only, [`Queue::put_with_priority`] only, or a queue made by
/// [`Queue::delayed`].
///
/// **Limits.** The order is that in which consumers begin; with several of them items can be done in another order. A list of
/// children must fit into one answer, so keep queues to some ten thousand items.
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
/// let item = queue.take().await?; // waits when there is none
/// assert_eq!(item.data(), b"first");
/// item.done().await?; // until then others can get it, should this client die
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
    /// The queue at a path, with its locks at the same path with `-locks` at the end. Nothing happens yet.
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
            client: patient(client),
            path: path.to_owned(),
            locks: format!("{path}-locks"),
            turns: Lock::new(client, &format!("{path}-turns")),
            order: Order::Name,
        }
    }

    /// A queue whose items wait for their time; see [`Queue::put_due`].
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

    /// Another place for the locks, for queues that Curator's clients share (their `lockPath`).
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

    /// Adds an item at the end.
    ///
    /// When the answer is lost, the error's outcome is unknown: putting the item again may put it twice, not doing so may
    /// lose it.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// queue.put("hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put(&self, data: impl AsRef<[u8]>) -> Result<(), Error> {
        self.put_as(ITEM.to_owned(), data.as_ref()).await
    }

    /// Adds an item before all those of larger priority.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// queue.put_with_priority("later", 9).await?;
    /// queue.put_with_priority("at once", -1).await?;
    /// let item = queue.take().await?;
    /// assert_eq!(item.data(), b"at once");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_with_priority(&self, data: impl AsRef<[u8]>, priority: i32) -> Result<(), Error> {
        self.put_as(format!("{ITEM}{}", by_priority(priority)), data.as_ref()).await
    }

    /// Adds an item that nobody takes before its time, as the consumers' clocks tell it.
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
    pub async fn put_due(&self, data: impl AsRef<[u8]>, due: SystemTime) -> Result<(), Error> {
        self.put_as(format!("{ITEM}|{:08X}|", millis(due)), data.as_ref()).await
    }

    async fn put_as(&self, name: String, data: &[u8]) -> Result<(), Error> {
        let (path, data) = (child(&self.path, &name), frame(data));
        let create = || self.client.create(&path, &data, CreateMode::PersistentSequential);
        below(&self.client, &self.path, CreateMode::Persistent, create).await?;
        Ok(())
    }

    /// Waits for an item that nobody else works on. Dropping the future takes nothing.
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
    pub async fn take(&self) -> Result<Item, Error> {
        let turn = self.turns.acquire().await?;
        let item = self.next().await?;
        turn.release().await?;
        Ok(item)
    }

    async fn next(&self) -> Result<Item, Error> {
        loop {
            let (names, changed, freed) = self.look().await?;
            let now = millis(SystemTime::now());
            let mut due_in = None;
            for name in names {
                if self.order == Order::Due
                    && let Some(wait) = due(&name).checked_sub(now).filter(|wait| 0 < *wait)
                {
                    due_in = Some(Duration::from_millis(wait));
                    break; // the others are due later
                }
                if let Some(item) = self.claim(&name).await? {
                    return Ok(item);
                }
            }
            let news = async {
                tokio::select! {
                    event = changed => event,
                    event = freed => event,
                }
            };
            match due_in {
                None => drop(news.await),
                Some(wait) => drop(timeout(wait, news).await),
            }
        }
    }

    /// Waits for an item, but not longer.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// let item = queue.take_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take_within(&self, limit: Duration) -> Result<Option<Item>, Error> {
        timeout(limit, self.take()).await.ok().transpose()
    }

    /// How many items there are, those that somebody works on included.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// println!("{}", queue.count().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn count(&self) -> Result<usize, Error> {
        let names = self.client.children(&self.path).await;
        if says(&names, ErrorCode::NoNode) {
            return Ok(0);
        }
        Ok(names?.iter().filter(|name| name.starts_with(ITEM)).count())
    }

    /// The items that nobody works on, in order, and watches on items and locks.
    async fn look(&self) -> Result<(Vec<String>, Watch, Watch), Error> {
        // The locks first: an item that is free again later is seen by the watch on them.
        let (locked, freed) = self.list(&self.locks).await?;
        let (mut names, changed) = self.list(&self.path).await?;
        names.retain(|name| name.starts_with(ITEM) && !locked.contains(name));
        match self.order {
            Order::Name => names.sort(),
            Order::Due => names.sort_by(|a, b| due(a).cmp(&due(b)).then_with(|| a.cmp(b))),
        }
        Ok((names, changed, freed))
    }

    async fn list(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        loop {
            let found = self.client.children_and_watch(path).await;
            if !says(&found, ErrorCode::NoNode) {
                return Ok(found?);
            }
            ensure(&self.client, path, CreateMode::Persistent).await?;
        }
    }

    /// Takes an item, unless another consumer has it: one that knows nothing of turns, or whose session is over.
    async fn claim(&self, name: &str) -> Result<Option<Item>, Error> {
        let Some(lock) = Owned::claim(&self.client, child(&self.locks, name)).await? else { return Ok(None) };
        let path = child(&self.path, name);
        let node = self.client.get(&path).await;
        if says(&node, ErrorCode::NoNode) {
            lock.delete().await?;
            return Ok(None); // somebody was faster
        }
        let data = unframe(&path, &node?.data)?;
        Ok(Some(Item { client: self.client.clone(), path, data, lock }))
    }
}

/// An item that this consumer works on. Dropping it without [`Item::done`] gives it to another one.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::queue::Queue;
/// let queue = Queue::new(&client, "/mail");
/// let item = queue.take().await?;
/// drop(item); // another consumer gets it
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "an item that is dropped comes back"]
pub struct Item {
    client: Client,
    path: String,
    data: Vec<u8>,
    lock: Owned,
}

impl Item {
    /// What was put. Where Curator put several pieces as one item, they follow each other.
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

    /// Its node.
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

    /// Removes the item for good.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::queue::Queue;
    /// let queue = Queue::new(&client, "/mail");
    /// queue.take().await?.done().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn done(self) -> Result<(), Error> {
        delete(&self.client, &self.path).await?;
        Ok(self.lock.delete().await?)
    }
}

/// A digit for the sign and eight for the number, so that names sort as numbers do.
fn by_priority(priority: i32) -> String {
    format!("{}{:08X}", u8::from(0 <= priority), priority)
}

/// When an item may be taken; one that does not say may be now.
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
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX); // no server takes that much
    [&VERSION[..], &[PIECE], &length.to_be_bytes(), data, &[END]].concat()
}

fn unframe(path: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let bad = || Error::bad_data(path, "not an item of a queue");
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
    fn names_sort_by_priority() {
        let mut names: Vec<_> = [3, -2, 0, i32::MIN, -1, i32::MAX].map(by_priority).into();
        names.sort();
        assert_eq!(names, [i32::MIN, -2, -1, 0, 3, i32::MAX].map(by_priority));
        assert_eq!((by_priority(5), by_priority(-1)), ("100000005".into(), "0FFFFFFFF".into()));
    }

    #[test]
    fn names_tell_when_items_are_due() {
        assert_eq!(due("queue-|18C8E2A4B00|0000000009"), 0x18C_8E2A_4B00);
        assert_eq!((due("queue-0000000009"), due("queue-|x|1")), (0, 0));
    }

    #[test]
    fn frames_come_apart() {
        assert_eq!(frame(b"ab"), [0, 1, 0, 1, 1, 0, 0, 0, 2, b'a', b'b', 2]);
        assert_eq!(unframe("/q", &frame(b"ab")), Ok(b"ab".to_vec()));
        assert_eq!(unframe("/q", &[0, 1, 0, 1, 1, 0, 0, 0, 1, b'a', 1, 0, 0, 0, 1, b'b', 2]), Ok(b"ab".to_vec()));
        for broken in [&b""[..], b"abc", &[0, 1, 0, 1], &[0, 1, 0, 1, 1, 0, 0, 0, 9, 1], &[0, 1, 0, 1, 1, 255]] {
            assert!(unframe("/q", broken).is_err(), "{broken:?}");
        }
    }
}
