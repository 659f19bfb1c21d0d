//! What tests and tools share: clients that send chosen bytes, proxies, server processes, small disks, random numbers.
//!
//! Never part of a shipped program: a dev-dependency, or a dependency of tools. Blocking throughout. A helper panics if
//! a test cannot continue, and returns an `Option` or a `Result` if a caller may expect the failure.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod client_proxy;
mod connection;
mod network;
mod packet;
mod proxy;
mod raw_client;
mod rng;
#[cfg(feature = "server")]
mod server_fixture;
mod small_disk;

pub use client_proxy::{ClientProxy, DroppedPart};
pub use connection::{FrameRead, READ_TIMEOUT, RawConnection};
pub use network::Network;
pub use ox_proto::OpCode;
pub use packet::{RawHandshake, RawPacket};
pub use proxy::{Direction, Filter, Filters, LinkState, Proxy, ProxySettings, frame_filter};
pub use raw_client::{OpenError, RawClient, RawEvent, RawReceived, RawReply};
pub use rng::Rng;
#[cfg(feature = "server")]
pub use server_fixture::{ExternalServer, ServerFixture};
pub use small_disk::SmallDisk;
