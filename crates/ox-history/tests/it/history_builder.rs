//! Histories told step by step by a perfect server of one thread; tests then spoil one thing.

use ox_history::model::{Asker, Identities, Model, Stamp, authenticate};
use ox_history::{
    Answer, Body, Connection, Create, Granted, History, Logged, LoggedTxn, Op, Reason, Received, Sent, Settings, Time,
    check,
};
use ox_proto::{Acl, SessionId, Zxid};

pub(crate) const ADDRESS: &str = "10.0.0.1";
pub(crate) const TIMEOUT_MS: i32 = 4000;

pub(crate) struct Story {
    pub(crate) history: History,
    model: Model,
    zxid: Zxid,
    clock_ms: i64,
    xid: i32,
}

impl Story {
    pub(crate) fn new() -> Self {
        let settings = Settings { extended_types: true, ..Settings::default() };
        let model = Model::new(settings.clone());
        let history = History { settings, starts: vec![Time(0)], is_settled: true, ..History::default() };
        Self { history, model, zxid: Zxid::ZERO, clock_ms: 0, xid: 0 }
    }

    pub(crate) fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Lets time pass and returns the moment.
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
        self.history.log.push(Logged { zxid: self.zxid, session, cxid, time_ms: self.clock_ms, at, applied: at, txn });
        self.zxid
    }

    fn open(&mut self, asked: SessionId, granted: Option<SessionId>) -> usize {
        let opened = self.tick();
        let at = self.tick();
        let granted = match granted {
            Some(session) => Granted::Session { at, session, timeout_ms: TIMEOUT_MS },
            None => Granted::Refused { at },
        };
        self.history.connections.push(Connection {
            server: 1,
            address: ADDRESS.to_owned(),
            opened,
            asked,
            asked_timeout_ms: TIMEOUT_MS,
            is_proven: true,
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

    /// A new connection for an old session.
    pub(crate) fn reconnect(&mut self, session: SessionId) -> usize {
        self.open(session, Some(session))
    }

    /// A handshake that is refused.
    pub(crate) fn refused(&mut self, session: SessionId) -> usize {
        let conn = self.open(session, None);
        self.hang_up(conn);
        conn
    }

    pub(crate) fn hang_up(&mut self, conn: usize) {
        let at = self.tick();
        self.history.connections[conn].closed = Some(at);
    }

    pub(crate) fn session(&self, conn: usize) -> SessionId {
        self.history.connections[conn].session().expect("a session")
    }

    pub(crate) fn send(&mut self, conn: usize, op: Op) -> usize {
        let at = self.tick();
        self.xid += 1;
        let sent = Sent { at, xid: self.xid, op };
        self.history.connections[conn].requests.push(sent);
        self.history.connections[conn].requests.len() - 1
    }

    fn ids(&self, conn: usize, request: usize) -> Identities {
        let mut ids = Identities::of_address(ADDRESS);
        for sent in &self.history.connections[conn].requests[..request] {
            if let Op::Auth { scheme, auth } = &sent.op {
                authenticate(&mut ids, None, scheme, auth);
            }
        }
        ids
    }

    /// Gives a write its place in the order.
    pub(crate) fn commit(&mut self, conn: usize, request: usize) -> Answer {
        let (session, ids) = (self.session(conn), self.ids(conn, request));
        let Sent { xid, op, .. } = self.history.connections[conn].requests[request].clone();
        let zxid = Zxid(self.zxid.0 + 1);
        let stamp = Stamp { zxid, time_ms: self.clock_ms + 1, session };
        let (answer, txn) = if op == Op::CloseSession {
            let paths = self.model.ephemerals_of(session).into_iter().collect::<Vec<_>>();
            self.model.close_session(stamp, Some(&paths));
            (Answer::ok(Body::Empty), LoggedTxn::CloseSession { paths: Some(paths) })
        } else {
            let done = self.model.write(stamp, &ids, &op);
            (done.answer, done.txn)
        };
        self.log(session, xid, txn);
        answer
    }

    pub(crate) fn reply(&mut self, conn: usize, request: usize, zxid: Zxid, answer: Answer) {
        let at = self.tick();
        let xid = self.history.connections[conn].requests[request].xid;
        let Answer { err, body } = answer;
        self.history.connections[conn].received.push(Received::Reply { at, xid, zxid, err, body });
    }

    /// Sends, commits and answers a write.
    pub(crate) fn write(&mut self, conn: usize, op: Op) -> Zxid {
        let request = self.send(conn, op);
        let answer = self.commit(conn, request);
        self.reply(conn, request, self.zxid, answer);
        self.zxid
    }

    /// What a read would be answered with now.
    pub(crate) fn look(&self, conn: usize, op: &Op) -> Answer {
        let ids = self.ids(conn, self.history.connections[conn].requests.len());
        self.model.read(Asker { session: self.session(conn), ids: &ids }, op)
    }

    /// Sends and answers a read.
    pub(crate) fn read(&mut self, conn: usize, op: Op) {
        let answer = self.look(conn, &op);
        let request = self.send(conn, op);
        self.reply(conn, request, self.zxid, answer);
    }

    pub(crate) fn event(&mut self, conn: usize, zxid: Zxid, kind: i32, path: &str) {
        let at = self.tick();
        let path = path.to_owned();
        self.history.connections[conn].received.push(Received::Event { at, zxid, kind, path });
    }

    /// The server ends a session by itself.
    pub(crate) fn expire(&mut self, session: SessionId) -> Zxid {
        let paths = self.model.ephemerals_of(session).into_iter().collect::<Vec<_>>();
        let stamp = Stamp { zxid: Zxid(self.zxid.0 + 1), time_ms: self.clock_ms + 1, session };
        self.model.close_session(stamp, Some(&paths));
        self.log(session, 0, LoggedTxn::CloseSession { paths: Some(paths) })
    }

    /// The answer in a frame, to be spoilt.
    pub(crate) fn frame(&mut self, conn: usize, frame: usize) -> &mut Received {
        &mut self.history.connections[conn].received[frame]
    }

    pub(crate) fn body(&mut self, conn: usize, frame: usize) -> &mut Body {
        match self.frame(conn, frame) {
            Received::Reply { body, .. } => body,
            Received::Event { .. } => panic!("an answer"),
        }
    }

    pub(crate) fn set_zxid(&mut self, conn: usize, frame: usize, to: i64) {
        let (Received::Reply { zxid, .. } | Received::Event { zxid, .. }) = self.frame(conn, frame);
        *zxid = Zxid(to);
    }

    pub(crate) fn dump(&mut self) {
        let dump = self.model.dump(self.zxid);
        self.history.dumps.push(dump);
    }

    #[track_caller]
    pub(crate) fn is_good(&self) {
        if let Err(violation) = check(&self.history) {
            panic!("{violation}");
        }
    }

    #[track_caller]
    pub(crate) fn is_bad(&self, reason: Reason) {
        match check(&self.history) {
            Ok(_) => panic!("accepted, but it is {reason:?}"),
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
    let acl = vec![Acl::new(31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")];
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
