//! Real sockets: what clients, broken clients and hostile clients see of a server.

mod handshake;
mod raw;
mod served;
