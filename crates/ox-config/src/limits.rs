//! Settings that bound what clients may ask for at once.

use crate::config::not_negative;
use crate::diagnostic::Notice;
use crate::settings::Settings;

/// The least that `oxkeeper.memoryBudget` may be.
const MEMORY_BUDGET_MIN: i64 = 8 << 20;

/// Sizes and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections from one client address; 0 is no limit.
    pub max_client_cnxns: u32,
    /// Connections to the port; 0 is no limit.
    pub max_cnxns: u32,
    /// Sessions of one client address; 0 is no limit.
    pub sessions_per_address: u32,
    /// Watches of one client address; 0 is no limit.
    pub watches_per_address: u32,
    /// Bytes that may be held of what clients send and are sent; `None` leaves it to the machine's memory.
    pub memory_budget_bytes: Option<u64>,
    /// Requests under way before connections are read more slowly.
    pub global_outstanding: u32,
    /// Largest packet, string or buffer.
    pub jute_max_buffer_bytes: u32,
    /// Room beyond that when logs and snapshots are read, at least 1024.
    pub jute_extra_bytes: u32,
    /// Bytes of all large requests under way.
    pub large_request_max_bytes: u32,
    /// Size from which a request is large; `None` is off.
    pub large_request_threshold_bytes: Option<u32>,
}

/// Threads that do not get on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supervision {
    /// Time after which one is reported; 0 is never.
    pub warn_after_ms: u32,
    /// Time after which the server ends for it; 0 is never.
    pub exit_after_ms: u32,
}

/// Waiting room for requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestThrottle {
    /// Requests under way before new ones wait; 0 is off.
    pub max_requests: u32,
    /// Time such a request waits before it tries again.
    pub stall_time_ms: u32,
    /// Drop waiting requests that have become stale.
    pub drop_stale: bool,
    /// A request older than its session timeout is stale.
    pub stale_latency_check: bool,
    /// Wait after which a request is marked as throttled; 0 is off.
    pub throttled_op_wait_ms: u32,
}

/// Tokens for new sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionThrottle {
    /// Size of the bucket; 0 is off.
    pub tokens: u32,
    /// Time between refills.
    pub fill_time_ms: u32,
    /// Tokens per refill.
    pub fill_count: u32,
    /// Time between changes of the drop probability; `None` is off.
    pub freeze_time_ms: Option<u32>,
    /// How much the drop probability grows.
    pub drop_increase: f64,
    /// How much the drop probability shrinks.
    pub drop_decrease: f64,
    /// Share of tokens in use below which it shrinks.
    pub decrease_ratio: f64,
    /// Tokens by kind of session; `None` takes one for each. With weights the bucket and its refills are to be
    /// multiplied by that of a global session.
    pub weights: Option<SessionWeights>,
}

/// Tokens that a session takes, by its kind. A single server has no local ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionWeights {
    /// New global session; not below a local one.
    pub global: u32,
    /// Renewed session; not below a local one.
    pub renew: u32,
    /// New local session.
    pub local: u32,
}

impl Limits {
    pub(crate) fn from_checked(settings: &Settings, notices: &mut Vec<Notice>) -> Limits {
        let mut warn = |key: &str, text: String| {
            notices.push(Notice::warn(settings.place_of(key), text));
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
            let text = format!("oxkeeper.memoryBudget: using {MEMORY_BUDGET_MIN}, the least that works");
            warn("oxkeeper.memoryBudget", text);
        }
        let max_buffer = settings.int("jute.maxbuffer");
        let extra = settings.optional_int("jute.maxbuffer.extrasize").unwrap_or(max_buffer);
        Limits {
            max_client_cnxns: not_negative(settings.int("maxClientCnxns")),
            max_cnxns: not_negative(max_cnxns),
            sessions_per_address: not_negative(settings.int("oxkeeper.maxSessionsPerAddress")),
            watches_per_address: not_negative(settings.int("oxkeeper.maxWatchesPerAddress")),
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
    pub(crate) fn from_checked(settings: &Settings, notices: &mut Vec<Notice>) -> ConnectionThrottle {
        let weighed = settings.flag("connection_throttle_weight_enabled");
        ConnectionThrottle {
            tokens: not_negative(settings.int("connection_throttle_tokens")),
            fill_time_ms: not_negative(settings.int("connection_throttle_fill_time")),
            fill_count: not_negative(settings.int("connection_throttle_fill_count")),
            freeze_time_ms: u32::try_from(settings.int("connection_throttle_freeze_time")).ok(),
            drop_increase: settings.double("connection_throttle_drop_increase"),
            drop_decrease: settings.double("connection_throttle_drop_decrease"),
            decrease_ratio: settings.double("connection_throttle_decrease_ratio"),
            weights: weighed.then(|| SessionWeights::from_checked(settings, notices)),
        }
    }
}

impl SessionWeights {
    fn from_checked(settings: &Settings, notices: &mut Vec<Notice>) -> SessionWeights {
        let mut weight = |key: &str, default: u32, least: u32| {
            let number = settings.int(key);
            let given = u32::try_from(number).ok().filter(|weight| 0 < *weight);
            let weight = given.unwrap_or(default).max(least);
            if given != Some(weight) {
                let text = format!("{key}: using {weight} for {number}");
                notices.push(Notice::warn(settings.place_of(key), text));
            }
            weight
        };
        let local = weight("connection_throttle_local_session_weight", 1, 1);
        let global = weight("connection_throttle_global_session_weight", 3, local);
        let renew = weight("connection_throttle_renew_session_weight", 2, local);
        SessionWeights { global, renew, local }
    }
}
