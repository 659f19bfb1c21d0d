//! HTTP beside the data path: Apache's AdminServer, health checks and Prometheus's page.
//!
//! ```text
//!  HTTP client --> listener --> connection (TLS) --> router --> command --> blocking thread --> ServerHandle
//!                  (limits)     (deadlines)          |
//!                                                    +-- /livez, /healthz, /readyz, /metrics
//! ```
//!
//! One thread with a tokio runtime serves all connections, with a lower priority than the threads that serve clients.
//! Commands read the server through its [`ox_server::ServerHandle`] on a few blocking threads, because a command may wait
//! for the replica thread or read directories. Connections, headers, replies and the time of each step are bounded
//! ([`limits`]), so that slow or many HTTP clients cost the server little.
//!
//! The AdminServer starts before the data is read, and answers then that the server does not serve.

mod admin_server;
mod admission;
mod authorization_header;
mod body_reader;
mod commands;
mod control;
mod health;
mod host_header;
mod in_memory;
mod json;
mod limits;
mod listener;
mod metrics_route;
mod open_connections;
mod query;
mod rate_limiter;
mod reply;
mod routes;
mod server_slot;
mod timed_stream;
mod tls;

pub use admin_server::{AdminServer, AdminStartError, check_stores};
pub use commands::{admin_commands_page, is_post};
pub use control::{AdminControl, ChangeLogLevel, ReloadReport};
pub use in_memory::InMemoryAdmin;
