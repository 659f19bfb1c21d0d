//! A real server on a real socket.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod concurrency;
mod docs;
mod figures;
mod formats;
mod harness;
mod protocol;
