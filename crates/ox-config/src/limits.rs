//! Limits on client connections, requests and memory.

use crate::config::not_negative;
use crate::diagnostic::Diagnostic;
use crate::settings::Settings;

/// Minimum of `oxkeeper.memoryBudget`, in bytes.
const MEMORY_BUDGET_MIN: i64 = 8 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections per client address; 0 means no limit.
    pub max_client_cnxns: u32,
    /// Connections to the port; 0 means no limit.
    pub max_cnxns: u32,
    /// Sessions per client address; 0 means no limit.
    pub sessions_per_address: u32,
    /// Watches per client address; 0 means no limit.
    pub watches_per_address: u32,
    /// Requests that take at least so many milliseconds are logged; 0 means none.
    pub slow_request_ms: u32,
    /// Memory for client requests and replies; `None` derives it from the machine's memory.
    pub memory_budget_bytes: Option<u64>,
    /// Requests in flight beyond which connections are read more slowly.
    pub global_outstanding: u32,
    /// Maximum size of a packet, string or buffer.
    pub jute_max_buffer_bytes: u32,
    /// Size by which the transaction of a request may exceed `jute.maxbuffer`, at least 1024.
    pub jute_extra_bytes: u32,
    /// Maximum total size of large requests in flight.
    pub large_request_max_bytes: u32,
    /// Size from which a request is large; `None` disables the check.
    pub large_request_threshold_bytes: Option<u32>,
}

/// Reaction to stalled threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervision {
    /// Report a thread that stalls for this time; 0 disables it.
    pub warn_after_ms: u32,
    /// Exit after a stall of this time; 0 disables it.
    pub exit_after_ms: u32,
}

/// Throttling of requests beyond a number in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestThrottle {
    /// Requests in flight beyond which new ones wait; 0 disables throttling.
    pub max_requests: u32,
    /// Time that a throttled request waits before it tries again.
    pub stall_time_ms: u32,
    /// Drop throttled requests that have become stale.
    pub drop_stale: bool,
    /// Treat requests older than the session timeout as stale.
    pub stale_latency_check: bool,
    /// Waiting time after which a request is marked as throttled; 0 disables it.
    pub throttled_op_wait_ms: u32,
}

/// Token bucket for new sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionThrottle {
    /// Size of the bucket; 0 disables throttling.
    pub tokens: u32,
    pub fill_time_ms: u32,
    pub fill_count: u32,
    /// Time between adjustments of the drop probability; `None` disables them.
    pub freeze_time_ms: Option<u32>,
    /// Increment of the drop probability.
    pub drop_increase: f64,
    /// Decrement of the drop probability.
    pub drop_decrease: f64,
    /// Share of the bucket that may be in use for the drop probability to decrease.
    pub decrease_ratio: f64,
    /// Tokens per session type; `None` takes one token for each. With weights, the bucket and its refills must be
    /// multiplied by the weight of a global session.
    pub weights: Option<SessionWeights>,
}

/// Tokens that a session takes, by type. A standalone server has no local sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionWeights {
    /// Weight of a new global session; at least that of a local one.
    pub global: u32,
    /// Weight of a renewed session; at least that of a local one.
    pub renew: u32,
    /// Weight of a new local session.
    pub local: u32,
}

impl Limits {
    pub(crate) fn from_checked(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> Limits {
        let mut warn = |key: &str, text: String| {
            diagnostics.push(Diagnostic::warn(settings.place_of(key), text));
        };
        let max_cnxns = settings.int("maxCnxns");
        if max_cnxns < 0 {
            warn("maxCnxns", format!("maxCnxns should be greater than or equal to 0, using 0 for {max_cnxns}"));
        }
        let mut large_max_bytes = settings.int("largeRequestMaxBytes");
        if large_max_bytes <= 0 {
            let text = format!("largeRequestMaxBytes must be positive, using the default for {large_max_bytes}");
            warn("largeRequestMaxBytes", text);
            large_max_bytes = 100 << 20;
        }
        let threshold = settings.int("largeRequestThreshold");
        if threshold == 0 || threshold < -1 {
            let text = format!("largeRequestThreshold must be positive or -1, using -1 for {threshold}");
            warn("largeRequestThreshold", text);
        }
        let budget = settings.optional_long("oxkeeper.memoryBudget");
        if budget.is_some_and(|bytes| bytes < MEMORY_BUDGET_MIN) {
            let text = format!("oxkeeper.memoryBudget: using {MEMORY_BUDGET_MIN}, the minimum");
            warn("oxkeeper.memoryBudget", text);
        }
        let max_buffer = settings.int("jute.maxbuffer");
        let extra = settings.optional_int("jute.maxbuffer.extrasize").unwrap_or(max_buffer);
        Limits {
            max_client_cnxns: not_negative(settings.int("maxClientCnxns")),
            max_cnxns: not_negative(max_cnxns),
            sessions_per_address: not_negative(settings.int("oxkeeper.maxSessionsPerAddress")),
            watches_per_address: not_negative(settings.int("oxkeeper.maxWatchesPerAddress")),
            slow_request_ms: not_negative(settings.int("oxkeeper.slowRequestMs")),
            memory_budget_bytes: budget.map(|bytes| bytes.max(MEMORY_BUDGET_MIN).unsigned_abs()),
            global_outstanding: not_negative(settings.int("globalOutstandingLimit")),
            jute_max_buffer_bytes: not_negative(max_buffer),
            jute_extra_bytes: not_negative(extra.max(1024)),
            large_request_max_bytes: not_negative(large_max_bytes),
            large_request_threshold_bytes: u32::try_from(threshold).ok().filter(|bytes| 0 < *bytes),
        }
    }
}

impl Supervision {
    pub(crate) fn from_checked(settings: &Settings) -> Supervision {
        Supervision {
            warn_after_ms: not_negative(settings.int("oxkeeper.watchdog.warnAfter")),
            exit_after_ms: not_negative(settings.int("oxkeeper.watchdog.exitAfter")),
        }
    }
}

impl RequestThrottle {
    pub(crate) fn from_checked(settings: &Settings) -> RequestThrottle {
        RequestThrottle {
            max_requests: not_negative(settings.int("request_throttle_max_requests")),
            stall_time_ms: not_negative(settings.int("request_throttle_stall_time")),
            drop_stale: settings.flag("request_throttle_drop_stale"),
            stale_latency_check: settings.flag("request_stale_latency_check"),
            throttled_op_wait_ms: not_negative(settings.int("throttled_op_wait_time")),
        }
    }
}

impl ConnectionThrottle {
    pub(crate) fn from_checked(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> ConnectionThrottle {
        let weighed = settings.flag("connection_throttle_weight_enabled");
        ConnectionThrottle {
            tokens: not_negative(settings.int("connection_throttle_tokens")),
            fill_time_ms: not_negative(settings.int("connection_throttle_fill_time")),
            fill_count: not_negative(settings.int("connection_throttle_fill_count")),
            freeze_time_ms: u32::try_from(settings.int("connection_throttle_freeze_time")).ok(),
            drop_increase: settings.double("connection_throttle_drop_increase"),
            drop_decrease: settings.double("connection_throttle_drop_decrease"),
            decrease_ratio: settings.double("connection_throttle_decrease_ratio"),
            weights: weighed.then(|| SessionWeights::from_checked(settings, diagnostics)),
        }
    }
}

impl SessionWeights {
    fn from_checked(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> SessionWeights {
        let mut weight = |key: &str, default: u32, least: u32| {
            let number = settings.int(key);
            let given = u32::try_from(number).ok().filter(|weight| 0 < *weight);
            let weight = given.unwrap_or(default).max(least);
            if given != Some(weight) {
                let text = format!("{key}: using {weight} for {number}");
                diagnostics.push(Diagnostic::warn(settings.place_of(key), text));
            }
            weight
        };
        let local = weight("connection_throttle_local_session_weight", 1, 1);
        let global = weight("connection_throttle_global_session_weight", 3, local);
        let renew = weight("connection_throttle_renew_session_weight", 2, local);
        SessionWeights { global, renew, local }
    }
}
