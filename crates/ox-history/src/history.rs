//! A recorded history: requests and frames of each connection, the final log of the servers, their final states.

use crate::op::{Op, ReplyBody};
use ox_proto::txn::{CreateKind, Record, Txn, TxnHeader};
use ox_proto::{Acl, ErrorCode, OpCode, SessionId, Stat, Zxid};
use std::collections::BTreeMap;

/// A moment by the observer's clock, in microseconds. All clients and servers of a history use the same clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }
}

/// Server settings that affect replies.
#[derive(Clone, Debug)]
pub struct HistorySettings {
    /// Whether TTL nodes may be created.
    pub extended_types: bool,
    /// Whether hard limits of quotas are enforced.
    pub enforce_quota: bool,
    /// Whether reconfig fails with "standalone" rather than "disabled".
    pub reconfig_enabled: bool,
    /// The digest identity of the super user.
    pub super_id: Option<String>,
    /// Granularity of session expiry.
    pub tick_ms: i64,
    /// Whether writes without a reply may have been refused, because the disk was nearly full or the server overloaded.
    pub may_refuse_writes: bool,
    /// How long a container that never had a child is kept; 0 means forever.
    pub never_used_ms: i64,
    /// Maximum delay of a message and of a server's actions.
    pub delay_max_ms: i64,
    /// Maximum time during which a leader may miss the touches of a learner's clients without noticing.
    pub touch_loss_max_ms: i64,
    /// Whether the ensemble may change. Each server maintains the node that shows it.
    pub is_dynamic: bool,
    /// Whether new sessions are local to their server until they create an ephemeral node.
    pub local_sessions: bool,
    /// Whether there are several servers, so that none can expire a session by itself.
    pub is_ensemble: bool,
    /// Whether followers forward requests of observers: a session that has moved may then see "bad arguments".
    pub has_observer_masters: bool,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self {
            extended_types: false,
            enforce_quota: false,
            reconfig_enabled: false,
            super_id: None,
            tick_ms: 2000,
            may_refuse_writes: false,
            never_used_ms: 0,
            delay_max_ms: 0,
            touch_loss_max_ms: 0,
            is_dynamic: false,
            local_sessions: false,
            is_ensemble: false,
            has_observer_masters: false,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub settings: HistorySettings,
    /// All connections, in the order they were opened.
    pub connections: Vec<RecordedConnection>,
    /// The final log from its beginning.
    pub log: Vec<LogEntry>,
    /// When servers started to serve.
    pub starts: Vec<Time>,
    /// When servers resumed after a pause.
    pub pauses: Vec<Time>,
    /// When the disk of a server resumed after it had hung. The server id is that of session ids.
    pub hangs: Vec<(u8, Time)>,
    /// Final states of the servers.
    pub dumps: Vec<Dump>,
    /// When the recording ended.
    pub ended: Time,
    /// Whether open connections had enough time to receive everything that they are due.
    pub is_settled: bool,
}

#[derive(Clone, Debug)]
pub struct RecordedConnection {
    pub server: u32,
    /// The client's address as the server sees it.
    pub address: String,
    /// When its handshake was sent.
    pub opened: Time,
    /// Session that the handshake requested, or none.
    pub requested_session: SessionId,
    /// Timeout that the handshake requested, within the server's bounds.
    pub requested_timeout_ms: i32,
    /// Whether the password was correct.
    pub has_valid_password: bool,
    /// The lastZxidSeen of the handshake.
    pub last_zxid_seen: Zxid,
    /// Reply to the handshake; `None` if it did not arrive.
    pub granted: Option<HandshakeReply>,
    /// Whether the reply announced a read-only server.
    pub is_read_only: bool,
    /// Requests in the order they were sent.
    pub requests: Vec<SentRequest>,
    /// Frames in the order they were received, without the handshake's reply.
    pub received: Vec<ReceivedFrame>,
    /// When it ended, for any reason.
    pub closed: Option<Time>,
}

impl RecordedConnection {
    pub fn session(&self) -> Option<SessionId> {
        match self.granted {
            Some(HandshakeReply::Session { session, .. }) => Some(session),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeReply {
    Session {
        at: Time,
        session: SessionId,
        /// Timeout negotiated with the server.
        timeout_ms: i32,
    },
    /// The session has expired or never existed.
    Refused { at: Time },
}

/// A request. Xids should not repeat within a session; if they do, a write without a reply is matched to the first
/// record of its xid.
#[derive(Clone, Debug)]
pub struct SentRequest {
    pub at: Time,
    /// -2 for a ping.
    pub xid: i32,
    pub op: Op,
}

#[derive(Clone, Debug)]
pub enum ReceivedFrame {
    Reply {
        at: Time,
        xid: i32,
        zxid: Zxid,
        /// 0 or an error code.
        err: i32,
        body: ReplyBody,
    },
    Event {
        at: Time,
        /// Zxid of the change, or -1 for events of setWatches.
        zxid: Zxid,
        kind: i32,
        path: String,
    },
}

impl ReceivedFrame {
    pub fn at(&self) -> Time {
        match self {
            Self::Reply { at, .. } | Self::Event { at, .. } => *at,
        }
    }
}

/// A record of the final log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub zxid: Zxid,
    pub session: SessionId,
    pub cxid: i32,
    /// Wall clock of the proposing server.
    pub time_ms: i64,
    /// When it was proposed, by the observer's clock; unknown for servers that are not observed.
    pub at: Option<Time>,
    /// When it was applied; unknown for servers that are not observed.
    pub applied: Option<Time>,
    pub txn: LoggedTxn,
}

impl LogEntry {
    pub fn of(record: &Record<'_>, at: Option<Time>) -> Self {
        let header = &record.header;
        let txn = LoggedTxn::of(&record.txn);
        let TxnHeader { zxid, session, cxid, time_ms, .. } = *header;
        Self { zxid, session, cxid, time_ms, at, applied: None, txn }
    }
}

/// Transactions and fields have the names and meanings of [`ox_proto::txn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedTxn {
    CreateSession {
        timeout_ms: i32,
    },
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
    Reconfig {
        /// Members and version of the new configuration.
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

    /// Whether it failed because its session belongs to another connection.
    pub fn has_moved(&self) -> bool {
        match self {
            Self::Error { err } => *err == ErrorCode::SessionMoved.code(),
            Self::Multi(elements) => elements.iter().any(Self::has_moved),
            _ => false,
        }
    }

    /// Whether it has no effect: failed, or an empty multi, which no session check can refuse.
    pub fn changes_nothing(&self) -> bool {
        self.is_error() || matches!(self, Self::Multi(elements) if elements.is_empty())
    }

    /// Whether applying it changes only the last zxid.
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
    /// Server and time, for messages.
    pub name: String,
    /// The last transaction that it includes.
    pub zxid: Zxid,
    /// Nodes by path, the root as `/`.
    pub nodes: BTreeMap<String, DumpNode>,
    /// Live sessions with their timeout at creation.
    pub sessions: BTreeMap<SessionId, i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpNode {
    pub data: Option<Vec<u8>>,
    pub acl: Vec<Acl>,
    pub stat: Stat,
}
