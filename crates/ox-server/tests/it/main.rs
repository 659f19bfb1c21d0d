//! Real servers on real sockets, as well-behaved, broken and hostile clients and operators see them.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod address_limits;
mod audit;
mod authentication;
mod config_fields;
mod four_letter_client;
mod four_letter_golden;
mod four_letter_load;
mod four_letter_protocol;
mod generated_pages;
mod handshake;
mod malformed_requests;
mod many_clients;
mod memory_budget;
mod metrics;
mod pipeline;
mod protection;
mod server_fixture;
mod sessions;
mod slow_clients;
mod snapshots;
mod test_server;
mod tls;
mod tls_client;
mod tls_limits;
mod tls_reload;
