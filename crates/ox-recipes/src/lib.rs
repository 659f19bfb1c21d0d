//! Coordination recipes on top of [`ox_client`]: locks, elections and more that survive connection losses, end with the
//! session, and avoid herd effects. Where Apache Curator has the recipe, the node layout is the same, so that Curator
//! clients can take part.
//!
//! Common to all recipes:
//! - A recipe works within the session of its client. It waits for a connection as long as the session lasts; when the
//!   session has ended, everything it held is gone and it fails with an error for which
//!   [`RecipeError::is_session_ended`] is true. [`sessions::run_in_sessions`] starts over with a new session.
//! - Futures can be dropped at any time. The node in a wait queue is then deleted in the background.
//! - A waiting client watches one node, the one whose deletion matters.
//! - Everything held has a fencing token, the `czxid` of its node; [`guard::LockGuard`] explains why it is needed.
//!
//! [`lock`] is the simplest recipe to read; most of them are built on `wait_queue.rs`.

#![warn(missing_docs)]

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

pub use error::{LossCause, RecipeError};

/// Tests that the Rust code of the guides compiles; code without `no_run` is executed as well.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/develop/README.md")]
    mod start_page {}
    #[doc = include_str!("../../../docs/develop/getting-started.md")]
    mod getting_started {}
    #[doc = include_str!("../../../docs/develop/client.md")]
    mod client {}
    #[doc = include_str!("../../../docs/develop/recipes.md")]
    mod recipes {}
}
