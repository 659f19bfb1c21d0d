//! While servers are deaf or mute and a quorum is connected without them, writes pause for at most two `syncLimit` and
//! the time of an election (P65, P69).

use super::{Finding, timeliness};
use crate::env::Env;
use crate::outcome::FailureKind;
use crate::plan::Plan;
use crate::server::Server;
use crate::server::member::number;
use crate::server::process::Process;
use ox_proto::ServerId;
use ox_zab::{PeerState, QuorumPeer, Quorums};

/// How long the ensemble may be unable to commit. Two elections wait for votes, and a leader exchanges about twenty
/// messages before its first commit.
fn bound_us(plan: &Plan) -> i64 {
    let sync_us = i64::from(plan.tick_ms) * plan.sync_ticks * 1000;
    2 * sync_us + 2_000_000 + 20 * plan.net_delay_us + 10 * plan.sync_us + timeliness::slack_us(plan)
}

pub(super) fn judge(env: &mut Env, servers: &[Server]) -> Result<(), Finding> {
    if !env.plan.has_only_one_way_faults() {
        return Ok(());
    }
    let can_commit = (0..servers.len()).any(|server| can_commit(env, servers, server));
    if can_commit {
        env.timeliness.could_commit = Some(env.now);
        return Ok(());
    }
    let Some(could) = env.timeliness.could_commit else { return Ok(()) }; // the first election has not ended yet
    if !has_connected_quorum(env, servers) {
        env.timeliness.could_commit = Some(env.now);
        return Ok(());
    }
    let since = could.max(env.timeliness.paths_changed);
    if bound_us(&env.plan) < env.now.0 - since.0 {
        let states = servers.iter().filter_map(|server| server.process.as_ref());
        let states: Vec<Option<PeerState>> = states.map(|process| process.status().peer_state()).collect();
        return Err(Finding::new(FailureKind::Late, format!("no leader can commit since {since:?}: {states:?}")));
    }
    Ok(())
}

fn peer(server: &Server) -> Option<&QuorumPeer> {
    server.process.as_ref().and_then(|process| process.status().peer())
}

/// Whether a server leads and receives acknowledgements of a quorum.
fn can_commit(env: &Env, servers: &[Server], me: usize) -> bool {
    let Some(peer_of_leader) = peer(&servers[me]) else { return false };
    let leads =
        peer_of_leader.role().leader().is_some_and(|leader| leader.is_established() && !leader.is_handing_over());
    let serves = servers[me].process.as_ref().is_some_and(|process: &Process| process.status().is_serving());
    let acknowledges = |server: ServerId| {
        let other = number(server);
        let learner = servers.get(other).and_then(peer).and_then(|peer| peer.role().learner());
        let is_active = learner.is_some_and(|learner| {
            let wire = usize::try_from(learner.link().0).unwrap_or(0);
            learner.is_active() && env.net.wires[wire].ends.iter().any(|end| end.server == me)
        });
        other == me || (is_active && env.net.is_open_both_ways(me, other))
    };
    leads && serves && peer_of_leader.configs().quorums().are_reached(acknowledges)
}

/// Whether a quorum is connected in both directions, counting only servers that are connected to most others.
fn has_connected_quorum(env: &Env, servers: &[Server]) -> bool {
    let Some(quorums) = servers.iter().find_map(peer).map(|peer| peer.configs().quorums()) else { return false };
    let count = servers.len();
    let is_connected = |server: &usize| {
        let open = (0..count).filter(|other| env.net.is_open_both_ways(*server, *other)).count();
        count / 2 < open
    };
    let core: Vec<usize> = (0..count).filter(is_connected).collect();
    let is_full = core.iter().all(|a| core.iter().all(|b| env.net.is_open_both_ways(*a, *b)));
    is_full && is_quorum(quorums, &core)
}

fn is_quorum(quorums: &Quorums, core: &[usize]) -> bool {
    quorums.are_reached(|server| core.contains(&number(server)))
}
