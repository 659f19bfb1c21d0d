//! What an I/O thread needs from outside: sockets, the state, the replica, and records for operators.

use super::GlobalLimits;
use crate::sockets::Sockets;
use ox_proto::SessionId;
use ox_replica::outbox::{Outbox, OutboxPart};
use ox_replica::{AuthEvent, Conn, ConnAuth, ConnId, HandshakeKind, Now, Submission};
use ox_tree::State;
use std::net::SocketAddr;
use std::ops::Deref;

/// Sockets of clients. Bytes and free space are announced by [`super::ClientIo::on_ready`].
pub trait ClientSockets: Sockets {
    /// Prepares a socket for the connection in `slot`: [`super::ClientIo::on_ready`] is called from now on. False if
    /// that is impossible.
    fn register(&mut self, socket: &mut Self::Socket, slot: usize) -> bool;

    /// Ends the output of a socket, and prepares it as lingering socket `index`:
    /// [`super::ClientIo::on_lingering_ready`] is called when input arrives. False if that is impossible.
    fn shut_down(&mut self, socket: &mut Self::Socket, index: usize) -> bool;
}

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    pub readable: bool,
    pub writable: bool,
    /// The client has closed its side, or the socket is broken.
    pub read_closed: bool,
    /// The socket is broken in both directions: no reply can reach the client.
    pub broken: bool,
}

/// Everything that other threads have for the connections of one I/O thread.
#[derive(Debug, Default)]
pub struct Mail {
    /// In the order in which they were filled.
    pub outboxes: Vec<Outbox>,
    /// Replies to four-letter commands.
    pub texts: Vec<CommandText>,
}

/// A chunk of the reply to a four-letter command.
#[derive(Debug)]
pub struct CommandText {
    pub conn: ConnId,
    pub text: String,
    /// The connection is closed after it.
    pub is_last: bool,
}

/// Bytes of memory that an outbox uses.
pub fn memory_of(outbox: &Outbox) -> usize {
    outbox.bytes.len() + outbox.parts.len() * size_of::<OutboxPart>()
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// A four-letter command, whose reply arrives as [`CommandText`].
    Command,
    /// A four-letter command that is refused: the connection is closed.
    Refused,
    /// More bytes are needed to tell.
    Incomplete,
    /// The beginning of a handshake.
    Frame,
}

/// Why the server closes a connection before its client does, or notices that the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason<'a> {
    /// The client has closed the connection without closing its session.
    Disconnected,
    /// The client has sent something that cannot be a request.
    Refused(&'a str),
    /// No byte was sent or received for the whole timeout.
    Idle,
    /// The client reads nothing of what is sent to it.
    Stuck,
    /// The client reads too slowly while other connections wait for the memory.
    SlowReader,
    /// The client did not complete a request in time.
    SlowRequest,
    /// The next reply has waited so long for memory that the client should try another server.
    NoMemory,
}

/// Something that is counted, for operators and to measure what simulations reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientNote {
    /// A large request exceeds the limit on all large requests.
    LargeRefused,
    /// A request has to wait for memory.
    Stalled,
    /// The connection of a request that waited too long is closed.
    StaleDropped,
    /// A request that waited too long is refused.
    Throttled,
    /// An event was withheld from a client that may not read its node.
    HiddenEvent,
    /// A connection has a request in flight, and may have only one.
    OnePerConnection,
    /// A request follows others that are in flight.
    FollowsInFlight,
    /// A connection is not read because its client does not read.
    PausedReader,
    /// A large request waits for memory while it is received.
    FrameWaits,
    /// The arena was full before a ready connection was read.
    ArenaFull,
    /// Frames were left when the budget of a lock was spent.
    BudgetSpent,
}

/// A connection whose SASL token is to be processed.
pub struct SaslTurn<'a, R> {
    pub core: &'a mut Conn,
    pub record: &'a mut R,
    pub auth: ConnAuth,
    pub now: Now,
    /// Output buffer of the client.
    pub out: &'a mut Vec<u8>,
    pub submission: &'a mut Submission,
}

/// The surroundings of an I/O thread. Methods with a body count and record for operators only.
pub trait ClientHost: ClientSockets {
    /// What the host records about one connection.
    type Record;
    /// The state, locked for reading until this is dropped.
    type StateGuard: Deref<Target = State>;

    /// Locks the state. The host may note when that was.
    fn lock_state(&mut self) -> Self::StateGuard;

    fn limits(&self) -> &GlobalLimits;

    /// What other threads have posted since the last call. Called while the state is locked.
    fn take_mail(&mut self) -> Option<Mail>;

    /// Passes requests to the replica.
    fn submit(&mut self, submission: Submission);

    /// Whether the throttle of new sessions admits a handshake.
    fn admits(&self, now: Now, kind: HandshakeKind) -> bool;

    /// Begins the record of a connection.
    fn on_open(&mut self, id: ConnId, socket: &Self::Socket, address: SocketAddr, now: Now) -> Self::Record;

    /// Ends the record of a connection.
    fn on_removed(&mut self, core: &Conn, record: Self::Record);

    /// Looks for a four-letter command in the first bytes of a connection, and queues it.
    fn take_command(&mut self, _id: ConnId, _record: &Self::Record, _bytes: &[u8]) -> FirstBytes {
        FirstBytes::Frame
    }

    /// A connection has sent the last chunk of its reply, and the reply has more.
    fn continue_command(&mut self, _id: ConnId) {}

    /// A connection with a command is closed.
    fn cancel_command(&mut self, _id: ConnId) {}

    fn note(&mut self, _note: ClientNote) {}

    /// Calls [`Conn::step_sasl`]. The state is not locked. Only called if the settings have a SASL login.
    fn step_sasl(&mut self, _turn: SaslTurn<'_, Self::Record>) {}

    /// A client has authenticated by an auth packet, failed to, or does not have the identity that is enforced.
    fn on_auth_event(&mut self, _core: &Conn, _record: &Self::Record, _event: AuthEvent, _now: Now) {}

    /// A connection is about to be closed, or has been closed by its client.
    fn on_close(&mut self, _core: &Conn, _record: &Self::Record, _reason: CloseReason<'_>, _now: Now) {}

    /// Bytes were sent or received.
    fn on_io(&mut self, _record: &Self::Record, _now_ms: i64) {}

    /// Interest bits as in Java's selectors: 1 to read, 4 to write, 0 while a four-letter command runs.
    fn on_interest(&mut self, _record: &Self::Record, _bits: u8) {}

    /// A request was taken. `reply` is what it has added to the output; `None` if it has gone to the replica.
    fn on_frame(&mut self, _core: &Conn, _record: &mut Self::Record, _frame: &[u8], _reply: Option<&[u8]>, _now: Now) {}

    /// No further frame of this connection is served at present.
    fn on_served(&mut self, _core: &Conn, _record: &Self::Record, _now: Now) {}

    /// An event is delivered.
    fn on_event(&mut self, _record: &Self::Record, _bytes: &[u8]) {}

    /// The replica has replied to `count` requests.
    fn on_replies(&mut self, _core: &Conn, _record: &mut Self::Record, _bytes: &[u8], _count: u32) {}

    /// The connection has its session.
    fn on_attached(&mut self, _record: &mut Self::Record, _session: SessionId, _timeout_ms: i32) {}

    /// The last bytes of a connection are delivered: the reply to its last request, or a refused handshake.
    fn on_final_reply(&mut self, _record: &mut Self::Record, _bytes: &[u8]) {}

    /// A chunk of the reply to a four-letter command is delivered.
    fn on_text(&mut self, _record: &Self::Record, _text: &str) {}

    /// A socket begins to linger (true), or is closed after that (false).
    fn on_lingering(&mut self, _lingers: bool) {}

    /// Publishes what was counted, before the replies are sent.
    fn publish(&mut self) {}
}
