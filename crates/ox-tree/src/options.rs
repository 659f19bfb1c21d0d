//! The server's settings that concern the tree.

use crate::auth::SchemeSettings;

/// Settings that determine what the tree accepts and stores. Java property names are in brackets.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Maintain a digest of the tree and put it into transactions (`digest.enabled`).
    pub digest_enabled: bool,
    /// Allow clients to create TTL nodes (`extendedTypesEnabled`). Existing TTL nodes always work.
    pub extended_types: bool,
    /// Decode the owners of TTL nodes as 3.5.3 encoded them (`emulate353TTLNodes`); only with `extended_types`.
    pub emulate_353_ttl: bool,
    /// Refuse writes that exceed a hard quota (`enforceQuota`).
    pub enforce_quota: bool,
    /// Skip all ACL checks (`skipACL=yes`).
    pub skip_acl: bool,
    /// List the deleted ephemeral nodes in closeSession transactions (`closeSessionTxn.enabled`).
    pub close_session_txn: bool,
    pub schemes: SchemeSettings,
    /// Refuse reconfig with "standalone" rather than "disabled" (`reconfigEnabled`).
    pub reconfig_enabled: bool,
    /// The largest record that readers with default settings accept (`jute.maxbuffer` plus its extra size).
    pub record_bytes_max: usize,
    /// The maximum number of watches of all clients with one address; 0 for no limit.
    pub watches_per_address_max: usize,
    /// Count watches by top-level node, for metrics (`oxkeeper.metrics.paths`).
    pub counts_watches: bool,
    /// A secret seed of the path hashes, so that clients cannot construct collisions.
    pub hash_seed: u64,
}

impl TreeOptions {
    /// Whether owners are decoded as 3.5.3 did. The encoding overlaps with session ids of servers above 127, so both
    /// settings are required.
    pub(crate) fn reads_353_ttl(&self) -> bool {
        self.emulate_353_ttl && self.extended_types
    }
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            digest_enabled: true,
            extended_types: false,
            emulate_353_ttl: false,
            enforce_quota: false,
            skip_acl: false,
            close_session_txn: true,
            schemes: SchemeSettings::default(),
            reconfig_enabled: false,
            record_bytes_max: 2 * ox_proto::limits::FRAME_BYTES_MAX_DEFAULT,
            watches_per_address_max: 0,
            counts_watches: false,
            hash_seed: 0,
        }
    }
}
