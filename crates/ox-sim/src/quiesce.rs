//! The end of a run: faults stop, everything must come to rest, and then all that was seen is judged.

use crate::checkers::{configs, equality, liveness, log_on_disk, watch_residue};
use crate::engine::{SharedWorld, pump};
use crate::env::Env;
use crate::event::{End, Who};
use crate::coverage::Marks;
use crate::outcome::Kind;
use crate::server::dump::dump;
use crate::server::process::Process;
use crate::world::World;
use ox_history::model::{CONFIG, is_kept_by_server};
use ox_history::{Dump, History, LoggedTxn, Op, ReceivedFrame, Time};
use ox_proto::{SessionId, Zxid};
use ox_zab::PeerState;
use std::collections::BTreeSet;

/// How long a healed world may take to come to rest.
const REST_MS: i64 = 120_000;
const SLICE_US: i64 = 50_000;

pub(crate) fn finish(world: &SharedWorld) {
    if !settle(world) {
        return;
    }
    // Abandoned sessions end, whatever their timeouts.
    let longest_ms = {
        let world = world.lock();
        i64::from(world.env.plan.tick_ms) * 22 + 2_000
    };
    let until = Time(world.lock().env.now.0 + longest_ms * 1000);
    pump(world, until);
    if !settle(world) || !sweep(world) || !settle(world) {
        return;
    }
    judge(&mut world.lock());
    check_history(&mut world.lock());
    restart(world);
}

/// Lets the world go on until everybody is content. False when that does not happen, or something failed.
fn settle(world: &SharedWorld) -> bool {
    let deadline = world.lock().env.now.0 + REST_MS * 1000;
    loop {
        {
            let mut world = world.lock();
            if world.env.failure.is_some() {
                return false;
            }
            if liveness::is_settled(&world) {
                return true;
            }
            if deadline < world.env.now.0 {
                liveness::report(&world).report(&mut world.env);
                return false;
            }
        }
        let until = Time(world.lock().env.now.0 + SLICE_US);
        pump(world, until);
    }
}

/// Lets the world go on until nothing is left that servers should have removed by themselves.
fn sweep(world: &SharedWorld) -> bool {
    let left = |world: &World| -> Vec<String> {
        let never_used_ms = world.env.plan.never_used_ms;
        let processes = world.servers.iter().filter_map(|server| server.process.as_ref());
        // By the clock of who removes them.
        let leads = |process: &&Process| matches!(process.replica.peer_state(), None | Some(PeerState::Leading));
        processes
            .filter(leads)
            .flat_map(|process| process.state.expired_nodes(process.now(&world.env).wall_ms, never_used_ms))
            .collect()
    };
    let deadline = world.lock().env.now.0 + REST_MS * 1000;
    loop {
        {
            let mut world = world.lock();
            let left = left(&world);
            if world.env.failure.is_some() || left.is_empty() {
                return world.env.failure.is_none();
            }
            if deadline < world.env.now.0 {
                world.env.fail(Kind::Liveness, format!("nobody removes {left:?}"));
                return false;
            }
        }
        let until = Time(world.lock().env.now.0 + SLICE_US);
        pump(world, until);
    }
}

/// What can be said about servers at rest.
fn judge(world: &mut World) {
    if let Err(finding) = equality::check(world).and_then(|()| configs::check_rest(&world.servers)) {
        return finding.report(&mut world.env);
    }
    let World { env, servers, .. } = world;
    env.history.is_settled = true;
    env.history.ended = env.now;
    for (number, server) in servers.iter().enumerate() {
        let Some(process) = &server.process else { continue };
        env.history.dumps.push(dump(&process.state, format!("server {number} at rest")));
        let checked = watch_residue::check(process).and_then(|()| {
            // Damaged files that nobody needs stay.
            let seen = (&env.journal, &server.track);
            if server.was_damaged { Ok(()) } else { log_on_disk::check(&server.disk, &process.store, seen, &env.plan) }
        });
        if let Err(finding) = checked {
            return finding.report(env);
        }
    }
}

/// Power goes once more, and the same state must be there again.
fn restart(world: &SharedWorld) {
    let at_rest = {
        let mut world = world.lock();
        let at_rest = world.env.history.dumps.last().cloned();
        world.env.history.dumps.clear();
        for server in 0..world.servers.len() {
            let who = Who { server, boot: world.servers[server].boot };
            world.end(who, End::PowerCut);
        }
        at_rest
    };
    let deadline = world.lock().env.now.0 + REST_MS * 1000;
    loop {
        let until = Time(world.lock().env.now.0 + SLICE_US);
        pump(world, until);
        let mut world = world.lock();
        if world.env.failure.is_some() {
            return;
        }
        if world.servers.iter().all(|server| server.process.is_some()) {
            break;
        }
        if deadline < world.env.now.0 {
            return world.env.fail(Kind::Liveness, "a server did not start again");
        }
    }
    let mut world = world.lock();
    let again = world.env.history.dumps.first().cloned();
    if let (Some(at_rest), Some(again)) = (at_rest, again)
        && let Some(difference) = difference(&at_rest, &again)
    {
        world.env.fail(Kind::Recovery, format!("the state after the last start is another one: {difference}"));
    }
}

/// Where two states of the same zxid differ. Usage of quotas may be counted anew.
fn difference(one: &Dump, other: &Dump) -> Option<String> {
    if one.zxid != other.zxid {
        return None; // a session ended in between; the journal has been compared
    }
    if one.sessions != other.sessions {
        return Some(format!("sessions {:?} and {:?}", one.sessions, other.sessions));
    }
    let is_compared = |path: &&String| !is_kept_by_server(path) && *path != CONFIG;
    let paths = one.nodes.keys().chain(other.nodes.keys()).filter(is_compared);
    paths
        .into_iter()
        .find(|path| one.nodes.get(*path) != other.nodes.get(*path))
        .map(|path| format!("{path}: {:?} and {:?}", one.nodes.get(path), other.nodes.get(path)))
}

fn check_history(world: &mut World) {
    if world.env.failure.is_some() {
        return;
    }
    world.env.history.log = world.env.journal.shown().map(|entry| entry.logged.clone()).collect();
    let World { env, .. } = world;
    forget_unagreed(env);
    match ox_history::check(&env.history) {
        Ok(summary) => {
            env.marks.unanswered_but_done += summary.effective_without_reply as u64;
            count(&mut env.marks, &env.history);
            env.note(format_args!("history of {} requests is good", summary.requests));
        }
        Err(violation) => env.fail(Kind::History, violation.to_string()),
    }
}

/// Leaves out what servers without a leader have shown that was never agreed on. After a start, or with the history of
/// somebody who was about to lead, a server cannot know how much of its log was: as with Apache, it shows all.
fn forget_unagreed(env: &mut Env) {
    let agreed: BTreeSet<Zxid> = env.history.log.iter().map(|entry| entry.zxid).collect();
    let is_agreed = |zxid: Zxid| zxid.counter() == 0 || agreed.contains(&zxid);
    for connection in env.history.connections.iter_mut().filter(|connection| connection.is_read_only) {
        let shown = connection.received.iter().filter_map(|frame| match frame {
            ReceivedFrame::Reply { zxid, .. } => Some(*zxid),
            ReceivedFrame::Event { .. } => None,
        });
        if !shown.chain([connection.last_zxid_seen]).all(is_agreed) {
            env.marks.unagreed += 1;
            connection.received.clear();
            connection.last_zxid_seen = Zxid::ZERO;
        }
    }
}

/// Counts what the history has met.
fn count(marks: &mut Marks, history: &History) {
    for entry in &history.log {
        match &entry.txn {
            LoggedTxn::CloseSession { paths } => {
                marks.expired += u64::from(entry.cxid == 0);
                marks.ephemerals_removed += paths.as_ref().map_or(0, |paths| paths.len() as u64);
            }
            LoggedTxn::DeleteContainer { .. } => marks.containers_removed += 1,
            LoggedTxn::Multi(_) if entry.txn.is_error() => marks.multis_refused += 1,
            LoggedTxn::Multi(elements) => marks.multis += u64::from(!elements.is_empty()),
            _ => (),
        }
    }
    if history.settings.local_sessions {
        let opened: BTreeSet<SessionId> = history
            .log
            .iter()
            .filter(|entry| matches!(entry.txn, LoggedTxn::CreateSession { .. }))
            .map(|entry| entry.session)
            .collect();
        let granted: BTreeSet<SessionId> = history.connections.iter().filter_map(|conn| conn.session()).collect();
        marks.upgraded += opened.len() as u64;
        marks.local_sessions += granted.difference(&opened).count() as u64;
    }
    for sent in history.connections.iter().flat_map(|connection| &connection.requests) {
        match sent.op {
            Op::AddWatch { mode: 0, .. } => marks.persistent_watches += 1,
            Op::AddWatch { mode: 1, .. } => marks.recursive_watches += 1,
            _ => (),
        }
    }
}
