//! What the AdminServer shows of a server: the tables of the four-letter commands as plain values, without locks and
//! without the types of the core.
//!
//! The methods of [`ServerHandle`] read what a four-letter command reads, in the same batches, so that no lock is held
//! longer than for a request of a client. Those that ask the replica thread say so, and may wait.

mod authorisation;
mod connections;
mod ensemble;
mod reload;
mod server_status;
mod sessions;
mod snapshots;
mod watches;

pub use authorisation::{Authorisation, Credentials};
pub use connections::{ConnectionReport, SessionReport};
pub use ensemble::{EnsembleReport, MemberReport, ObserverReport};
pub use reload::{CloseSessionOutcome, ReloadedStores};
pub use server_status::{BufferSizes, ServerStats, ServingMode, SettingsReport};
pub use snapshots::{LastSnapshot, RestoreFailed, SnapshotFailed, WrittenSnapshot};

use crate::server::ServerHandle;

/// Whether a listing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    Continue,
    /// The caller needs no more, because its reply is long enough.
    Stop,
}
