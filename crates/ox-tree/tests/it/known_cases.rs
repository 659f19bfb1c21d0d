//! Cases known from ZooKeeper, etcd and ClickHouse Keeper, by the numbers of the reliability specification.
//!
//! Those that belong to one operation stand with it (`ops`), those about frozen views with these (`freeze`).

mod apply;
mod malformed_input;
mod security;
mod sessions;
mod watches;
