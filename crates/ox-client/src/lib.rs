//! A ZooKeeper client: sessions that survive lost connections, requests in order, watches as futures and streams.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ox_server::Server::ephemeral()?;
//! # let servers = server.address().to_string();
//! use ox_client::{Client, CreateMode, EventKind};
//!
//! let client = Client::connect(&servers).await?;
//! client.ensure_path("/app/workers").await?;
//! let (workers, changed) = client.children_and_watch("/app/workers").await?;
//! assert!(workers.is_empty());
//! client.create("/app/workers/w-", b"me", CreateMode::EphemeralSequential).await?;
//! assert_eq!(changed.await.kind, EventKind::NodeChildrenChanged);
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Programs without a runtime use [`blocking::Client`].
//!
//! Start with [`Client`]; [`Builder`] has the settings, [`State`] tells how the session is, [`Error`] what a failure means. Inside, a
//! pure session core decides what is sent when and what an answer belongs to; a small driver moves bytes and time between it and
//! the socket.

pub mod acl;
pub mod blocking;
mod builder;
mod client;
mod core;
mod driver;
mod error;
mod event;
mod limits;
mod multi;
pub mod path;
mod reader_queue;
mod retry;
mod server_list;
mod session_events;
mod state;
mod transport;
mod types;
mod watch;

pub use builder::Builder;
pub use client::Client;
pub use error::{Error, ErrorKind, Outcome};
pub use event::{Event, EventKind};
pub use multi::{Multi, MultiRead, MultiResults, ReadResult, ReadResults, Slot, WriteResult};
pub use ox_proto::{ErrorCode, SessionId, Stat, Zxid};
pub use retry::RetryPolicy;
pub use server_list::Server;
pub use session_events::{Notice, Notices};
pub use state::{SessionTicket, State, States};
pub use types::{CreateMode, CreateOptions, Created, Data, Identity, Node, Null, Reconfig, Version};
pub use watch::{Watch, WatchMode, WatchStream, WatcherType};
