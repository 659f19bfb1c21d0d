//! Real servers on real sockets: what clients, operators, broken clients and hostile clients see.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod concurrency;
mod docs;
mod figures;
mod formats;
mod handshake;
mod harness;
mod protocol;
mod raw;
mod served;
