//! What a history can be guilty of: one table of reasons, each with the property it breaks.

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
            /// Its name in words.
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
        /// The way in which a property was broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $(#[doc = $text] $name),*
        }

        impl Reason {
            /// Every reason, in table order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// What it breaks.
            pub fn property(self) -> Property {
                match self { $(Self::$name => Property::$property),* }
            }

            /// In words.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

reasons! {
    Hole = P16, "the log skips or repeats a zxid";
    DumpDiffers = P19, "a server's state is not what its history gives";
    ReadOnlyTook = P22, "a server without a leader took what only a leader can do";
    OutOfRealTime = P23, "a write that was answered before another was sent comes after it";
    WrongResult = P23, "the answer is not what the order of writes gives";
    WrongTransaction = P23, "the log holds something else than the request asked for";
    ForeignZxid = P23, "the answer to a write carries the zxid of another one";
    SharedZxid = P23, "two writes carry one zxid";
    Unsent = P23, "the log holds a write that nobody sent";
    WritesOutOfOrder = P24, "writes of one connection took effect in another order than they were sent";
    SkippedWrite = P24, "a write is missing although a later one of its connection took effect";
    RepliesOutOfOrder = P24, "answers came in another order than the requests";
    ReadAfterLaterWrite = P24, "a read shows a write that was sent after it";
    StaleOwnWrite = P25, "a read does not show an earlier write of its session";
    SessionWentBack = P26, "a session has seen a later state before";
    GrantedAhead = P26, "a server accepted a session that has seen more than the server has";
    StaleRead = P26, "an answer shows an older state than its zxid says";
    ZxidWentBack = P27, "reply zxids decrease on a connection";
    ReplyAheadOfHistory = P27, "a reply zxid that the history never reaches";
    ReadFromTheFuture = P27, "an answer shows a later state than its zxid says";
    ReplyBeforeCause = P27, "a reply zxid covers a write that was sent later";
    ReadOnlyUnsaid = P28, "a server that had not said that it has no leader refused something for that";
    SyncMissedWrite = P29, "a sync does not cover a write that was answered before it was sent";
    PartialMulti = P30, "an answer shows a part of a multi";
    MultiResults = P30, "the results of a multi do not match its operations";
    FailedMultiTookEffect = P30, "a multi that failed is in the log as done";
    ErrorTookEffect = P31, "a request that was refused is in the log as done";
    RefusedIsLogged = P31, "a request that was turned away is in the log";
    Unanswered = P32, "a request on a living connection was never answered";
    AnsweredTwice = P32, "a request was answered twice";
    UnknownXid = P32, "an answer to nobody's request";
    AfterTheEnd = P32, "something came after the last answer of a connection";
    Undecodable = P32, "an answer cannot be decoded";
    WrongName = P33, "the number of a sequential node is not the next one";
    LostUpdate = P34, "a conditional write succeeded although the version had changed";
    WrongStat = P35, "a Stat does not agree with the history";
    SessionIdReused = P37, "a session id was issued twice";
    EarlyExpiry = P38, "a session was closed before its time";
    LateExpiry = P39, "a silent session was not closed in time";
    ClosedSessionWrote = P40, "a write of a closed session took effect";
    ClosedSessionRevived = P40, "a closed session was resumed";
    EphemeralOutlived = P41, "an ephemeral node outlived its session";
    EphemeralVanished = P41, "an ephemeral node is gone although its session lives";
    WrongCloseList = P41, "the end of a session lists other nodes than the session owns";
    UnjustRemoval = P41, "the server removed a node that is not its to remove";
    MovedSessionWrote = P42, "a connection wrote for a session that it had lost to another";
    MovedSessionAnswered = P42, "a write of a connection that had lost its session got a reply";
    NotMoved = P42, "a connection was told that its session had moved, and it had not";
    LocalSessionElsewhere = P45, "a session that only its server knows was given by another";
    ReplacedSession = P43, "a handshake that named a session got another one";
    StolenSession = P43, "a session was given to somebody who did not know its password";
    LiveSessionRefused = P43, "a living session was reported as gone";
    EventAfterState = P47, "an event came after an answer that shows its change";
    EventsOutOfOrder = P48, "events came in another order than the changes";
    EventsSplit = P48, "something came between the events of one transaction";
    EventOvertookReply = P48, "an event came before an answer that shows an older state";
    LostEvent = P49, "an event is missing";
    InventedEvent = P50, "an event without a change, or without a watch";
    FiredTwice = P50, "a one-shot watch fired twice";
    EventAfterRemoval = P50, "an event came after the removal of its watch was confirmed";
    WrongWatchAnswer = P50, "the server's idea of a connection's watches is wrong";
    WrongRearm = P51, "re-arming sent other events than the state asks for";
    LeakedEvent = P52, "an event about a node that the client may not read";
    LostWrite = P54, "an answered write is not in the log";
}

/// Where it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole history.
    Everywhere,
    /// A connection, by its place in the history.
    Connection(usize),
    /// A request: connection and place among its requests.
    Request(usize, usize),
    /// A frame: connection and place in its stream.
    Frame(usize, usize),
    /// A record of the log.
    Log(Zxid),
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// How.
    pub reason: Reason,
    /// Where.
    pub place: Place,
    /// What exactly.
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(reason: Reason, place: Place, detail: impl Into<String>) -> Box<Self> {
        Box::new(Self { reason, place, detail: detail.into() })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let property = self.reason.property();
        write!(f, "{property:?} {}: {}; ", property.text(), self.reason.text())?;
        match self.place {
            Place::Everywhere => (),
            Place::Connection(conn) => write!(f, "connection {conn}: ")?,
            Place::Request(conn, at) => write!(f, "connection {conn}, request {at}: ")?,
            Place::Frame(conn, at) => write!(f, "connection {conn}, frame {at}: ")?,
            Place::Log(zxid) => write!(f, "zxid {zxid}: ")?,
        }
        f.write_str(&self.detail)
    }
}

/// What every check returns.
pub(crate) type Checked<T = ()> = Result<T, Box<Violation>>;
