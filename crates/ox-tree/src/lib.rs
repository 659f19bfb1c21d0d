//! The replicated state: znodes, sessions, ACLs, quotas and watches; how writes become transactions, and how
//! transactions change the state.
//!
//! The crate is deterministic: no clock, no threads, no I/O. A server replies to reads from [`State`] ([`read`]) and
//! changes it only through [`State::apply`]. [`ops`] checks write requests against the state and the changes in flight
//! ([`PendingChanges`]), turns them into transactions, applies these, and replies.

mod acl_table;
mod apply;
pub mod auth;
mod children_cache;
mod frozen_view;
mod hash;
mod index;
mod limits;
mod loader;
mod metric_summary;
mod node;
pub mod ops;
mod options;
pub mod path;
mod pending;
pub mod prefetch;
mod quota;
pub mod read;
mod slab;
mod state;
mod tree;
mod usage;
pub mod watch;

pub use acl_table::AclList;
pub use apply::{Applied, ApplyOutcome};
pub use frozen_view::{FrozenNode, FrozenView, SortedWalk, Walk};
pub use limits::{TOP_LEVEL_NAME_BYTES_MAX, TOP_LEVEL_NODES_MAX};
pub use loader::{LoadError, Loader};
pub use metric_summary::MetricSummary;
pub use ops::put_write_reply;
pub use options::TreeOptions;
pub use pending::{NodeHints, PendingChanges, PendingView, WriteStamp};
pub use quota::{QuotaExceeded, QuotaStatus};
pub use state::{EphemeralCursor, State};
pub use usage::{TopLevelUsage, TreeUsage, UsageLimits};
