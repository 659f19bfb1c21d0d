//! What a server's configuration says about the data.

/// Settings that change what the tree accepts or stores.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keep a digest of the tree and put it into transactions (`digest.enabled`).
    pub digest_enabled: bool,
    /// Allow TTL nodes to be created (`extendedTypesEnabled`); existing ones are always understood.
    pub extended_types: bool,
    /// Read owners as 3.5.3 wrote them for TTL nodes (`emulate353TTLNodes`); only with `extended_types`.
    pub emulate_353_ttl: bool,
    /// Refuse writes beyond hard quotas (`enforceQuota`).
    pub enforce_quota: bool,
    /// Allow everything to everybody (`skipACL=yes`).
    pub skip_acl: bool,
    /// List the ephemeral nodes in closeSession transactions (`closeSessionTxn.enabled`).
    pub close_session_txn: bool,
    /// The digest identity that is super (`DigestAuthenticationProvider.superDigest`).
    pub super_digest: Option<String>,
    /// Whether the digest scheme exists (`DigestAuthenticationProvider.enabled`).
    pub digest_scheme: bool,
    /// Whether the key scheme exists (`authProvider.*` names `KeyAuthenticationProvider`).
    pub key_scheme: bool,
    /// Answer reconfig with "standalone" rather than "disabled" (`reconfigEnabled`).
    pub reconfig_enabled: bool,
    /// Largest record that readers with default settings accept (`jute.maxbuffer` plus its extra size).
    pub record_bytes_max: usize,
    /// Watches that the clients of one address may have together; 0 is any number.
    pub watches_per_address_max: usize,
    /// Seed of the path hashes, so that nobody can aim for collisions.
    pub hash_seed: u64,
}

impl Options {
    /// Whether owners of 3.5.3 are read as TTLs. They look like the session ids of servers above 127, so both
    /// settings must ask for it.
    pub(crate) fn reads_353_ttl(&self) -> bool {
        self.emulate_353_ttl && self.extended_types
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            digest_enabled: true,
            extended_types: false,
            emulate_353_ttl: false,
            enforce_quota: false,
            skip_acl: false,
            close_session_txn: true,
            super_digest: None,
            digest_scheme: true,
            key_scheme: false,
            reconfig_enabled: false,
            record_bytes_max: 2 * ox_proto::limits::FRAME_BYTES_MAX_DEFAULT,
            watches_per_address_max: 0,
            hash_seed: 0,
        }
    }
}
