//! What tests and tools share: clients that send chosen bytes or change servers, proxies, server processes and
//! ensembles of them, small disks, random numbers.
//!
//! Never part of a shipped program: a dev-dependency, or a dependency of tools. Blocking throughout. A helper panics if
//! a test cannot continue, and returns an `Option` or a `Result` if a caller may expect the failure.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod client_proxy;
mod connection;
mod ensemble;
mod failover_client;
mod http;
mod load;
mod network;
mod packet;
mod permission_table;
mod ports;
mod process;
mod promql;
mod proxy;
mod raw_client;
mod reconfig;
mod recording_client;
mod rng;
mod server;
#[cfg(feature = "server")]
mod server_fixture;
mod small_disk;
mod tree_walk;
mod wait;

pub use client_proxy::{ClientProxy, DroppedPart};
pub use connection::{FrameRead, READ_TIMEOUT, RawConnection};
pub use ensemble::{MemberRole, PeerAddresses, TestEnsemble};
pub use failover_client::FailoverClient;
pub use http::{HttpReply, http, http_request};
pub use load::WriteLoad;
pub use network::Network;
pub use ox_proto::OpCode;
pub use packet::{RawHandshake, RawPacket};
pub use permission_table::{NeededPermission, check_permissions, needed_permission};
pub use ports::free_port;
pub use process::{Ended, Process};
pub use promql::{json_strings, promql_metrics};
pub use proxy::{Direction, Filter, Filters, LinkState, Proxy, ProxySettings, frame_filter};
pub use raw_client::{OpenError, RawClient, RawEvent, RawReceived, RawReply};
pub use reconfig::ReconfigArguments;
pub use recording_client::{RecordedReply, RecordingClient, recorded_time};
pub use rng::Rng;
pub use server::{Program, ServerSpec, ServerUnderTest, four_letter};
#[cfg(feature = "server")]
pub use server_fixture::{ExternalServer, ServerFixture};
pub use small_disk::SmallDisk;
pub use tree_walk::{CONFIG, Tree, WalkedNode, differences};
pub use wait::{PATIENCE, wait_for, wait_until};
