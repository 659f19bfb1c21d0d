//! What the server reports about itself: four-letter commands, metrics, log lines at start, the state dump.

pub(crate) mod disk_trend;
pub(crate) mod four_letter;
pub(crate) mod java_text;
pub(crate) mod metrics;
pub(crate) mod op_latency;
pub(crate) mod os_info;
pub(crate) mod prometheus;
pub(crate) mod protection;
pub(crate) mod report;
pub(crate) mod server_mode;
pub(crate) mod startup_banner;
pub(crate) mod state_dump;
pub(crate) mod stats;
pub(crate) mod tree_usage;
pub(crate) mod version;
