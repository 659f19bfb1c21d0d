//! The version that clients and tools see.

/// The compatible ZooKeeper version; tools match `(\d+)\.(\d+)\.(\d+)` and compare.
const COMPATIBLE: &str = "3.9.3";
/// Set by release builds to the id of the commit.
const BUILD: &str = match option_env!("OXKEEPER_BUILD_ID") {
    Some(id) => id,
    None => "dev",
};
const BUILT_ON: &str = match option_env!("OXKEEPER_BUILD_DATE") {
    Some(date) => date,
    None => "2026-11-15 00:00 UTC",
};

/// The whole version text: `3.9.3-oxkeeper-<version>-<build>, built on <date>`.
pub(crate) fn version() -> String {
    format!("{COMPATIBLE}-oxkeeper-{}-{BUILD}, built on {BUILT_ON}", env!("CARGO_PKG_VERSION"))
}
