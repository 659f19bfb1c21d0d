//! Work on the disk. Each job takes what it needs out of the world, works without holding it, and puts the outcome
//! back if its process still lives.

use crate::checkers::{Finding, disk_error, restorable};
use crate::disk::PacedDisk;
use crate::engine::SharedWorld;
use crate::env::Env;
use crate::event::{End, Event, Job, Who};
use crate::outcome::Kind;
use crate::plan::Plan;
use crate::server::config::{self, ConfigChange};
use crate::server::dump::dump;
use crate::server::log::{Log, Work};
use crate::server::member::{PeerInput, server_id, truncated};
use crate::server::process::Process;
use crate::server::{Report, Track, Unsynced};
use crate::world::{Alive, World};
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_replica::LogBatch;
use ox_store::{
    Appended, FreeSpace, LogOptions, MemberLog, MemberOptions, OpenOutcome, Opened, OpenedMember, SnapshotTaken, Store,
    StoreError, StoreOptions,
};
use ox_tree::auth::digest_id;
use ox_tree::{FrozenView, TreeOptions};
use ox_zab::{DiskDone, DiskJob, EncodedTxn, Epoch, LinkId, LogDiffRange, Message};
use std::sync::Arc;

/// How soon after an error of the log the last thread of the process has noticed, at most.
const DYING_US: i64 = 50_000;
/// How often free space is measured.
const SPACE_CHECK_MS: i64 = 500;

/// Who may change the ensemble.
pub(crate) const SUPER: &[u8] = b"super:secret";

pub(crate) fn store_options(plan: &Plan, now_ms: i64) -> StoreOptions {
    let mut options = StoreOptions::new("/data");
    options.log = LogOptions {
        preallocate_bytes: plan.preallocate_bytes,
        snap_count: plan.snap_count,
        snap_bytes: None,
        roll_bytes: plan.roll_bytes,
        force_sync: true,
    };
    options.compression = plan.compression;
    options.log_dir = plan.splits_dirs.then(|| "/logs".into());
    options.low_water_bytes = plan.low_water_bytes;
    options.reserve_bytes = plan.low_water_bytes / 2;
    options.batch_max = plan.batch_records.max(64);
    options.now_ms = now_ms;
    options
}

pub(crate) fn tree_options(plan: &Plan) -> TreeOptions {
    TreeOptions {
        extended_types: plan.extended_types,
        close_session_txn: plan.close_session_txn,
        hash_seed: 7,
        reconfig_enabled: plan.is_dynamic(),
        super_digest: plan.is_dynamic().then(|| digest_id(SUPER)),
        ..TreeOptions::default()
    }
}

pub(crate) fn member_options(plan: &Plan, number: usize) -> MemberOptions {
    MemberOptions { recent_max: plan.commit_log, ..MemberOptions::new(server_id(number).0) }
}

/// What a start came to.
enum Start {
    Alone(Box<Opened>),
    Member(Box<(OpenedMember, FreeSpace, Option<Files>)>),
}

/// The configurations in the files of a server: in force, and proposed.
type Files = (Ensemble, Option<Ensemble>);

/// Recovers and begins to serve.
pub(crate) fn start(world: &SharedWorld, number: usize) {
    let (who, disk, options, tree, member, seed, calls, is_dynamic) = {
        let world = &mut *world.lock();
        let server = &mut world.servers[number];
        if server.process.is_some() || std::mem::replace(&mut server.is_starting, true) {
            return;
        }
        let who = Who { server: number, boot: server.boot };
        if world.env.plan.resets_clock {
            server.wall_ahead_ms = -world.env.now.0 / 1000;
        }
        let (disk, calls, now_ms) = (server.disk.clone(), server.disk.calls(), server.wall_ms(world.env.now));
        let seed = world.env.dice.next();
        world.env.note(format_args!("server {number} run {} starts", who.boot));
        let plan = &world.env.plan;
        let member = plan.is_ensemble().then(|| member_options(plan, number));
        (who, disk, store_options(plan, now_ms), tree_options(plan), member, seed, calls, plan.is_dynamic())
    };
    let paced = Arc::new(PacedDisk::new(Arc::downgrade(world), disk.clone(), who));
    let files = is_dynamic.then(|| config::read(&*paced)).transpose();
    let opened = match member {
        None => {
            let opened = Store::open(paced, &options, &tree, seed).map(|opened| Start::Alone(Box::new(opened)));
            opened.map_err(|error| error.to_string())
        }
        Some(member) => {
            let opened = Store::open_member(paced, &options, &member, &tree, seed);
            let opened = opened.and_then(|opened| Ok((opened.store.space()?, opened)));
            let member = |(space, opened)| Ok(Start::Member(Box::new((opened, space, files?))));
            opened.map_err(|error| error.to_string()).and_then(member)
        }
    };
    let mut world = world.lock();
    if !world.is_current(who) {
        return;
    }
    world.servers[number].is_starting = false;
    match opened {
        Ok(Start::Alone(opened)) => world.serve(who, *opened),
        Ok(Start::Member(member)) => {
            let (opened, space, files) = *member;
            world.join(who, (opened, space), files);
        }
        Err(error) => {
            let server = &world.servers[number];
            let was_injected =
                server.is_full || server.armed_calls.iter().any(|call| calls < *call && *call <= disk.calls());
            world.env.note(format_args!("server {number} does not start: {error}"));
            if was_injected {
                world.env.marks.start_errors += 1;
                world.end(who, End::Killed);
            } else {
                world.env.fail(Kind::Recovery, error);
            }
        }
    }
}

impl World {
    fn serve(&mut self, who: Who, opened: Opened) {
        let server = &mut self.servers[who.server];
        let (env, report, state) = (&mut self.env, &opened.report, &opened.state);
        let before = server.track.last;
        env.marks.recoveries += 1;
        env.marks.torn_tails += u64::from(report.dropped.is_some());
        env.note(format_args!(
            "server {} run {} serves at {}: {} replayed, digest {:x}",
            who.server, who.boot, report.last_zxid, report.replayed, report.digest
        ));
        if report.digest_mismatches != 0 || report.conflicts != 0 || report.removed_ephemerals != 0 {
            return env.fail(Kind::Digest, format!("recovery reports {report:?}"));
        }
        let now = env.now;
        match env.journal.recover(&mut server.track, state.last_zxid(), state.digest(), now) {
            Ok(recovered) => {
                env.marks.lost_tails += u64::from(recovered.lost);
                env.marks.kept_unacked += u64::from(recovered.kept_unacked);
            }
            Err(Finding { kind, detail }) => {
                return env.fail(kind, format!("{detail} (written up to {before}); {report:?}"));
            }
        }
        let name = format!("server {} run {} after its start", who.server, who.boot);
        env.history.dumps.push(dump(state, name));
        env.history.starts.push(env.now);
        let process = Process::alone(env, who, opened, server.wall_ahead_ms);
        server.process = Some(process);
    }

    /// A member has started.
    fn join(&mut self, who: Who, (opened, space): (OpenedMember, FreeSpace), files: Option<Files>) {
        let server = &mut self.servers[who.server];
        let env = &mut self.env;
        env.marks.recoveries += 1;
        let (track, epochs) = (&mut server.track, opened.log.epochs());
        match &opened.outcome {
            OpenOutcome::Loaded(loaded) => {
                let (state, report) = (&loaded.state, &loaded.report);
                let last = state.last_zxid();
                env.marks.torn_tails += u64::from(report.dropped.is_some());
                env.note(format_args!("server {} run {} has {last}, {epochs:?}", who.server, who.boot));
                let is_monotonic = track.epochs.accepted <= epochs.accepted
                    && track.epochs.current <= epochs.current
                    && epochs.current <= epochs.accepted;
                if !is_monotonic {
                    let detail = format!("a start found {epochs:?}, the disk had reported {:?}", track.epochs);
                    return env.fail(Kind::ClaimNotDurable, detail);
                }
                if report.digest_mismatches != 0 || report.conflicts != 0 || loaded.reach != last {
                    return env.fail(Kind::Digest, format!("recovery of server {} reports {report:?}", who.server));
                }
                match env.journal.recover_member(track, last, state.digest()) {
                    Ok(recovered) => {
                        env.marks.lost_tails += u64::from(recovered.lost);
                        env.marks.kept_unacked += u64::from(recovered.kept_unacked);
                    }
                    Err(Finding { kind, detail }) => {
                        return env.fail(kind, format!("server {}: {detail}; {report:?}", who.server));
                    }
                }
                let name = format!("server {} run {} after its start", who.server, who.boot);
                env.history.dumps.push(dump(state, name));
            }
            OpenOutcome::Empty => {
                env.note(format_args!("server {} has nothing", who.server));
                env.marks.wiped += 1;
                if !server.was_damaged {
                    return env.fail(Kind::Recovery, format!("server {} is empty", who.server));
                }
                *track = Track::default();
                server.was_lost = true;
            }
            OpenOutcome::Quarantined(quarantine) => {
                env.note(format_args!("server {} is in quarantine: {}", who.server, quarantine.reason));
                env.marks.quarantines += 1;
                if server.armed_calls.is_empty() && !server.was_full && !server.was_damaged {
                    return env.fail(Kind::Recovery, format!("server {}: {}", who.server, quarantine.reason));
                }
                *track = Track { epochs: track.epochs, ..Track::default() };
                server.was_lost = true;
            }
        }
        (track.epochs, track.epochs_begun) = (epochs, epochs);
        server.process = Some(Process::member(env, who, (opened, space), files, server.wall_ahead_ms));
    }
}

/// Writes what has gathered, as the log thread does in one turn.
pub(crate) fn write_log(world: &SharedWorld, who: Who) {
    let Some(mut log) = take_log(world, who) else { return };
    let done = match next_work(world, who) {
        None => return give_back(world, who, log),
        Some(Work::Batch(first)) => write_group(world, who, &mut log, first),
        Some(Work::Job(job, frozen)) => do_job(world, who, &mut log, job, frozen.as_ref()),
        Some(Work::Config(change)) => {
            save_config(world, who, &change);
            Ok(())
        }
    };
    if let Err(error) = done {
        return on_log_error(world, who, &mut log, &error);
    }
    give_back(world, who, log);
}

/// Writes files of the configuration. A server that cannot goes on.
fn save_config(world: &SharedWorld, who: Who, change: &ConfigChange) {
    let disk = world.lock().servers[who.server].disk.clone();
    let paced = Arc::new(PacedDisk::new(Arc::downgrade(world), disk, who));
    let saved = change.save(paced, who.server);
    let mut world = world.lock();
    let Some(Alive { process, env, .. }) = world.alive(who) else { return };
    env.marks.config_files += u64::from(saved.is_ok());
    env.note(format_args!("config: {change:?}: {saved:?}"));
    if let ConfigChange::Committed(ensemble, _) = change {
        process.inbox.config_stored = Some(ensemble.version());
        process.wake_replica(env, who);
    }
}

fn give_back(world: &SharedWorld, who: Who, log: Log) {
    let mut locked = world.lock();
    let Some(Alive { process, env, .. }) = locked.alive(who) else { return };
    process.log = Some(log);
    if !process.log_queue.is_empty() {
        process.wake_log(env, who);
    }
    let checks = env.dice.chance(env.plan.restore_per_mille);
    if checks {
        check_restorable(&mut locked, who);
    }
}

fn take_log(world: &SharedWorld, who: Who) -> Option<Log> {
    let mut world = world.lock();
    let process = world.alive(who)?.process;
    process.log_is_planned = false;
    process.log.take()
}

/// What is to be done next. What removes files waits until nobody else does.
fn next_work(world: &SharedWorld, who: Who) -> Option<Work> {
    let mut world = world.lock();
    let first = world.alive(who)?.process.log_queue.front()?;
    let removes = matches!(first, Work::Job(DiskJob::Truncate(_) | DiskJob::Install(_), _));
    if removes && !world.take_files(who, Job::Log(who)) {
        return None;
    }
    world.alive(who)?.process.log_queue.pop_front()
}

/// The next batch, if that is what comes next.
fn next_batch(world: &SharedWorld, who: Who) -> Option<Arc<LogBatch>> {
    let mut world = world.lock();
    let queue = &mut world.alive(who)?.process.log_queue;
    match queue.pop_front_if(|work| matches!(work, Work::Batch(_)))? {
        Work::Batch(batch) => Some(batch),
        Work::Job(..) | Work::Config(_) => None,
    }
}

/// Does what a member's disk was asked for, and reports it.
fn do_job(
    world: &SharedWorld,
    who: Who,
    log: &mut Log,
    job: DiskJob,
    frozen: Option<&FrozenView>,
) -> Result<(), StoreError> {
    let Log::Member(log) = log else { unreachable!("only members have jobs") };
    let (done, left) = match job {
        DiskJob::Truncate(zxid) => truncated(log.truncate(zxid)?),
        DiskJob::InitializeLog => (DiskDone::LogInitialized, Some(Box::new(log.initialize()?.state))),
        _ => (do_plain_job(log, job, frozen)?, None),
    };
    let mut world = world.lock();
    let Some(Alive { process, track, env }) = world.alive(who) else { return Ok(()) };
    env.note(format_args!("log: {done:?}"));
    env.marks.truncations += u64::from(matches!(done, DiskDone::Truncated(Some(_))));
    env.marks.installs += u64::from(matches!(done, DiskDone::Installed(_)));
    track.done(done, &env.journal);
    process.member.reports.push_back(Report { done, left });
    process.wake_replica(env, who);
    Ok(())
}

fn do_plain_job(log: &mut MemberLog, job: DiskJob, frozen: Option<&FrozenView>) -> Result<DiskDone, StoreError> {
    let number = |epoch: Epoch| u32::try_from(epoch.0).expect("epochs are not negative");
    match job {
        DiskJob::AcceptedEpoch(epoch) => log.set_accepted(number(epoch))?,
        DiskJob::CurrentEpoch(epoch) => {
            log.set_current(number(epoch))?;
            log.end_quarantine()?;
        }
        DiskJob::Install(_) => _ = log.install(frozen.expect("a state was staged"))?,
        DiskJob::Truncate(_) | DiskJob::InitializeLog => unreachable!("they leave a state"),
    }
    Ok(job.done())
}

/// Appends all batches that are there, up to the limit, and syncs once.
fn write_group(world: &SharedWorld, who: Who, log: &mut Log, first: Arc<LogBatch>) -> Result<(), StoreError> {
    let limit = world.lock().env.plan.batch_records;
    let (mut records, mut batches, mut snapshot_due, mut last) = (0, 0, None, Zxid::ZERO);
    let file = log.current_file();
    let mut next = Some(first);
    while let Some(batch) = next {
        records += batch.records;
        batches += 1;
        last = batch.last;
        if log.append(&batch)? == Appended::SnapshotDue {
            snapshot_due = Some(batch.last);
        }
        next = if limit <= records { None } else { next_batch(world, who) };
    }
    let is_first = log.current_file() != file;
    cut_before_sync(&mut world.lock(), who, is_first && 1 < records);
    let synced = log.sync()?.last;
    assert_eq!(synced, last, "all that was appended is synced");
    let mut world = world.lock();
    let Some(Alive { process, track, env }) = world.alive(who) else { return Ok(()) };
    env.note(format_args!("log: synced to {last}"));
    env.marks.group_commits += u64::from(1 < batches);
    env.marks.rolled_logs += u64::from(is_first);
    track.synced = track.synced.max(last);
    process.inbox.durable = process.inbox.durable.max(Some(last));
    process.inbox.snapshot_due = snapshot_due.or(process.inbox.snapshot_due);
    process.wake_replica(env, who);
    Ok(())
}

/// Power goes between writing and syncing, if that was planned.
fn cut_before_sync(world: &mut World, who: Who, is_first: bool) {
    let wanted = |unsynced: &mut Unsynced| *unsynced == Unsynced::Anything || is_first;
    if world.is_current(who) && world.servers[who.server].cuts_before_sync.take_if(wanted).is_some() {
        world.env.marks.power_cuts_before_sync += 1;
        world.end(who, End::PowerCut);
    }
}

/// The log cannot be written any more: nothing may be acknowledged, the process ends.
fn on_log_error(world: &SharedWorld, who: Who, log: &mut Log, error: &StoreError) {
    let mut world = world.lock();
    if !world.is_current(who) {
        return;
    }
    let env = &mut world.env;
    env.note(format_args!("log: {error}"));
    env.marks.log_errors += 1;
    if let Err(finding) = disk_error::check(log, env) {
        return finding.report(env);
    }
    let dying = env.dice.skewed(DYING_US);
    env.plan_in(dying, Event::End(who, End::Killed));
    if let Some(Alive { process, .. }) = world.alive(who) {
        process.is_stopping = true;
    }
}

/// Looks for what a learner lacks in the stored log, as a thread of its own does.
pub(crate) fn look_up(world: &SharedWorld, who: Who, link: LinkId) {
    let Some((store, LogDiffRange { after, below, continues }, factor)) = ({
        let mut world = world.lock();
        let factor = world.env.plan.size_factor;
        world.alive(who).and_then(|alive| {
            let wanted = alive.process.take_look_up(link)?;
            Some((alive.process.store.clone(), wanted, factor))
        })
    }) else {
        return;
    };
    let found = store.log_diff(after, below, if continues { f64::INFINITY } else { factor });
    let mut world = world.lock();
    if !world.is_current(who) {
        return;
    }
    let Some(Alive { process, env, .. }) = world.alive(who) else { return };
    let found = found.unwrap_or_else(|error| {
        env.note(format_args!("history: {error}"));
        None
    });
    process.on_peer(env, who, PeerInput::LookedUp(link, below, found.map(Box::new)));
}

/// Reads a part of a stored history and sends it.
pub(crate) fn send_stored(world: &SharedWorld, who: Who, link: LinkId) {
    let Some((mut stored, most)) = ({
        let mut world = world.lock();
        let most = 1 + world.env.dice.index(20);
        world.alive(who).and_then(|alive| Some((alive.process.take_stored(link)?, most)))
    }) else {
        return;
    };
    let mut bytes = Vec::new();
    let mut failure = None;
    for next in stored.by_ref().take(most) {
        match next {
            Ok(logged) => {
                let zxid = logged.zxid;
                Message::Proposal(EncodedTxn { zxid, record: logged.record.into() }).put(&mut bytes);
                Message::Commit(zxid).put(&mut bytes);
            }
            Err(error) => failure = Some(error),
        }
    }
    let mut world = world.lock();
    if !world.is_current(who) {
        return;
    }
    let Some(Alive { process, env, .. }) = world.alive(who) else { return };
    if let Some(error) = &failure {
        env.note(format_args!("history: {error}"));
    }
    process.on_stored(env, who, link, stored, failure.is_none().then_some(&bytes[..]));
}

/// Writes the snapshot that was frozen.
pub(crate) fn write_snapshot(world: &SharedWorld, who: Who) {
    let Some((store, frozen)) = ({
        let mut world = world.lock();
        world.alive(who).and_then(|alive| {
            let frozen = alive.process.frozen.take()?;
            alive.process.is_snapshotting = true;
            Some((alive.process.store.clone(), frozen))
        })
    }) else {
        return;
    };
    let written = store.write_snapshot(&frozen);
    let mut world = world.lock();
    if !world.is_current(who) {
        return;
    }
    let Some(Alive { process, env, .. }) = world.alive(who) else { return };
    process.is_snapshotting = false;
    match written {
        Ok(SnapshotTaken::Written(_) | SnapshotTaken::Existed(_)) => {
            env.marks.snapshots += 1;
            env.note(format_args!("snapshot at {} written", frozen.last_zxid()));
        }
        Err(error) => {
            env.marks.snapshot_errors += 1;
            env.note(format_args!("snapshot at {}: {error}", frozen.last_zxid()));
        }
    }
    check_restorable(&mut world, who);
}

/// Measures free space and removes old files.
pub(crate) fn maintain(world: &SharedWorld, who: Who) {
    let Some((store, retain, purges)) = ({
        let mut world = world.lock();
        world.alive(who).filter(|alive| !alive.process.is_stopping).map(|alive| {
            let env = alive.env;
            let purges = 0 < env.plan.purge_ms && env.dice.between(0, env.plan.purge_ms) < SPACE_CHECK_MS;
            (alive.process.store.clone(), env.plan.retain, purges)
        })
    }) else {
        return;
    };
    let space = store.space();
    if let Ok(space) = &space {
        _ = store.renew_reserve(space);
    }
    let purged = purges.then(|| store.purge(retain, &|| false));
    let mut world = world.lock();
    if !world.is_current(who) {
        return;
    }
    let Some(Alive { process, env, .. }) = world.alive(who) else { return };
    match space {
        Ok(space) => {
            process.inbox.space = Some(space);
            process.wake_replica(env, who);
        }
        Err(error) => env.note(format_args!("space: {error}")),
    }
    match purged {
        Some(Ok(purged)) => {
            env.marks.purges += u64::from(!purged.removed.is_empty());
            env.note(format_args!("purged {} files", purged.removed.len()));
        }
        Some(Err(error)) => env.note(format_args!("purge: {error}")),
        None => (),
    }
    let next = env.dice.between(SPACE_CHECK_MS / 2, SPACE_CHECK_MS * 2);
    env.plan_in(next * 1000, Event::Job(Job::Maintain(who)));
    if purges {
        check_restorable(&mut world, who);
    }
}

/// Ends a process cleanly: what was handed to the disk is written, and acknowledged to nobody.
pub(crate) fn stop(world: &SharedWorld, who: Who) {
    {
        let mut locked = world.lock();
        let Some(Alive { process, env, .. }) = locked.alive(who) else { return };
        if process.log.is_none() || process.is_snapshotting || process.frozen.is_some() || process.is_stopping {
            return env.plan_in(1_000, Event::Job(Job::Stop(who))); // production waits for them
        }
        process.is_stopping = true;
        env.note(format_args!("server {} stops", who.server));
    }
    let Some(mut log) = take_log(world, who) else { return };
    let finished = finish_log(world, who, &mut log).and_then(|()| log.close());
    let mut world = world.lock();
    if world.is_current(who) {
        world.env.note(format_args!("server {} stopped: {finished:?}", who.server));
        world.end(who, End::Stopped);
    }
}

fn finish_log(world: &SharedWorld, who: Who, log: &mut Log) -> Result<(), StoreError> {
    while let Some(batch) = next_batch(world, who) {
        _ = log.append(&batch)?;
        let last = log.sync()?.last;
        if let Some(Alive { track, .. }) = world.lock().alive(who) {
            track.synced = track.synced.max(last);
        }
    }
    Ok(())
}

/// Recovers a copy of the disk as it would be after a power cut right now (P60).
fn check_restorable(world: &mut World, who: Who) {
    let World { env, servers, .. } = world;
    let server = &servers[who.server];
    if server.is_full || server.was_damaged {
        return;
    }
    env.marks.restores_checked += 1;
    let seed = env.dice.next();
    let seen = (&env.journal, &server.track);
    if let Err(finding) = restorable::check(&server.disk, who.server, seen, &env.plan, seed) {
        finding.report(env);
    }
}

/// Whether nothing is on its way inside a server.
pub(crate) fn is_quiet(process: &Process, env: &Env) -> bool {
    process.replica.outstanding() == 0
        && process.inbox.is_empty()
        && !process.has_heard()
        && process.log_queue.is_empty()
        && process.io.iter().all(|io| io.mailbox.is_empty())
        && env.failure.is_none()
}
