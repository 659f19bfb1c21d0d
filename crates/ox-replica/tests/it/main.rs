//! Tests of a replica with its connections, without sockets and disk: the test decides when each hand-over happens.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]
#![expect(clippy::wildcard_enum_match_arm, reason = "tests match a few of many variants")]

mod authentication;
mod closed_by_operator;
mod ensemble;
mod full_disk;
mod handshakes;
mod harness;
mod leadership;
mod leading;
mod local_sessions;
mod malformed_packets;
mod observer_relay;
mod overload;
mod read_only;
mod reconfig_reply;
mod request_order;
mod restore;
mod session_moves;
mod sessions;
