//! Bounds of the server's queues and buffers.

use std::time::Duration;

/// The fraction of the container's or machine's memory that clients may use (`oxkeeper.memoryBudget`).
pub(crate) const MEMORY_BUDGET_DIVISOR: u64 = 8;
/// The smallest default budget, also where the size of the memory is unknown.
pub(crate) const MEMORY_BUDGET_MIN: u64 = 64 << 20;
/// The largest default budget: more memory would only lengthen the queues.
pub(crate) const MEMORY_BUDGET_MAX: u64 = 1 << 30;

/// Requests in flight while `globalOutstandingLimit` has Apache's default: there a request keeps objects in five
/// queues, here it takes some hundred bytes.
pub(crate) const REQUESTS_IN_FLIGHT_MAX: usize = 100_000;
/// Apache's default of `globalOutstandingLimit`.
pub(crate) const GLOBAL_OUTSTANDING_DEFAULT: u32 = 1000;

/// Connections accepted or refused in one iteration.
pub(crate) const ACCEPTS_PER_ITERATION_MAX: usize = 256;
/// How long accepting pauses when no descriptors are left.
pub(crate) const ACCEPT_PAUSE_MS: i64 = 100;
/// Descriptors that connections do not get: for logs, snapshots, directories being fsynced or listed, and connections
/// that are just being refused.
pub(crate) const SPARE_DESCRIPTORS: u64 = 32;
/// Bytes that a TLS connection encrypts before it sends them, and reads before it decrypts them. What a client with a
/// slow network takes in a second should not be less, or it would look stuck.
pub(crate) const TLS_CHUNK_BYTES: usize = 32 << 10;
/// Reads of one TLS connection for one buffer. Records without data fill no buffer, and must not occupy a thread.
pub(crate) const TLS_READS_PER_CALL_MAX: usize = 16;
/// TLS handshakes in progress on all threads. Each has a descriptor and up to 64 KiB of memory; beyond the limit the
/// oldest is closed.
pub(crate) const TLS_HANDSHAKES_MAX: usize = 4096;
/// Time from accept to the end of the TLS handshake. Netty's default.
pub(crate) const TLS_HANDSHAKE_MS: i64 = 10_000;
/// Bytes that a client may send in its handshake: some certificate chains have 20 KB.
pub(crate) const TLS_HANDSHAKE_BYTES_MAX: usize = 256 << 10;
/// Input of a failed handshake that is discarded, so that the client receives the alert and no reset.
pub(crate) const TLS_DISCARD_BYTES_MAX: usize = 64 << 10;
/// Reverse lookups that may wait for a thread. More handshakes that need one are refused.
pub(crate) const REVERSE_LOOKUPS_QUEUED_MAX: usize = 256;
/// Addresses whose names are cached, in about 1 MB.
pub(crate) const REVERSE_LOOKUPS_CACHED_MAX: usize = 10_000;
/// How long the name of an address is cached.
pub(crate) const REVERSE_LOOKUP_CACHE_MS: i64 = 60_000;
/// Interval in which stores are compared with what is loaded.
pub(crate) const STORE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the warnings about a certificate that expires soon.
pub(crate) const EXPIRY_WARN_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Days before the expiry of a certificate from which the log warns of it.
pub(crate) const EXPIRY_WARN_DAYS: i64 = 30;
/// Failed logins of one address that have no consequence; with more, its new connections wait.
pub(crate) const FAILED_LOGINS_MAX: u32 = 10;
/// Interval in which one failed login of an address is forgotten.
pub(crate) const FAILED_LOGIN_FORGET_MS: i64 = 6_000;
/// How long a new connection from such an address waits. Shorter than the timeouts of clients, which may share the
/// address with the one that fails.
pub(crate) const FAILED_LOGIN_DELAY_MS: i64 = 1_000;
/// Addresses whose failed logins are counted, in 200 KB.
pub(crate) const FAILED_LOGIN_ADDRESSES_MAX: usize = 4096;
/// Four-letter commands that may wait for their thread.
pub(crate) const COMMANDS_QUEUED_MAX: usize = 256;
/// Bytes of a reply that are created before the connection has sent them.
pub(crate) const COMMAND_CHUNK_BYTES: usize = 256 << 10;
/// Connections, sessions, nodes or watches that a four-letter command reads under one lock.
pub(crate) const LISTING_BATCH_MAX: usize = 1000;

/// Log lines of one kind that clients can trigger on one thread in a burst; after that, one per second.
pub(crate) const LOG_LINES_BURST: i64 = 10;
/// The same for expired sessions, each of which has cost a transaction before.
pub(crate) const EXPIRY_LINES_BURST: i64 = 100;
/// Time from accept to the complete hello, on the ports for other servers.
pub(crate) const IDENTIFY_MS: i64 = 2_000;
/// The same where TLS or SASL is possible: a Java virtual machine may need a second for its first TLS handshake.
pub(crate) const IDENTIFY_SECURED_MS: i64 = 5_000;
/// Time after which an election connection without SASL is identified where SASL is optional.
pub(crate) const SASL_START_MS: i64 = 500;
/// Bytes that another server may send in its TLS handshake: some certificate chains have 20 KB.
pub(crate) const PEER_TLS_HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Time for the second flight of a TLS handshake from a member's address before others may displace it.
pub(crate) const ANSWERED_MS_MIN: i64 = 150;
/// Silent unidentified connections of one port and one origin; a quarter of it for incomplete hellos. Large enough that
/// a hello which follows its connection by milliseconds arrives before a flood from the same address closes it.
pub(crate) const UNIDENTIFIED_MAX: usize = 128;
/// Election connections, and links, of servers that are in no configuration.
pub(crate) const UNKNOWN_SERVERS_MAX: usize = 64;
/// Concurrent dials to election ports of such servers.
pub(crate) const UNKNOWN_DIALS_MAX: usize = 8;
/// Addresses of such a server that are dialled, each with one connect: its hello may name any number, of any host.
pub(crate) const UNKNOWN_ADDRESSES_MAX: usize = 4;
/// Host names of such servers that are resolved or cached.
pub(crate) const UNKNOWN_HOSTS_MAX: usize = 32;
/// Links of one configured server: a new one, and old ones whose end is not noticed yet.
pub(crate) const LINKS_PER_MEMBER_MAX: usize = 4;
/// Descriptors for links and election connections of configured servers, and for dials.
pub(crate) const MEMBER_DESCRIPTORS: u64 = 64;
/// Unprocessed input of one election connection: a message of the largest size, and a little more.
pub(crate) const ELECTION_INPUT_BYTES_MAX: usize = (512 << 10) + (64 << 10);
/// Bytes read from an election connection in one iteration.
pub(crate) const ELECTION_READ_BYTES: usize = 16 << 10;
/// Pause before a server that refused a connection is dialled again; it doubles each time.
pub(crate) const REDIAL_MIN: Duration = Duration::from_millis(100);
/// The longest pause: a member has to be back within a second after the network is.
pub(crate) const REDIAL_MAX: Duration = CONNECT_RETRY;
/// Interval in which a hello from an address that is not the server's leads to one dial back at most.
pub(crate) const DIAL_BACK_INTERVAL: Duration = REDIAL_MAX;
/// Interval in which a server is dialled during an election while a connection from an unknown address names it. Its
/// reply is a connection that may come from an unknown address, too; it is not suspect for this time.
pub(crate) const SUSPECT_REDIAL_INTERVAL: Duration = Duration::from_secs(1);
/// An election connection that another host competes with is probed when it was silent for this long. It is closed if
/// no reply arrives within [`ELECTION_UNACKED_MAX`].
pub(crate) const PROBE_AFTER: Duration = Duration::from_secs(1);
/// A connect that is unanswered for this long is followed by another one.
pub(crate) const CONNECT_RETRY: Duration = Duration::from_millis(250);
/// Concurrent connects to one address; a new one replaces the oldest.
pub(crate) const CONNECTS_MAX: usize = 6;
/// The shortest interval between two lookups of a host name.
pub(crate) const LOOKUP_INTERVAL: Duration = Duration::from_secs(3);
/// Pause after a failed lookup: a member has to be back within a second after the network is.
pub(crate) const LOOKUP_RETRY: Duration = CONNECT_RETRY;
/// How long data on an election connection may be unacknowledged. The kernel retransmits at doubling intervals: after a
/// longer loss a new connection is faster.
pub(crate) const ELECTION_UNACKED_MAX: Duration = Duration::from_secs(1);
/// How long an active leader link may be silent after the leader has sent on a new election connection.
pub(crate) const STALLED_LINK_GRACE: Duration = Duration::from_millis(150);
/// The longest time that the peers thread waits for events.
pub(crate) const PEERS_POLL_MS: u64 = 50;
/// Servers for which metrics are kept.
pub(crate) const SERVERS_MEASURED_MAX: usize = 256;
/// Largest first packet of a link, and largest election hello.
pub(crate) const FIRST_PACKET_BYTES_MAX: usize = 4 << 10;
/// Bytes that one link receives, and sends, in one iteration.
pub(crate) const LINK_CHUNK_BYTES: usize = 256 << 10;
/// Approximate bytes that all links transfer in one iteration, so that other work is not delayed.
pub(crate) const LINK_ITERATION_BYTES_MAX: usize = 4 << 20;
/// How often the replica is notified of traffic on a link.
pub(crate) const LINK_TRAFFIC_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of processed packets after which the replica reports them to the peers thread.
pub(crate) const LINK_CONSUMED_REPORT_BYTES: usize = 1 << 20;
/// Bytes of packets of one link that may wait for the replica.
pub(crate) const LINK_HELD_BYTES_MAX: usize = 16 << 20;
/// Unsent bytes of a learner's link at which transactions wait in the recent log. Commits, pings and replies are still
/// sent.
pub(crate) const LEARNER_WINDOW_BYTES: usize = 8 << 20;
/// Unsent bytes of the link to the leader at which requests wait. Acknowledgements are still sent.
pub(crate) const REQUEST_WINDOW_BYTES: usize = 2 << 20;
/// Sent bytes after which the replica is notified, so that it hands over more. Bytes that are not reported count as
/// unsent: a window that is not larger would never open again.
pub(crate) const LINK_SENT_REPORT_BYTES: usize = 256 << 10;
const _: () =
    assert!(LINK_SENT_REPORT_BYTES <= REQUEST_WINDOW_BYTES / 2 && LINK_SENT_REPORT_BYTES <= LEARNER_WINDOW_BYTES / 2);
/// The smallest limit for packets of other servers, whatever the limit for clients is.
pub(crate) const PACKET_BYTES_MIN: usize = 64 << 20;
