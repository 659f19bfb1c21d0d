//! What is thrown at, and with what.

mod config;
mod connection;
mod files;
mod quorum;
mod records;
mod requests;

/// Something that reads foreign bytes.
pub struct Target {
    /// For the command line.
    pub name: &'static str,
    /// Good inputs to start from.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Must return, whatever it gets.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "connection", corpus: connection::corpus, run: connection::run },
    Target { name: "requests", corpus: requests::corpus, run: requests::run },
    Target { name: "records", corpus: records::corpus, run: records::run },
    Target { name: "log", corpus: files::log_corpus, run: files::run_log },
    Target { name: "snapshot", corpus: files::snapshot_corpus, run: files::run_snapshot },
    Target { name: "snapshot-gz", corpus: files::gz_corpus, run: files::run_gz },
    Target { name: "snapshot-snappy", corpus: files::snappy_corpus, run: files::run_snappy },
    Target { name: "config", corpus: config::corpus, run: config::run },
    Target { name: "quorum-packets", corpus: quorum::packet_corpus, run: quorum::run_packets },
    Target { name: "quorum-hello", corpus: quorum::hello_corpus, run: quorum::run_hello },
    Target { name: "quorum-notifications", corpus: quorum::notification_corpus, run: quorum::run_notifications },
    Target { name: "ensemble", corpus: quorum::ensemble_corpus, run: quorum::run_ensemble },
];
