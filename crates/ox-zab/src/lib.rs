//! ZooKeeper Atomic Broadcast (ZAB): leader election, discovery, synchronisation and broadcast of opaque transactions.
//!
//! The crate is pure: no clock, no socket, no disk. [`QuorumPeer::step`] takes one [`Input`] after another; what the
//! driver has to do is returned as [`Effect`]s. A standalone server is a quorum peer with one voter and no links
//! ([`QuorumPeer::standalone`]).
//!
//! Start with [`QuorumPeer`], the state machine of a member. It runs an [`Election`] and then is a [`Leader`] or a
//! [`Learner`].

mod broadcast;
mod config_pair;
mod context;
mod disk_pressure;
mod effect;
mod election;
mod epoch;
mod input;
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

pub use config_pair::ConfigPair;
pub use effect::{DiskDone, DiskJob, Effect, Effects, LinkId, LogDiffRange, Reason};
pub use election::{Election, ElectionConnection, ElectionSettings};
pub use epoch::{Epoch, Epochs};
pub use input::Input;
pub use leader::Leader;
pub use learner::Learner;
pub use liveness::Traffic;
pub use message::{EncodedTxn, LearnerKind, Message, Request, Sender, ZxidRange};
pub use observer_master::ObserverMaster;
pub use options::PeerOptions;
pub use ox_proto::ServerId;
pub use ox_proto::quorum::notification::PeerState;
pub use quorum::{Quorum, Quorums};
pub use quorum_peer::{Eligibility, MissingVotes, PeerSettings, PeerStatus, QuorumPeer, Recovered, RoleView};
pub use recent_log::RecentLog;
pub use stalled_link::{LeaderSilence, LinkAction};
pub use timing::Timing;
pub use unidentified::{Origin, Unidentified, UnidentifiedLimits};
pub use vote::{Abstention, Vote, VoteNotification};
