//! Agreement on one order of opaque transactions.
//!
//! Pure: no clock, no socket, no disk. A standalone server is an ensemble of one voter: the same proposing,
//! acknowledging and committing with the quorum {self}. Election, discovery and synchronisation join it when
//! there are others to agree with.
//!
//! Start with [`Leader`]; [`Quorum`] says whose word counts.

mod leader;
mod quorum;

pub use leader::Leader;
pub use ox_proto::ServerId;
pub use quorum::Quorum;
