//! Known cases of ZooKeeper, etcd and ClickHouse Keeper, by number (`docs/reference/requirements.md`).
//!
//! Cases that concern one operation are in `ops`, those about frozen views in `frozen_views`.

mod apply;
mod malformed_input;
mod security;
mod sessions;
mod watches;
