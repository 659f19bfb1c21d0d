//! The end of a simulation: faults stop, the servers must become idle, and the final checks run.

use crate::checkers::{configs, equality, liveness, log_on_disk, memory_residue, watch_residue};
use crate::coverage::CoverageCounts;
use crate::engine::{SharedWorld, run_until};
use crate::env::Env;
use crate::event::{End, ProcessId};
use crate::outcome::FailureKind;
use crate::server::dump::dump;
use crate::server::process::Process;
use crate::world::World;
use ox_history::model::{CONFIG, is_kept_by_server};
use ox_history::{Dump, History, LoggedTxn, Op, ReceivedFrame, Time};
use ox_proto::{SessionId, Zxid};
use ox_zab::PeerState;
use std::collections::BTreeSet;

/// How long a healed ensemble may take to become idle.
const REST_MS: i64 = 120_000;
const SLICE_US: i64 = 50_000;

pub(crate) fn quiesce(world: &SharedWorld) {
    if !settle(world) {
        return;
    }
    // Let abandoned sessions expire, whatever their timeouts.
    let longest_ms = {
        let world = world.lock();
        i64::from(world.env.plan.tick_ms) * 22 + 2_000
    };
    let until = Time(world.lock().env.now.0 + longest_ms * 1000);
    run_until(world, until);
    if !settle(world) || !sweep(world) || !settle(world) {
        return;
    }
    judge(&mut world.lock());
    check_history(&mut world.lock());
    restart(world);
}

/// Runs until all clients and servers are idle. Returns false after a failure or at the deadline.
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
        run_until(world, until);
    }
}

/// Runs until the servers have deleted all expired containers and TTL nodes.
fn sweep(world: &SharedWorld) -> bool {
    let left = |world: &World| -> Vec<String> {
        let never_used_ms = world.env.plan.never_used_ms;
        let processes = world.servers.iter().filter_map(|server| server.process.as_ref());
        // Expiry depends on the clock of the server that deletes the node.
        let leads = |process: &&Process| matches!(process.status().peer_state(), None | Some(PeerState::Leading));
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
                world.env.fail(FailureKind::Liveness, format!("no server deletes the expired nodes {left:?}"));
                return false;
            }
        }
        let until = Time(world.lock().env.now.0 + SLICE_US);
        run_until(world, until);
    }
}

/// Checks all servers while they are idle.
fn judge(world: &mut World) {
    if let Err(finding) = equality::check(world).and_then(|()| configs::check_rest(&world.servers)) {
        return finding.report(&mut world.env);
    }
    let World { env, servers, .. } = world;
    env.history.is_settled = true;
    env.history.ended = env.now;
    for (number, server) in servers.iter().enumerate() {
        let Some(process) = &server.process else { continue };
        env.history.dumps.push(dump(&process.state, format!("idle server {number}")));
        let checked = watch_residue::check(process).and_then(|()| memory_residue::check(process)).and_then(|()| {
            // Damaged files that are not needed any more remain.
            let seen = (&env.reference_log, &server.expected);
            if server.was_damaged { Ok(()) } else { log_on_disk::check(&server.disk, &process.store, seen, &env.plan) }
        });
        if let Err(finding) = checked {
            return finding.report(env);
        }
    }
}

/// Cuts the power of all servers and compares the recovered state.
fn restart(world: &SharedWorld) {
    let at_rest = {
        let mut world = world.lock();
        let at_rest = world.env.history.dumps.last().cloned();
        world.env.history.dumps.clear();
        for server in 0..world.servers.len() {
            let pid = ProcessId { server, boot: world.servers[server].boot };
            world.end(pid, End::PowerCut);
        }
        at_rest
    };
    let deadline = world.lock().env.now.0 + REST_MS * 1000;
    loop {
        let until = Time(world.lock().env.now.0 + SLICE_US);
        run_until(world, until);
        let mut world = world.lock();
        if world.env.failure.is_some() {
            return;
        }
        if world.servers.iter().all(|server| server.process.is_some()) {
            break;
        }
        if deadline < world.env.now.0 {
            return world.env.fail(FailureKind::Liveness, "a server did not start again");
        }
    }
    let mut world = world.lock();
    let again = world.env.history.dumps.first().cloned();
    if let (Some(at_rest), Some(again)) = (at_rest, again)
        && let Some(difference) = difference(&at_rest, &again)
    {
        world.env.fail(FailureKind::Recovery, format!("the last start recovered a different state: {difference}"));
    }
}

/// The first difference between two states at the same zxid. Quota usage may be counted again.
fn difference(one: &Dump, other: &Dump) -> Option<String> {
    if one.zxid != other.zxid {
        return None; // a session expired in between; the reference log has been compared
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
    world.env.history.log = world.env.reference_log.shown().map(|entry| entry.logged.clone()).collect();
    let World { env, .. } = world;
    forget_uncommitted_reads(env);
    match ox_history::check(&env.history) {
        Ok(summary) => {
            env.coverage.applied_without_reply += summary.effective_without_reply as u64;
            count(&mut env.coverage, &env.history);
            env.note(format_args!("history of {} requests is consistent", summary.requests));
        }
        Err(violation) => env.fail(FailureKind::History, violation.to_string()),
    }
}

/// Ignores reads of uncommitted transactions at servers without a leader. After a start or a failed leadership a
/// server cannot know how much of its log is committed; like Apache, it serves all of it.
fn forget_uncommitted_reads(env: &mut Env) {
    let committed: BTreeSet<Zxid> = env.history.log.iter().map(|entry| entry.zxid).collect();
    let is_committed = |zxid: Zxid| zxid.counter() == 0 || committed.contains(&zxid);
    let mut uncommitted = BTreeSet::new();
    for connection in env.history.connections.iter_mut().filter(|connection| connection.is_read_only) {
        let shown = connection.received.iter().filter_map(|frame| match frame {
            ReceivedFrame::Reply { zxid, .. } => Some(*zxid),
            ReceivedFrame::Event { .. } => None,
        });
        let seen: Vec<Zxid> = shown.chain([connection.last_zxid_seen]).filter(|zxid| !is_committed(*zxid)).collect();
        if !seen.is_empty() {
            env.coverage.uncommitted_reads += 1;
            connection.received.clear();
            uncommitted.extend(seen);
        }
    }
    // A server of a later epoch accepts a client that has seen such a transaction.
    for connection in &mut env.history.connections {
        if uncommitted.contains(&connection.last_zxid_seen) {
            connection.last_zxid_seen = Zxid::ZERO;
        }
    }
}

/// Counts the situations that the history contains.
fn count(coverage: &mut CoverageCounts, history: &History) {
    for entry in &history.log {
        match &entry.txn {
            LoggedTxn::CloseSession { paths } => {
                coverage.expired += u64::from(entry.cxid == 0);
                coverage.ephemerals_removed += paths.as_ref().map_or(0, |paths| paths.len() as u64);
            }
            LoggedTxn::DeleteContainer { .. } => coverage.containers_removed += 1,
            LoggedTxn::Multi(_) if entry.txn.is_error() => coverage.multis_refused += 1,
            LoggedTxn::Multi(elements) => coverage.multis += u64::from(!elements.is_empty()),
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
        coverage.upgraded += opened.len() as u64;
        coverage.local_sessions += granted.difference(&opened).count() as u64;
    }
    for sent in history.connections.iter().flat_map(|connection| &connection.requests) {
        match sent.op {
            Op::AddWatch { mode: 0, .. } => coverage.persistent_watches += 1,
            Op::AddWatch { mode: 1, .. } => coverage.recursive_watches += 1,
            _ => (),
        }
    }
}
