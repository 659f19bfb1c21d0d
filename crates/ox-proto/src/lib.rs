//! The wire and disk formats shared with Apache ZooKeeper: jute records, opcodes, error codes, frames, transactions.
//!
//! Only this crate knows byte layouts; what the bytes mean to the data tree is up to other crates. Decoding borrows
//! from the buffer it reads and never trusts an announced length or count.
//!
//! Start with [`jute`] (primitive types), then [`request`] and [`reply`] (the client port), [`txn`]
//! (what logs, snapshots and peers carry), [`quorum`] (the ports between servers) and [`ensemble`].

pub mod acl;
pub mod connect;
pub mod ensemble;
pub mod error_code;
pub mod event;
pub mod frame;
pub mod ids;
pub mod jute;
pub mod limits;
pub mod log_frame;
pub mod multi;
pub mod opcode;
pub mod password;
pub mod properties;
pub mod quorum;
pub mod reply;
pub mod request;
pub mod stat;
pub mod text;
pub mod txn;

pub use acl::{Acl, RawAcl, RawAcls};
pub use error_code::ErrorCode;
pub use ids::{ServerId, SessionId, Zxid};
pub use jute::{DecodeError, Jute, Reader};
pub use opcode::OpCode;
pub use stat::Stat;
