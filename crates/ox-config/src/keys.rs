//! The key table: every setting that `zoo.cfg`, `-D` or the Java start scripts may carry, one row each.
//!
//! Parser, effective values, warnings and `docs/config.md` all come from here. A row is: name, source, reader,
//! default, unit, class, status (see [`crate::key`]); its doc comment is its line on the page. Text before a final
//! `*` stands for every name that begins with it; an exact row goes before its family.

use crate::key::Class::{C, J, M, O, P, T};
use crate::key::Reader::{
    Bool, Double, Int, LenientInt, LenientLong, Long, OneOf, Secret, SoftDouble, SoftInt, SoftLong, Text, TrueFalse,
    Word,
};
use crate::key::Source::{File, FileOrProperty, FileUnder, Own, Passed, PassedOrBare, Property};
use crate::key::Status::{Built, Ensemble, Guard, Hint, Later};
use crate::key::{Key, PREFIX, Section};

/// Features that are not built yet, as warnings and errors name them.
pub(crate) const ADMIN: &str = "the admin server";
const AUDIT: &str = "the audit log";
const ENFORCED: &str = "enforced authentication";
pub(crate) const ENSEMBLE_AUTH: &str = "ensemble authentication";
const METRICS: &str = "the metrics endpoint";
const ORACLE: &str = "the oracle of two voters";
const EAGER_ACL: &str = "ACL checks before the leader's";
pub(crate) const SASL: &str = "SASL authentication";
pub(crate) const TLS: &str = "TLS";

/// The row for a name: an exact one if there is one, else the family's.
pub fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name).or_else(|| keys().find(|key| key.covers(name)))
}

/// The row that a system property sets, by its full name.
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

/// Every row, in the order of the page.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|section| section.keys)
}

/// Names that documents use and no server reads, with the ones that work.
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

/// The table.
pub static SECTIONS: &[Section] = sections! {
    "Basics, ports, directories" {
        /// Directory of snapshots (`version-2` inside it), `myid` and `initialize`. Required.
        "dataDir", File, Text("path"), "", "", M, Built;
        /// Directory of transaction logs (`version-2` inside it). Unset: `dataDir`.
        "dataLogDir", File, Text("path"), "", "", M, Built;
        /// Plain client port. 0 takes any free port; unset opens none.
        "clientPort", File, Int, "", "", M, Built;
        /// Address to bind `clientPort` to. Unset: every interface.
        "clientPortAddress", File, Text("host or address"), "", "", M, Built;
        /// TLS client port.
        "secureClientPort", File, Int, "", "", M, Guard(TLS);
        /// Address to bind `secureClientPort` to. Unset: every interface.
        "secureClientPortAddress", File, Text("host or address"), "", "", M, Guard(TLS);
        /// Port on which followers serve observers too, the same on all servers; 0 is off.
        "observerMasterPort", File, Int, "0", "", M, Ensemble;
        /// Listen backlog of the client port; -1 is the platform's.
        "clientPortListenBacklog", File, Int, "-1", "", M, Built;
        /// Length of a tick, the unit of session timeouts and quorum limits.
        "tickTime", File, Int, "3000", "ms", M, Built;
        /// Connections from one client address to one port; 0 is no limit.
        "maxClientCnxns", File, Int, "60", "", M, Built;
        /// Shortest session timeout a client can get; -1 is two ticks.
        "minSessionTimeout", File, Int, "-1", "ms", M, Built;
        /// Longest session timeout a client can get; -1 is twenty ticks.
        "maxSessionTimeout", File, Int, "-1", "ms", M, Built;
        /// Sessions that only the server they connect to knows.
        "localSessionsEnabled", File, TrueFalse, "false", "", M, Ensemble;
        /// Make a local session global when it creates an ephemeral node.
        "localSessionsUpgradingEnabled", File, TrueFalse, "false", "", M, Ensemble;
        /// Snapshots that purging keeps, with the logs they need; less than 3 becomes 3.
        "autopurge.snapRetainCount", File, Int, "3", "snapshots", M, Built;
        /// Time between purges, first one at start; 0 is off.
        "autopurge.purgeInterval", File, Int, "0", "h", M, Built;
        /// Watch for pauses of the process.
        "jvm.pause.monitor", File, TrueFalse, "false", "", P, Hint;
        /// Sleep of the pause monitor.
        "jvm.pause.sleep.time.ms", File, Long, "500", "ms", P, Hint;
        /// Pause that is worth an info line.
        "jvm.pause.info-threshold.ms", File, Long, "1000", "ms", P, Hint;
        /// Pause that is worth a warning.
        "jvm.pause.warn-threshold.ms", File, Long, "10000", "ms", P, Hint;
    }
    "Ensemble" {
        /// A member: `host:quorumPort:electionPort[:role][;[host:]clientPort]`. One participant alone runs standalone,
        /// on the client port given here.
        "server.*", File, Text("member"), "", "", M, Ensemble;
        /// Members of a group of a hierarchical quorum, separated by colons.
        "group*", File, Text("ids"), "", "", M, Ensemble;
        /// Weight of a member in its group.
        "weight*", File, Text("number"), "1", "", M, Ensemble;
        /// Time for a follower to connect and catch up. Required in an ensemble.
        "initLimit", File, Int, "", "ticks", M, Ensemble;
        /// How far a follower may lag. Required in an ensemble.
        "syncLimit", File, Int, "", "ticks", M, Ensemble;
        /// Time to reach the leader after an election; 0 is `initLimit`.
        "connectToLearnerMasterLimit", File, Int, "0", "ticks", M, Ensemble;
        /// Election algorithm; there is only 3.
        "electionAlg", File, Int, "3", "", M, Ensemble;
        /// Role of this server; the `server.N` line decides.
        "peerType", File, Text("participant or observer"), "participant", "", M, Ensemble;
        /// Bind quorum and election ports on every interface.
        "quorumListenOnAllIPs", File, TrueFalse, "false", "", M, Ensemble;
        /// Whether observers keep logs and snapshots. Here they always do.
        "syncEnabled", FileUnder("zookeeper.observer.syncEnabled"), TrueFalse, "true", "", M, Hint;
        /// Whether a single participant runs standalone.
        "standaloneEnabled", File, TrueFalse, "true", "", M, Built;
        /// Whether clients may change the members.
        "reconfigEnabled", File, TrueFalse, "false", "", M, Built;
        /// File with the members, then not allowed in `zoo.cfg`.
        "dynamicConfigFile", File, Text("path"), "", "", M, Ensemble;
        /// File whose first character `1` lets one of two voters go on alone.
        "oraclePath", File, Text("path"), "", "", M, Later(ORACLE);
        /// Threads that open election connections.
        "quorum.cnxn.threads.size", File, Int, "20", "", P, Hint;
        /// Allow several addresses for a member. In `zoo.cfg` alone it does not reach the `server.N` lines.
        "multiAddress.enabled", FileOrProperty, TrueFalse, "false", "", M, Ensemble;
        /// Probe a member's addresses before using one.
        "multiAddress.reachabilityCheckEnabled", FileOrProperty, TrueFalse, "true", "", M, Hint;
        /// Time for such a probe.
        "multiAddress.reachabilityCheckTimeoutMs", FileOrProperty, Int, "1000", "ms", M, Hint;
    }
    "Election and learners" {
        /// Whether the leader accepts clients; only `no` turns it off.
        "leaderServes", Passed, Word("no"), "yes", "", M, Ensemble;
        /// Time for an election connection to open.
        "cnxTimeout", Passed, Int, "5000", "ms", M, Ensemble;
        /// Read timeout of election connections; -1 is `syncLimit` ticks.
        "quorumCnxnTimeoutMs", Passed, LenientInt, "-1", "ms", M, Ensemble;
        /// Attempts to bind the election port; 0 is without end.
        "electionPortBindRetry", Passed, LenientInt, "3", "", M, Ensemble;
        /// Keep-alive on election sockets.
        "tcpKeepAlive", Passed, Bool, "false", "", M, Ensemble;
        /// Shortest wait between election notifications.
        "fastleader.minNotificationInterval", Passed, LenientInt, "200", "ms", M, Ensemble;
        /// Longest wait between election notifications.
        "fastleader.maxNotificationInterval", Passed, LenientInt, "60000", "ms", M, Ensemble;
        /// Time after which a new leader gives up when a voter that has elected it looks for a leader again; -1 is off.
        "leader.maxTimeToWaitForEpoch", Passed, LenientInt, "-1", "ms", M, Ensemble;
        /// One proposal in so many has its acknowledgements timed; 0 is none.
        "leader.ackLoggingFrequency", Passed, LenientInt, "1000", "", P, Ensemble;
        /// Observers that get a snapshot at a time; a further one comes again.
        "leader.maxConcurrentSnapSyncs", Passed, LenientInt, "10", "", M, Ensemble;
        /// Observers that get a diff at a time; a further one comes again.
        "leader.maxConcurrentDiffSyncs", Passed, LenientInt, "100", "", M, Ensemble;
        /// Close learner sockets in the background, on the leader.
        "leader.closeSocketAsync", PassedOrBare, Bool, "false", "", P, Hint;
        /// Close the leader's socket in the background, on a learner.
        "learner.closeSocketAsync", PassedOrBare, Bool, "false", "", P, Hint;
        /// Send to the leader from a thread of its own.
        "learner.asyncSending", PassedOrBare, Bool, "false", "", P, Hint;
        /// Pause between attempts to reach the leader.
        "leaderConnectDelayDuringRetryMs", Passed, LenientInt, "100", "ms", M, Ensemble;
        /// Longest pause before an observer connects, a random part of it is taken; with `observerMasterPort` only after all
        /// followers were tried.
        "observer.reconnectDelayMs", Passed, LenientLong, "0", "ms", M, Ensemble;
        /// Longest pause before an observer that has lost its leader looks for another; a random part of it is taken.
        "observer.election.DelayMs", Passed, LenientLong, "200", "ms", M, Ensemble;
        /// Commit buffer of a follower that serves observers; here the recent history serves for it (`commitLogCount`).
        "observerMaster.sizeLimit", Passed, LenientInt, "33554432", "bytes", M, Hint;
        /// Always sync learners by snapshot.
        "forceSnapshotSync", Passed, Bool, "false", "", T, Ensemble;
        /// Largest log, relative to the snapshot, from which a learner is synced; negative is never.
        "snapshotSizeFactor", Passed, SoftDouble, "0.33", "", M, Ensemble;
        /// Committed transactions kept in memory for learners; less than 500 becomes 500.
        "commitLogCount", Passed, SoftInt, "500", "txns", M, Ensemble;
        /// Free learner requests early.
        "follower.skipLearnerRequestToNextProcessor", Passed, Bool, "false", "", P, Hint;
        /// Keep learner requests out of the commit stage.
        "forward_learner_requests_to_commit_processor_disabled", Passed, Bool, "false", "", P, Hint;
        /// Use the canonical names of the hosts in `server.N`.
        "kerberos.canonicalizeHostNames", Passed, Bool, "false", "", M, Ensemble;
        /// Log a learner's last packets when it disconnects.
        "messageTracker.Enabled", Passed, Bool, "false", "", P, Hint;
        /// Packets remembered for that.
        "messageTracker.BufferSize", Passed, LenientInt, "10", "packets", P, Hint;
        /// TCP_NODELAY on a follower's quorum socket.
        "follower.nodelay", Property, Word("true"), "true", "", M, Ensemble;
        /// TCP_NODELAY on the leader's quorum sockets.
        "leader.nodelay", Property, Word("true"), "true", "", M, Ensemble;
        /// Where a leader's counter begins in a test. Here it begins at 1 all the same, and ends as much earlier: what is
        /// logged has no hole, and the next epoch begins after as many transactions.
        "testingonly.initialZxid", Passed, SoftLong, "", "zxid", T, Ensemble;
        /// Let a test skip zxids.
        "test.allowDiscontinuousProposals", Passed, Bool, "false", "", T, Hint;
    }
    "Storage, snapshots, log" {
        /// Snapshot after a random number of transactions in (n/2, n]; less than 2 becomes 2.
        "snapCount", Passed, LenientInt, "100000", "txns", M, Built;
        /// Snapshot after as much log, randomised alike; 0 or less is off.
        "snapSizeLimitInKb", Passed, LenientLong, "4194304", "KiB", M, Built;
        /// Begin a new log file after this much; 0 or less is off.
        "txnLogSizeLimitInKb", Passed, LenientLong, "-1", "KiB", M, Built;
        /// Step in which a log file grows.
        "preAllocSize", Passed, SoftLong, "65536", "KiB", M, Built;
        /// Whether the log is synced to disk before a write is answered; only `no` turns it off.
        "forceSync", Passed, Word("no"), "yes", "", M, Built;
        /// Sync of the log that is worth a warning.
        "fsync.warningthresholdms", PassedOrBare, LenientLong, "1000", "ms", M, Built;
        /// Time to gather writes before a sync.
        "flushDelay", Passed, LenientLong, "0", "ms", M, Built;
        /// Time to wait for one more write while gathering. Unset: a third of `flushDelay`.
        "maxWriteQueuePollTime", Passed, LenientLong, "", "ms", M, Built;
        /// Most writes per sync.
        "maxBatchSize", Passed, LenientInt, "1000", "txns", M, Built;
        /// Compression of snapshots: `gz`, `snappy`, or none.
        "snapshot.compression.method", Passed, Text("gz or snappy"), "", "", M, Built;
        /// Start from logs without a snapshot, once, after an upgrade from 3.4.
        "snapshot.trust.empty", Passed, Bool, "false", "", M, Built;
        /// Create missing data directories.
        "datadir.autocreate", Passed, Bool, "true", "", M, Built;
        /// Let members with empty databases begin together where a quorum has nothing; otherwise each of them needs the
        /// file `initialize` to vote.
        "db.autocreate", Passed, Bool, "true", "", M, Ensemble;
        /// Keep a digest of the tree in transactions and snapshots.
        "digest.enabled", Passed, Bool, "true", "", M, Built;
        /// List the ephemeral nodes in the transaction that closes a session.
        "closeSessionTxn.enabled", Passed, Bool, "true", "", M, Built;
        /// Write the last zxid at the end of a snapshot.
        "serializeLastProcessedZxid.enabled", Passed, Bool, "true", "", M, Built;
        /// Nodes with a time to live.
        "extendedTypesEnabled", Passed, Bool, "false", "", M, Built;
        /// Read the times to live of 3.5.3.
        "emulate353TTLNodes", Passed, Bool, "false", "", M, Built;
        /// Time between looks for empty containers and nodes past their time to live.
        "znode.container.checkIntervalMs", Property, LenientInt, "60000", "ms", M, Built;
        /// Most containers deleted per minute.
        "znode.container.maxPerMinute", Property, LenientInt, "10000", "", M, Built;
        /// Age at which a container that never had a child is deleted; 0 is never.
        "znode.container.maxNeverUsedIntervalMs", Property, LenientLong, "0", "ms", M, Built;
    }
    "Requests, limits, throttling, caches" {
        /// Requests under way before each connection may have only one; 1000, which Apache sets by itself, stands for 100000.
        "globalOutstandingLimit", Passed, LenientInt, "1000", "", M, Built;
        /// Connections to one port; 0 is no limit.
        "maxCnxns", Passed, LenientInt, "0", "", M, Built;
        /// Largest packet, string or buffer.
        "jute.maxbuffer", Property, LenientInt, "1048575", "bytes", M, Built;
        /// Room beyond that when logs and snapshots are read, at least 1024. Unset: `jute.maxbuffer`.
        "jute.maxbuffer.extrasize", Passed, LenientInt, "", "bytes", M, Built;
        /// Bytes of all large requests under way.
        "largeRequestMaxBytes", Passed, LenientInt, "104857600", "bytes", M, Built;
        /// Size from which a request is large; -1 is off.
        "largeRequestThreshold", Passed, LenientInt, "-1", "bytes", M, Built;
        /// Requests under way before new ones wait; 0 is off.
        "request_throttle_max_requests", Passed, LenientInt, "0", "", M, Built;
        /// Time such a request waits before it tries again.
        "request_throttle_stall_time", Passed, LenientInt, "100", "ms", M, Built;
        /// Drop waiting requests that have become stale.
        "request_throttle_drop_stale", Passed, Bool, "true", "", M, Built;
        /// A request older than its session timeout is stale.
        "request_stale_latency_check", Passed, Bool, "false", "", M, Built;
        /// A request whose connection is closed is stale; here one that waits always is.
        "request_stale_connection_check", Passed, Bool, "true", "", M, Hint;
        /// Time for waiting requests when the server stops; here they are given up.
        "request_throttler.shutdownTimeout", Passed, LenientInt, "10000", "ms", P, Hint;
        /// Wait after which a request is marked as throttled; 0 is off.
        "throttled_op_wait_time", Passed, LenientInt, "0", "ms", M, Built;
        /// Tokens for new sessions; 0 is off.
        "connection_throttle_tokens", Passed, LenientInt, "0", "tokens", M, Built;
        /// Time between refills of tokens.
        "connection_throttle_fill_time", Passed, LenientInt, "1", "ms", M, Built;
        /// Tokens per refill.
        "connection_throttle_fill_count", Passed, LenientInt, "1", "tokens", M, Built;
        /// Time between changes of the drop probability; -1 is off.
        "connection_throttle_freeze_time", Passed, LenientInt, "-1", "ms", M, Built;
        /// How much the drop probability grows.
        "connection_throttle_drop_increase", Passed, Double, "0.02", "", M, Built;
        /// How much the drop probability shrinks.
        "connection_throttle_drop_decrease", Passed, Double, "0.002", "", M, Built;
        /// Share of tokens in use below which it shrinks.
        "connection_throttle_decrease_ratio", Passed, Double, "0", "", M, Built;
        /// Weigh kinds of sessions; tokens and refills grow by the weight of a global one.
        "connection_throttle_weight_enabled", Passed, Bool, "false", "", M, Built;
        /// Tokens of a new global session.
        "connection_throttle_global_session_weight", Passed, LenientInt, "3", "tokens", M, Built;
        /// Tokens of a renewed session.
        "connection_throttle_renew_session_weight", Passed, LenientInt, "2", "tokens", M, Built;
        /// Tokens of a local session, and the least that the two others take.
        "connection_throttle_local_session_weight", Passed, LenientInt, "1", "tokens", M, Built;
        /// Encoded data replies kept; here none need to be.
        "maxResponseCacheSize", Passed, LenientInt, "400", "entries", P, Hint;
        /// Encoded child lists kept; here always 400.
        "maxGetChildrenResponseCacheSize", Passed, LenientInt, "400", "entries", P, Hint;
        /// Refuse writes beyond a hard quota.
        "enforceQuota", Passed, Bool, "false", "", M, Built;
        /// Skip all ACL checks; only `yes` does.
        "skipACL", Passed, Word("yes"), "no", "", M, Built;
        /// Check ACLs on the server that receives a request, too.
        "enableEagerACLCheck", Passed, Bool, "false", "", M, Later(EAGER_ACL);
        /// Serve read-only clients while cut off from the quorum, which a single server never is; exactly `true` adds `isro`
        /// to the four-letter words. New sessions need `localSessionsEnabled`, too.
        "readonlymode.enabled", Property, Bool, "false", "", M, Built;
        /// First size of response buffers, at least 32.
        "intBufferStartingSizeBytes", Passed, LenientInt, "1024", "bytes", P, Hint;
        /// Selector threads, at least 1.
        "nio.numSelectorThreads", Passed, LenientInt, "", "", P, Hint;
        /// Worker threads.
        "nio.numWorkerThreads", Passed, LenientInt, "", "", P, Hint;
        /// Size of direct buffers.
        "nio.directBufferBytes", Passed, LenientInt, "65536", "bytes", P, Hint;
        /// Time for worker threads when the server stops.
        "nio.shutdownTimeout", Passed, LenientLong, "5000", "ms", P, Hint;
        /// Time after which a connection without a session is closed.
        "nio.sessionlessCnxnTimeout", Passed, LenientInt, "10000", "ms", M, Built;
        /// Keep-alive on client sockets.
        "clientTcpKeepAlive", Passed, Bool, "false", "", M, Built;
        /// Threads that answer reads.
        "commitProcessor.numWorkerThreads", Passed, LenientInt, "", "", P, Hint;
        /// Reads between two looks at commits.
        "commitProcessor.maxReadBatchSize", Passed, LenientInt, "-1", "", P, Hint;
        /// Commits between two looks at reads.
        "commitProcessor.maxCommitBatchSize", Passed, LenientInt, "1", "", P, Hint;
        /// Time for these threads when the server stops.
        "commitProcessor.shutdownTimeout", Passed, LenientLong, "5000", "ms", P, Hint;
        /// Class that keeps watches.
        "watchManagerName", Passed, Text("class"),
            "org.apache.zookeeper.server.watch.WatchManager", "", P, Hint;
        /// Threads that clean up watches.
        "watcherCleanThreadsNum", Passed, LenientInt, "2", "", P, Hint;
        /// Dead watchers before a clean-up.
        "watcherCleanThreshold", Passed, LenientInt, "1000", "", P, Hint;
        /// Longest time between clean-ups.
        "watcherCleanIntervalInSeconds", Passed, LenientInt, "600", "s", P, Hint;
        /// Dead watchers before new ones wait.
        "maxInProcessingDeadWatchers", Passed, LenientInt, "-1", "", P, Hint;
        /// Size of a cache of the watch manager.
        "bitHashCacheSize", Passed, LenientInt, "10", "", P, Hint;
        /// Log statistics of request paths.
        "pathStats.enabled", Passed, Bool, "false", "", P, Hint;
        /// Slots of these statistics.
        "pathStats.slotCapacity", Passed, LenientInt, "60", "", P, Hint;
        /// Length of a slot.
        "pathStats.slotDuration", Passed, LenientInt, "15", "s", P, Hint;
        /// Path elements counted.
        "pathStats.maxDepth", Passed, LenientInt, "6", "", P, Hint;
        /// Share of requests counted.
        "pathStats.sampleRate", Passed, Double, "0.1", "", P, Hint;
        /// Wait before the first report.
        "pathStats.initialDelay", Passed, LenientLong, "5", "s", P, Hint;
        /// Wait between reports.
        "pathStats.delay", Passed, LenientLong, "5", "s", P, Hint;
        /// Paths per report.
        "pathStats.topPathMax", Passed, LenientInt, "20", "", P, Hint;
        /// Class that accepts connections; both of Apache's mean the one here.
        "serverCnxnFactory", Passed, Text("class"),
            "org.apache.zookeeper.server.NIOServerCnxnFactory", "", P, Hint;
        /// Flow control of the Netty connections.
        "netty.advancedFlowControl.enabled", Passed, Bool, "false", "", P, Hint;
        /// TLS handshakes at a time; -1 is no limit.
        "netty.server.outstandingHandshake.limit", Passed, LenientInt, "-1", "", M, Later(TLS);
        /// Drop TLS connections while not serving.
        "netty.server.earlyDropSecureConnectionHandshakes", Passed, Bool, "false", "", M, Later(TLS);
        /// Port of a test controller.
        "controllerPort", Passed, Text("port"), "", "", T, Hint;
    }
    "Administration, monitoring" {
        /// Four-letter words that are answered, separated by commas; `*` is all. `srvr` always is.
        "4lw.commands.whitelist", Passed, Text("words"), "", "", M, Built;
        /// The HTTP admin server; only `false` turns it off.
        "admin.enableServer", Passed, Word("false"), "true", "", M, Later(ADMIN);
        /// Address of the admin server.
        "admin.serverAddress", Passed, Text("host or address"), "0.0.0.0", "", M, Later(ADMIN);
        /// Port of the admin server.
        "admin.serverPort", Passed, LenientInt, "8080", "", M, Later(ADMIN);
        /// Time after which an idle connection to it is closed.
        "admin.idleTimeout", Passed, LenientInt, "30000", "ms", M, Later(ADMIN);
        /// Path of its commands.
        "admin.commandURL", Passed, Text("path"), "/commands", "", M, Later(ADMIN);
        /// HTTP version of its TLS connector, in Jetty's numbers.
        "admin.httpVersion", Passed, LenientInt, "11", "", P, Later(ADMIN);
        /// HTTP and HTTPS on its one port.
        "admin.portUnification", Passed, Bool, "false", "", M, Later(ADMIN);
        /// HTTPS only.
        "admin.forceHttps", Passed, Bool, "false", "", M, Later(ADMIN);
        /// Ask its clients for a certificate.
        "admin.needClientAuth", Passed, Bool, "false", "", M, Later(ADMIN);
        /// Time between snapshots or restores through it.
        "admin.rateLimiterIntervalInMS", Passed, Int, "300000", "ms", M, Later(ADMIN);
        /// Snapshots through it.
        "admin.snapshot.enabled", Passed, Bool, "true", "", M, Later(ADMIN);
        /// Restores through it.
        "admin.restore.enabled", Passed, Bool, "true", "", M, Later(ADMIN);
        /// Class that publishes metrics: Apache's default, null or Prometheus one.
        "metricsProvider.className", File, Text("class"),
            "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider", "", M, Later(METRICS);
        /// Settings of that class.
        "metricsProvider.*", File, Text("text"), "", "", M, Later(METRICS);
        /// The audit log.
        "audit.enable", Passed, Bool, "false", "", M, Later(AUDIT);
        /// Class that writes it.
        "audit.impl.class", Passed, Text("class"),
            "org.apache.zookeeper.audit.Slf4jAuditLogger", "", P, Hint;
    }
    "Authentication" {
        /// The `digest` scheme.
        "DigestAuthenticationProvider.enabled", Passed, Bool, "true", "", M, Built;
        /// `super:` and the digest of the super user's password. Unset: no super user.
        "DigestAuthenticationProvider.superDigest", Passed, Secret, "", "", M, Built;
        /// Hash of the `digest` scheme.
        "DigestAuthenticationProvider.digestAlg", Passed, Text("hash"), "SHA1", "", M, Built;
        /// Take an HTTP client's address from `X-Forwarded-For`.
        "IPAuthenticationProvider.usexforwardedfor", Passed, Bool, "false", "", M, Later(ADMIN);
        /// Certificate subject that is a super user.
        "X509AuthenticationProvider.superUser", Passed, Text("subject"), "", "", M, Later(TLS);
        /// Password of the SASL user `super`.
        "SASLAuthenticationProvider.superPassword", Passed, Secret, "", "", M, Later(SASL);
        /// A further authentication scheme, by class.
        "authProvider.*", Passed, Text("class"), "", "", M, Built;
        /// Names a client may give for the ensemble it expects.
        "ensembleAuthName", Passed, Text("names"), "", "", M, Guard(ENSEMBLE_AUTH);
        /// Close sessions that have not authenticated with one of `enforce.auth.schemes`.
        "enforce.auth.enabled", Passed, Bool, "false", "", M, Guard(ENFORCED);
        /// The schemes of that.
        "enforce.auth.schemes", Passed, Text("schemes"), "", "", M, Later(ENFORCED);
        /// Close sessions that have not authenticated with SASL.
        "sessionRequireClientSASLAuth", Passed, Bool, "false", "", M, Guard(SASL);
        /// Keep clients whose SASL login failed.
        "allowSaslFailedClients", Passed, Bool, "false", "", M, Later(SASL);
        /// Section of the login file for the client port.
        "sasl.serverconfig", Passed, Text("section"), "Server", "", M, Later(SASL);
        /// Login file (JAAS) of SASL.
        "java.security.auth.login.config", Property, Text("path"), "", "", M, Guard(SASL);
        /// SASL ids that are super users.
        "superUser*", Passed, Text("id"), "", "", M, Later(SASL);
        /// Id whose ACLs match every SASL user.
        "letAnySaslUserDoX", Passed, Text("id"), "", "", M, Later(SASL);
        /// Cut the host from Kerberos names.
        "kerberos.removeHostFromPrincipal", Passed, Word("true"), "false", "", M, Later(SASL);
        /// Cut the realm from Kerberos names.
        "kerberos.removeRealmFromPrincipal", Passed, Word("true"), "false", "", M, Later(SASL);
        /// Rules that shorten Kerberos names.
        "security.auth_to_local", Passed, Text("rules"), "DEFAULT", "", M, Later(SASL);
        /// Fail without a Kerberos configuration.
        "requireKerberosConfig", Passed, Text("text"), "", "", M, Later(SASL);
        /// Shortest time between Kerberos logins.
        "kerberos.minReLoginTimeMs", Passed, LenientLong, "60000", "ms", M, Later(SASL);
        /// Program that renews Kerberos tickets.
        "kinit", Passed, Text("path"), "/usr/bin/kinit", "", M, Later(SASL);
        /// Kerberos configuration.
        "java.security.krb5.conf", Property, Text("path"), "", "", M, Later(SASL);
        /// SASL between servers.
        "quorum.auth.enableSasl", File, TrueFalse, "false", "", M, Guard(SASL);
        /// Refuse servers that do not use it.
        "quorum.auth.serverRequireSasl", File, TrueFalse, "false", "", M, Guard(SASL);
        /// Refuse leaders that do not use it.
        "quorum.auth.learnerRequireSasl", File, TrueFalse, "false", "", M, Guard(SASL);
        /// Section of the login file for accepted servers.
        "quorum.auth.server.saslLoginContext", File, Text("section"), "QuorumServer", "", M, Ensemble;
        /// Section of the login file for connections to servers.
        "quorum.auth.learner.saslLoginContext", File, Text("section"), "QuorumLearner", "", M, Ensemble;
        /// Kerberos name of the servers.
        "quorum.auth.kerberos.servicePrincipal", File, Text("principal"), "zkquorum/localhost", "", M, Ensemble;
    }
    "TLS" {
        /// Scheme that turns a certificate into an id.
        "ssl.authProvider", Passed, Text("scheme"), "x509", "", M, Guard(TLS);
        /// TLS library of the Java server.
        "ssl.sslProvider", Passed, Text("name"), "JDK", "", P, Hint;
        /// Key stores, trust stores and protocols of the client port, and with `ssl.quorum.` of the quorum ports.
        "ssl.*", Passed, Secret, "", "", M, Guard(TLS);
        /// Plain and TLS on `clientPort`.
        "client.portUnification", Passed, Bool, "false", "", M, Guard(TLS);
        /// Load the stores again when their files change.
        "client.certReload", Passed, Bool, "false", "", M, Later(TLS);
        /// TLS on quorum and election ports.
        "sslQuorum", File, TrueFalse, "false", "", M, Guard(TLS);
        /// Plain and TLS on quorum and election ports.
        "portUnification", File, TrueFalse, "false", "", M, Guard(TLS);
        /// Load the quorum stores again when their files change.
        "sslQuorumReloadCertFiles", File, TrueFalse, "false", "", M, Later(TLS);
        /// Keep to what FIPS allows.
        "fips-mode", Passed, Bool, "true", "", M, Later(TLS);
        /// Refuse renegotiation; it always is.
        "jdk.tls.rejectClientInitiatedRenegotiation", Property, Bool, "true", "", J, Hint;
    }
    "Oxkeeper's own" {
        /// What to do with a torn last record whose checksum fails: cut it off, or refuse to start.
        "oxkeeper.txnlog.tornTail", Own, OneOf(&["truncate", "refuse"]), "truncate", "", O, Built;
        /// Replay logs with gaps between zxids, for rescue work.
        "oxkeeper.recovery.allowGaps", Own, TrueFalse, "false", "", O, Built;
        /// What a member with damaged history does: end, join quarantined, or accept what is in doubt (a copy that was made
        /// while the server ran, for example), also if it was quarantined before. Unset: it joins quarantined. A single
        /// server always ends.
        "oxkeeper.recovery.onDamage", Own, OneOf(&["quarantine", "exit", "accept"]), "", "", O, Ensemble;
        /// Sessions that clients of one address may have at a time, with or without a connection; 0 is no limit. Further
        /// ones are refused by closing the connection, as `maxClientCnxns` does. The default is three times the ports an
        /// address has.
        "oxkeeper.maxSessionsPerAddress", Own, Int, "200000", "", O, Built;
        /// Watches that clients of one address may have at a time; 0 is no limit. A read or addWatch that would set one more
        /// is answered with -127 (ThrottledOp); a client that cannot get all its watches back when it reconnects is
        /// disconnected.
        "oxkeeper.maxWatchesPerAddress", Own, Int, "10000000", "", O, Built;
        /// How long after the loss of its leader a member lets new connections wait for the next one, each for at most a
        /// quarter of the session timeout that it asks for; 0 is not at all: they are closed, as Apache does.
        "oxkeeper.parkLimitMs", Own, Int, "2000", "ms", O, Ensemble;
        /// Memory for what clients send and are sent: requests being received, requests in flight, replies and events that
        /// are not read. Near it the server reads large requests more slowly, makes large replies later, and closes
        /// connections that hold much and do not move. At least 8 MiB. Unset: an eighth of what the container or the machine
        /// has, between 64 MiB and 1 GiB.
        "oxkeeper.memoryBudget", Own, Long, "", "bytes", O, Built;
        /// Time after which a thread that does not get on (a disk that hangs, for example) is reported in the log and in
        /// `thread_stalls`; below 3000 counts as 3000, 0 is never.
        "oxkeeper.watchdog.warnAfter", Own, Int, "10000", "ms", O, Built;
        /// Time after which such a thread ends the server, exit 1, so that a supervisor can start it again; below 3000
        /// counts as 3000, 0 is never.
        "oxkeeper.watchdog.exitAfter", Own, Int, "0", "ms", O, Built;
    }
    "Logging and the Java virtual machine" {
        /// Variables of the Java server's logging configuration.
        "log.*", Passed, Text("text"), "", "", P, Hint;
        /// Level of its console.
        "console.threshold", Passed, Text("level"), "", "", P, Hint;
        /// Its trace log.
        "tracelog.*", Passed, Text("text"), "", "", P, Hint;
        /// Its audit log file.
        "auditlog.*", Passed, Text("text"), "", "", P, Hint;
        /// Its root logger.
        "root.logger", Passed, Text("text"), "", "", P, Hint;
        /// Its audit logger.
        "audit.logger", Property, Text("text"), "", "", P, Hint;
        /// File of its logging configuration.
        "logback.configurationFile", Property, Text("path"), "", "", P, Hint;
        /// File of its logging configuration, of old.
        "log4j.configuration", Property, Text("path"), "", "", P, Hint;
        /// Management of its logging.
        "jmx.log4j.*", Passed, Text("text"), "", "", J, Hint;
        /// Remote management of the virtual machine.
        "com.sun.management.jmxremote*", Property, Text("text"), "", "", J, Hint;
        /// Host name for remote management.
        "java.rmi.server.hostname", Property, Text("host"), "", "", J, Hint;
        /// Kerberos library of the virtual machine.
        "sun.security.jgss.native", Property, Text("text"), "", "", J, Hint;
    }
    "Read by clients" {
        /// TLS to the server.
        "client.secure", Passed, Bool, "false", "", C, Hint;
        /// Class of the client's socket.
        "clientCnxnSocket", Passed, Text("class"), "org.apache.zookeeper.ClientCnxnSocketNIO", "", C, Hint;
        /// SASL to the server, with its settings.
        "sasl.client*", Passed, Text("text"), "", "", C, Hint;
        /// Kerberos name of the server.
        "zookeeper.server.principal", Property, Text("principal"), "", "", C, Hint;
        /// Kerberos realm of the server.
        "zookeeper.server.realm", Property, Text("realm"), "", "", C, Hint;
        /// Do not set watches again after a reconnect.
        "disableAutoWatchReset", Passed, Bool, "false", "", C, Hint;
        /// Time for a request; 0 is no limit.
        "request.timeout", Passed, LenientLong, "0", "ms", C, Hint;
        /// Try a host's addresses in random order.
        "shuffleDnsResponse", Passed, Bool, "false", "", C, Hint;
        /// Time between look-ups of service records.
        "hostProvider.dnsSrvRefreshIntervalSeconds", Passed, LenientInt, "60", "s", C, Hint;
    }
};
