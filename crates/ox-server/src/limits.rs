//! Bounds of the server's own queues and buffers.

use std::time::Duration;

/// Bytes read from one connection in one turn.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Bytes read from all connections before they are served.
pub(crate) const ARENA_BYTES: usize = 1 << 20;
/// Requests served under one hold of the state.
pub(crate) const REQUESTS_PER_LOCK_MAX: usize = 128;
/// Bytes of answers written under one hold of the state.
pub(crate) const REPLY_BYTES_PER_LOCK: usize = 64 << 10;

/// Bytes of the first frame: a handshake has about fifty, and whoever sends it is nobody yet.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Time in which a frame has to be complete that the server is ready to read.
pub(crate) const FRAME_DEADLINE_MS: i64 = 30_000;
/// A large frame has more time, as long as so many bytes arrive in a second.
pub(crate) const FRAME_BYTES_PER_SECOND_MIN: usize = 64 << 10;

/// Unsent bytes at which a connection's further requests wait.
pub(crate) const UNSENT_BYTES_PAUSE: usize = 1 << 20;
/// Unsent bytes at which a connection gets no more answers and is given up. One answer may be larger.
pub(crate) const UNSENT_BYTES_MAX: usize = 64 << 20;
/// Bytes of events that may wait for a client. Beyond that it is closed rather than told only a part. One transaction
/// can fire very many: the end of a session with all its nodes. While clients together leave much unread,
/// [`UNSENT_BYTES_PAUSE`] is the bound, and less while their share of the budget is used up.
pub(crate) const UNSENT_EVENT_BYTES_MAX: usize = 64 << 20;

/// The part of the container's or machine's memory that clients may take up (`oxkeeper.memoryBudget`).
pub(crate) const MEMORY_BUDGET_DIVISOR: u64 = 8;
/// The least of that, and where memory is unknown.
pub(crate) const MEMORY_BUDGET_MIN: u64 = 64 << 20;
/// The most: more only lets more wait.
pub(crate) const MEMORY_BUDGET_MAX: u64 = 1 << 30;
/// A connection that holds less than this is not closed for the sake of the others, unless no memory is left.
pub(crate) const BUFFERED_BYTES_SMALL: usize = READ_BYTES;
/// For how long a connection that holds more must be slow to be closed for the sake of the others.
pub(crate) const SLOW_MS: i64 = 1000;
/// A client that takes fewer bytes in a second is slow. A socket with a large window takes up to 64 KiB at a time.
pub(crate) const REPLY_BYTES_PER_SECOND_MIN: i64 = 32 << 10;
/// A client that holds much more must take it at a rate that would end it within so many seconds.
pub(crate) const DRAIN_SECONDS_MAX: usize = 16;
/// Growth of a connection's buffers that is counted immediately.
pub(crate) const GROWTH_REPORT_BYTES: usize = 16 << 10;
/// Bytes gathered for the replica from which on each further request is checked against what all threads hold.
pub(crate) const ADMISSION_RECHECK_BYTES: usize = 64 << 10;
/// Bytes gathered for the replica that are handed over before the iteration ends.
pub(crate) const SUBMISSION_BYTES_MAX: usize = 1 << 20;
/// Connections waiting for memory that are tried again in one iteration.
pub(crate) const RETRIES_PER_ITERATION_MAX: usize = 64;
/// How long large writes wait while only small ones enter, before one of them enters too.
pub(crate) const LARGE_WRITE_WAIT_MS: i64 = 1000;
/// How often sessions of connections that wait for memory are touched.
pub(crate) const STALLED_TOUCH_MS: i64 = 100;

/// Bytes of the log at which a sync is made, although more waits. A disk is judged by its reports, so it has to report now and
/// then, and a sync of so many bytes costs little beside their writing.
pub(crate) const FSYNC_BATCH_BYTES: usize = 16 << 20;
/// Requests on their way while `globalOutstandingLimit` is what Apache sets by itself: there a request keeps
/// objects in five queues, here it takes some hundred bytes.
pub(crate) const REQUESTS_IN_FLIGHT_MAX: usize = 100_000;
/// Apache's own `globalOutstandingLimit`.
pub(crate) const GLOBAL_OUTSTANDING_DEFAULT: u32 = 1000;

/// Buffers a thread keeps for the next connection that needs one.
pub(crate) const POOLED_BUFFERS_MAX: usize = 64;
/// Larger buffers go back to the allocator.
pub(crate) const POOLED_BUFFER_BYTES: usize = 64 << 10;
/// Connections accepted, or turned away, in one turn.
pub(crate) const ACCEPTS_PER_ITERATION_MAX: usize = 256;
/// How long to leave newcomers alone when there are no descriptors for them.
pub(crate) const ACCEPT_PAUSE_MS: i64 = 100;
/// How long a client may take to go when it has got its last answer.
pub(crate) const LINGER_MS: i64 = 2000;
/// Bytes it may still send meanwhile, which nobody reads.
pub(crate) const LINGER_BYTES_MAX: usize = 4 << 20;
/// Such clients on one thread; others are closed at once.
pub(crate) const LINGERING_MAX: usize = 256;
/// Descriptors that connections do not get: for logs, snapshots, directories that are synced or listed, and whoever
/// is just being turned away.
pub(crate) const SPARE_DESCRIPTORS: u64 = 32;
/// Status commands that may wait for the thread that answers them.
pub(crate) const COMMANDS_QUEUED_MAX: usize = 256;
/// Bytes of an answer made before the connection must have sent them.
pub(crate) const COMMAND_CHUNK_BYTES: usize = 256 << 10;
/// Connections, sessions, nodes or watches a status command looks at while it holds a lock.
pub(crate) const LISTING_BATCH_MAX: usize = 1000;

/// Lines of the log that clients can provoke, of one kind and on one thread: so many at once, then one per second.
pub(crate) const LOG_LINES_BURST: i64 = 10;
/// The same for sessions that expire: each has cost a transaction before.
pub(crate) const EXPIRY_LINES_BURST: i64 = 100;
/// Time from accept to the complete hello, on the ports for other servers.
pub(crate) const IDENTIFY_MS: i64 = 2_000;
/// Unidentified connections of one port and one origin that sent nothing; a quarter of it for incomplete hellos. Large enough
/// that a hello which follows its connection by milliseconds arrives before a flood from the same address closes it.
pub(crate) const UNIDENTIFIED_MAX: usize = 128;
/// Servers that are in no configuration: their election connections, and their links.
pub(crate) const UNKNOWN_SERVERS_MAX: usize = 64;
/// Election ports of such servers that are dialled at the same time.
pub(crate) const UNKNOWN_DIALS_MAX: usize = 8;
/// Addresses of such a server that are dialled, each with one connect: its hello may name any number, of any host.
pub(crate) const UNKNOWN_ADDRESSES_MAX: usize = 4;
/// Names of such servers that are looked up or known.
pub(crate) const UNKNOWN_HOSTS_MAX: usize = 32;
/// Links of one configured server: a new one, and old ones whose end is not known here yet.
pub(crate) const LINKS_PER_MEMBER_MAX: usize = 4;
/// Descriptors for links and election connections of configured servers, and for dials.
pub(crate) const MEMBER_DESCRIPTORS: u64 = 64;
/// Bytes of one election connection that are not dealt with: a message of the largest size, and a little.
pub(crate) const ELECTION_INPUT_BYTES_MAX: usize = (512 << 10) + (64 << 10);
/// Bytes that are read from an election connection in one turn.
pub(crate) const ELECTION_READ_BYTES: usize = 16 << 10;
/// How long to wait before a server that refused a connection is dialled again; doubles each time.
pub(crate) const REDIAL_MIN: Duration = Duration::from_millis(100);
/// The longest wait: a member has to be back within a second of the network's return.
pub(crate) const REDIAL_MAX: Duration = CONNECT_RETRY;
/// A hello from an address that is not known as the server's has it dialled back at most so often.
pub(crate) const DIAL_BACK_INTERVAL: Duration = REDIAL_MAX;
/// A server is dialled so often during an election while a connection from an unknown address names it. Its reply
/// is a connection that may come from an unknown address, too; it is not doubted for so long.
pub(crate) const SUSPECT_REDIAL_INTERVAL: Duration = Duration::from_secs(1);
/// An election connection that another host competes with is probed when it was silent for so long. It ends if there is no
/// reply within [`ELECTION_UNACKED_MAX`].
pub(crate) const PROBE_AFTER: Duration = Duration::from_secs(1);
/// A connect that is unanswered for so long is followed by another one.
pub(crate) const CONNECT_RETRY: Duration = Duration::from_millis(250);
/// Connects to one address at the same time; the oldest is abandoned for a new one.
pub(crate) const CONNECTS_MAX: usize = 6;
/// A name is looked up at most so often.
pub(crate) const LOOKUP_INTERVAL: Duration = Duration::from_secs(3);
/// How long a look-up that has failed is not repeated: a member has to be back within a second of the network's return.
pub(crate) const LOOKUP_RETRY: Duration = CONNECT_RETRY;
/// How long what was sent on an election connection may be unacknowledged. The system repeats it at doubling intervals: a new
/// connection is faster after a longer loss.
pub(crate) const ELECTION_UNACKED_MAX: Duration = Duration::from_secs(1);
/// How long an active leader link may be silent after the leader was heard on a new election connection.
pub(crate) const STALLED_LINK_GRACE: Duration = Duration::from_millis(150);
/// How often the peers thread looks around when nothing happens.
pub(crate) const PEERS_POLL_MS: u64 = 50;
/// Servers for which metrics are kept.
pub(crate) const SERVERS_MEASURED_MAX: usize = 256;
/// The first packet of a link, and an election hello.
pub(crate) const FIRST_PACKET_BYTES_MAX: usize = 4 << 10;
/// Bytes that are read from a link in one turn, and sent to it.
pub(crate) const LINK_CHUNK_BYTES: usize = 256 << 10;
/// Pieces of a stored history that are read before the ones before them are sent: enough that the disk is not waited for.
pub(crate) const LOG_DIFF_CHUNKS_MAX: usize = 4;
/// Bytes that all links move in one turn, about; then everything else has its turn.
pub(crate) const LINK_ITERATION_BYTES_MAX: usize = 4 << 20;
/// Bytes of packets that the replica has dealt with before it says so.
pub(crate) const LINK_CONSUMED_REPORT_BYTES: usize = 1 << 20;
/// Bytes of packets that may wait for the replica, per link.
pub(crate) const LINK_HELD_BYTES_MAX: usize = 16 << 20;
/// Bytes of a learner's link that are not sent at which its transactions wait in the log. Commits, pings and replies go on.
pub(crate) const LEARNER_WINDOW_BYTES: usize = 8 << 20;
/// Bytes of the link to the leader that are not sent at which requests wait. Acknowledgements go on.
pub(crate) const REQUEST_WINDOW_BYTES: usize = 2 << 20;
/// Bytes that were sent before the replica is told, so that it hands over more. What is not told counts as unsent: a
/// window that is no larger would never open again.
pub(crate) const LINK_SENT_REPORT_BYTES: usize = 256 << 10;
const _: () = assert!(LINK_SENT_REPORT_BYTES <= REQUEST_WINDOW_BYTES / 2 && LINK_SENT_REPORT_BYTES <= LEARNER_WINDOW_BYTES / 2);
/// Packets of other servers may have so many bytes at least, whatever the limit for clients is.
pub(crate) const PACKET_BYTES_MIN: usize = 64 << 20;
