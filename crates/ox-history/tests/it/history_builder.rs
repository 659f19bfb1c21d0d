//! Builds histories step by step with a correct single-threaded server; tests then corrupt one detail.

use ox_history::model::{AuthIds, Caller, Model, TxnStamp, authenticate};
use ox_history::{
    Create, HandshakeReply, History, HistorySettings, LogEntry, LoggedTxn, Op, OpResult, ReceivedFrame,
    RecordedConnection, ReplyBody, SentRequest, Time, ViolationKind, check, requested,
};
use ox_proto::{Acl, SessionId, Zxid};

pub(crate) const ADDRESS: &str = "10.0.0.1";
pub(crate) const TIMEOUT_MS: i32 = 4000;

pub(crate) struct HistoryBuilder {
    pub(crate) history: History,
    model: Model,
    zxid: Zxid,
    clock_ms: i64,
    xid: i32,
}

impl HistoryBuilder {
    pub(crate) fn new() -> Self {
        let settings = HistorySettings { extended_types: true, ..HistorySettings::default() };
        let model = Model::new(settings.clone());
        let history = History { settings, starts: vec![Time(0)], is_settled: true, ..History::default() };
        Self { history, model, zxid: Zxid::ZERO, clock_ms: 0, xid: 0 }
    }

    /// A history with new connections, each with a new session.
    pub(crate) fn connected<const N: usize>() -> (Self, [usize; N]) {
        let mut builder = Self::new();
        let connections = [(); N].map(|()| builder.connect());
        (builder, connections)
    }

    pub(crate) fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Advances the clock and returns the new time.
    pub(crate) fn wait(&mut self, ms: i64) -> Time {
        self.clock_ms += ms;
        self.history.ended = Time(self.clock_ms * 1000);
        self.history.ended
    }

    fn tick(&mut self) -> Time {
        self.wait(1)
    }

    pub(crate) fn log(&mut self, session: SessionId, cxid: i32, txn: LoggedTxn) -> Zxid {
        self.zxid = Zxid(self.zxid.0 + 1);
        let at = Some(self.tick());
        self.history.log.push(LogEntry {
            zxid: self.zxid,
            session,
            cxid,
            time_ms: self.clock_ms,
            at,
            applied: at,
            txn,
        });
        self.zxid
    }

    fn open(&mut self, requested: SessionId, granted: Option<SessionId>) -> usize {
        let opened = self.tick();
        let at = self.tick();
        let granted = match granted {
            Some(session) => HandshakeReply::Session { at, session, timeout_ms: TIMEOUT_MS },
            None => HandshakeReply::Refused { at },
        };
        self.history.connections.push(RecordedConnection {
            server: 1,
            address: ADDRESS.to_owned(),
            opened,
            requested_session: requested,
            requested_timeout_ms: TIMEOUT_MS,
            has_valid_password: true,
            last_zxid_seen: Zxid::ZERO,
            granted: Some(granted),
            is_read_only: false,
            requests: Vec::new(),
            received: Vec::new(),
            closed: None,
        });
        self.history.connections.len() - 1
    }

    /// A new connection with a new session.
    pub(crate) fn connect(&mut self) -> usize {
        let session = SessionId(0x100 + i64::try_from(self.history.connections.len()).expect("few connections"));
        let opened = self.tick();
        self.log(session, 0, LoggedTxn::CreateSession { timeout_ms: TIMEOUT_MS });
        self.model.open_session(session, TIMEOUT_MS);
        let conn = self.open(SessionId::NONE, Some(session));
        self.history.connections[conn].opened = opened;
        conn
    }

    /// A new connection for an existing session.
    pub(crate) fn reconnect(&mut self, session: SessionId) -> usize {
        self.open(session, Some(session))
    }

    /// A handshake that is refused.
    pub(crate) fn refused(&mut self, session: SessionId) -> usize {
        let conn = self.open(session, None);
        self.disconnect(conn);
        conn
    }

    pub(crate) fn disconnect(&mut self, conn: usize) {
        let at = self.tick();
        self.history.connections[conn].closed = Some(at);
    }

    pub(crate) fn session(&self, conn: usize) -> SessionId {
        self.history.connections[conn].session().expect("a session")
    }

    pub(crate) fn send(&mut self, conn: usize, op: Op) -> usize {
        let at = self.tick();
        self.xid += 1;
        let sent = SentRequest { at, xid: self.xid, op };
        self.history.connections[conn].requests.push(sent);
        self.history.connections[conn].requests.len() - 1
    }

    fn ids(&self, conn: usize, request: usize) -> AuthIds {
        let mut ids = AuthIds::of_address(ADDRESS);
        for sent in &self.history.connections[conn].requests[..request] {
            if let Op::Auth { scheme, auth } = &sent.op {
                authenticate(&mut ids, None, scheme, auth);
            }
        }
        ids
    }

    /// Adds a write to the log.
    pub(crate) fn commit(&mut self, conn: usize, request: usize) -> OpResult {
        let (session, ids) = (self.session(conn), self.ids(conn, request));
        let SentRequest { xid, op, .. } = self.history.connections[conn].requests[request].clone();
        let zxid = Zxid(self.zxid.0 + 1);
        let stamp = TxnStamp { zxid, time_ms: self.clock_ms + 1, session };
        let (result, txn) = if op == Op::CloseSession {
            let paths = self.model.ephemerals_of(session).into_iter().collect::<Vec<_>>();
            self.model.close_session(stamp, Some(&paths));
            (OpResult::ok(ReplyBody::Empty), LoggedTxn::CloseSession { paths: Some(paths) })
        } else {
            let done = self.model.write(stamp, &ids, &op);
            (done.result, done.txn)
        };
        self.log(session, xid, txn);
        result
    }

    pub(crate) fn reply(&mut self, conn: usize, request: usize, zxid: Zxid, result: OpResult) {
        let at = self.tick();
        let xid = self.history.connections[conn].requests[request].xid;
        let OpResult { err, body } = result;
        self.history.connections[conn].received.push(ReceivedFrame::Reply { at, xid, zxid, err, body });
    }

    /// Sends, commits and replies to a write.
    pub(crate) fn write(&mut self, conn: usize, op: Op) -> Zxid {
        let request = self.send(conn, op);
        let result = self.commit(conn, request);
        self.reply(conn, request, self.zxid, result);
        self.zxid
    }

    /// The reply that a read would get now.
    pub(crate) fn expected_read(&self, conn: usize, op: &Op) -> OpResult {
        let ids = self.ids(conn, self.history.connections[conn].requests.len());
        self.model.read(Caller { session: self.session(conn), ids: &ids }, op)
    }

    /// Sends and replies to a read.
    pub(crate) fn read(&mut self, conn: usize, op: Op) {
        let result = self.expected_read(conn, &op);
        let request = self.send(conn, op);
        self.reply(conn, request, self.zxid, result);
    }

    pub(crate) fn event(&mut self, conn: usize, zxid: Zxid, kind: i32, path: &str) {
        let at = self.tick();
        let path = path.to_owned();
        self.history.connections[conn].received.push(ReceivedFrame::Event { at, zxid, kind, path });
    }

    /// The server expires a session.
    pub(crate) fn expire(&mut self, session: SessionId) -> Zxid {
        let paths = self.model.ephemerals_of(session).into_iter().collect::<Vec<_>>();
        let stamp = TxnStamp { zxid: Zxid(self.zxid.0 + 1), time_ms: self.clock_ms + 1, session };
        self.model.close_session(stamp, Some(&paths));
        self.log(session, 0, LoggedTxn::CloseSession { paths: Some(paths) })
    }

    /// The reply in a frame, to be corrupted.
    pub(crate) fn frame(&mut self, conn: usize, frame: usize) -> &mut ReceivedFrame {
        &mut self.history.connections[conn].received[frame]
    }

    pub(crate) fn body(&mut self, conn: usize, frame: usize) -> &mut ReplyBody {
        match self.frame(conn, frame) {
            ReceivedFrame::Reply { body, .. } => body,
            ReceivedFrame::Event { .. } => panic!("not a reply"),
        }
    }

    pub(crate) fn set_zxid(&mut self, conn: usize, frame: usize, to: i64) {
        let (ReceivedFrame::Reply { zxid, .. } | ReceivedFrame::Event { zxid, .. }) = self.frame(conn, frame);
        *zxid = Zxid(to);
    }

    pub(crate) fn dump(&mut self) {
        let dump = self.model.dump(self.zxid);
        self.history.dumps.push(dump);
    }

    #[track_caller]
    pub(crate) fn assert_valid(&self) {
        if let Err(violation) = check(&self.history) {
            panic!("{violation}");
        }
    }

    #[track_caller]
    pub(crate) fn assert_violation(&self, reason: ViolationKind) {
        match check(&self.history) {
            Ok(_) => panic!("accepted, but expected {reason:?}"),
            Err(violation) => assert_eq!(violation.reason, reason, "{violation}"),
        }
    }
}

pub(crate) fn create(path: &str) -> Op {
    Op::Create(Create::open(path, b"1", 0))
}

pub(crate) fn ephemeral(path: &str) -> Op {
    Op::Create(Create::open(path, b"", 1))
}

pub(crate) fn sequential(path: &str) -> Op {
    Op::Create(Create::open(path, b"", 2))
}

/// A node that only bob may read.
pub(crate) fn bobs(path: &str) -> Op {
    let acl = requested(&[Acl::new(31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")]);
    Op::Create(Create { acl, ..Create::open(path, b"1", 0) })
}

pub(crate) fn set(path: &str, data: &str, version: i32) -> Op {
    Op::SetData { path: path.to_owned(), data: Some(data.as_bytes().to_vec()), version }
}

pub(crate) fn delete(path: &str) -> Op {
    Op::Delete { path: path.to_owned(), version: -1 }
}

pub(crate) fn get(path: &str) -> Op {
    Op::GetData { path: path.to_owned(), watch: false }
}

pub(crate) fn watch(path: &str) -> Op {
    Op::GetData { path: path.to_owned(), watch: true }
}

pub(crate) fn exists(path: &str) -> Op {
    Op::Exists { path: path.to_owned(), watch: true }
}

pub(crate) fn watch_children(path: &str) -> Op {
    Op::GetChildren2 { path: path.to_owned(), watch: true }
}
