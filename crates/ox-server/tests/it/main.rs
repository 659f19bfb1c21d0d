//! Real sockets: what clients, broken clients and hostile clients see of a server.

mod crowds;
mod handshake;
mod hostile;
mod pipeline;
mod raw;
mod served;
mod sessions;
mod slow;
