//! The load generator of `oxkeeper bench`. `cargo xtask perf` compares servers with it.
//!
//! It uses the client protocol with any ZooKeeper server and is designed to cost little itself: requests are copies of
//! frames that are encoded once ([`request_templates`]), replies are read up to their header ([`replies`]), and each
//! batch takes one read call, one write call and one clock reading ([`connection`], [`worker`]).
//!
//! ```text
//! args --> job --> load --> worker --> connection --> request_templates, replies   a mix on lasting connections
//!                  session_churn                                                   new sessions
//!                  notify                                                          watchers of one node
//!          compare, fill, flood, idle                                              commands built on them
//!          setup                                                                   set-up and clean-up
//! ```
//!
//! TLS and SASL are in [`load_stream`] and [`security`]. Start with [`job`], then [`load`].

pub mod args;
pub mod compare;
pub mod connection;
pub mod counters;
pub mod echo;
pub mod failure;
pub mod fill;
pub mod flood;
pub mod idle;
pub mod job;
pub mod limits;
pub mod load;
pub mod load_stream;
pub mod memory;
pub mod notify;
pub mod operation;
pub mod process;
pub mod progress;
pub mod replies;
pub mod report;
pub mod request_templates;
pub mod results;
pub mod run;
pub mod security;
pub mod session;
pub mod session_churn;
pub mod setup;
pub mod statistics;
pub mod stop_flag;
pub mod tree_layout;
pub mod worker;

pub use args::BenchArgs;
pub use run::run;
