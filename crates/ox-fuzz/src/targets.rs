//! The fuzz targets and their corpora.

mod config;
mod connection;
mod files;
mod http;
mod quorum;
mod records;
mod requests;
mod sasl;
mod tls;

/// Code that decodes untrusted bytes.
pub struct FuzzTarget {
    pub name: &'static str,
    /// Valid inputs to start from.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Must return normally for any input.
    pub run: fn(&[u8]),
}

pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "connection", corpus: connection::corpus, run: connection::run },
    FuzzTarget { name: "requests", corpus: requests::corpus, run: requests::run },
    FuzzTarget { name: "records", corpus: records::corpus, run: records::run },
    FuzzTarget { name: "log", corpus: files::log_corpus, run: files::run_log },
    FuzzTarget { name: "snapshot", corpus: files::snapshot_corpus, run: files::run_snapshot },
    FuzzTarget { name: "snapshot-gz", corpus: files::gz_corpus, run: files::run_gz },
    FuzzTarget { name: "snapshot-snappy", corpus: files::snappy_corpus, run: files::run_snappy },
    FuzzTarget { name: "config", corpus: config::corpus, run: config::run },
    FuzzTarget { name: "quorum-packets", corpus: quorum::packet_corpus, run: quorum::run_packets },
    FuzzTarget { name: "quorum-hello", corpus: quorum::hello_corpus, run: quorum::run_hello },
    FuzzTarget { name: "quorum-auth", corpus: quorum::auth_corpus, run: quorum::run_auth },
    FuzzTarget { name: "quorum-notifications", corpus: quorum::notification_corpus, run: quorum::run_notifications },
    FuzzTarget { name: "tls-store", corpus: tls::store_corpus, run: tls::run_store },
    FuzzTarget { name: "tls-hello", corpus: tls::hello_corpus, run: tls::run_hello },
    FuzzTarget { name: "jaas", corpus: sasl::text_corpus, run: sasl::run_jaas },
    FuzzTarget { name: "auth-to-local", corpus: sasl::rules_corpus, run: sasl::run_rules },
    FuzzTarget { name: "sasl-token", corpus: sasl::token_corpus, run: sasl::run_token },
    FuzzTarget { name: "keytab", corpus: sasl::keytab_corpus, run: sasl::run_keytab },
    FuzzTarget { name: "http", corpus: http::corpus, run: http::run },
    FuzzTarget { name: "http-query", corpus: http::query_corpus, run: http::run_query },
    FuzzTarget { name: "http-body", corpus: http::body_corpus, run: http::run_body },
    FuzzTarget { name: "ensemble", corpus: quorum::ensemble_corpus, run: quorum::run_ensemble },
];
