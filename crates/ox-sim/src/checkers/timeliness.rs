//! Time limits, in virtual time: a serving member has received from its ensemble recently (P28), a leader whose disk
//! hangs steps down (P67), a healed ensemble serves, and committed transactions reach all servers (P64).
//!
//! Checked every half tick. The time during which a process was frozen or stalled does not count.

use super::{Finding, outage};
use crate::env::Env;
use crate::event::Event;
use crate::outcome::FailureKind;
use crate::plan::Plan;
use crate::server::Server;
use crate::server::member::number;
use crate::server::process::Process;
use crate::world::World;
use ox_history::Time;
use ox_proto::Zxid;
use ox_zab::{Leader, LinkId, PeerState, QuorumPeer};
use std::collections::VecDeque;

/// State that is kept from one check to the next.
#[derive(Debug, Default)]
pub(crate) struct TimelinessState {
    /// Until when a fault explains an election, not counting the time of the election itself.
    pub(crate) excused_until: Option<Time>,
    /// When the last short pause of a process ended.
    pub(crate) paused_until: Time,
    pub(crate) healed: Option<Time>,
    /// When the last bytes arrive that were in flight between servers when the faults ended. They keep the delays of a
    /// slow network, and bytes sent after them on the same connection cannot overtake them.
    pub(crate) in_flight_until: Time,
    /// When a path between servers was last cut or reopened.
    pub(crate) paths_changed: Time,
    /// When a leader was last able to commit.
    pub(super) could_commit: Option<Time>,
    /// Since when all servers have been serving.
    whole: Option<Time>,
    /// The last zxid that the leader had applied, at each check since `whole`.
    applied: VecDeque<(Time, Zxid)>,
}

pub(crate) fn schedule_next(env: &mut Env) {
    let pause_us = i64::from(env.plan.tick_ms) * 500;
    env.schedule_in(pause_us, Event::CheckTimeliness);
}

pub(crate) fn check(world: &mut World) {
    let World { env, servers, .. } = world;
    env.coverage.timeliness_checks += 1;
    let judged = servers.iter_mut().enumerate().try_for_each(|(number, server)| judge(env, number, server));
    let judged = judged.and_then(|()| judge_healed(env, servers));
    let judged = judged.and_then(|()| outage::judge(env, servers));
    if let Err(finding) = judged {
        finding.report(env);
    }
    schedule_next(env);
}

/// The delay that thread scheduling alone can cause.
pub(super) fn slack_us(plan: &Plan) -> i64 {
    300_000 + plan.thread_delay_us * 300
}

/// A peer that was silent for longer must be considered lost (P28).
fn patience_us(plan: &Plan) -> i64 {
    i64::from(plan.tick_ms) * 1000 * (plan.sync_ticks + 1) + slack_us(plan)
}

fn judge(env: &Env, me: usize, server: &mut Server) -> Result<(), Finding> {
    let (last, synced) = (server.expected.last, server.expected.synced);
    let Some(process) = server.process.as_ref().filter(|process| process.frozen(env.now).is_none()) else {
        return Ok(());
    };
    let Some(peer) = process.status().peer().filter(|_| process.status().is_serving() && !process.is_stopping) else {
        return Ok(());
    };
    // Threads that were slow until the end of the faults get the whole time again, because they have less slack now.
    let healed = env.timeliness.healed.unwrap_or(Time(0));
    let excused = process.runs_since().max(process.member.serves_since).max(healed);
    let is_late = |since: Time| patience_us(&env.plan) < env.now.0 - since.max(excused).0;
    let heard = |other: usize| process.member.last_seen.get(&other).copied().unwrap_or(Time(0));
    let fail = |what: String| Err(Finding::new(FailureKind::Late, format!("server {me} serves, but {what}")));
    if let Some(learner) = peer.role().learner() {
        let LinkId(wire) = learner.link();
        let [one, other] = env.net.wires[usize::try_from(wire).unwrap_or(0)].ends.map(|pid| pid.server);
        let leader = if one == me { other } else { one };
        if is_late(heard(leader)) {
            return fail(format!("last received from {leader} at {:?}", heard(leader)));
        }
    }
    if let Some(leader) = peer.role().leader().filter(|leader| leader.is_established()) {
        judge_leader(env, (me, peer, leader), is_late, heard)?;
        let stuck = server.stuck.filter(|(zxid, _)| *zxid == synced && synced < last);
        let (_, since) = *server.stuck.insert(stuck.unwrap_or((synced, env.now)));
        if synced < last && is_late(since) {
            return fail(format!("its disk has completed nothing since {since:?}"));
        }
    } else {
        server.stuck = None;
    }
    Ok(())
}

fn judge_leader(
    env: &Env,
    (me, peer, leader): (usize, &QuorumPeer, &Leader),
    is_late: impl Fn(Time) -> bool,
    heard: impl Fn(usize) -> Time,
) -> Result<(), Finding> {
    let quorums = peer.configs().quorums();
    let is_there = |other: usize| other == me || !is_late(heard(other));
    if leader.is_handing_over() || quorums.are_reached(|server| is_there(number(server))) {
        return Ok(());
    }
    let heard: Vec<(usize, Time)> = (0..env.plan.servers()).map(|other| (other, heard(other))).collect();
    Err(Finding::new(FailureKind::Late, format!("server {me} leads, but last received from others at {heard:?}")))
}

/// How long a healed ensemble may take until all servers serve: the slowest attempt in progress times out, an election
/// runs, and the slowest server is synchronised.
pub(super) fn healing_us(plan: &Plan) -> i64 {
    i64::from(plan.tick_ms) * 1000 * (2 * plan.init_ticks + 2 * plan.sync_ticks) + 10_000_000 + slack_us(plan)
}

/// How long a transaction may take from the leader to all other servers.
fn reaching_us(plan: &Plan) -> i64 {
    i64::from(plan.tick_ms) * 1000 + 3_000_000 + slack_us(plan)
}

fn judge_healed(env: &mut Env, servers: &[Server]) -> Result<(), Finding> {
    let Some(healed) = env.timeliness.healed else { return Ok(()) };
    let processes = || servers.iter().filter_map(|server| server.process.as_ref());
    let is_delayed = |process: &Process| env.now <= process.runs_since();
    let leads = |process: &&Process| process.status().peer_state() == Some(PeerState::Leading);
    // A deposed leader may learn of it late.
    let serve = processes().all(|process| process.status().is_serving())
        && processes().count() == servers.len()
        && processes().filter(leads).count() <= 1;
    if !serve {
        env.timeliness.applied.clear();
        let hung = servers.iter().map(|server| server.hangs_end);
        let since = processes().map(Process::runs_since).chain(hung).fold(healed, Time::max);
        let since = env.timeliness.whole.take().map_or(since, |_| env.now);
        env.timeliness.healed = Some(since);
        if healing_us(&env.plan) < env.now.0 - since.0 {
            let states: Vec<_> = processes().map(|process| process.status().peer_state()).collect();
            return Err(Finding::new(
                FailureKind::Late,
                format!("faults ended at {since:?}, but not all servers serve: {states:?}"),
            ));
        }
        return Ok(());
    }
    env.timeliness.whole.get_or_insert(env.now);
    if processes().any(is_delayed) || env.now <= env.timeliness.in_flight_until {
        env.timeliness.applied.clear();
    }
    let due = Time(env.now.0 - reaching_us(&env.plan));
    while env.timeliness.applied.get(1).is_some_and(|(at, _)| *at <= due) {
        env.timeliness.applied.pop_front();
    }
    if let Some((at, zxid)) = env.timeliness.applied.front().copied().filter(|(at, _)| *at <= due) {
        let behind = servers.iter().position(|server| {
            let may_be = |process: &Process| server.hangs_end.max(process.member.serves_since) < at;
            let is_behind = |process: &Process| process.state.last_zxid() < zxid && may_be(process);
            server.process.as_ref().is_some_and(is_behind)
        });
        if let Some(behind) = behind {
            let detail =
                format!("{zxid} was applied by the leader at {at:?}, but server {behind} has not applied it yet");
            return Err(Finding::new(FailureKind::Late, detail));
        }
    }
    let applied = processes().filter(leads).map(|process| process.state.last_zxid()).max();
    env.timeliness.applied.extend(applied.map(|zxid| (env.now, zxid)));
    Ok(())
}
