//! Agreement on one order of opaque transactions.
//!
//! Pure: no clock, no socket, no disk. A standalone server is an ensemble of one voter: the same proposing,
//! acknowledging and committing with the quorum {self}. Election, discovery and synchronisation join it when
//! there are others to agree with.
//!
//! Start with [`Leader`]; [`Quorum`] says whose word counts, [`Election`] who leads.

mod broadcast;
mod configs;
mod context;
mod effect;
mod election;
mod epoch;
mod giving;
mod history;
mod leader;
mod learner;
mod learner_stream;
mod master;
mod message;
mod options;
mod peer;
mod progress;
mod quorum;
mod room;
mod stalled;
mod timing;
mod unidentified;
mod vote;

pub use broadcast::Broadcast;
pub use configs::Configs;
pub use context::Context;
pub use effect::{DiskDone, DiskJob, Effect, Effects, LinkId, Reason, Search};
pub use election::{Election, ElectionSettings, Link, Outgoing};
pub use epoch::{Epoch, Epochs};
pub use history::{Catch, History};
pub use leader::{Candidate, Leader};
pub use learner::{Claim, Learner};
pub use master::{Master, Office};
pub use message::{LearnerKind, Message, Request, Run, Side, Txn};
pub use options::PeerOptions;
pub use ox_proto::ServerId;
pub use ox_proto::quorum::notification::PeerState;
pub use peer::{Peer, PeerSettings, Recovered, Standing};
pub use progress::Moved;
pub use quorum::{Quorum, Quorums};
pub use stalled::{LeaderSilence, LinkVerdict};
pub use timing::Timing;
pub use unidentified::{Origin, Unidentified, UnidentifiedLimits};
pub use vote::{Notification, Vote};
