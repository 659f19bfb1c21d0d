//! Replays the log: applies each transaction to the model, then checks every reply that shows the resulting state.

use crate::checks::ephemerals::{check_close, check_dump, ends, shows_dead_owner};
use crate::checks::matching::{Matching, is_unlogged};
use crate::checks::multis::inner_states;
use crate::checks::read_only::needs_leader;
use crate::checks::results::{classify_txn, classify_write, differs_in_stat_only, is_same};
use crate::checks::streams::{Stream, reply};
use crate::checks::watches::{Due, Expected, classify_unexpected, compare};
use crate::history::{History, LogEntry, LoggedTxn, ReceivedFrame, RecordedConnection};
use crate::model::{AuthIds, Caller, Model, TxnStamp, WatchTrigger, Watches, authenticate};
use crate::op::{Op, OpResult, ReplyBody};
use crate::violation::{Checked, Violation, ViolationKind, ViolationPlace};
use ox_proto::acl::perms;
use ox_proto::{ErrorCode, SessionId, Stat, Zxid};
use std::collections::{BTreeMap, BTreeSet};

/// The identities of a connection, and the request from which each applies.
struct AuthTimeline(Vec<(usize, AuthIds)>);

impl AuthTimeline {
    fn of(history: &History, connection: &RecordedConnection) -> Self {
        let mut ids = AuthIds::of_address(&connection.address);
        let mut identities = vec![(0, ids.clone())];
        for (at, sent) in connection.requests.iter().enumerate() {
            if let Op::Auth { scheme, auth } = &sent.op {
                authenticate(&mut ids, history.settings.super_id.as_deref(), scheme, auth);
                identities.push((at + 1, ids.clone()));
            }
        }
        Self(identities)
    }

    /// The identities that apply to a request.
    fn at(&self, request: usize) -> &AuthIds {
        let upto = self.0.partition_point(|(from, _)| *from <= request);
        &self.0[upto - 1].1
    }

    fn all(&self) -> &AuthIds {
        &self.0[self.0.len() - 1].1
    }
}

pub(crate) struct Replay<'h> {
    history: &'h History,
    streams: &'h [Stream],
    matching: &'h Matching,
    identities: Vec<AuthTimeline>,
    model: Model,
    watches: Watches,
    /// Next frame of each connection.
    cursors: Vec<usize>,
    /// Requests of each connection that certainly have their reply by now: replies without a zxid may be between any
    /// two changes.
    replied: Vec<usize>,
    /// Expected replies of writes.
    expected_results: BTreeMap<(usize, usize), OpResult>,
    ends: BTreeMap<SessionId, Zxid>,
}

impl<'h> Replay<'h> {
    pub(crate) fn new(history: &'h History, streams: &'h [Stream], matching: &'h Matching) -> Self {
        Self {
            history,
            streams,
            matching,
            identities: history.connections.iter().map(|connection| AuthTimeline::of(history, connection)).collect(),
            model: Model::new(history.settings.clone()),
            watches: Watches::default(),
            cursors: vec![0; history.connections.len()],
            replied: vec![0; history.connections.len()],
            expected_results: BTreeMap::new(),
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

    /// The connections with replies at each zxid.
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

    fn apply(&mut self, place: usize, entry: &LogEntry) -> Checked {
        if let LoggedTxn::CloseSession { paths } = &entry.txn {
            check_close(&self.model, entry.session, entry.zxid, paths.as_deref())?;
        }
        let step = step(&mut self.model, self.history, &self.identities, self.matching, place).map_err(|why| {
            Violation::new(ViolationKind::WrongRemoval, ViolationPlace::Log(entry.zxid), format!("{why}: {entry:?}"))
        })?;
        if let (Some(expected), Some((conn, request))) = (step.txn, self.matching.requests[place]) {
            let op = &self.history.connections[conn].requests[request].op;
            if expected != entry.txn {
                let detail = format!("{op:?} is {:?}, not {expected:?}", entry.txn);
                return Err(Violation::new(
                    classify_txn(op, &expected, &entry.txn),
                    ViolationPlace::Log(entry.zxid),
                    detail,
                ));
            }
        }
        if let (Some(result), Some(whose)) = (step.result, self.matching.requests[place])
            && !entry.txn.has_moved()
        {
            self.expected_results.insert(whose, result);
        }
        let is_unordered = matches!(entry.txn, LoggedTxn::CloseSession { paths: None });
        self.fire(entry.zxid, &step.triggers, is_unordered)
    }

    /// Compares the expected watch events of a transaction with those received.
    fn fire(&mut self, zxid: Zxid, triggers: &[WatchTrigger], is_unordered: bool) -> Checked {
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
                self.in_received_order(conn, zxid, &mut expected);
            }
            self.advance(conn, Zxid::ZERO)?; // replies without a zxid may be at any position
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

    fn due(&self, conn: usize, trigger: &WatchTrigger) -> Due {
        let before = self.identities[conn].at(self.replied[conn]).may(&trigger.readers, perms::READ);
        let after = self.identities[conn].all().may(&trigger.readers, perms::READ);
        match (before, after) {
            (true, _) => Due::Must,
            (false, true) => Due::May,
            (false, false) => Due::MustNot,
        }
    }

    /// Without a list in the log, the nodes of a session may be deleted in any order.
    fn in_received_order(&self, conn: usize, zxid: Zxid, expected: &mut [Expected]) {
        let frames = &self.history.connections[conn].received[self.cursors[conn]..];
        let is_seen = |event: &Expected, frame: &ReceivedFrame| {
            matches!(frame, ReceivedFrame::Event { zxid: at, kind, path, .. }
                if *at == zxid && *kind == event.kind as i32 && *path == event.path)
        };
        // The parent of several nodes changes several times, so each frame is matched once.
        let mut taken = BTreeSet::new();
        expected.sort_by_cached_key(|event| {
            let mut places = (0..frames.len()).filter(|at| is_seen(event, &frames[*at]));
            places.find(|at| taken.insert(*at)).unwrap_or(usize::MAX)
        });
    }

    /// Consumes the frames of a connection that belong to the state after `zxid`.
    fn advance(&mut self, conn: usize, zxid: Zxid) -> Checked {
        let connection = &self.history.connections[conn];
        while let Some(frame) = connection.received.get(self.cursors[conn]) {
            let cursor = self.cursors[conn];
            match frame {
                ReceivedFrame::Reply { zxid: at, .. } if zxid < *at => break,
                ReceivedFrame::Reply { .. } => self.check_reply(conn, cursor, zxid)?,
                ReceivedFrame::Event { zxid: Zxid(-1), .. } => {
                    let behind = connection.received[cursor..].iter().filter_map(reply).next();
                    if behind.is_none_or(|reply| zxid < reply.zxid) {
                        break;
                    }
                    self.check_set_watches(conn, cursor)?;
                    continue; // the cursor is after the reply
                }
                ReceivedFrame::Event { zxid: at, .. } if zxid < *at => break,
                ReceivedFrame::Event { path, .. } => {
                    let reason = classify_unexpected(&self.watches, conn, path);
                    return Err(Violation::new(reason, ViolationPlace::Frame(conn, cursor), format!("{frame:?}")));
                }
            }
            self.cursors[conn] += 1;
        }
        Ok(())
    }

    /// Checks the reply at `frame` against the state after `zxid`.
    fn check_reply(&mut self, conn: usize, frame: usize, zxid: Zxid) -> Checked {
        let connection = &self.history.connections[conn];
        let request = self.streams[conn].requests[frame].expect("replies were matched with requests");
        let op = &connection.requests[request].op;
        let reply = reply(&connection.received[frame]).expect("a frame that is a reply");
        if Zxid(0) < reply.zxid {
            self.replied[conn] = request + 1;
        }
        let seen = OpResult { err: reply.err, body: reply.body.clone().normal() };
        let place = ViolationPlace::Frame(conn, frame);
        if let Some(record) = self.matching.records[conn][request] {
            let Some(expected) = self.expected_results.remove(&(conn, request)) else {
                return Err(Violation::new(ViolationKind::ReplyToMovedSession, place, format!("{op:?}: {seen:?}")));
            };
            if !is_same(op, &expected, &seen) {
                let reason = classify_write(op, &expected, &seen, &self.history.log[record].txn);
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
            return self.check_set_watches(conn, frame).map(|()| self.cursors[conn] -= 1);
        }
        if let Some(err) = self.watches.check_or_remove(conn, op) {
            if err == reply.err {
                return Ok(());
            }
            return Err(Violation::new(
                ViolationKind::WrongWatchReply,
                place,
                format!("{op:?}: {} not {err}", reply.err),
            ));
        }
        let expected = self.expected(conn, request, op);
        if !is_same(op, &expected, &seen) {
            let reason = self.diagnose(conn, request, zxid, &expected, &seen);
            return Err(Violation::new(reason, place, format!("{op:?}: {seen:?}, not {expected:?}")));
        }
        self.watches.register(conn, op, &expected);
        Ok(())
    }

    fn expected(&self, conn: usize, request: usize, op: &Op) -> OpResult {
        let session = self.matching.sessions[conn].unwrap_or_default();
        let ids = self.identities[conn].at(request);
        match op {
            Op::Auth { .. } if self.refuses(conn, request) => OpResult::error(ErrorCode::AuthFailed.code()),
            Op::Auth { .. } => OpResult::ok(ReplyBody::Empty),
            _ => self.model.read(Caller { session, ids }, op),
        }
    }

    fn refuses(&self, conn: usize, request: usize) -> bool {
        let Op::Auth { scheme, .. } = &self.history.connections[conn].requests[request].op else { return false };
        !matches!(scheme.as_str(), "digest" | "ip")
    }

    /// Checks the events of setWatches and its reply, and moves the cursor after them.
    fn check_set_watches(&mut self, conn: usize, cursor: usize) -> Checked {
        let connection = &self.history.connections[conn];
        let frames = connection.received[cursor..].iter().enumerate();
        let events: Vec<(i32, &str)> = frames
            .map_while(|(_, frame)| match frame {
                ReceivedFrame::Event { zxid: Zxid(-1), kind, path, .. } => Some((*kind, path.as_str())),
                _ => None,
            })
            .collect();
        let behind = cursor + events.len();
        let place = ViolationPlace::Frame(conn, cursor);
        let request = self.streams[conn].requests.get(behind).copied().flatten();
        let op = request.map(|request| &connection.requests[request].op);
        let (Some(request), Some(Op::SetWatches { relative, lists })) = (request, op) else {
            return Err(Violation::new(
                ViolationKind::WrongSetWatches,
                place,
                format!("{events:?} before a reply to {op:?}"),
            ));
        };
        self.replied[conn] = request + 1;
        let ids = self.identities[conn].at(request);
        let expected = self.watches.set_watches(conn, &self.model, ids, *relative, lists);
        let expected: Vec<(i32, &str)> = expected.iter().map(|(kind, path)| (*kind as i32, path.as_str())).collect();
        if events != expected {
            return Err(Violation::new(ViolationKind::WrongSetWatches, place, format!("{events:?}, not {expected:?}")));
        }
        self.cursors[conn] = behind + 1;
        Ok(())
    }

    /// Reports frames that nothing in the log explains.
    fn finish(&mut self) -> Checked {
        for (conn, connection) in self.history.connections.iter().enumerate() {
            self.advance(conn, Zxid::ZERO)?;
            let cursor = self.cursors[conn];
            match connection.received.get(cursor) {
                None => (),
                // A stream may end between the events of setWatches and its reply.
                Some(ReceivedFrame::Event { zxid: Zxid(-1), .. })
                    if connection.received[cursor..].iter().all(|frame| reply(frame).is_none()) => {}
                Some(ReceivedFrame::Event { path, .. }) => {
                    let detail = format!("{:?}", connection.received[cursor]);
                    return Err(Violation::new(
                        classify_unexpected(&self.watches, conn, path),
                        ViolationPlace::Frame(conn, cursor),
                        detail,
                    ));
                }
                Some(frame @ ReceivedFrame::Reply { .. }) => {
                    let detail = format!("{frame:?}");
                    return Err(Violation::new(
                        ViolationKind::ReplyAheadOfHistory,
                        ViolationPlace::Frame(conn, cursor),
                        detail,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Looks for a state that would explain a wrong reply, to classify the violation.
    fn diagnose(&self, conn: usize, request: usize, zxid: Zxid, expected: &OpResult, seen: &OpResult) -> ViolationKind {
        if shows_dead_owner(&self.ends, seen, zxid) {
            return ViolationKind::EphemeralOutlived;
        }
        let op = &self.history.connections[conn].requests[request].op;
        let session = self.matching.sessions[conn].unwrap_or_default();
        let caller = Caller { session, ids: self.identities[conn].at(request) };
        let explains = |model: &Model| is_same(op, &model.read(caller, op), seen);
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
            if step(&mut model, self.history, &self.identities, self.matching, place).is_err() {
                break;
            }
        }
        later |= explains(&model);
        let own_write = |at: Zxid| {
            self.history.log.iter().any(|entry| entry.session == session && (at..=zxid).contains(&entry.zxid))
        };
        match earlier {
            Some(at) if own_write(at) => ViolationKind::StaleOwnWrite,
            Some(_) => ViolationKind::StaleRead,
            None if later => ViolationKind::ReadOfLaterState,
            None if inside => ViolationKind::PartialMulti,
            None if differs_in_stat_only(expected, seen) => ViolationKind::WrongStat,
            None => ViolationKind::WrongResult,
        }
    }

    /// Whether a state within the multi at `place` explains a reply.
    fn explained_inside(&self, place: usize, explains: &impl Fn(&Model) -> bool) -> bool {
        let Some((conn, request)) = self.matching.requests[place] else { return false };
        let op = &self.history.connections[conn].requests[request].op;
        inner_states(op).any(|count| {
            let Op::Multi(elements) = op else { return false };
            let mut model = Model::new(self.history.settings.clone());
            for before in 0..place {
                if step(&mut model, self.history, &self.identities, self.matching, before).is_err() {
                    return false;
                }
            }
            let entry = &self.history.log[place];
            model.write_partly(stamp(entry), self.identities[conn].at(request), elements, count);
            explains(&model)
        })
    }
}

/// The effects of a transaction on the model.
struct Step {
    txn: Option<LoggedTxn>,
    result: Option<OpResult>,
    triggers: Vec<WatchTrigger>,
}

/// Errors of a valid reconfig. Whether it fails depends on the followers at that moment.
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

/// Errors of a write whose session has moved to another server: from the follower, or from the leader.
const CLAIMED_ERRORS: [ErrorCode; 3] = [ErrorCode::BadArguments, ErrorCode::SessionMoved, ErrorCode::SessionExpired];

/// Whether another connection had requested the session by then.
fn is_claimed(history: &History, conn: usize, entry: &LogEntry) -> bool {
    let others = history.connections.iter().enumerate().filter(|(other, _)| *other != conn);
    let mut claims = others.filter(|(_, other)| other.requested_session == entry.session && other.has_valid_password);
    claims.any(|(_, other)| entry.applied.is_none_or(|applied| other.opened <= applied))
}

fn stamp(entry: &LogEntry) -> TxnStamp {
    TxnStamp { zxid: entry.zxid, time_ms: entry.time_ms, session: entry.session }
}

/// Advances the model by one transaction. `Err` if the server deleted what it must not.
fn step(
    model: &mut Model,
    history: &History,
    identities: &[AuthTimeline],
    matching: &Matching,
    place: usize,
) -> Result<Step, &'static str> {
    let entry = &history.log[place];
    let own = |triggers| Step { txn: None, result: None, triggers };
    Ok(match (&entry.txn, matching.requests[place]) {
        (txn, Some((conn, request))) if history.settings.is_dynamic && is_reconfig(history, conn, request) => {
            let (result, triggers) = match txn {
                LoggedTxn::Reconfig { text } => (
                    OpResult::ok(ReplyBody::Data(text.clone(), Stat::default())),
                    model.reconfigure(stamp(entry), text.as_deref()),
                ),
                LoggedTxn::Error { err } if RECONFIG_ERRORS.iter().any(|code| code.code() == *err) => {
                    (OpResult::error(*err), Vec::new())
                }
                _ => return Err("it is not a reconfig"),
            };
            Step { txn: None, result: Some(result), triggers }
        }
        (LoggedTxn::CloseSession { paths }, whose) => {
            let triggers = model.close_session(stamp(entry), paths.as_deref());
            Step { txn: None, result: whose.map(|_| OpResult::ok(ReplyBody::Empty)), triggers }
        }
        (_, Some((conn, request))) => {
            let op = &history.connections[conn].requests[request].op;
            let ids = identities[conn].at(request);
            if let LoggedTxn::Error { err } = entry.txn
                && history.settings.has_observer_masters
                && CLAIMED_ERRORS.iter().any(|code| code.code() == err)
                && is_claimed(history, conn, entry)
            {
                let result = OpResult::error(err);
                return Ok(Step { txn: Some(entry.txn.clone()), result: Some(result), triggers: Vec::new() });
            }
            if entry.txn.has_moved() && *op == Op::CloseSession {
                let result = OpResult::error(ErrorCode::SessionMoved.code());
                return Ok(Step { txn: Some(entry.txn.clone()), result: Some(result), triggers: Vec::new() });
            }
            let applied = if entry.txn.has_moved() {
                model.write_moved(stamp(entry), ids, op)
            } else {
                model.write(stamp(entry), ids, op)
            };
            Step { txn: Some(applied.txn), result: Some(applied.result), triggers: applied.triggers }
        }
        (LoggedTxn::CreateSession { timeout_ms }, None) => {
            model.open_session(entry.session, *timeout_ms);
            own(Vec::new())
        }
        (LoggedTxn::DeleteContainer { path }, None) => {
            own(model.remove_expired(stamp(entry), path).map_err(|(_, why)| why)?)
        }
        (_, None) => own(Vec::new()),
    })
}
