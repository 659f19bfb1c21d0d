//! Multi requests: writes in one transaction, and reads of one state.

use crate::client::{Call, Client, Kind, names, node, put_create};
use crate::core::Reply;
use crate::error::{Error, ErrorKind, RequestOutcome};
use crate::types::{CreateOptions, Created, Node, NodeData, Version};
use ox_proto::jute::Jute;
use ox_proto::multi::{MultiHeader, MultiOp, MultiResult};
use ox_proto::request::{PathVersion, PathWatch, SetDataRequest};
use ox_proto::{ErrorCode, OpCode, Reader, Stat};
use std::borrow::Cow;
use std::marker::PhantomData;

/// A handle to the result of one operation of a multi.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::{Slot, Stat};
/// let mut multi = client.multi();
/// let slot: Slot<Stat> = multi.set("/a", b"1", None);
/// println!("{}", multi.commit().await?.get(slot).version);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Slot<T> {
    at: usize,
    result: PhantomData<fn() -> T>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

impl<T> Slot<T> {
    fn new(at: usize) -> Self {
        Self { at, result: PhantomData }
    }
}

/// Name and path of one operation, for errors.
#[derive(Debug)]
struct OpEntry {
    name: &'static str,
    path: String,
    /// Of a create.
    options: Option<CreateOptions>,
}

/// Operations collected by either kind of multi.
#[derive(Debug)]
struct OpList {
    client: Client,
    entries: Vec<OpEntry>,
    body: Vec<u8>,
    /// The error of the first invalid path; reported when the multi is sent.
    invalid: Option<Error>,
}

impl OpList {
    fn new(client: &Client) -> Self {
        Self { client: client.clone(), entries: Vec::new(), body: Vec::new(), invalid: None }
    }

    fn push<T>(&mut self, name: &'static str, path: &str, put: impl FnOnce(&mut Vec<u8>, Cow<'_, str>)) -> Slot<T> {
        match self.client.server_path(name, path) {
            Ok(inner) => put(&mut self.body, inner),
            Err(error) => self.reject(error),
        }
        self.add_entry(name, path, None)
    }

    fn push_create(&mut self, path: &str, data: Option<&[u8]>, options: CreateOptions) -> Slot<Created> {
        match self.client.new_node_path(path, &options) {
            Ok(inner) => {
                MultiHeader { op: options.mode.wire().0.code(), done: false, err: -1 }.put(&mut self.body);
                put_create(&mut self.body, &inner, data, &options);
            }
            Err(error) => self.reject(error),
        }
        self.add_entry("create", path, Some(options))
    }

    /// Notes the error of an invalid operation, by its index.
    fn reject(&mut self, error: Error) {
        let at = self.entries.len();
        self.invalid.get_or_insert_with(|| error.in_multi(at));
    }

    fn add_entry<T>(&mut self, name: &'static str, path: &str, options: Option<CreateOptions>) -> Slot<T> {
        self.entries.push(OpEntry { name, path: path.to_owned(), options });
        Slot::new(self.entries.len() - 1)
    }

    async fn send(&mut self, name: &'static str, op: OpCode) -> Result<Reply, Error> {
        if let Some(error) = self.invalid.take() {
            return Err(error);
        }
        let body = &self.body;
        let encode = |out: &mut Vec<u8>| {
            out.extend_from_slice(body);
            MultiHeader::END.put(out);
        };
        let kind = if op == OpCode::MultiRead { Kind::Read } else { Kind::Write };
        self.client.call(Call { name, op, path: None, kind, encode: &encode, watch: None }).await
    }
}

fn bad_reply(name: &'static str) -> Error {
    Error::new(name, None, ErrorKind::BadReply, RequestOutcome::Unknown)
}

/// Decodes the results of a reply and checks their number.
fn results<'a>(name: &'static str, reply: &'a Reply, count: usize) -> Result<Vec<MultiResult<'a>>, Error> {
    let mut from = Reader::new(&reply.body);
    let mut results = Vec::new();
    while let Some(result) = MultiResult::next(&mut from).map_err(|_| bad_reply(name))? {
        results.push(result);
    }
    if results.len() == count { Ok(results) } else { Err(bad_reply(name)) }
}

/// A transaction of several writes; see [`Client::multi`].
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut multi = client.multi();
/// multi.delete("/a", None);
/// multi.delete("/b", None);
/// multi.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before `commit`"]
pub struct Multi(OpList);

impl Client {
    /// Starts a transaction: all its writes are executed, or none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, ErrorCode};
    /// client.create("/balance", b"7", CreateMode::Persistent).await?;
    ///
    /// let mut multi = client.multi();
    /// multi.check("/balance", 0);
    /// let booked = multi.set("/balance", b"5", None);
    /// let entry = multi.create("/entry-", b"-2", CreateMode::PersistentSequential);
    /// let results = multi.commit().await?;
    /// assert_eq!(results.get(booked).version, 1);
    /// assert_eq!(results.get(entry).path, "/entry-0000000001");
    ///
    /// let mut multi = client.multi();
    /// multi.create("/new", b"", CreateMode::Persistent);
    /// multi.check("/balance", 0);
    /// let error = multi.commit().await.unwrap_err();
    /// assert_eq!(error.to_string(), "multi: check /balance: version does not match");
    /// assert_eq!(error.failed_at(), Some(1));
    /// assert!(client.exists("/new").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi(&self) -> Multi {
        Multi(OpList::new(self))
    }

    /// Starts a list of reads that all see the same state.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, ErrorCode};
    /// client.create("/a", b"1", CreateMode::Persistent).await?;
    /// let mut reads = client.multi_read();
    /// let node = reads.get("/a");
    /// let nothing = reads.get("/b");
    /// let names = reads.children("/");
    /// let results = reads.send().await?;
    /// assert_eq!(results.get(node)?.data, b"1");
    /// assert_eq!(results.get(nothing).unwrap_err().code(), Some(ErrorCode::NoNode));
    /// assert_eq!(results.get(names)?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi_read(&self) -> MultiRead {
        MultiRead(OpList::new(self))
    }
}

impl Multi {
    /// Adds a create of a node.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut multi = client.multi();
    /// multi.create("/a", b"", ox_client::CreateMode::Persistent);
    /// multi.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&mut self, path: &str, data: impl NodeData, options: impl Into<CreateOptions>) -> Slot<Created> {
        self.0.push_create(path, data.bytes(), options.into())
    }

    /// Adds a write of a node's data.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut multi = client.multi();
    /// multi.set("/a", b"1", 7);
    /// multi.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&mut self, path: &str, data: impl NodeData, version: impl Into<Version>) -> Slot<Stat> {
        let version = version.into().code();
        self.0.push("set", path, |out, path| {
            MultiOp::SetData(SetDataRequest { path: Some(path), data: data.bytes(), version }).put(out);
        })
    }

    /// Adds a delete of a node.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut multi = client.multi();
    /// multi.delete("/a", 7);
    /// multi.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&mut self, path: &str, version: impl Into<Version>) -> Slot<()> {
        let version = version.into().code();
        self.0.push("delete", path, |out, path| MultiOp::Delete(PathVersion { path: Some(path), version }).put(out))
    }

    /// Adds a version check: the transaction fails unless the node has this version.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut multi = client.multi();
    /// multi.check("/epoch", 7);
    /// multi.set("/a", b"1", None);
    /// multi.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&mut self, path: &str, version: impl Into<Version>) -> Slot<()> {
        let version = version.into().code();
        self.0.push("check", path, |out, path| MultiOp::Check(PathVersion { path: Some(path), version }).put(out))
    }

    /// Executes all operations, or none. In that case the error is that of the operation that failed, and
    /// [`Error::failed_at`] returns its index.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let mut multi = client.multi();
    /// let slot = multi.create("/a", b"", ox_client::CreateMode::Persistent);
    /// multi.set("/a", b"1", 0);
    /// assert_eq!(multi.commit().await?.get(slot).path, "/a");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn commit(mut self) -> Result<MultiResults, Error> {
        let reply = self.0.send("multi", OpCode::Multi).await?;
        let (list, shared) = (&self.0, self.0.client.shared());
        let results = results("multi", &reply, list.entries.len())?;
        let not_evaluated = ErrorCode::RuntimeInconsistency.code();
        let failed =
            |result: &MultiResult<'_>| matches!(result, MultiResult::Error(code) if ![0, not_evaluated].contains(code));
        if let Some(at) = results.iter().position(failed)
            && let MultiResult::Error(code) = results[at]
        {
            let OpEntry { name, path, options } = &list.entries[at];
            let error = Error::refused(name, Some(path), code).in_multi(at);
            let error = list.client.name_missing_chroot(error).await;
            return Err(match options {
                Some(options) => options.explain(error),
                None => error,
            });
        }
        let result = |result| {
            Ok(match result {
                MultiResult::Created(path) => WriteOpResult::Created(Created {
                    path: shared.client_path(path.unwrap_or_default().into_owned()),
                    stat: Stat::default(),
                }),
                MultiResult::Created2(created) => WriteOpResult::Created(Created {
                    path: shared.client_path(created.path.unwrap_or_default().into_owned()),
                    stat: created.stat,
                }),
                MultiResult::Done => WriteOpResult::Nothing(()),
                MultiResult::Set(stat) => WriteOpResult::Stat(stat),
                MultiResult::Data(_) | MultiResult::Children(_) | MultiResult::Error(_) => {
                    return Err(bad_reply("multi"));
                }
            })
        };
        results.into_iter().map(result).collect::<Result<_, _>>().map(MultiResults)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WriteOpResult {
    Created(Created),
    Stat(Stat),
    Nothing(()),
}

/// The results of a committed [`Multi`].
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut multi = client.multi();
/// let slot = multi.set("/a", b"1", None);
/// let results = multi.commit().await?;
/// println!("{}", results.get(slot).version);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiResults(Vec<WriteOpResult>);

mod sealed {
    pub trait Sealed {}
}

/// Result types of the operations of a [`Multi`].
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::{MultiResults, Slot, WriteResult};
/// fn first<T: WriteResult>(results: &MultiResults, slots: [Slot<T>; 2]) -> &T {
///     let [slot, _] = slots;
///     results.get(slot)
/// }
/// # Ok(())
/// # }
/// ```
pub trait WriteResult: sealed::Sealed + Sized {
    #[doc(hidden)]
    fn of(results: &MultiResults, at: usize) -> Option<&Self>;
}

macro_rules! write_results {
    ($($kind:ty => $variant:ident),*) => {
        $(impl sealed::Sealed for $kind {}
        impl WriteResult for $kind {
            fn of(results: &MultiResults, at: usize) -> Option<&Self> {
                match results.0.get(at) {
                    Some(WriteOpResult::$variant(result)) => Some(result),
                    _ => None,
                }
            }
        })*
    };
}
write_results!(Created => Created, Stat => Stat, () => Nothing);

impl MultiResults {
    /// Returns the result of one operation.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut multi = client.multi();
    /// let slot = multi.set("/a", b"1", None);
    /// println!("{}", multi.commit().await?.get(slot).version);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the slot belongs to another multi.
    pub fn get<T: WriteResult>(&self, slot: Slot<T>) -> &T {
        T::of(self, slot.at).expect("the slot belongs to this multi")
    }
}

/// A list of reads of one state; see [`Client::multi_read`].
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut reads = client.multi_read();
/// let (a, b) = (reads.get("/a"), reads.get("/b"));
/// let results = reads.send().await?;
/// println!("{:?} {:?}", results.get(a)?.data, results.get(b)?.data); // at the same zxid
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens before `send`"]
pub struct MultiRead(OpList);

impl MultiRead {
    /// Adds a read of a node's data.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut reads = client.multi_read();
    /// let slot = reads.get("/a");
    /// println!("{:?}", reads.send().await?.get(slot)?.data);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&mut self, path: &str) -> Slot<Node> {
        let watch = false;
        self.0.push("get", path, |out, path| MultiOp::GetData(PathWatch { path: Some(path), watch }).put(out))
    }

    /// Adds a read of the names of a node's children.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut reads = client.multi_read();
    /// let slot = reads.children("/");
    /// println!("{:?}", reads.send().await?.get(slot)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn children(&mut self, path: &str) -> Slot<Vec<String>> {
        let watch = false;
        self.0.push("children", path, |out, path| MultiOp::GetChildren(PathWatch { path: Some(path), watch }).put(out))
    }

    /// Executes all reads. Each succeeds or fails on its own.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut reads = client.multi_read();
    /// reads.get("/a");
    /// let results = reads.send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(mut self) -> Result<ReadResults, Error> {
        let reply = self.0.send("multi read", OpCode::MultiRead).await?;
        let results = results("multi read", &reply, self.0.entries.len())?;
        let result = |(entry, result): (&OpEntry, MultiResult<'_>)| {
            Ok(match result {
                MultiResult::Data(data) => Ok(ReadOpResult::Node(node(&data))),
                MultiResult::Children(children) => Ok(ReadOpResult::Names(names(children))),
                MultiResult::Error(code) => Err(Error::refused(entry.name, Some(&entry.path), code)),
                MultiResult::Created(_) | MultiResult::Created2(_) | MultiResult::Done | MultiResult::Set(_) => {
                    return Err(bad_reply("multi read"));
                }
            })
        };
        self.0.entries.iter().zip(results).map(result).collect::<Result<_, _>>().map(ReadResults)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ReadOpResult {
    Node(Node),
    Names(Vec<String>),
}

/// The results of a [`MultiRead`], one per operation.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut reads = client.multi_read();
/// let slot = reads.get("/perhaps");
/// if let Err(error) = reads.send().await?.get(slot) {
///     println!("{error}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResults(Vec<Result<ReadOpResult, Error>>);

/// Result types of the operations of a [`MultiRead`].
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::{ReadResult, ReadResults, Slot};
/// fn exists<T: ReadResult>(results: &ReadResults, slot: Slot<T>) -> bool {
///     results.get(slot).is_ok()
/// }
/// # Ok(())
/// # }
/// ```
pub trait ReadResult: sealed::Sealed + Sized {
    #[doc(hidden)]
    fn of(results: &ReadResults, at: usize) -> Option<Result<&Self, Error>>;
}

macro_rules! read_results {
    ($($kind:ty => $variant:ident),*) => {
        $(impl sealed::Sealed for $kind {}
        impl ReadResult for $kind {
            fn of(results: &ReadResults, at: usize) -> Option<Result<&Self, Error>> {
                match results.0.get(at) {
                    Some(Ok(ReadOpResult::$variant(result))) => Some(Ok(result)),
                    Some(Err(error)) => Some(Err(error.clone())),
                    _ => None,
                }
            }
        })*
    };
}
read_results!(Node => Node, Vec<String> => Names);

impl ReadResults {
    /// Returns the result of one operation.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut reads = client.multi_read();
    /// let slot = reads.get("/a");
    /// println!("{:?}", reads.send().await?.get(slot)?.data);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the slot belongs to another multi.
    pub fn get<T: ReadResult>(&self, slot: Slot<T>) -> Result<&T, Error> {
        T::of(self, slot.at).expect("the slot belongs to this multi")
    }
}
