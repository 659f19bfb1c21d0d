//! What tests and tools share: clients that send chosen bytes, proxies, server processes, small disks, random numbers.
//!
//! Never part of a shipped program: a dev-dependency, or a dependency of tools. Blocking throughout. A helper panics if
//! a test cannot continue, and returns an `Option` or a `Result` if a caller may expect the failure.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod connection;
mod packet;
mod raw_client;

pub use connection::{FrameRead, READ_TIMEOUT, RawConnection};
pub use packet::{Handshake, RawPacket};
pub use raw_client::{OpenError, RawClient, RawEvent, RawReceived, RawReply};
