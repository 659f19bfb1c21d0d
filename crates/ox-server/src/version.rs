//! The version as tools see it.

/// The ZooKeeper whose behaviour this is; tools match `(\d+)\.(\d+)\.(\d+)` and compare.
const COMPATIBLE: &str = "3.9.3";
/// The release process names the commit; anything else is somebody's own build.
const BUILD: &str = match option_env!("OXKEEPER_BUILD_ID") {
    Some(id) => id,
    None => "dev",
};
const BUILT_ON: &str = match option_env!("OXKEEPER_BUILD_DATE") {
    Some(date) => date,
    None => "2026-11-15 00:00 UTC",
};

/// `3.9.3-oxkeeper-<version>-<build>, built on <date>`.
pub(crate) fn version() -> String {
    format!("{COMPATIBLE}-oxkeeper-{}-{BUILD}, built on {BUILT_ON}", env!("CARGO_PKG_VERSION"))
}
