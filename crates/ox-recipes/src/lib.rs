//! Recipes for coordination on top of [`ox_client`]: locks and elections that survive lost connections, end with the session, and wake up
//! nobody in vain. Where Apache Curator has the recipe, the nodes are the same, so that its clients can take part.
//!
//! What all recipes share:
//! - A recipe works within the session of the client it was given. It waits for a connection as long as the session lasts; when that is
//!   over, what it held is gone and it fails with an error of which [`Error::is_session_over`] is true.
//!   [`sessions::in_sessions`] begins again with a new one.
//! - Futures can be dropped at any time. A place in a line is given up then, in the background.
//! - Whoever waits watches one node, the one whose end matters.
//! - What is held has a fencing token, the `czxid` of its node: see [`guard::Held`] for why it is needed.
//!
//! [`lock`] is the simplest one to read; `wait_queue.rs` is what most of them are made of.

pub mod barrier;
pub mod cache;
pub mod config;
pub mod counter;
pub mod discovery;
mod error;
pub mod guard;
pub mod leader;
pub mod lock;
pub mod multi_lock;
pub mod naming;
mod nodes;
pub mod presence;
pub mod queue;
pub mod rw_lock;
pub mod semaphore;
pub mod sessions;
pub mod tasks;
mod wait_queue;

pub use error::Error;
