//! Violations of a history: one table, each with the property it violates.

use ox_proto::Zxid;
use std::fmt;

macro_rules! properties {
    ($($name:ident, $text:literal;)*) => {
        /// A property of the reliability plan.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Property {
            $(#[doc = $text] $name),*
        }

        impl Property {
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

properties! {
    P16, "contiguity";
    P19, "replica equality";
    P22, "no split service";
    P23, "linearizable writes";
    P24, "FIFO per client";
    P25, "read your writes";
    P26, "monotonic session view";
    P27, "honest reply zxid";
    P28, "bounded staleness";
    P29, "strong sync";
    P30, "multi is atomic";
    P31, "definite errors are definite";
    P32, "one answer";
    P33, "sequence uniqueness";
    P34, "compare-and-set";
    P35, "Stat truth";
    P37, "unique ids";
    P38, "no early expiry";
    P39, "bounded late expiry";
    P40, "closed is final";
    P41, "ephemeral iff session";
    P42, "one connection per session";
    P43, "no silent replacement";
    P45, "local sessions";
    P47, "event before state";
    P48, "events are ordered";
    P49, "no event is lost";
    P50, "no event is invented";
    P51, "re-arming is exact";
    P52, "events respect ACLs";
    P54, "acknowledged writes survive";
}

macro_rules! reasons {
    ($($name:ident = $property:ident, $text:literal;)*) => {
        /// How a property was violated.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ViolationKind {
            $(#[doc = $text] $name),*
        }

        impl ViolationKind {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            pub fn property(self) -> Property {
                match self { $(Self::$name => Property::$property),* }
            }

            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

reasons! {
    LogGap = P16, "the log skips or repeats a zxid";
    DumpDiffers = P19, "a server's state does not match the history";
    ReadOnlyAccepted = P22, "a server without a leader accepted a request that needs a leader";
    OutOfRealTime = P23, "a write that completed before another was sent is ordered after it";
    WrongResult = P23, "the reply does not match the order of writes";
    WrongTransaction = P23, "the log record does not match the request";
    ForeignZxid = P23, "the reply to a write carries the zxid of another write";
    SharedZxid = P23, "two writes have the same zxid";
    UnsentWrite = P23, "the log contains a write that no client sent";
    WritesOutOfOrder = P24, "writes of one connection took effect in a different order than sent";
    SkippedWrite = P24, "a write is missing although a later one of its connection took effect";
    RepliesOutOfOrder = P24, "replies arrived in a different order than the requests";
    ReadAfterLaterWrite = P24, "a read shows a write that was sent after it";
    StaleOwnWrite = P25, "a read does not show an earlier write of its session";
    OlderSessionView = P26, "a session sees an older state than before";
    GrantedAhead = P26, "a server accepted a session that has seen a later state than the server";
    StaleRead = P26, "a reply shows an older state than its zxid";
    ZxidDecreased = P27, "reply zxids decrease on a connection";
    ReplyAheadOfHistory = P27, "a reply zxid is beyond the end of the log";
    ReadOfLaterState = P27, "a reply shows a later state than its zxid";
    ReplyBeforeCause = P27, "a reply zxid covers a write that was sent later";
    UnannouncedReadOnly = P28, "a server that did not announce itself as read-only refused a request as read-only";
    SyncMissedWrite = P29, "a sync does not cover a write that completed before it was sent";
    PartialMulti = P30, "a reply shows a part of a multi";
    MultiResults = P30, "the results of a multi do not match its operations";
    FailedMultiTookEffect = P30, "a failed multi took effect in the log";
    ErrorTookEffect = P31, "a failed request took effect in the log";
    RefusedIsLogged = P31, "a request refused without a zxid is in the log";
    MissingReply = P32, "a request on an open connection got no reply";
    DuplicateReply = P32, "a request got two replies";
    UnknownXid = P32, "a reply matches no request";
    FrameAfterLastReply = P32, "a frame arrived after the last reply of a connection";
    Undecodable = P32, "a reply cannot be decoded";
    WrongName = P33, "the number of a sequential node is not the next one";
    LostUpdate = P34, "a conditional write succeeded although the version had changed";
    WrongStat = P35, "a Stat does not match the history";
    SessionIdReused = P37, "a session id was issued twice";
    EarlyExpiry = P38, "a session expired before its timeout";
    LateExpiry = P39, "a silent session did not expire in time";
    ClosedSessionWrote = P40, "a write of a closed session took effect";
    ClosedSessionRevived = P40, "a closed session was resumed";
    EphemeralOutlived = P41, "an ephemeral node outlived its session";
    EphemeralVanished = P41, "an ephemeral node was deleted although its session lives";
    WrongCloseList = P41, "closeSession lists other nodes than the session owns";
    WrongRemoval = P41, "the server deleted a node that it must not delete";
    MovedSessionWrote = P42, "a connection wrote for a session that had moved to another";
    ReplyToMovedSession = P42, "a write of a connection whose session had moved got a reply";
    FalseSessionMoved = P42, "a connection got SessionMoved although its session had not moved";
    LocalSessionElsewhere = P45, "a local session was granted by another server";
    ReplacedSession = P43, "a handshake that requested a session got another one";
    WrongPasswordAccepted = P43, "a session was granted despite a wrong password";
    LiveSessionRefused = P43, "a live session was refused as expired";
    EventAfterState = P47, "an event arrived after a reply that shows its change";
    EventsOutOfOrder = P48, "events arrived in a different order than the changes";
    EventsSplit = P48, "a frame arrived between the events of one transaction";
    EventOvertookReply = P48, "an event arrived before a reply that shows an older state";
    LostEvent = P49, "an event is missing";
    InventedEvent = P50, "an event without a change, or without a watch";
    FiredTwice = P50, "a one-shot watch fired twice";
    EventAfterRemoval = P50, "an event arrived after the removal of its watch was confirmed";
    WrongWatchReply = P50, "checkWatches or removeWatches does not match the connection's watches";
    WrongSetWatches = P51, "setWatches sent other events than the state requires";
    LeakedEvent = P52, "an event about a node that the client may not read";
    LostWrite = P54, "an acknowledged write is not in the log";
}

/// Where a violation was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationPlace {
    Everywhere,
    /// By index in the history.
    Connection(usize),
    /// Index of the connection and of the request.
    Request(usize, usize),
    /// Index of the connection and of the frame.
    Frame(usize, usize),
    Log(Zxid),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub reason: ViolationKind,
    pub place: ViolationPlace,
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(reason: ViolationKind, place: ViolationPlace, detail: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason, place, detail: detail.into() })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let property = self.reason.property();
        write!(f, "{property:?} {}: {}; ", property.text(), self.reason.text())?;
        match self.place {
            ViolationPlace::Everywhere => (),
            ViolationPlace::Connection(conn) => write!(f, "connection {conn}: ")?,
            ViolationPlace::Request(conn, at) => write!(f, "connection {conn}, request {at}: ")?,
            ViolationPlace::Frame(conn, at) => write!(f, "connection {conn}, frame {at}: ")?,
            ViolationPlace::Log(zxid) => write!(f, "zxid {zxid}: ")?,
        }
        f.write_str(&self.detail)
    }
}

/// Result type of every check.
pub(crate) type Checked<T = ()> = Result<T, Box<Violation>>;
