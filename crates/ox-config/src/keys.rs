//! The key table: every setting that `zoo.cfg`, `-D` or the Java start scripts may carry, one row each.
//!
//! Parser, effective values, warnings and `docs/reference/config.md` are all derived from it. A row is: name, source, reader,
//! default, unit, class, status (see [`crate::key`]); its doc comment is its description on the page. A trailing `*`
//! makes a row match every name with that prefix; an exact row precedes its family.

use crate::key::Class::{C, J, M, O, P, T};
use crate::key::Source::{File, FileOrProperty, FileUnder, Own, Passed, PassedOrBare, Property};
use crate::key::Status::{Built, Ensemble, Hint, NotBuilt};
use crate::key::ValueReader::{
    Bool, Double, Int, LenientInt, LenientLong, Long, OneOf, Secret, SoftDouble, SoftInt, SoftLong, Text, TrueFalse,
    Word,
};
use crate::key::{Key, PREFIX, Section};

/// Features that are not implemented yet, as warnings and errors name them.
const ORACLE: &str = "the oracle for two voters";
const EAGER_ACL: &str = "eager ACL checks on learners";
const CANONICAL_NAMES: &str = "the lookup of canonical host names";
const EARLY_DROP: &str = "the early drop of TLS connections";

/// The row of a name: an exact match, else the family's.
pub fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name).or_else(|| keys().find(|key| key.covers(name)))
}

/// The row that a system property sets, by the property's full name.
pub(crate) fn find_property(property: &str) -> Option<&'static Key> {
    let exact = keys().find(|key| key.property().is_some_and(|name| name == property));
    exact.or_else(|| {
        let bare = property.strip_prefix(PREFIX);
        keys().find(|key| match key.source {
            Passed | FileOrProperty => bare.is_some_and(|name| key.covers(name)),
            PassedOrBare => key.name == property,
            Property | Own => key.covers(property),
            File | FileUnder(_) => false,
        })
    })
}

/// All rows in the order of the page.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|section| section.keys)
}

/// Names that appear in documentation but that no server reads, with the names that work.
pub(crate) const DEAD_NAMES: &[(&str, &str)] = &[
    ("connectionMaxTokens", "connection_throttle_tokens"),
    ("connectionTokenFillTime", "connection_throttle_fill_time"),
    ("connectionTokenFillCount", "connection_throttle_fill_count"),
    ("connectionFreezeTime", "connection_throttle_freeze_time"),
    ("connectionDropIncrease", "connection_throttle_drop_increase"),
    ("connectionDropDecrease", "connection_throttle_drop_decrease"),
    ("connectionDecreaseRatio", "connection_throttle_decrease_ratio"),
    ("requestThrottleLimit", "request_throttle_max_requests"),
    ("requestThrottleStallTime", "request_throttle_stall_time"),
    ("requestThrottleDropStale", "request_throttle_drop_stale"),
    ("requestStaleLatencyCheck", "request_stale_latency_check"),
    ("requestStaleConnectionCheck", "request_stale_connection_check"),
    ("throttledOpWaitTime", "throttled_op_wait_time"),
    ("advancedFlowControlEnabled", "netty.advancedFlowControl.enabled"),
    ("outstandingHandshake.limit", "netty.server.outstandingHandshake.limit"),
    ("maxConcurrentSnapSyncs", "leader.maxConcurrentSnapSyncs"),
    ("maxConcurrentDiffSyncs", "leader.maxConcurrentDiffSyncs"),
    ("maxTimeToWaitForEpoch", "leader.maxTimeToWaitForEpoch"),
];

macro_rules! sections {
    ($($title:literal { $(
        $(#[doc = $doc:literal])+
        $name:literal, $source:expr, $reader:expr, $default:literal, $unit:literal, $class:expr, $status:expr;
    )* })*) => {
        &[$(Section { title: $title, keys: &[$(Key {
            name: $name,
            source: $source,
            reader: $reader,
            default: $default,
            unit: $unit,
            class: $class,
            status: $status,
            doc: concat!($($doc),+),
        }),*] }),*]
    };
}

/// All settings, in the order of the page.
pub static SECTIONS: &[Section] = sections! {
    "Basics, ports, directories" {
        /// Directory of snapshots (in its subdirectory `version-2`), `myid` and `initialize`. Required.
        "dataDir", File, Text("path"), "", "", M, Built;
        /// Directory of transaction logs (in its subdirectory `version-2`). Default: `dataDir`.
        "dataLogDir", File, Text("path"), "", "", M, Built;
        /// Plain-text client port. 0 picks a free port; if unset, the port is not opened.
        "clientPort", File, Int, "", "", M, Built;
        /// Address to bind `clientPort` to. Default: all interfaces.
        "clientPortAddress", File, Text("host or address"), "", "", M, Built;
        /// Client port that requires TLS. 0 picks a free port; if unset, the port is not opened.
        "secureClientPort", File, Int, "", "", M, Built;
        /// Address to bind `secureClientPort` to. Default: all interfaces.
        "secureClientPortAddress", File, Text("host or address"), "", "", M, Built;
        /// Port on which followers serve observers too; the same on all servers. 0 disables it.
        "observerMasterPort", File, Int, "0", "", M, Ensemble;
        /// Listen backlog of the client port; -1 uses the platform's default.
        "clientPortListenBacklog", File, Int, "-1", "", M, Built;
        /// Length of a tick, the unit of session timeouts and of `initLimit` and `syncLimit`.
        "tickTime", File, Int, "3000", "ms", M, Built;
        /// Maximum connections per client address and port; 0 means no limit.
        "maxClientCnxns", File, Int, "60", "", M, Built;
        /// Lower bound for negotiated session timeouts; -1 means two ticks.
        "minSessionTimeout", File, Int, "-1", "ms", M, Built;
        /// Upper bound for negotiated session timeouts; -1 means twenty ticks.
        "maxSessionTimeout", File, Int, "-1", "ms", M, Built;
        /// Keep new sessions local to the server that created them, without a transaction.
        "localSessionsEnabled", File, TrueFalse, "false", "", M, Ensemble;
        /// Upgrade a local session to a global one when it creates an ephemeral node.
        "localSessionsUpgradingEnabled", File, TrueFalse, "false", "", M, Ensemble;
        /// Number of snapshots that a purge keeps, with the logs that they need; values below 3 are raised to 3.
        "autopurge.snapRetainCount", File, Int, "3", "snapshots", M, Built;
        /// Time between purges; the first one runs at start. 0 disables purging.
        "autopurge.purgeInterval", File, Int, "0", "h", M, Built;
        /// Monitor pauses of the process.
        "jvm.pause.monitor", File, TrueFalse, "false", "", P, Hint;
        /// Sleep interval of the pause monitor.
        "jvm.pause.sleep.time.ms", File, Long, "500", "ms", P, Hint;
        /// Duration from which a pause is logged at info level.
        "jvm.pause.info-threshold.ms", File, Long, "1000", "ms", P, Hint;
        /// Duration from which a pause is logged as a warning.
        "jvm.pause.warn-threshold.ms", File, Long, "10000", "ms", P, Hint;
    }
    "Ensemble" {
        /// A member: `host:quorumPort:electionPort[:role][;[host:]clientPort]`. A single participant runs standalone,
        /// on the client port given here.
        "server.*", File, Text("member"), "", "", M, Ensemble;
        /// Servers of a group of a hierarchical quorum, separated by colons.
        "group*", File, Text("ids"), "", "", M, Ensemble;
        /// Weight of a server in its group.
        "weight*", File, Text("number"), "1", "", M, Ensemble;
        /// Time for a learner to connect and synchronise. Required in an ensemble.
        "initLimit", File, Int, "", "ticks", M, Ensemble;
        /// Time after which a silent or lagging learner is disconnected. Required in an ensemble.
        "syncLimit", File, Int, "", "ticks", M, Ensemble;
        /// Time for a learner to connect to the leader after an election; 0 means `initLimit`.
        "connectToLearnerMasterLimit", File, Int, "0", "ticks", M, Ensemble;
        /// Election algorithm; only 3 is supported.
        "electionAlg", File, Int, "3", "", M, Ensemble;
        /// Role of this server; the `server.N` line takes precedence.
        "peerType", File, Text("participant or observer"), "participant", "", M, Ensemble;
        /// Bind quorum and election ports on all interfaces.
        "quorumListenOnAllIPs", File, TrueFalse, "false", "", M, Ensemble;
        /// Whether observers write logs and snapshots. Observers of Oxkeeper always do.
        "syncEnabled", FileUnder("zookeeper.observer.syncEnabled"), TrueFalse, "true", "", M, Hint;
        /// Whether a single participant runs standalone.
        "standaloneEnabled", File, TrueFalse, "true", "", M, Built;
        /// Whether clients may run reconfig.
        "reconfigEnabled", File, TrueFalse, "false", "", M, Built;
        /// Path of the dynamic configuration file, which contains the members; `zoo.cfg` must then not contain them.
        "dynamicConfigFile", File, Text("path"), "", "", M, Ensemble;
        /// Oracle file: if it begins with `1`, one of two voters may continue without the other.
        "oraclePath", File, Text("path"), "", "", M, NotBuilt(ORACLE);
        /// Threads that open election connections.
        "quorum.cnxn.threads.size", File, Int, "20", "", P, Hint;
        /// Allow several addresses per server. If set only in `zoo.cfg`, it does not apply to the `server.N` lines.
        "multiAddress.enabled", FileOrProperty, TrueFalse, "false", "", M, Ensemble;
        /// Probe which addresses of a server are reachable.
        "multiAddress.reachabilityCheckEnabled", FileOrProperty, TrueFalse, "true", "", M, Hint;
        /// Timeout of a reachability probe.
        "multiAddress.reachabilityCheckTimeoutMs", FileOrProperty, Int, "1000", "ms", M, Hint;
    }
    "Election and learners" {
        /// Whether the leader accepts client connections; only `no` disables it.
        "leaderServes", Passed, Word("no"), "yes", "", M, Ensemble;
        /// Timeout for opening an election connection; also bounds unacknowledged data, at most 1 s.
        "cnxTimeout", Passed, Int, "5000", "ms", M, Ensemble;
        /// Time for a connected server to identify itself, at most 2 s; -1 means `syncLimit` ticks.
        "quorumCnxnTimeoutMs", Passed, LenientInt, "-1", "ms", M, Ensemble;
        /// Attempts to bind the election port; 0 means unlimited.
        "electionPortBindRetry", Passed, LenientInt, "3", "", M, Ensemble;
        /// TCP keep-alive on election sockets.
        "tcpKeepAlive", Passed, Bool, "false", "", M, Ensemble;
        /// Minimum delay between election notifications.
        "fastleader.minNotificationInterval", Passed, LenientInt, "200", "ms", M, Ensemble;
        /// Maximum delay between election notifications.
        "fastleader.maxNotificationInterval", Passed, LenientInt, "60000", "ms", M, Ensemble;
        /// Time after which a new leader steps down if a voter that elected it is LOOKING again; -1 disables it.
        "leader.maxTimeToWaitForEpoch", Passed, LenientInt, "-1", "ms", M, Ensemble;
        /// Measure the acknowledgement latency of every n-th proposal (metric `ack_latency`); 0 disables it.
        "leader.ackLoggingFrequency", Passed, LenientInt, "1000", "", P, Ensemble;
        /// Maximum concurrent snapshot synchronisations of observers; others are disconnected and retry.
        "leader.maxConcurrentSnapSyncs", Passed, LenientInt, "10", "", M, Ensemble;
        /// Maximum concurrent diff synchronisations of observers; others are disconnected and retry.
        "leader.maxConcurrentDiffSyncs", Passed, LenientInt, "100", "", M, Ensemble;
        /// Leader closes learner sockets in the background.
        "leader.closeSocketAsync", PassedOrBare, Bool, "false", "", P, Hint;
        /// Learner closes the leader's socket in the background.
        "learner.closeSocketAsync", PassedOrBare, Bool, "false", "", P, Hint;
        /// Send packets to the leader from a separate thread.
        "learner.asyncSending", PassedOrBare, Bool, "false", "", P, Hint;
        /// Delay between attempts to connect to the leader.
        "leaderConnectDelayDuringRetryMs", Passed, LenientInt, "100", "ms", M, Ensemble;
        /// Maximum random delay before an observer connects; with `observerMasterPort` it applies only after all
        /// followers were tried.
        "observer.reconnectDelayMs", Passed, LenientLong, "0", "ms", M, Ensemble;
        /// Maximum random delay before an observer that lost its leader searches for another.
        "observer.election.DelayMs", Passed, LenientLong, "200", "ms", M, Ensemble;
        /// Commit buffer of an observer master; Oxkeeper uses the recent transactions of `commitLogCount` instead.
        "observerMaster.sizeLimit", Passed, LenientInt, "33554432", "bytes", M, Hint;
        /// Always synchronise learners by snapshot.
        "forceSnapshotSync", Passed, Bool, "false", "", T, Ensemble;
        /// Maximum size of the log used to synchronise a learner, relative to the snapshot; negative disables it.
        "snapshotSizeFactor", Passed, SoftDouble, "0.33", "", M, Ensemble;
        /// Committed transactions kept in memory to synchronise learners; values below 500 are raised to 500.
        "commitLogCount", Passed, SoftInt, "500", "txns", M, Ensemble;
        /// Release requests of learners early.
        "follower.skipLearnerRequestToNextProcessor", Passed, Bool, "false", "", P, Hint;
        /// Keep learner requests out of the commit processor.
        "forward_learner_requests_to_commit_processor_disabled", Passed, Bool, "false", "", P, Hint;
        /// Use the canonical names of the hosts in the `server.N` lines, for Kerberos.
        "kerberos.canonicalizeHostNames", Passed, Bool, "false", "", M, NotBuilt(CANONICAL_NAMES);
        /// Log a learner's last packets when it disconnects.
        "messageTracker.Enabled", Passed, Bool, "false", "", P, Hint;
        /// Number of packets that the message tracker keeps.
        "messageTracker.BufferSize", Passed, LenientInt, "10", "packets", P, Hint;
        /// TCP_NODELAY on a follower's quorum socket.
        "follower.nodelay", Property, Word("true"), "true", "", M, Ensemble;
        /// TCP_NODELAY on the leader's quorum sockets.
        "leader.nodelay", Property, Word("true"), "true", "", M, Ensemble;
        /// Initial zxid counter of a leader, for tests. In Oxkeeper the counter always starts at 1; instead, the
        /// epoch ends after the same number of transactions. So the log has no gap.
        "testingonly.initialZxid", Passed, SoftLong, "", "zxid", T, Ensemble;
        /// Let tests skip zxids; no effect.
        "test.allowDiscontinuousProposals", Passed, Bool, "false", "", T, Hint;
    }
    "Storage, snapshots, log" {
        /// Take a snapshot after a random number of transactions, more than half of this value and at most this
        /// value; values below 2 are raised to 2.
        "snapCount", Passed, LenientInt, "100000", "txns", M, Built;
        /// Take a snapshot after this much log, randomised in the same way as `snapCount`; 0 or less disables it.
        "snapSizeLimitInKb", Passed, LenientLong, "4194304", "KiB", M, Built;
        /// Start a new log file when the present one reaches this size; 0 or less disables it.
        "txnLogSizeLimitInKb", Passed, LenientLong, "-1", "KiB", M, Built;
        /// Step by which log files are preallocated.
        "preAllocSize", Passed, SoftLong, "65536", "KiB", M, Built;
        /// Whether the log is fsynced before a write is acknowledged; only `no` disables it.
        "forceSync", Passed, Word("no"), "yes", "", M, Built;
        /// Duration from which an fsync is logged as a warning.
        "fsync.warningthresholdms", PassedOrBare, LenientLong, "1000", "ms", M, Built;
        /// Time to collect writes before an fsync.
        "flushDelay", Passed, LenientLong, "0", "ms", M, Built;
        /// Time to wait for one more write while collecting. Default: a third of `flushDelay`.
        "maxWriteQueuePollTime", Passed, LenientLong, "", "ms", M, Built;
        /// Maximum writes per fsync.
        "maxBatchSize", Passed, LenientInt, "1000", "txns", M, Built;
        /// Compression of snapshots: `gz`, `snappy`, or none.
        "snapshot.compression.method", Passed, Text("gz or snappy"), "", "", M, Built;
        /// Accept logs without a snapshot. Set it for one start, after an upgrade from 3.4.
        "snapshot.trust.empty", Passed, Bool, "false", "", M, Built;
        /// Create missing data directories.
        "datadir.autocreate", Passed, Bool, "true", "", M, Built;
        /// Let members without data bootstrap a new ensemble if a quorum is without data; with `false`, each of them
        /// votes only if its `dataDir` contains the file `initialize`.
        "db.autocreate", Passed, Bool, "true", "", M, Ensemble;
        /// Maintain a digest of the tree in transactions and snapshots.
        "digest.enabled", Passed, Bool, "true", "", M, Built;
        /// List the ephemeral nodes in the transaction that closes a session.
        "closeSessionTxn.enabled", Passed, Bool, "true", "", M, Built;
        /// Write the last processed zxid at the end of a snapshot.
        "serializeLastProcessedZxid.enabled", Passed, Bool, "true", "", M, Built;
        /// Enable nodes with a TTL.
        "extendedTypesEnabled", Passed, Bool, "false", "", M, Built;
        /// Decode TTLs as version 3.5.3 encoded them.
        "emulate353TTLNodes", Passed, Bool, "false", "", M, Built;
        /// Interval at which the server looks for empty containers and expired TTL nodes.
        "znode.container.checkIntervalMs", Property, LenientInt, "60000", "ms", M, Built;
        /// Maximum container deletions per minute.
        "znode.container.maxPerMinute", Property, LenientInt, "10000", "", M, Built;
        /// Age at which a container that never had a child is deleted; 0 disables it.
        "znode.container.maxNeverUsedIntervalMs", Property, LenientLong, "0", "ms", M, Built;
    }
    "Requests, limits, throttling, caches" {
        /// Number of requests in flight beyond which each connection may have only one. The value 1000, Apache's
        /// default, means 100000.
        "globalOutstandingLimit", Passed, LenientInt, "1000", "", M, Built;
        /// Maximum connections per port; 0 means no limit.
        "maxCnxns", Passed, LenientInt, "0", "", M, Built;
        /// Maximum size of a packet, string or buffer.
        "jute.maxbuffer", Property, LenientInt, "1048575", "bytes", M, Built;
        /// Size by which the transaction of a request may exceed `jute.maxbuffer`, at least 1024; a request that
        /// needs more is refused. Default: `jute.maxbuffer`.
        "jute.maxbuffer.extrasize", Passed, LenientInt, "", "bytes", M, Built;
        /// Maximum total size of large requests in flight.
        "largeRequestMaxBytes", Passed, LenientInt, "104857600", "bytes", M, Built;
        /// Size from which a request counts as large; -1 means that none does.
        "largeRequestThreshold", Passed, LenientInt, "-1", "bytes", M, Built;
        /// Requests in flight beyond which new ones are throttled; 0 disables it.
        "request_throttle_max_requests", Passed, LenientInt, "0", "", M, Built;
        /// Time that a throttled request waits before it tries again.
        "request_throttle_stall_time", Passed, LenientInt, "100", "ms", M, Built;
        /// Drop throttled requests that have become stale.
        "request_throttle_drop_stale", Passed, Bool, "true", "", M, Built;
        /// Treat requests older than the session timeout as stale.
        "request_stale_latency_check", Passed, Bool, "false", "", M, Built;
        /// Treat requests of closed connections as stale; Oxkeeper always does.
        "request_stale_connection_check", Passed, Bool, "true", "", M, Hint;
        /// Time for throttled requests to complete at shutdown; Oxkeeper drops them.
        "request_throttler.shutdownTimeout", Passed, LenientInt, "10000", "ms", P, Hint;
        /// Waiting time after which a throttled request fails with -127 (ThrottledOp); 0 disables it.
        "throttled_op_wait_time", Passed, LenientInt, "0", "ms", M, Built;
        /// Size of the token bucket for new connections; 0 disables the connection throttle.
        "connection_throttle_tokens", Passed, LenientInt, "0", "tokens", M, Built;
        /// Time between refills of the bucket.
        "connection_throttle_fill_time", Passed, LenientInt, "1", "ms", M, Built;
        /// Tokens added per refill.
        "connection_throttle_fill_count", Passed, LenientInt, "1", "tokens", M, Built;
        /// Time between adjustments of the drop probability; -1 disables it.
        "connection_throttle_freeze_time", Passed, LenientInt, "-1", "ms", M, Built;
        /// Increment of the drop probability.
        "connection_throttle_drop_increase", Passed, Double, "0.02", "", M, Built;
        /// Decrement of the drop probability.
        "connection_throttle_drop_decrease", Passed, Double, "0.002", "", M, Built;
        /// Share of the bucket that may be in use for the drop probability to decrease.
        "connection_throttle_decrease_ratio", Passed, Double, "0", "", M, Built;
        /// Let the three kinds of sessions take different numbers of tokens. Bucket and refills are then multiplied
        /// by the weight of a global session.
        "connection_throttle_weight_enabled", Passed, Bool, "false", "", M, Built;
        /// Tokens that a new global session takes.
        "connection_throttle_global_session_weight", Passed, LenientInt, "3", "tokens", M, Built;
        /// Tokens that a renewed session takes.
        "connection_throttle_renew_session_weight", Passed, LenientInt, "2", "tokens", M, Built;
        /// Tokens that a new local session takes; the other two weights are at least this.
        "connection_throttle_local_session_weight", Passed, LenientInt, "1", "tokens", M, Built;
        /// Size of the cache of data replies; Oxkeeper has none.
        "maxResponseCacheSize", Passed, LenientInt, "400", "entries", P, Hint;
        /// Size of the cache of child lists; Oxkeeper's is always 400.
        "maxGetChildrenResponseCacheSize", Passed, LenientInt, "400", "entries", P, Hint;
        /// Refuse writes that exceed a hard quota.
        "enforceQuota", Passed, Bool, "false", "", M, Built;
        /// Skip all ACL checks; only `yes` enables it.
        "skipACL", Passed, Word("yes"), "no", "", M, Built;
        /// Also check ACLs on the server that receives a request.
        "enableEagerACLCheck", Passed, Bool, "false", "", M, NotBuilt(EAGER_ACL);
        /// Serve read-only clients while the member has no leader. No effect on a standalone server, except that
        /// exactly `true` enables the four-letter command `isro` on every server. Clients can create sessions then
        /// only with `localSessionsEnabled`.
        "readonlymode.enabled", Property, Bool, "false", "", M, Built;
        /// Initial size of response buffers, at least 32.
        "intBufferStartingSizeBytes", Passed, LenientInt, "1024", "bytes", P, Hint;
        /// Number of selector threads, at least 1.
        "nio.numSelectorThreads", Passed, LenientInt, "", "", P, Hint;
        /// Number of I/O worker threads.
        "nio.numWorkerThreads", Passed, LenientInt, "", "", P, Hint;
        /// Size of direct buffers.
        "nio.directBufferBytes", Passed, LenientInt, "65536", "bytes", P, Hint;
        /// Time for worker threads to finish at shutdown.
        "nio.shutdownTimeout", Passed, LenientLong, "5000", "ms", P, Hint;
        /// Close connections without a session after this time.
        "nio.sessionlessCnxnTimeout", Passed, LenientInt, "10000", "ms", M, Built;
        /// TCP keep-alive on client sockets.
        "clientTcpKeepAlive", Passed, Bool, "false", "", M, Built;
        /// Number of threads that serve reads.
        "commitProcessor.numWorkerThreads", Passed, LenientInt, "", "", P, Hint;
        /// Maximum reads between two checks for commits.
        "commitProcessor.maxReadBatchSize", Passed, LenientInt, "-1", "", P, Hint;
        /// Maximum commits between two checks for reads.
        "commitProcessor.maxCommitBatchSize", Passed, LenientInt, "1", "", P, Hint;
        /// Time for the commit processor's threads to finish at shutdown.
        "commitProcessor.shutdownTimeout", Passed, LenientLong, "5000", "ms", P, Hint;
        /// Class of the watch manager.
        "watchManagerName", Passed, Text("class"),
            "org.apache.zookeeper.server.watch.WatchManager", "", P, Hint;
        /// Threads that remove dead watchers.
        "watcherCleanThreadsNum", Passed, LenientInt, "2", "", P, Hint;
        /// Number of dead watchers that triggers a clean-up.
        "watcherCleanThreshold", Passed, LenientInt, "1000", "", P, Hint;
        /// Maximum time between clean-ups of watchers.
        "watcherCleanIntervalInSeconds", Passed, LenientInt, "600", "s", P, Hint;
        /// Number of dead watchers beyond which new ones wait.
        "maxInProcessingDeadWatchers", Passed, LenientInt, "-1", "", P, Hint;
        /// Cache size of the watch manager.
        "bitHashCacheSize", Passed, LenientInt, "10", "", P, Hint;
        /// Log statistics of request paths.
        "pathStats.enabled", Passed, Bool, "false", "", P, Hint;
        /// Number of slots of the path statistics.
        "pathStats.slotCapacity", Passed, LenientInt, "60", "", P, Hint;
        /// Duration of a slot of the path statistics.
        "pathStats.slotDuration", Passed, LenientInt, "15", "s", P, Hint;
        /// Path depth of the path statistics.
        "pathStats.maxDepth", Passed, LenientInt, "6", "", P, Hint;
        /// Share of requests in the path statistics.
        "pathStats.sampleRate", Passed, Double, "0.1", "", P, Hint;
        /// Delay before the first report of path statistics.
        "pathStats.initialDelay", Passed, LenientLong, "5", "s", P, Hint;
        /// Delay between reports of path statistics.
        "pathStats.delay", Passed, LenientLong, "5", "s", P, Hint;
        /// Paths per report of path statistics.
        "pathStats.topPathMax", Passed, LenientInt, "20", "", P, Hint;
        /// Class that accepts connections. Oxkeeper accepts both classes of Apache, and uses its own implementation.
        "serverCnxnFactory", Passed, Text("class"),
            "org.apache.zookeeper.server.NIOServerCnxnFactory", "", P, Hint;
        /// Flow control of Netty connections.
        "netty.advancedFlowControl.enabled", Passed, Bool, "false", "", P, Hint;
        /// Maximum concurrent TLS handshakes, at most 4096; values below 1 mean 4096. Beyond the limit the oldest handshake
        /// is closed.
        "netty.server.outstandingHandshake.limit", Passed, LenientInt, "-1", "", M, Built;
        /// Drop TLS connections while the server is not serving.
        "netty.server.earlyDropSecureConnectionHandshakes", Passed, Bool, "false", "", M, NotBuilt(EARLY_DROP);
        /// Port of Apache's test controller; no effect.
        "controllerPort", Passed, Text("port"), "", "", T, Hint;
    }
    "Administration, monitoring" {
        /// Four-letter commands that the server executes, separated by commas; `*` means all. `srvr`
        /// is always enabled.
        "4lw.commands.whitelist", Passed, Text("words"), "", "", M, Built;
        /// Enable the HTTP admin server; only `false` disables it.
        "admin.enableServer", Passed, Word("false"), "true", "", M, Built;
        /// Bind address of the admin server.
        "admin.serverAddress", Passed, Text("host or address"), "0.0.0.0", "", M, Built;
        /// Port of the admin server.
        "admin.serverPort", Passed, LenientInt, "8080", "", M, Built;
        /// Idle timeout of admin server connections.
        "admin.idleTimeout", Passed, LenientInt, "30000", "ms", M, Built;
        /// URL path of the admin commands.
        "admin.commandURL", Passed, Text("path"), "/commands", "", M, Built;
        /// HTTP version of the admin server's TLS connector, in Jetty's numbering; it is always 1.1.
        "admin.httpVersion", Passed, LenientInt, "11", "", P, Hint;
        /// Serve HTTP and HTTPS on the same admin port.
        "admin.portUnification", Passed, Bool, "false", "", M, Built;
        /// Serve the admin commands by HTTPS only.
        "admin.forceHttps", Passed, Bool, "false", "", M, Built;
        /// Require client certificates on the admin server.
        "admin.needClientAuth", Passed, Bool, "false", "", M, Built;
        /// Minimum time between snapshots or restores by admin command.
        "admin.rateLimiterIntervalInMS", Passed, Int, "300000", "ms", M, Built;
        /// Enable the snapshot command of the admin server.
        "admin.snapshot.enabled", Passed, Bool, "true", "", M, Built;
        /// Enable the restore command of the admin server.
        "admin.restore.enabled", Passed, Bool, "true", "", M, Built;
        /// Names besides addresses, `localhost` and the name of this machine that the `Host` header of a request to the
        /// admin server may have, separated by commas; `*` accepts all. Other requests get status 421, so that web
        /// pages cannot read the admin server through the browser of an operator.
        "oxkeeper.admin.allowedHosts", Own, Text("names"), "", "", O, Built;
        /// Metrics of each top-level node (nodes, bytes, reads, writes, watches), of the largest parents and of the
        /// largest replies, on Prometheus's page. At most 1024 top-level nodes are shown.
        "oxkeeper.metrics.paths", Own, TrueFalse, "true", "", O, Built;
        /// Metrics provider class: Apache's default, null or Prometheus provider.
        "metricsProvider.className", File, Text("class"),
            "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider", "", M, Built;
        /// Bind address of the Prometheus provider.
        "metricsProvider.httpHost", File, Text("host or address"), "0.0.0.0", "", M, Built;
        /// Port of the Prometheus provider; -1 opens none. With `metricsProvider.compatibility=3.10` the default is -1.
        "metricsProvider.httpPort", File, Int, "7000", "", M, Built;
        /// HTTPS port of the Prometheus provider; -1 opens none. The number of `metricsProvider.httpPort` makes that
        /// port accept both.
        "metricsProvider.httpsPort", File, Int, "-1", "", M, Built;
        /// Export metrics of the process (`process_*`, and the `jvm_*` names that dashboards use).
        "metricsProvider.exportJvmInfo", File, Bool, "true", "", M, Built;
        /// Release whose names and quantiles the metrics page has: in 3.10 counters end with `_total`, and the second
        /// quantile is 0.95 instead of 0.9.
        "metricsProvider.compatibility", File, OneOf(&["3.9", "3.10"]), "3.9", "", O, Built;
        /// Key store of `metricsProvider.httpsPort`, required with it.
        "metricsProvider.ssl.keyStore.location", File, Text("path"), "", "", M, Built;
        /// Password of that key store.
        "metricsProvider.ssl.keyStore.password", File, Secret, "", "", M, Built;
        /// Type of that key store: PEM, PKCS12 or JKS. Default: by the end of the file name.
        "metricsProvider.ssl.keyStore.type", File, Text("type"), "", "", M, Built;
        /// Trust store of `metricsProvider.httpsPort`, required if clients need certificates.
        "metricsProvider.ssl.trustStore.location", File, Text("path"), "", "", M, Built;
        /// Password of that trust store.
        "metricsProvider.ssl.trustStore.password", File, Secret, "", "", M, Built;
        /// Type of that trust store.
        "metricsProvider.ssl.trustStore.type", File, Text("type"), "", "", M, Built;
        /// Whether clients of `metricsProvider.httpsPort` need certificates.
        "metricsProvider.ssl.need.client.auth", File, Bool, "true", "", M, Built;
        /// Whether certificates of clients of `metricsProvider.httpsPort` are verified if there are any.
        "metricsProvider.ssl.want.client.auth", File, Bool, "true", "", M, Built;
        /// Protocol versions of `metricsProvider.httpsPort`, separated by commas.
        "metricsProvider.ssl.enabledProtocols", File, Text("versions"), "", "", M, Built;
        /// Cipher suites of `metricsProvider.httpsPort`, separated by commas.
        "metricsProvider.ssl.ciphersuites", File, Text("names"), "", "", M, Built;
        /// Other settings of the metrics provider (threads, queues, rotation of summaries); no effect.
        "metricsProvider.*", File, Text("text"), "", "", P, Hint;
        /// Enable the audit log.
        "audit.enable", Passed, Bool, "false", "", M, Built;
        /// Class of the audit logger. With any other than the default the server refuses to start, if `audit.enable` is
        /// true.
        "audit.impl.class", Passed, Text("class"),
            "org.apache.zookeeper.audit.Slf4jAuditLogger", "", M, Built;
    }
    "Authentication" {
        /// Enable the `digest` authentication scheme.
        "DigestAuthenticationProvider.enabled", Passed, Bool, "true", "", M, Built;
        /// Name and password digest of the super user, as `super:<digest>`. If unset, there is no super user.
        "DigestAuthenticationProvider.superDigest", Passed, Secret, "", "", M, Built;
        /// Hash of the `digest` scheme: SHA1, SHA-256, SHA-384, SHA-512, SHA3-256 or SHA3-512. All servers must have the
        /// same, and stored ACLs must contain its values. With any other the server refuses to start.
        "DigestAuthenticationProvider.digestAlg", Passed, Text("hash"), "SHA1", "", M, Built;
        /// Take the address of HTTP clients from `X-Forwarded-For`.
        "IPAuthenticationProvider.usexforwardedfor", Passed, Bool, "false", "", M, Built;
        /// Certificate subject of the super user, as the scheme `x509` shows it, for example `CN=admin,O=Example`.
        "X509AuthenticationProvider.superUser", Passed, Text("subject"), "", "", M, Built;
        /// Password of the SASL user `super`.
        "SASLAuthenticationProvider.superPassword", Passed, Secret, "", "", M, Built;
        /// An additional authentication scheme, by the class name of Apache's provider. Oxkeeper has digest, ip, key,
        /// x509, sasl and ensemble; with any other class the server refuses to start.
        "authProvider.*", Passed, Text("class"), "", "", M, Built;
        /// Names of the ensemble, separated by commas. A client that sends another name is disconnected.
        "ensembleAuthName", Passed, Text("names"), "", "", M, Built;
        /// Close connections that have not authenticated with one of `enforce.auth.schemes`.
        "enforce.auth.enabled", Passed, Bool, "false", "", M, Built;
        /// Schemes accepted by `enforce.auth.enabled`.
        "enforce.auth.schemes", Passed, Text("schemes"), "", "", M, Built;
        /// Close connections that have not authenticated by SASL.
        "sessionRequireClientSASLAuth", Passed, Bool, "false", "", M, Built;
        /// Keep connections whose SASL login failed.
        "allowSaslFailedClients", Passed, Bool, "false", "", M, Built;
        /// Section of the JAAS file for the client port. If it is set and the file has no such section, the server
        /// refuses to start.
        "sasl.serverconfig", Passed, Text("section"), "Server", "", M, Built;
        /// Path of the JAAS login file. If it has a section for the client port, clients may authenticate by SASL.
        "java.security.auth.login.config", Property, Text("path"), "", "", M, Built;
        /// SASL ids of super users.
        "superUser*", Passed, Text("id"), "", "", M, Built;
        /// Id whose ACL entries match every SASL user.
        "letAnySaslUserDoX", Passed, Text("id"), "", "", M, Built;
        /// Remove the host from Kerberos principals.
        "kerberos.removeHostFromPrincipal", Passed, Word("true"), "false", "", M, Built;
        /// Remove the realm from Kerberos principals.
        "kerberos.removeRealmFromPrincipal", Passed, Word("true"), "false", "", M, Built;
        /// Rules that map Kerberos principals to short names.
        "security.auth_to_local", Passed, Text("rules"), "DEFAULT", "", M, Built;
        /// Fail if there is no Kerberos configuration. Oxkeeper needs one only for principals without a realm.
        "requireKerberosConfig", Passed, Text("text"), "", "", P, Hint;
        /// Minimum time between Kerberos logins. On the client port Oxkeeper needs no tickets of its own.
        "kerberos.minReLoginTimeMs", Passed, LenientLong, "60000", "ms", P, Hint;
        /// Path of the program that renews Kerberos tickets. On the client port Oxkeeper needs no tickets of its own.
        "kinit", Passed, Text("path"), "/usr/bin/kinit", "", P, Hint;
        /// Path of the Kerberos configuration.
        "java.security.krb5.conf", Property, Text("path"), "", "", M, Built;
        /// Enable SASL between servers: read both JAAS sections, and accept servers that authenticate.
        "quorum.auth.enableSasl", File, TrueFalse, "false", "", M, Ensemble;
        /// Refuse servers that connect and do not authenticate by SASL.
        "quorum.auth.serverRequireSasl", File, TrueFalse, "false", "", M, Ensemble;
        /// Authenticate by SASL when this server connects to others.
        "quorum.auth.learnerRequireSasl", File, TrueFalse, "false", "", M, Ensemble;
        /// Section of the JAAS file for servers that connect to this one.
        "quorum.auth.server.saslLoginContext", File, Text("section"), "QuorumServer", "", M, Ensemble;
        /// Section of the JAAS file with which this server authenticates.
        "quorum.auth.learner.saslLoginContext", File, Text("section"), "QuorumLearner", "", M, Ensemble;
        /// Kerberos principal of the servers; the host `_HOST` stands for the host of each server in `server.N`.
        "quorum.auth.kerberos.servicePrincipal", File, Text("principal"), "zkquorum/localhost", "", M, Ensemble;
    }
    "TLS" {
        /// Scheme that maps a certificate to an id; only x509.
        "ssl.authProvider", Passed, Text("scheme"), "x509", "", M, Built;
        /// TLS library of the Java server.
        "ssl.sslProvider", Passed, Text("name"), "JDK", "", P, Hint;
        /// File with the certificate chain of the server and its private key.
        "ssl.keyStore.location", Passed, Text("path"), "", "", M, Built;
        /// Password of the key store.
        "ssl.keyStore.password", Passed, Secret, "", "", M, Built;
        /// File that contains the password of the key store; takes precedence over the password itself.
        "ssl.keyStore.passwordPath", Passed, Text("path"), "", "", M, Built;
        /// Type of the key store. Default: by the suffix `.pem`, `.p12` or `.jks`.
        "ssl.keyStore.type", Passed, Text("PEM, PKCS12 or JKS"), "", "", M, Built;
        /// File with the certificates of the CAs whose clients are accepted. Required unless `ssl.clientAuth=none`.
        "ssl.trustStore.location", Passed, Text("path"), "", "", M, Built;
        /// Password of the trust store.
        "ssl.trustStore.password", Passed, Secret, "", "", M, Built;
        /// File that contains the password of the trust store; takes precedence over the password itself.
        "ssl.trustStore.passwordPath", Passed, Text("path"), "", "", M, Built;
        /// Type of the trust store. Default: by the suffix `.pem`, `.p12` or `.jks`.
        "ssl.trustStore.type", Passed, Text("PEM, PKCS12 or JKS"), "", "", M, Built;
        /// Newest protocol: `TLSv1.3` permits 1.3 and 1.2, `TLSv1.2` only 1.2.
        "ssl.protocol", Passed, Text("TLSv1.3 or TLSv1.2"), "TLSv1.3", "", M, Built;
        /// Permitted protocols, separated by commas. Default: what `ssl.protocol` implies.
        "ssl.enabledProtocols", Passed, Text("protocols"), "", "", M, Built;
        /// Permitted cipher suites by their IANA names, separated by commas. Default: all that Oxkeeper has. Suites in
        /// CBC mode are left out with a warning.
        "ssl.ciphersuites", Passed, Text("suites"), "", "", M, Built;
        /// Java class that creates the TLS context. It cannot be loaded: with a value the server refuses to start.
        "ssl.context.supplier.class", Passed, Text("class"), "", "", M, Built;
        /// Whether a client needs a certificate: `need`, `want` (it is verified if there is one) or `none`.
        "ssl.clientAuth", Passed, Text("need, want or none"), "need", "", M, Built;
        /// Whether host names are checked at all.
        "ssl.hostnameVerification", Passed, Bool, "true", "", M, Built;
        /// Check that the certificate of a client names the address from which the client connects.
        "ssl.clientHostnameVerification", Passed, Bool, "false", "", M, Built;
        /// With `ssl.clientHostnameVerification`: also look up the host name of the client's address, and accept a
        /// certificate for it.
        "ssl.allowReverseDnsLookup", Passed, Bool, "false", "", M, Built;
        /// Refuse revoked client certificates, by the lists in `oxkeeper.ssl.crlFiles`.
        "ssl.crl", Passed, Bool, "false", "", M, Built;
        /// Like `ssl.crl`: OCSP responders are not asked.
        "ssl.ocsp", Passed, Bool, "false", "", M, Built;
        /// Time for the first byte of a connection to a port that accepts plain text and TLS; values below 1 mean the
        /// default.
        "ssl.handshakeDetectionTimeoutMillis", Passed, LenientInt, "5000", "ms", M, Built;
        /// Accept plain text and TLS on `clientPort`.
        "client.portUnification", Passed, Bool, "false", "", M, Built;
        /// Reload the stores of the client port when the content of their files changes.
        "client.certReload", Passed, Bool, "false", "", M, Built;
        /// Whether host names between servers are reported only, as Apache does while it restricts itself to FIPS. The
        /// client port of a server has no such rule.
        "fips-mode", Passed, Bool, "true", "", M, Built;
        /// Refuse TLS renegotiation; Oxkeeper always does.
        "jdk.tls.rejectClientInitiatedRenegotiation", Property, Bool, "true", "", J, Hint;
    }
    "TLS between servers" {
        /// Use TLS for connections to other servers, and refuse plain text unless `portUnification` is set.
        "sslQuorum", File, TrueFalse, "false", "", M, Ensemble;
        /// Accept plain text and TLS on quorum and election ports, for a rolling change.
        "portUnification", File, TrueFalse, "false", "", M, Ensemble;
        /// Reload the stores of TLS between servers when the content of their files changes.
        "sslQuorumReloadCertFiles", File, TrueFalse, "false", "", M, Ensemble;
        /// File with the certificate chain of the server and its private key.
        "ssl.quorum.keyStore.location", Passed, Text("path"), "", "", M, Ensemble;
        /// Password of the key store.
        "ssl.quorum.keyStore.password", Passed, Secret, "", "", M, Ensemble;
        /// File that contains the password of the key store; takes precedence over the password itself.
        "ssl.quorum.keyStore.passwordPath", Passed, Text("path"), "", "", M, Ensemble;
        /// Type of the key store. Default: by the suffix `.pem`, `.p12` or `.jks`.
        "ssl.quorum.keyStore.type", Passed, Text("PEM, PKCS12 or JKS"), "", "", M, Ensemble;
        /// File with the certificates of the CAs whose servers are accepted.
        "ssl.quorum.trustStore.location", Passed, Text("path"), "", "", M, Ensemble;
        /// Password of the trust store.
        "ssl.quorum.trustStore.password", Passed, Secret, "", "", M, Ensemble;
        /// File that contains the password of the trust store; takes precedence over the password itself.
        "ssl.quorum.trustStore.passwordPath", Passed, Text("path"), "", "", M, Ensemble;
        /// Type of the trust store. Default: by the suffix `.pem`, `.p12` or `.jks`.
        "ssl.quorum.trustStore.type", Passed, Text("PEM, PKCS12 or JKS"), "", "", M, Ensemble;
        /// Newest protocol: `TLSv1.3` permits 1.3 and 1.2, `TLSv1.2` only 1.2.
        "ssl.quorum.protocol", Passed, Text("TLSv1.3 or TLSv1.2"), "TLSv1.3", "", M, Ensemble;
        /// Permitted protocols, separated by commas. Default: what `ssl.quorum.protocol` implies.
        "ssl.quorum.enabledProtocols", Passed, Text("protocols"), "", "", M, Ensemble;
        /// Permitted cipher suites by their IANA names, separated by commas. Default: all that Oxkeeper has. Suites in
        /// CBC mode are left out with a warning.
        "ssl.quorum.ciphersuites", Passed, Text("suites"), "", "", M, Ensemble;
        /// Java class that creates the TLS context. It cannot be loaded: with a value the server refuses to start.
        "ssl.quorum.context.supplier.class", Passed, Text("class"), "", "", M, Ensemble;
        /// Whether a server that connects needs a certificate: `need`, `want` or `none`. With less than `need`, servers
        /// without a certificate are accepted.
        "ssl.quorum.clientAuth", Passed, Text("need, want or none"), "need", "", M, Ensemble;
        /// Whether the certificates of other servers must name their host in `server.N`, or their address; see
        /// `fips-mode`.
        "ssl.quorum.hostnameVerification", Passed, Bool, "true", "", M, Ensemble;
        /// Whether that holds for servers that connect to this one, too.
        "ssl.quorum.clientHostnameVerification", Passed, Bool, "true", "", M, Ensemble;
        /// Whether Apache looks up the host name of an address. Oxkeeper needs no lookups between servers: it uses the
        /// names in `server.N`.
        "ssl.quorum.allowReverseDnsLookup", Passed, Bool, "true", "", P, Hint;
        /// Refuse revoked certificates, by the lists in `oxkeeper.ssl.quorum.crlFiles`.
        "ssl.quorum.crl", Passed, Bool, "false", "", M, Ensemble;
        /// Like `ssl.quorum.crl`: OCSP responders are not asked.
        "ssl.quorum.ocsp", Passed, Bool, "false", "", M, Ensemble;
        /// Time for the first byte of a connection to a port that accepts TLS; values below 1 mean the default. A
        /// connection must be identified within 5 seconds in any case.
        "ssl.quorum.handshakeDetectionTimeoutMillis", Passed, LenientInt, "5000", "ms", M, Ensemble;
    }
    "Settings of Oxkeeper only" {
        /// Path of a file for the audit log, which rotates. Default: audit events are written to the server's log.
        "oxkeeper.audit.file", Own, Text("path"), "", "", O, Built;
        /// Lines of the audit log: Apache's, or JSON objects.
        "oxkeeper.audit.format", Own, OneOf(&["text", "json"]), "text", "", O, Built;
        /// Size at which the file of the audit log is rotated.
        "oxkeeper.audit.maxFileBytes", Own, Long, "10485760", "bytes", O, Built;
        /// Rotated files of the audit log to keep; older ones are removed.
        "oxkeeper.audit.backups", Own, Int, "10", "", O, Built;
        /// Log levels: one level, and levels of modules, as in `info,ox_server=debug`. `--log` overrides it. Default: info,
        /// or the more detailed of the thresholds.
        "oxkeeper.log.levels", Own, Text("levels"), "", "", O, Built;
        /// What to do with a torn last record whose checksum is wrong: truncate the log, or refuse to start.
        "oxkeeper.txnlog.tornTail", Own, OneOf(&["truncate", "refuse"]), "truncate", "", O, Built;
        /// Start with logs that are damaged or have gaps between zxids, to rescue data. A standalone server keeps all
        /// intact records, also those after a gap; a member gives up everything after damage. The log names the zxids
        /// that are given up, and the copies of the damaged files.
        "oxkeeper.recovery.allowGaps", Own, TrueFalse, "false", "", O, Built;
        /// What a member with damaged files does: wait in quarantine for a snapshot from a leader, or exit. `accept`
        /// lets a member vote with data that is only in doubt (for example a copy made while the server was running),
        /// even if it was quarantined before. Default: `quarantine`. A standalone server always exits.
        "oxkeeper.recovery.onDamage", Own, OneOf(&["quarantine", "exit", "accept"]), "", "", O, Ensemble;
        /// Maximum sessions per client address, with or without a connection; 0 means no limit. The server closes
        /// connections that request more, as with `maxClientCnxns`. The default is three times the number of ports of
        /// an address.
        "oxkeeper.maxSessionsPerAddress", Own, Int, "200000", "", O, Built;
        /// Maximum watches per client address; 0 means no limit. A read or addWatch that exceeds it fails with -127
        /// (ThrottledOp). The server closes the connection of a client that cannot restore all its watches when it
        /// reconnects.
        "oxkeeper.maxWatchesPerAddress", Own, Int, "10000000", "", O, Built;
        /// Requests that take at least so long are logged, with the time in each stage; 0 logs none.
        "oxkeeper.slowRequestMs", Own, Int, "5000", "ms", O, Built;
        /// Time after the loss of the leader during which handshakes of new connections wait for the next leader,
        /// each for at most a quarter of the requested session timeout; 0 closes these connections, as Apache does.
        "oxkeeper.parkLimitMs", Own, Int, "2000", "ms", O, Ensemble;
        /// Memory for client traffic: requests being received, requests in flight, and replies and events that
        /// clients have not read. Close to the limit the server delays large requests and large replies, and closes
        /// slow connections that hold much memory. At least 8 MiB. Default: an eighth of the memory of the container
        /// or machine, between 64 MiB and 1 GiB.
        "oxkeeper.memoryBudget", Own, Long, "", "bytes", O, Built;
        /// Time after which a thread without progress (for example because the disk hangs) is reported in the log and
        /// counted in `thread_stalls`; values below 3000 are raised to 3000, 0 disables it.
        "oxkeeper.watchdog.warnAfter", Own, Int, "10000", "ms", O, Built;
        /// Time after which a thread without progress makes the server exit with code 1, so that a supervisor can
        /// restart it; values below 3000 are raised to 3000, 0 disables it.
        "oxkeeper.watchdog.exitAfter", Own, Int, "0", "ms", O, Built;
        /// Certificate revocation lists in PEM or DER, separated by commas; `ssl.crl` and `ssl.ocsp` need them, because
        /// lists are not downloaded.
        "oxkeeper.ssl.crlFiles", Own, Text("paths"), "", "", O, Built;
        /// The same for `ssl.quorum.crl` and `ssl.quorum.ocsp`.
        "oxkeeper.ssl.quorum.crlFiles", Own, Text("paths"), "", "", O, Ensemble;
    }
    "Logging and the Java virtual machine" {
        /// Directory of the log file.
        "log.dir", Passed, Text("path"), ".", "", M, Built;
        /// Name of the log file, which rotates. Default: the server logs to the console only.
        "log.file", Passed, Text("name"), "", "", M, Built;
        /// Size at which the log file is rotated, with KB, MB or GB.
        "log.maxfilesize", Passed, Text("size"), "256MB", "", M, Built;
        /// Rotated log files to keep; older ones are removed.
        "log.maxbackupindex", Passed, LenientInt, "20", "", M, Built;
        /// The least important lines in the log file. Default: those that the log levels let through.
        "log.threshold", Passed, Text("level"), "", "", M, Built;
        /// Variables of the Java server's logging configuration.
        "log.*", Passed, Text("text"), "", "", P, Hint;
        /// The least important lines on the console. Default: those that the log levels let through.
        "console.threshold", Passed, Text("level"), "", "", M, Built;
        /// Settings of the Java server's trace log.
        "tracelog.*", Passed, Text("text"), "", "", P, Hint;
        /// Settings of the Java server's audit log file.
        "auditlog.*", Passed, Text("text"), "", "", P, Hint;
        /// Root logger of the Java server.
        "root.logger", Passed, Text("text"), "", "", P, Hint;
        /// Audit logger of the Java server.
        "audit.logger", Property, Text("text"), "", "", P, Hint;
        /// Path of the Logback configuration.
        "logback.configurationFile", Property, Text("path"), "", "", P, Hint;
        /// Path of the Log4j configuration.
        "log4j.configuration", Property, Text("path"), "", "", P, Hint;
        /// JMX settings for Log4j.
        "jmx.log4j.*", Passed, Text("text"), "", "", J, Hint;
        /// Remote JMX of the virtual machine.
        "com.sun.management.jmxremote*", Property, Text("text"), "", "", J, Hint;
        /// Host name for remote JMX.
        "java.rmi.server.hostname", Property, Text("host"), "", "", J, Hint;
        /// Kerberos library of the virtual machine.
        "sun.security.jgss.native", Property, Text("text"), "", "", J, Hint;
    }
    "Read by clients" {
        /// Use TLS to the server.
        "client.secure", Passed, Bool, "false", "", C, Hint;
        /// Class of the client's socket.
        "clientCnxnSocket", Passed, Text("class"), "org.apache.zookeeper.ClientCnxnSocketNIO", "", C, Hint;
        /// SASL settings of the client.
        "sasl.client*", Passed, Text("text"), "", "", C, Hint;
        /// Kerberos principal of the server.
        "zookeeper.server.principal", Property, Text("principal"), "", "", C, Hint;
        /// Kerberos realm of the server.
        "zookeeper.server.realm", Property, Text("realm"), "", "", C, Hint;
        /// Do not restore watches after a reconnect.
        "disableAutoWatchReset", Passed, Bool, "false", "", C, Hint;
        /// Request timeout; 0 means no limit.
        "request.timeout", Passed, LenientLong, "0", "ms", C, Hint;
        /// Try a host's addresses in random order.
        "shuffleDnsResponse", Passed, Bool, "false", "", C, Hint;
        /// Time between DNS SRV lookups.
        "hostProvider.dnsSrvRefreshIntervalSeconds", Passed, LenientInt, "60", "s", C, Hint;
    }
};
