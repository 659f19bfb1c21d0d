//! Settings that can change while the server runs.

use crate::shared::Shared;
use ox_config::{Config, FourLetterWhitelist};
use ox_replica::ReplicaLimits;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What threads read at each use; a reload replaces it as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveSettings {
    pub(crate) four_letter_whitelist: FourLetterWhitelist,
    pub(crate) max_client_cnxns: u32,
    pub(crate) max_cnxns: u32,
    pub(crate) sessions_per_address: u32,
    pub(crate) watches_per_address: u32,
    /// Requests that take at least so long are logged; 0 means none.
    pub(crate) slow_request_ms: i64,
}

impl LiveSettings {
    pub(crate) fn of(config: &Config) -> Self {
        let limits = &config.limits;
        Self {
            four_letter_whitelist: config.four_letter_whitelist.clone(),
            max_client_cnxns: limits.max_client_cnxns,
            max_cnxns: limits.max_cnxns,
            sessions_per_address: limits.sessions_per_address,
            watches_per_address: limits.watches_per_address,
            slow_request_ms: limits.slow_request_ms.into(),
        }
    }

    fn of_replica(&self) -> ReplicaLimits {
        ReplicaLimits { sessions_per_address: self.sessions_per_address as usize, slow_write_ms: self.slow_request_ms }
    }
}

/// Applies the settings of a configuration that was read again. Limits concern further connections, sessions and watches.
pub(crate) fn apply(shared: &Shared, config: &Config) {
    let live = LiveSettings::of(config);
    let (limits, watches) = (live.of_replica(), live.watches_per_address as usize);
    shared.stats.slow_request_ms.store(live.slow_request_ms, Relaxed);
    *shared.live.write() = Arc::new(live);
    shared.inbox.put(|input| input.limits = Some(limits));
    shared.state.read().watches().lock().set_address_limit(watches);
}
