//! The walk along the log: each transaction through the model, then every answer that shows the state behind it.

use crate::checks::ephemerals::{check_close, check_dump, ends, shows_dead_owner};
use crate::checks::matching::{Matching, is_unlogged};
use crate::checks::multis::inner_states;
use crate::checks::read_only::needs_leader;
use crate::checks::results::{differs_in_stat_only, is_same, judge_txn, judge_write};
use crate::checks::streams::{Stream, reply};
use crate::checks::watches::{Due, Expected, Watches, compare};
use crate::history::{Connection, History, Logged, LoggedTxn, Received};
use crate::model::{Asker, Identities, Model, Stamp, Trigger, authenticate};
use crate::op::{Answer, Body, Op};
use crate::violation::{Checked, Place, Reason, Violation};
use ox_proto::acl::perms;
use ox_proto::{ErrorCode, SessionId, Stat, Zxid};
use std::collections::{BTreeMap, BTreeSet};

/// What a connection has proven, and from which request on.
struct Proven(Vec<(usize, Identities)>);

impl Proven {
    fn of(history: &History, connection: &Connection) -> Self {
        let mut ids = Identities::of_address(&connection.address);
        let mut proven = vec![(0, ids.clone())];
        for (at, sent) in connection.requests.iter().enumerate() {
            if let Op::Auth { scheme, auth } = &sent.op {
                authenticate(&mut ids, history.settings.super_id.as_deref(), scheme, auth);
                proven.push((at + 1, ids.clone()));
            }
        }
        Self(proven)
    }

    /// What counts for a request.
    fn at(&self, request: usize) -> &Identities {
        let upto = self.0.partition_point(|(from, _)| *from <= request);
        &self.0[upto - 1].1
    }

    fn all(&self) -> &Identities {
        &self.0[self.0.len() - 1].1
    }
}

pub(crate) struct Replay<'h> {
    history: &'h History,
    streams: &'h [Stream],
    matching: &'h Matching,
    proven: Vec<Proven>,
    model: Model,
    watches: Watches,
    /// Next frame of each connection.
    cursors: Vec<usize>,
    /// Requests certainly answered so far on each connection: answers without a zxid may stand between any two changes.
    answered: Vec<usize>,
    /// What writes must be answered with.
    answers: BTreeMap<(usize, usize), Answer>,
    ends: BTreeMap<SessionId, Zxid>,
}

impl<'h> Replay<'h> {
    pub(crate) fn new(history: &'h History, streams: &'h [Stream], matching: &'h Matching) -> Self {
        Self {
            history,
            streams,
            matching,
            proven: history.connections.iter().map(|connection| Proven::of(history, connection)).collect(),
            model: Model::new(history.settings.clone()),
            watches: Watches::default(),
            cursors: vec![0; history.connections.len()],
            answered: vec![0; history.connections.len()],
            answers: BTreeMap::new(),
            ends: ends(&history.log),
        }
    }

    pub(crate) fn run(mut self) -> Checked<Model> {
        let shown = self.shown();
        for conn in 0..self.history.connections.len() {
            self.advance(conn, Zxid::ZERO)?;
        }
        self.dumps(Zxid::ZERO)?;
        for (place, entry) in self.history.log.iter().enumerate() {
            self.apply(place, entry)?;
            for &conn in shown.get(&entry.zxid).map_or(&[][..], Vec::as_slice) {
                self.advance(conn, entry.zxid)?;
            }
            self.dumps(entry.zxid)?;
        }
        self.finish()?;
        Ok(self.model)
    }

    /// The connections that have answers at each zxid.
    fn shown(&self) -> BTreeMap<Zxid, Vec<usize>> {
        let mut shown: BTreeMap<Zxid, Vec<usize>> = BTreeMap::new();
        for (conn, connection) in self.history.connections.iter().enumerate() {
            for reply in connection.received.iter().filter_map(reply).filter(|reply| Zxid(0) < reply.zxid) {
                let conns = shown.entry(reply.zxid).or_default();
                if conns.last() != Some(&conn) {
                    conns.push(conn);
                }
            }
        }
        shown
    }

    fn dumps(&self, zxid: Zxid) -> Checked {
        self.history.dumps.iter().filter(|dump| dump.zxid == zxid).try_for_each(|dump| check_dump(&self.model, dump))
    }

    fn apply(&mut self, place: usize, entry: &Logged) -> Checked {
        if let LoggedTxn::CloseSession { paths } = &entry.txn {
            check_close(&self.model, entry.session, entry.zxid, paths.as_deref())?;
        }
        let step = step(&mut self.model, self.history, &self.proven, self.matching, place).map_err(|why| {
            Violation::new(Reason::UnjustRemoval, Place::Log(entry.zxid), format!("{why}: {entry:?}"))
        })?;
        if let (Some(expected), Some((conn, request))) = (step.txn, self.matching.requests[place]) {
            let op = &self.history.connections[conn].requests[request].op;
            if expected != entry.txn {
                let detail = format!("{op:?} is {:?}, not {expected:?}", entry.txn);
                return Err(Violation::new(judge_txn(op, &expected, &entry.txn), Place::Log(entry.zxid), detail));
            }
        }
        if let (Some(answer), Some(whose)) = (step.answer, self.matching.requests[place])
            && !entry.txn.has_moved()
        {
            self.answers.insert(whose, answer);
        }
        let is_unordered = matches!(entry.txn, LoggedTxn::CloseSession { paths: None });
        self.fire(entry.zxid, &step.triggers, is_unordered)
    }

    /// Compares what the watches of a transaction must send with what was received.
    fn fire(&mut self, zxid: Zxid, triggers: &[Trigger], is_unordered: bool) -> Checked {
        let mut due: BTreeMap<usize, Vec<Expected>> = BTreeMap::new();
        for trigger in triggers {
            for conn in self.watches.fire(trigger) {
                let due_here = self.due(conn, trigger);
                let expected = Expected { kind: trigger.kind, path: trigger.path.clone(), due: due_here };
                due.entry(conn).or_default().push(expected);
            }
        }
        for (conn, mut expected) in due {
            if is_unordered {
                self.in_the_order_seen(conn, zxid, &mut expected);
            }
            self.advance(conn, Zxid::ZERO)?; // answers without a zxid may stand anywhere
            let at = (conn, self.cursors[conn]);
            match compare(self.history, &self.watches, at, zxid, &expected)? {
                Some(frames) => self.cursors[conn] += frames,
                None => {
                    self.cursors[conn] = self.history.connections[conn].received.len();
                    self.watches.drop_connection(conn);
                }
            }
        }
        Ok(())
    }

    fn due(&self, conn: usize, trigger: &Trigger) -> Due {
        let before = self.proven[conn].at(self.answered[conn]).may(&trigger.readers, perms::READ);
        let after = self.proven[conn].all().may(&trigger.readers, perms::READ);
        match (before, after) {
            (true, _) => Due::Must,
            (false, true) => Due::May,
            (false, false) => Due::MustNot,
        }
    }

    /// Without a list in the log the nodes of a session may go in any order.
    fn in_the_order_seen(&self, conn: usize, zxid: Zxid, expected: &mut [Expected]) {
        let frames = &self.history.connections[conn].received[self.cursors[conn]..];
        let is_seen = |event: &Expected, frame: &Received| {
            matches!(frame, Received::Event { zxid: at, kind, path, .. }
                if *at == zxid && *kind == event.kind as i32 && *path == event.path)
        };
        // The parent of several nodes changes several times, so each frame is taken once.
        let mut taken = BTreeSet::new();
        expected.sort_by_cached_key(|event| {
            let mut places = (0..frames.len()).filter(|at| is_seen(event, &frames[*at]));
            places.find(|at| taken.insert(*at)).unwrap_or(usize::MAX)
        });
    }

    /// Takes the frames of a connection that belong to the state after `zxid`.
    fn advance(&mut self, conn: usize, zxid: Zxid) -> Checked {
        let connection = &self.history.connections[conn];
        while let Some(frame) = connection.received.get(self.cursors[conn]) {
            let cursor = self.cursors[conn];
            match frame {
                Received::Reply { zxid: at, .. } if zxid < *at => break,
                Received::Reply { .. } => self.judge(conn, cursor, zxid)?,
                Received::Event { zxid: Zxid(-1), .. } => {
                    let behind = connection.received[cursor..].iter().filter_map(reply).next();
                    if behind.is_none_or(|reply| zxid < reply.zxid) {
                        break;
                    }
                    self.rearm(conn, cursor)?;
                    continue; // the cursor stands behind the answer
                }
                Received::Event { zxid: at, .. } if zxid < *at => break,
                Received::Event { path, .. } => {
                    let reason = self.watches.blame(conn, path);
                    return Err(Violation::new(reason, Place::Frame(conn, cursor), format!("{frame:?}")));
                }
            }
            self.cursors[conn] += 1;
        }
        Ok(())
    }

    /// Judges the answer at `frame` by the state after `zxid`.
    fn judge(&mut self, conn: usize, frame: usize, zxid: Zxid) -> Checked {
        let connection = &self.history.connections[conn];
        let request = self.streams[conn].requests[frame].expect("answers were paired");
        let op = &connection.requests[request].op;
        let reply = reply(&connection.received[frame]).expect("an answer");
        if Zxid(0) < reply.zxid {
            self.answered[conn] = request + 1;
        }
        let seen = Answer { err: reply.err, body: reply.body.clone().normal() };
        let place = Place::Frame(conn, frame);
        if let Some(record) = self.matching.records[conn][request] {
            let Some(expected) = self.answers.remove(&(conn, request)) else {
                return Err(Violation::new(Reason::MovedSessionAnswered, place, format!("{op:?}: {seen:?}")));
            };
            if !is_same(op, &expected, &seen) {
                let reason = judge_write(op, &expected, &seen, &self.history.log[record].txn);
                return Err(Violation::new(reason, place, format!("{op:?}: {seen:?}, not {expected:?}")));
            }
            return Ok(());
        }
        if reply.err == ErrorCode::ThrottledOp.code() && is_unlogged(op, reply) {
            return Ok(());
        }
        if reply.err == ErrorCode::NotReadOnly.code() && needs_leader(op) {
            return Ok(());
        }
        if *op == Op::CloseSession && self.history.settings.local_sessions && reply.err == 0 {
            return Ok(());
        }
        if let Op::SetWatches { .. } = op {
            return self.rearm(conn, frame).map(|()| self.cursors[conn] -= 1);
        }
        if let Some(err) = self.watches.ask(conn, op) {
            if err == reply.err {
                return Ok(());
            }
            return Err(Violation::new(Reason::WrongWatchAnswer, place, format!("{op:?}: {} not {err}", reply.err)));
        }
        let expected = self.expected(conn, request, op);
        if !is_same(op, &expected, &seen) {
            let reason = self.diagnose(conn, request, zxid, &expected, &seen);
            return Err(Violation::new(reason, place, format!("{op:?}: {seen:?}, not {expected:?}")));
        }
        self.watches.register(conn, op, &expected);
        Ok(())
    }

    fn expected(&self, conn: usize, request: usize, op: &Op) -> Answer {
        let session = self.matching.sessions[conn].unwrap_or_default();
        let ids = self.proven[conn].at(request);
        match op {
            Op::Auth { .. } if self.refuses(conn, request) => Answer::error(ErrorCode::AuthFailed.code()),
            Op::Auth { .. } => Answer::ok(Body::Empty),
            _ => self.model.read(Asker { session, ids }, op),
        }
    }

    fn refuses(&self, conn: usize, request: usize) -> bool {
        let Op::Auth { scheme, .. } = &self.history.connections[conn].requests[request].op else { return false };
        !matches!(scheme.as_str(), "digest" | "ip")
    }

    /// Judges the events of re-arming and the answer behind them, and moves the cursor behind that.
    fn rearm(&mut self, conn: usize, cursor: usize) -> Checked {
        let connection = &self.history.connections[conn];
        let frames = connection.received[cursor..].iter().enumerate();
        let events: Vec<(i32, &str)> = frames
            .map_while(|(_, frame)| match frame {
                Received::Event { zxid: Zxid(-1), kind, path, .. } => Some((*kind, path.as_str())),
                _ => None,
            })
            .collect();
        let behind = cursor + events.len();
        let place = Place::Frame(conn, cursor);
        let request = self.streams[conn].requests.get(behind).copied().flatten();
        let asked = request.map(|request| &connection.requests[request].op);
        let (Some(request), Some(Op::SetWatches { relative, lists })) = (request, asked) else {
            return Err(Violation::new(Reason::WrongRearm, place, format!("{events:?} before an answer to {asked:?}")));
        };
        self.answered[conn] = request + 1;
        let ids = self.proven[conn].at(request);
        let expected = self.watches.rearm(conn, &self.model, ids, *relative, lists);
        let expected: Vec<(i32, &str)> = expected.iter().map(|(kind, path)| (*kind as i32, path.as_str())).collect();
        if events != expected {
            return Err(Violation::new(Reason::WrongRearm, place, format!("{events:?}, not {expected:?}")));
        }
        self.cursors[conn] = behind + 1;
        Ok(())
    }

    /// Frames that nothing in the log explains.
    fn finish(&mut self) -> Checked {
        for (conn, connection) in self.history.connections.iter().enumerate() {
            self.advance(conn, Zxid::ZERO)?;
            let cursor = self.cursors[conn];
            match connection.received.get(cursor) {
                None => (),
                // A stream may be cut between the events of re-arming and the answer behind them.
                Some(Received::Event { zxid: Zxid(-1), .. })
                    if connection.received[cursor..].iter().all(|frame| reply(frame).is_none()) => {}
                Some(Received::Event { path, .. }) => {
                    let detail = format!("{:?}", connection.received[cursor]);
                    return Err(Violation::new(self.watches.blame(conn, path), Place::Frame(conn, cursor), detail));
                }
                Some(frame @ Received::Reply { .. }) => {
                    let detail = format!("{frame:?}");
                    return Err(Violation::new(Reason::ReplyAheadOfHistory, Place::Frame(conn, cursor), detail));
                }
            }
        }
        Ok(())
    }

    /// Looks for a state that would explain a wrong answer.
    fn diagnose(&self, conn: usize, request: usize, zxid: Zxid, expected: &Answer, seen: &Answer) -> Reason {
        if shows_dead_owner(&self.ends, seen, zxid) {
            return Reason::EphemeralOutlived;
        }
        let op = &self.history.connections[conn].requests[request].op;
        let session = self.matching.sessions[conn].unwrap_or_default();
        let asker = Asker { session, ids: self.proven[conn].at(request) };
        let explains = |model: &Model| is_same(op, &model.read(asker, op), seen);
        let mut model = Model::new(self.history.settings.clone());
        let (mut earlier, mut later, mut inside) = (None, false, false);
        for place in 0..self.history.log.len() {
            let at = self.history.log[place].zxid;
            if explains(&model) {
                if at <= zxid {
                    earlier = Some(at);
                } else {
                    later = true;
                }
            }
            inside |= self.explained_inside(place, &explains);
            if step(&mut model, self.history, &self.proven, self.matching, place).is_err() {
                break;
            }
        }
        later |= explains(&model);
        let own_write = |at: Zxid| {
            self.history.log.iter().any(|entry| entry.session == session && (at..=zxid).contains(&entry.zxid))
        };
        match earlier {
            Some(at) if own_write(at) => Reason::StaleOwnWrite,
            Some(_) => Reason::StaleRead,
            None if later => Reason::ReadFromTheFuture,
            None if inside => Reason::PartialMulti,
            None if differs_in_stat_only(expected, seen) => Reason::WrongStat,
            None => Reason::WrongResult,
        }
    }

    /// Whether a state inside the multi at `place` explains an answer.
    fn explained_inside(&self, place: usize, explains: &impl Fn(&Model) -> bool) -> bool {
        let Some((conn, request)) = self.matching.requests[place] else { return false };
        let op = &self.history.connections[conn].requests[request].op;
        inner_states(op).any(|count| {
            let Op::Multi(elements) = op else { return false };
            let mut model = Model::new(self.history.settings.clone());
            for before in 0..place {
                if step(&mut model, self.history, &self.proven, self.matching, before).is_err() {
                    return false;
                }
            }
            let entry = &self.history.log[place];
            model.write_partly(stamp(entry), self.proven[conn].at(request), elements, count);
            explains(&model)
        })
    }
}

/// What a transaction did to the model.
struct Step {
    txn: Option<LoggedTxn>,
    answer: Option<Answer>,
    triggers: Vec<Trigger>,
}

/// Why a change of the ensemble may be refused. Whether it is, depends on who follows at that moment.
const RECONFIG_ERRORS: [ErrorCode; 8] = [
    ErrorCode::ReconfigInProgress,
    ErrorCode::NewConfigNoQuorum,
    ErrorCode::BadVersion,
    ErrorCode::BadArguments,
    ErrorCode::MarshallingError,
    ErrorCode::NoAuth,
    ErrorCode::SessionMoved,
    ErrorCode::SessionExpired,
];

fn is_reconfig(history: &History, conn: usize, request: usize) -> bool {
    matches!(history.connections[conn].requests[request].op, Op::Reconfig(_))
}

/// What a follower makes of the write of a session that is somebody else's behind it, or what the leader makes of that.
const CLAIMED_ERRORS: [ErrorCode; 3] = [ErrorCode::BadArguments, ErrorCode::SessionMoved, ErrorCode::SessionExpired];

/// Whether another connection had asked for the session by then.
fn is_claimed(history: &History, conn: usize, entry: &Logged) -> bool {
    let others = history.connections.iter().enumerate().filter(|(other, _)| *other != conn);
    let mut claims = others.filter(|(_, other)| other.asked == entry.session && other.is_proven);
    claims.any(|(_, other)| entry.applied.is_none_or(|applied| other.opened <= applied))
}

fn stamp(entry: &Logged) -> Stamp {
    Stamp { zxid: entry.zxid, time_ms: entry.time_ms, session: entry.session }
}

/// Brings the model from one zxid to the next. `Err` when the server removed what it must not.
fn step(
    model: &mut Model,
    history: &History,
    proven: &[Proven],
    matching: &Matching,
    place: usize,
) -> Result<Step, &'static str> {
    let entry = &history.log[place];
    let own = |triggers| Step { txn: None, answer: None, triggers };
    Ok(match (&entry.txn, matching.requests[place]) {
        (txn, Some((conn, request))) if history.settings.is_dynamic && is_reconfig(history, conn, request) => {
            let (answer, triggers) = match txn {
                LoggedTxn::Reconfig { text } => {
                    (Answer::ok(Body::Data(text.clone(), Stat::default())), model.reconfigure())
                }
                LoggedTxn::Error { err } if RECONFIG_ERRORS.iter().any(|code| code.code() == *err) => {
                    (Answer::error(*err), Vec::new())
                }
                _ => return Err("it is no change of the ensemble"),
            };
            Step { txn: None, answer: Some(answer), triggers }
        }
        (LoggedTxn::CloseSession { paths }, whose) => {
            let triggers = model.close_session(stamp(entry), paths.as_deref());
            Step { txn: None, answer: whose.map(|_| Answer::ok(Body::Empty)), triggers }
        }
        (_, Some((conn, request))) => {
            let op = &history.connections[conn].requests[request].op;
            let ids = proven[conn].at(request);
            if let LoggedTxn::Error { err } = entry.txn
                && history.settings.has_masters
                && CLAIMED_ERRORS.iter().any(|code| code.code() == err)
                && is_claimed(history, conn, entry)
            {
                let answer = Answer::error(err);
                return Ok(Step { txn: Some(entry.txn.clone()), answer: Some(answer), triggers: Vec::new() });
            }
            if entry.txn.has_moved() && *op == Op::CloseSession {
                let answer = Answer::error(ErrorCode::SessionMoved.code());
                return Ok(Step { txn: Some(entry.txn.clone()), answer: Some(answer), triggers: Vec::new() });
            }
            let done = if entry.txn.has_moved() {
                model.write_moved(stamp(entry), ids, op)
            } else {
                model.write(stamp(entry), ids, op)
            };
            Step { txn: Some(done.txn), answer: Some(done.answer), triggers: done.triggers }
        }
        (LoggedTxn::CreateSession { timeout_ms }, None) => {
            model.open_session(entry.session, *timeout_ms);
            own(Vec::new())
        }
        (LoggedTxn::DeleteContainer { path }, None) => own(model.remove_expired(stamp(entry), path)?),
        (_, None) => own(Vec::new()),
    })
}
