//! Tests of the crate as its users see it: settings and files in, handshakes out.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod handshakes;
mod harness;
mod java;
mod malformed;
mod reload;
mod revocation;
mod stores;
