//! Against recorded traffic.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod capture;
mod election;
mod packets;
