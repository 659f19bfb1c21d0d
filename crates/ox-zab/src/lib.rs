//! Agreement on one order of opaque transactions.
//!
//! Pure: no clock, no socket, no disk. A standalone server is an ensemble of one voter: the same proposing,
//! acknowledging and committing with the quorum {self}. Election, discovery and synchronisation join it when
//! there are others to agree with.
//!
//! Start with [`Leader`]; [`Quorum`] says whose word counts, [`Election`] who leads.

mod broadcast;
mod config_pair;
mod context;
mod disk_pressure;
mod effect;
mod election;
mod epoch;
mod leader;
mod learner;
mod learner_stream;
mod learner_sync;
mod liveness;
mod message;
mod observer_master;
mod options;
mod quorum;
mod quorum_peer;
mod recent_log;
mod stalled_link;
mod timing;
mod unidentified;
mod vote;

pub use broadcast::Broadcast;
pub use config_pair::Configs;
pub use context::Context;
pub use effect::{DiskDone, DiskJob, Effect, Effects, LinkId, Reason, Search};
pub use election::{Election, ElectionSettings, Link, Outgoing};
pub use epoch::{Epoch, Epochs};
pub use leader::{Candidate, Leader};
pub use learner::{Claim, Learner};
pub use liveness::Moved;
pub use message::{LearnerKind, Message, Request, Run, Side, Txn};
pub use observer_master::{Master, Office};
pub use options::PeerOptions;
pub use ox_proto::ServerId;
pub use ox_proto::quorum::notification::PeerState;
pub use quorum::{Quorum, Quorums};
pub use quorum_peer::{Peer, PeerSettings, Recovered, Standing};
pub use recent_log::{Catch, History};
pub use stalled_link::{LeaderSilence, LinkVerdict};
pub use timing::Timing;
pub use unidentified::{Origin, Unidentified, UnidentifiedLimits};
pub use vote::{Notification, Vote};
