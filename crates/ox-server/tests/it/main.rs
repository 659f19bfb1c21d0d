//! Real servers on real sockets: what clients, operators, broken clients and hostile clients see.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod allowances;
mod asking;
mod concurrency;
mod crowds;
mod docs;
mod ephemeral;
mod figures;
mod formats;
mod handshake;
mod hostile;
mod memory;
mod pipeline;
mod protocol;
mod raw;
mod served;
mod sessions;
mod settings;
mod slow;
mod snapshots;
