//! The data: znodes, sessions, access control, quotas, watches; how writes become transactions and how
//! transactions change the state.
//!
//! Pure: no clock, no thread, no I/O. [`State`] is what a server answers from and changes only through
//! [`State::apply`]; [`ops`] turns requests into transactions against the state plus what is on its way
//! ([`Pending`]); [`read`] answers the rest.

mod acl_table;
pub mod prefetch;
mod write_reply;
mod apply;
pub mod auth;
mod conn;
mod frozen_view;
mod hash;
mod index;
mod limits;
mod children_cache;
mod loader;
mod node;
pub mod ops;
mod options;
pub mod outbox;
pub mod path;
mod pending;
mod quota;
pub mod read;
mod slab;
mod state;
mod metric_summary;
mod tree;
pub mod watch;

pub use acl_table::AclList;
pub use write_reply::put_write_reply;
pub use apply::{Applied, Outcome};
pub use conn::ConnId;
pub use frozen_view::{Frozen, FrozenNode, SortedWalk, Walk};
pub use loader::{LoadError, Loader};
pub use options::Options;
pub use pending::{Hints, Pending, Stamp, View};
pub use quota::{OverQuota, QuotaUse};
pub use state::{EphemeralPlace, State};
pub use metric_summary::Tally;
