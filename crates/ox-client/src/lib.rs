//! A ZooKeeper client: sessions that survive connection losses, pipelined requests, watches as futures and streams.
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
//! Programs without an async runtime use [`BlockingClient`].
//!
//! Start with [`Client`]; [`Builder`] has the settings, [`SessionState`] describes the session, [`Error`] what a
//! failure means. Internally, a pure session core decides what to send and matches replies to requests; a small driver
//! connects it to the socket and the clock.

#![warn(missing_docs)]

pub mod acl;
mod blocking;
mod builder;
mod client;
mod connect_failure;
mod core;
mod driver;
mod error;
mod event;
mod limits;
mod multi;
pub mod path;
#[cfg(feature = "security")]
mod properties;
mod reader_queue;
mod retry;
mod sasl;
mod server_list;
mod session_events;
mod state;
#[cfg(feature = "security")]
pub mod tls;
mod tls_failure;
mod transport;
mod types;
mod watch;

pub use blocking::{BlockingClient, BlockingWatch, StateIter, WatchIter};
pub use builder::Builder;
pub use client::Client;
pub use connect_failure::{ConnectCause, ConnectFailure};
pub use error::{Error, ErrorKind, RequestOutcome};
pub use event::{Event, EventKind};
pub use multi::{Multi, MultiRead, MultiResults, ReadResult, ReadResults, Slot, WriteResult};
pub use ox_proto::{ErrorCode, SessionId, Stat, Zxid};
#[cfg(feature = "security")]
pub use properties::ClientProperties;
pub use retry::RetryPolicy;
#[cfg(feature = "security")]
pub use sasl::SaslLogin;
pub use server_list::ServerAddress;
pub use session_events::{SessionEvent, SessionEvents};
pub use state::{SessionState, SessionStates, SessionTicket};
pub use tls_failure::TlsFailure;
pub use types::{AuthInfo, CreateMode, CreateOptions, Created, MembershipChange, Node, NodeData, Null, Version};
pub use watch::{AddWatchMode, Watch, WatchStream, WatcherType};
