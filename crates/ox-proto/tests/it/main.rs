//! Decodes and re-encodes recorded quorum traffic of Apache.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod capture;
mod election;
mod packets;
