//! The version that clients and tools see.

/// The compatible ZooKeeper version; tools match `(\d+)\.(\d+)\.(\d+)` and compare.
const COMPATIBLE: &str = "3.9.3";

/// Where the program comes from. The binary knows it; a library in another program does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The id of the commit.
    pub commit: &'static str,
    /// The date of the commit, as `2026-11-15 06:29 UTC`.
    pub date: &'static str,
}

impl Build {
    /// The build of a server inside a test or another program.
    pub const UNKNOWN: Self = Self { commit: "unknown", date: "unknown" };

    /// The whole version text: `3.9.3-oxkeeper-<version>-<commit>, built on <date>`.
    pub fn version(self) -> String {
        let Self { commit, date } = self;
        format!("{COMPATIBLE}-oxkeeper-{}-{commit}, built on {date}", env!("CARGO_PKG_VERSION"))
    }
}
