//! What was seen: requests and frames of each connection, the log the servers were left with, their final state.

use crate::op::{Body, Op};
use ox_proto::txn::{CreateKind, Record, Txn, TxnHeader};
use ox_proto::{Acl, ErrorCode, OpCode, SessionId, Stat, Zxid};
use std::collections::BTreeMap;

/// A moment by the observer's clock, in microseconds. One clock for all clients and servers of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// So many milliseconds later.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }
}

/// What the servers were configured with, as far as it shows.
#[derive(Clone, Debug)]
pub struct Settings {
    /// TTL nodes may be created.
    pub extended_types: bool,
    /// Reconfig is answered with "standalone" rather than "disabled".
    pub reconfig_enabled: bool,
    /// The digest identity that may do everything.
    pub super_id: Option<String>,
    /// Granularity of session expiry.
    pub tick_ms: i64,
    /// The disk may have been nearly full, or too much on its way: a write without an answer may have been turned away.
    pub may_refuse_writes: bool,
    /// How long a container that never had a child is kept; 0 is for ever.
    pub never_used_ms: i64,
    /// How late a message may be at its destination, and a server in what it has to do.
    pub delay_max_ms: i64,
    /// How long a leader may not hear what the clients of a learner say, and not have noticed.
    pub unheard_max_ms: i64,
    /// The ensemble may change. The node that shows it is kept by each server.
    pub is_dynamic: bool,
    /// New sessions are known to their server only, until they want an ephemeral node.
    pub local_sessions: bool,
    /// Several servers: none of them decides alone that a session is over.
    pub is_ensemble: bool,
    /// Followers hand on what observers ask for: who has lost its session hears "bad arguments".
    pub has_masters: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            extended_types: false,
            reconfig_enabled: false,
            super_id: None,
            tick_ms: 2000,
            may_refuse_writes: false,
            never_used_ms: 0,
            delay_max_ms: 0,
            unheard_max_ms: 0,
            is_dynamic: false,
            local_sessions: false,
            is_ensemble: false,
            has_masters: false,
        }
    }
}

/// A whole history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Settings of the servers.
    pub settings: Settings,
    /// Every connection that was made, in the order they were opened.
    pub connections: Vec<Connection>,
    /// The final log from its beginning.
    pub log: Vec<Logged>,
    /// When servers began to serve.
    pub starts: Vec<Time>,
    /// When servers went on that had not been running for a while.
    pub pauses: Vec<Time>,
    /// When the disk of a server went on that had not answered for a while. The server is named as in session ids.
    pub hangs: Vec<(u8, Time)>,
    /// States of servers.
    pub dumps: Vec<Dump>,
    /// When the recording ended.
    pub ended: Time,
    /// Connections that are still open were given all the time they needed: nothing is owed to them.
    pub is_settled: bool,
}

/// One connection of a client.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The server it went to.
    pub server: u32,
    /// The client's address as the server sees it.
    pub address: String,
    /// When its handshake was sent.
    pub opened: Time,
    /// Session that the handshake named, or none.
    pub asked: SessionId,
    /// Timeout that the handshake asked for, within the server's bounds.
    pub asked_timeout_ms: i32,
    /// Whether the password was right.
    pub is_proven: bool,
    /// What the handshake gave as the last zxid seen.
    pub last_zxid_seen: Zxid,
    /// What became of the handshake; none if no answer came.
    pub granted: Option<Granted>,
    /// The answer said that the server has no leader, and lets clients only read.
    pub is_read_only: bool,
    /// Requests in the order they were sent.
    pub requests: Vec<Sent>,
    /// Frames in the order they were received, the handshake's answer excluded.
    pub received: Vec<Received>,
    /// When it ended, by whatever cause.
    pub closed: Option<Time>,
}

impl Connection {
    /// The session it got.
    pub fn session(&self) -> Option<SessionId> {
        match self.granted {
            Some(Granted::Session { session, .. }) => Some(session),
            _ => None,
        }
    }
}

/// The answer to a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// A session.
    Session {
        /// When the answer came.
        at: Time,
        /// Which one.
        session: SessionId,
        /// Negotiated timeout.
        timeout_ms: i32,
    },
    /// "Your session is gone".
    Refused {
        /// When the answer came.
        at: Time,
    },
}

/// A request. Within a session xids should not repeat; where they do, a write without an answer is taken for the
/// first of its xid.
#[derive(Clone, Debug)]
pub struct Sent {
    /// When.
    pub at: Time,
    /// Its number; -2 for a ping.
    pub xid: i32,
    /// What it asks for.
    pub op: Op,
}

/// A frame from the server.
#[derive(Clone, Debug)]
pub enum Received {
    /// An answer.
    Reply {
        /// When.
        at: Time,
        /// Whose answer it is.
        xid: i32,
        /// Zxid of the header.
        zxid: Zxid,
        /// 0 or an error code.
        err: i32,
        /// The rest.
        body: Body,
    },
    /// A watch event.
    Event {
        /// When.
        at: Time,
        /// The change, or -1 from re-arming.
        zxid: Zxid,
        /// Event type.
        kind: i32,
        /// The node.
        path: String,
    },
}

impl Received {
    /// When it came.
    pub fn at(&self) -> Time {
        match self {
            Self::Reply { at, .. } | Self::Event { at, .. } => *at,
        }
    }
}

/// A record of the final log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its place in the order.
    pub zxid: Zxid,
    /// Who wrote.
    pub session: SessionId,
    /// The writer's xid.
    pub cxid: i32,
    /// Wall clock of the proposing server.
    pub time_ms: i64,
    /// When it was proposed, by the observer's clock; unknown for servers that are not observed.
    pub at: Option<Time>,
    /// When it became part of the state; unknown as above.
    pub applied: Option<Time>,
    /// What it does.
    pub txn: LoggedTxn,
}

impl Logged {
    /// Takes over a decoded record.
    pub fn of(record: &Record<'_>, at: Option<Time>) -> Self {
        let header = &record.header;
        let txn = LoggedTxn::of(&record.txn);
        let TxnHeader { zxid, session, cxid, time_ms, .. } = *header;
        Self { zxid, session, cxid, time_ms, at, applied: None, txn }
    }
}

/// A transaction of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "transactions and fields have the names and meanings of `ox_proto::txn`")]
pub enum LoggedTxn {
    CreateSession {
        timeout_ms: i32,
    },
    /// The list may be missing.
    CloseSession {
        paths: Option<Vec<String>>,
    },
    Error {
        err: i32,
    },
    Create {
        op: OpCode,
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        ephemeral: bool,
        ttl_ms: i64,
        parent_cversion: i32,
    },
    Delete {
        path: String,
    },
    DeleteContainer {
        path: String,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: i32,
    },
    /// The ensemble is another one, as the text says.
    Reconfig {
        /// The members and their version.
        text: Option<Vec<u8>>,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
    Multi(Vec<LoggedTxn>),
}

impl LoggedTxn {
    /// Takes over a decoded transaction.
    pub fn of(txn: &Txn<'_>) -> Self {
        match txn {
            Txn::CreateSession { timeout_ms } => Self::CreateSession { timeout_ms: *timeout_ms },
            Txn::CloseSession { paths } => {
                let owned = |paths: &Vec<std::borrow::Cow<'_, str>>| paths.iter().map(|p| p.to_string()).collect();
                Self::CloseSession { paths: paths.as_ref().map(owned) }
            }
            Txn::Error { err } => Self::Error { err: *err },
            Txn::Create(create) => {
                let (ephemeral, ttl_ms) = match create.kind {
                    CreateKind::Create { ephemeral } | CreateKind::Create2 { ephemeral } => (ephemeral, 0),
                    CreateKind::Container => (false, 0),
                    CreateKind::Ttl { ttl_ms } => (false, ttl_ms),
                };
                Self::Create {
                    op: txn.kind(),
                    path: create.path.to_string(),
                    data: create.data.map(<[u8]>::to_vec),
                    acl: create.acl.to_stored(),
                    ephemeral,
                    ttl_ms,
                    parent_cversion: create.parent_cversion,
                }
            }
            Txn::Delete { path } => Self::Delete { path: path.to_string() },
            Txn::DeleteContainer { path } => Self::DeleteContainer { path: path.to_string() },
            Txn::SetData { path, data, version } => {
                Self::SetData { path: path.to_string(), data: data.map(<[u8]>::to_vec), version: *version }
            }
            Txn::Reconfig { data, .. } => Self::Reconfig { text: data.map(<[u8]>::to_vec) },
            Txn::SetAcl { path, acl, version } => {
                Self::SetAcl { path: path.to_string(), acl: acl.to_stored(), version: *version }
            }
            Txn::Check { path, version } => Self::Check { path: path.to_string(), version: *version },
            Txn::Multi(elements) => Self::Multi(elements.iter().map(Self::of).collect()),
        }
    }

    /// True when it was refused because its session belongs to another connection.
    pub fn has_moved(&self) -> bool {
        match self {
            Self::Error { err } => *err == ErrorCode::SessionMoved.code(),
            Self::Multi(elements) => elements.iter().any(Self::has_moved),
            _ => false,
        }
    }

    /// True when it changes nothing: refused, or a multi of nothing, which no check of its session can refuse.
    pub fn changes_nothing(&self) -> bool {
        self.is_error() || matches!(self, Self::Multi(elements) if elements.is_empty())
    }

    /// True when applying it changes nothing but the last zxid.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Error { .. } => true,
            Self::Multi(elements) => elements.iter().any(|element| matches!(element, Self::Error { .. })),
            _ => false,
        }
    }
}

/// A server's state at one zxid.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Whose, and when: for messages.
    pub name: String,
    /// Everything up to here is part of it.
    pub zxid: Zxid,
    /// Nodes by path, the root as `/`.
    pub nodes: BTreeMap<String, DumpNode>,
    /// Live sessions with the timeout they were created with.
    pub sessions: BTreeMap<SessionId, i32>,
}

/// A node of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpNode {
    /// Data, possibly null.
    pub data: Option<Vec<u8>>,
    /// Its list.
    pub acl: Vec<Acl>,
    /// As clients see it.
    pub stat: Stat,
}
