//! Disk work. A job takes its input out of the world, works without holding the world's lock, and puts the result back
//! if its process is still alive.

use crate::checkers::{Finding, disk_error, restorable};
use crate::disk::PacedDisk;
use crate::engine::SharedWorld;
use crate::env::Env;
use crate::event::{End, Event, Job, ProcessId};
use crate::outcome::FailureKind;
use crate::plan::Plan;
use crate::server::config;
use crate::server::dump::dump;
use crate::server::member::server_id;
use crate::server::process::Process;
use crate::server::{ExpectedDisk, Unsynced};
use crate::world::{Alive, World};
use ox_driver::config_change::ConfigChange;
use ox_driver::links::next_chunk;
use ox_driver::log_writer::{Durable, Group, LogWork, LogWriter, QueuedBatch};
use ox_driver::replica_loop::PeerEvent;
use ox_driver::server_log::JobReport;
use ox_driver::space_check::{SpaceCheck, SpaceError};
use ox_proto::ensemble::Ensemble;
use ox_store::{
    FreeSpace, LogOptions, MemberOptions, OpenOutcome, Opened, OpenedMember, SnapshotTaken, Store, StoreError,
    StoreOptions,
};
use ox_tree::TreeOptions;
use ox_tree::auth::{DigestHash, SchemeSettings, SuperDigest, digest_id};
use ox_zab::{DiskDone, DiskJob, LinkId, LogDiffRange};
use std::sync::Arc;

/// The longest time from an error of the log until the process ends.
const DYING_US: i64 = 50_000;
/// Interval of the check of free disk space.
const SPACE_CHECK_MS: i64 = 500;

/// The credentials of the client that reconfigures the ensemble.
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
        schemes: SchemeSettings {
            super_digest: plan.is_dynamic().then(|| SuperDigest::new(digest_id(DigestHash::Sha1, SUPER))),
            ..SchemeSettings::default()
        },
        ..TreeOptions::default()
    }
}

pub(crate) fn member_options(plan: &Plan, number: usize) -> MemberOptions {
    MemberOptions { recent_max: plan.commit_log, ..MemberOptions::new(server_id(number).0) }
}

/// The result of opening the store.
enum Start {
    Standalone(Box<(Opened, FreeSpace)>),
    Member(Box<(OpenedMember, FreeSpace, Option<Files>)>),
}

/// The committed and the proposed configuration in a server's files.
type Files = (Ensemble, Option<Ensemble>);

/// Recovers a server and starts its process.
pub(crate) fn start(world: &SharedWorld, number: usize) {
    let (pid, disk, options, tree, member, seed, calls, is_dynamic) = {
        let world = &mut *world.lock();
        let server = &mut world.servers[number];
        if server.process.is_some() || std::mem::replace(&mut server.is_starting, true) {
            return;
        }
        let pid = ProcessId { server: number, boot: server.boot };
        if world.env.plan.resets_clock {
            server.wall_ahead_ms = -world.env.now.0 / 1000;
        }
        let (disk, calls, now_ms) = (server.disk.clone(), server.disk.calls(), server.wall_ms(world.env.now));
        let seed = world.env.rng.next_u64();
        world.env.note(format_args!("server {number} process {} starts", pid.boot));
        let plan = &world.env.plan;
        let member = plan.is_ensemble().then(|| member_options(plan, number));
        (pid, disk, store_options(plan, now_ms), tree_options(plan), member, seed, calls, plan.is_dynamic())
    };
    let paced = Arc::new(PacedDisk::new(Arc::downgrade(world), disk.clone(), pid));
    let files = is_dynamic.then(|| config::read(&*paced)).transpose();
    let opened = match member {
        None => {
            let opened = Store::open(paced, &options, &tree, seed);
            let opened = opened.and_then(|opened| Ok((opened.store.space()?, opened)));
            let standalone = |(space, opened)| Start::Standalone(Box::new((opened, space)));
            opened.map(standalone).map_err(|error| error.to_string())
        }
        Some(member) => {
            let opened = Store::open_member(paced, &options, &member, &tree, seed);
            let opened = opened.and_then(|opened| Ok((opened.store.space()?, opened)));
            let member = |(space, opened)| Ok(Start::Member(Box::new((opened, space, files?))));
            opened.map_err(|error| error.to_string()).and_then(member)
        }
    };
    let mut world = world.lock();
    if !world.is_current(pid) {
        return;
    }
    world.servers[number].is_starting = false;
    match opened {
        Ok(Start::Standalone(standalone)) => {
            let (opened, space) = *standalone;
            world.serve_standalone(pid, opened, space);
        }
        Ok(Start::Member(member)) => {
            let (opened, space, files) = *member;
            world.start_member(pid, (opened, space), files);
        }
        Err(error) => {
            let server = &world.servers[number];
            let was_injected =
                server.is_full || server.armed_calls.iter().any(|call| calls < *call && *call <= disk.calls());
            world.env.note(format_args!("server {number} does not start: {error}"));
            if was_injected {
                world.env.coverage.start_errors += 1;
                world.end(pid, End::Killed);
            } else {
                world.env.fail(FailureKind::Recovery, error);
            }
        }
    }
}

impl World {
    fn serve_standalone(&mut self, pid: ProcessId, opened: Opened, space: FreeSpace) {
        let server = &mut self.servers[pid.server];
        let (env, report, state) = (&mut self.env, &opened.report, &opened.state);
        let before = server.expected.last;
        env.coverage.recoveries += 1;
        env.coverage.torn_tails += u64::from(report.dropped.is_some());
        env.note(format_args!(
            "server {} process {} serves at {}: {} replayed, digest {:x}",
            pid.server, pid.boot, report.last_zxid, report.replayed, report.digest
        ));
        if report.digest_mismatches != 0 || report.conflicts != 0 || report.removed_ephemerals != 0 {
            return env.fail(FailureKind::Digest, format!("recovery reports {report:?}"));
        }
        let now = env.now;
        match env.reference_log.recover(&mut server.expected, state.last_zxid(), state.digest(), now) {
            Ok(recovered) => {
                env.coverage.lost_tails += u64::from(recovered.lost);
                env.coverage.kept_unacked += u64::from(recovered.kept_unacked);
            }
            Err(Finding { kind, detail }) => {
                return env.fail(kind, format!("{detail} (written up to {before}); {report:?}"));
            }
        }
        let name = format!("server {} process {} after its start", pid.server, pid.boot);
        env.history.dumps.push(dump(state, name));
        env.history.starts.push(env.now);
        let started = (opened, space);
        server.process = Some(Process::standalone(env, &mut server.expected, pid, started, server.wall_ahead_ms));
    }

    /// Starts the process of a member.
    fn start_member(&mut self, pid: ProcessId, (opened, space): (OpenedMember, FreeSpace), files: Option<Files>) {
        let server = &mut self.servers[pid.server];
        let env = &mut self.env;
        env.coverage.recoveries += 1;
        let (expected, epochs) = (&mut server.expected, opened.log.epochs());
        match &opened.outcome {
            OpenOutcome::Loaded(loaded) => {
                let (state, report) = (&loaded.state, &loaded.report);
                let last = state.last_zxid();
                env.coverage.torn_tails += u64::from(report.dropped.is_some());
                env.note(format_args!("server {} process {} has {last}, {epochs:?}", pid.server, pid.boot));
                let is_monotonic = expected.epochs.accepted <= epochs.accepted
                    && expected.epochs.current <= epochs.current
                    && epochs.current <= epochs.accepted;
                if !is_monotonic {
                    let detail = format!("a start found {epochs:?}, the disk had reported {:?}", expected.epochs);
                    return env.fail(FailureKind::SentNotDurable, detail);
                }
                if report.digest_mismatches != 0 || report.conflicts != 0 || loaded.reach != last {
                    return env
                        .fail(FailureKind::Digest, format!("recovery of server {} reports {report:?}", pid.server));
                }
                match env.reference_log.recover_member(expected, last, state.digest()) {
                    Ok(recovered) => {
                        env.coverage.lost_tails += u64::from(recovered.lost);
                        env.coverage.kept_unacked += u64::from(recovered.kept_unacked);
                    }
                    Err(Finding { kind, detail }) => {
                        return env.fail(kind, format!("server {}: {detail}; {report:?}", pid.server));
                    }
                }
                let name = format!("server {} process {} after its start", pid.server, pid.boot);
                env.history.dumps.push(dump(state, name));
            }
            OpenOutcome::Empty => {
                env.note(format_args!("server {} is empty", pid.server));
                env.coverage.empty_starts += 1;
                if !server.was_damaged {
                    return env.fail(FailureKind::Recovery, format!("server {} is empty", pid.server));
                }
                *expected = ExpectedDisk::default();
                server.was_lost = true;
            }
            OpenOutcome::Quarantined(quarantine) => {
                env.note(format_args!("server {} is quarantined: {}", pid.server, quarantine.reason));
                env.coverage.quarantines += 1;
                if server.armed_calls.is_empty() && !server.was_full && !server.was_damaged {
                    return env.fail(FailureKind::Recovery, format!("server {}: {}", pid.server, quarantine.reason));
                }
                *expected = ExpectedDisk { epochs: expected.epochs, ..ExpectedDisk::default() };
                server.was_lost = true;
            }
        }
        (expected.epochs, expected.epochs_begun) = (epochs, epochs);
        server.process = Some(Process::member(env, expected, pid, (opened, space), files, server.wall_ahead_ms));
    }
}

/// Executes the next work of the log queue, as one iteration of the log thread.
pub(crate) fn write_log(world: &SharedWorld, pid: ProcessId) {
    let Some(mut log) = take_log(world, pid) else { return };
    if let Some(work) = next_work(world, pid)
        && let Err(error) = do_work(world, pid, &mut log, work)
    {
        return on_log_error(world, pid, &mut log, &error);
    }
    return_log(world, pid, log);
}

fn do_work(world: &SharedWorld, pid: ProcessId, log: &mut LogWriter, work: LogWork) -> Result<(), StoreError> {
    match work {
        LogWork::Batch(first) => write_group(world, pid, log, first)?,
        LogWork::Job(job, snapshot) => {
            let report = log.execute(job, snapshot.as_ref())?;
            report_job(&mut world.lock(), pid, report);
        }
        LogWork::Config(change) => save_config(world, pid, &change),
    }
    Ok(())
}

/// Writes configuration files. The server continues after an error.
fn save_config(world: &SharedWorld, pid: ProcessId, change: &ConfigChange) {
    let disk = world.lock().servers[pid.server].disk.clone();
    let paced = Arc::new(PacedDisk::new(Arc::downgrade(world), disk, pid));
    let saved = change.save(&config::files(paced, pid.server));
    let mut world = world.lock();
    let Some(Alive { process, env, .. }) = world.alive(pid) else { return };
    env.coverage.config_files += u64::from(saved.is_ok());
    env.note(format_args!("config: {change:?}: {saved:?}"));
    if let Some(version) = change.active_version() {
        process.inbox.config_stored = Some(version);
        process.wake_replica(env, pid);
    }
}

fn return_log(world: &SharedWorld, pid: ProcessId, log: LogWriter) {
    let mut locked = world.lock();
    let Some(Alive { process, env, .. }) = locked.alive(pid) else { return };
    process.log = Some(log);
    if !process.log_queue.is_empty() {
        process.wake_log(env, pid);
    }
    let checks = env.rng.chance(env.plan.restore_per_mille);
    if checks {
        check_restorable(&mut locked, pid);
    }
}

fn take_log(world: &SharedWorld, pid: ProcessId) -> Option<LogWriter> {
    let mut world = world.lock();
    let process = world.alive(pid)?.process;
    process.log_is_scheduled = false;
    process.log.take()
}

/// The next work of the queue. Work that deletes files waits for other jobs that do.
fn next_work(world: &SharedWorld, pid: ProcessId) -> Option<LogWork> {
    let mut world = world.lock();
    let first = world.alive(pid)?.process.log_queue.front()?;
    let removes = matches!(first, LogWork::Job(DiskJob::Truncate(_) | DiskJob::Install(_), _));
    if removes && !world.take_files(pid, Job::Log(pid)) {
        return None;
    }
    world.alive(pid)?.process.log_queue.pop()
}

/// Takes the next entry of the queue if it is a batch.
fn next_batch(world: &SharedWorld, pid: ProcessId) -> Option<QueuedBatch> {
    world.lock().alive(pid)?.process.log_queue.pop_batch()
}

/// Reports a member's disk job.
fn report_job(world: &mut World, pid: ProcessId, report: JobReport) {
    let Some(Alive { process, expected, env }) = world.alive(pid) else { return };
    let done = report.done;
    env.note(format_args!("log: {done:?}"));
    env.coverage.truncations += u64::from(matches!(done, DiskDone::Truncated(Some(_))));
    env.coverage.installs += u64::from(matches!(done, DiskDone::Installed(_)));
    expected.done(done, &env.reference_log);
    process.inbox.reports.push(report);
    process.wake_replica(env, pid);
}

/// Appends the queued batches, up to the limit, and fsyncs once.
fn write_group(world: &SharedWorld, pid: ProcessId, log: &mut LogWriter, first: QueuedBatch) -> Result<(), StoreError> {
    let now = || world.lock().env.elapsed();
    log.append(now(), first)?;
    while log.wait_for_batch(now()).is_some()
        && let Some(batch) = next_batch(world, pid)
    {
        log.append(now(), batch)?;
    }
    let Group { records, starts_file, .. } = *log.group();
    cut_before_sync(&mut world.lock(), pid, starts_file && 1 < records);
    let Durable { synced, snapshot_due } = log.sync()?;
    let mut world = world.lock();
    let Some(Alive { process, expected, env }) = world.alive(pid) else { return Ok(()) };
    let last = synced.last;
    env.note(format_args!("log: fsynced up to {last}"));
    env.coverage.group_commits += u64::from(1 < log.group().batches.len());
    env.coverage.rolled_logs += u64::from(starts_file);
    expected.synced = expected.synced.max(last);
    process.inbox.durable = process.inbox.durable.max(Some(last));
    process.inbox.snapshot_due = snapshot_due.or(process.inbox.snapshot_due);
    process.wake_replica(env, pid);
    Ok(())
}

/// Cuts the power between write and fsync, if that fault is pending.
fn cut_before_sync(world: &mut World, pid: ProcessId, is_first: bool) {
    let wanted = |unsynced: &mut Unsynced| *unsynced == Unsynced::Anything || is_first;
    if world.is_current(pid) && world.servers[pid.server].cuts_before_sync.take_if(wanted).is_some() {
        world.env.coverage.power_cuts_before_sync += 1;
        world.end(pid, End::PowerCut);
    }
}

/// Ends the process after an error of the log. Nothing may be acknowledged any more.
fn on_log_error(world: &SharedWorld, pid: ProcessId, log: &mut LogWriter, error: &StoreError) {
    let mut world = world.lock();
    if !world.is_current(pid) {
        return;
    }
    let env = &mut world.env;
    env.note(format_args!("log: {error}"));
    env.coverage.log_errors += 1;
    if let Err(finding) = disk_error::check(log, env) {
        return finding.report(env);
    }
    let dying = env.rng.skewed(DYING_US);
    env.schedule_in(dying, Event::End(pid, End::Killed));
    if let Some(Alive { process, .. }) = world.alive(pid) {
        process.is_stopping = true;
    }
}

/// Searches the on-disk log for the transactions that a learner lacks, as a separate thread does in production.
pub(crate) fn read_log(world: &SharedWorld, pid: ProcessId, link: LinkId) {
    let Some((store, LogDiffRange { after, below, continues }, factor)) = ({
        let mut world = world.lock();
        let factor = world.env.plan.size_factor;
        world.alive(pid).and_then(|alive| {
            let wanted = alive.process.take_log_search(link)?;
            Some((alive.process.store.clone(), wanted, factor))
        })
    }) else {
        return;
    };
    let found = store.log_diff(after, below, if continues { f64::INFINITY } else { factor });
    let mut world = world.lock();
    if !world.is_current(pid) {
        return;
    }
    let Some(Alive { process, env, .. }) = world.alive(pid) else { return };
    let found = found.unwrap_or_else(|error| {
        env.note(format_args!("history: {error}"));
        None
    });
    process.on_peer(env, pid, PeerEvent::LogDiffRead(link, below, found.map(Box::new)));
}

/// Reads the next part of a log diff and sends it.
pub(crate) fn send_log_diff(world: &SharedWorld, pid: ProcessId, link: LinkId) {
    let Some((mut reader, chunk_bytes)) = ({
        let mut world = world.lock();
        let chunk_bytes = *world.env.rng.pick(&[1, 500, 5_000]);
        world.alive(pid).and_then(|alive| Some((alive.process.take_log_diff(link)?, chunk_bytes)))
    }) else {
        return;
    };
    let mut failure = None;
    if reader.next.is_none() {
        match next_chunk(&mut reader.history, chunk_bytes) {
            Ok(chunk) => reader.next = Some(chunk),
            Err(error) => failure = Some(error),
        }
    }
    let mut world = world.lock();
    if !world.is_current(pid) {
        return;
    }
    let Some(Alive { process, env, .. }) = world.alive(pid) else { return };
    if let Some(error) = &failure {
        env.note(format_args!("history: {error}"));
    }
    process.on_log_diff_read(env, pid, link, failure.is_none().then_some(reader));
}

/// Writes a snapshot of the frozen state.
pub(crate) fn write_snapshot(world: &SharedWorld, pid: ProcessId) {
    let Some((store, frozen, began)) = ({
        let mut world = world.lock();
        world
            .alive(pid)
            .and_then(|Alive { process, env, .. }| Some((process.store.clone(), process.frozen.take()?, env.elapsed())))
    }) else {
        return;
    };
    let written = store.write_snapshot(&frozen);
    let mut world = world.lock();
    if !world.is_current(pid) {
        return;
    }
    let Some(Alive { process, env, .. }) = world.alive(pid) else { return };
    let failure = written.as_ref().err().map(|error| error as &(dyn std::error::Error + 'static));
    let replica_loop = process.replica_thread.replica_loop_mut();
    replica_loop.on_snapshot_finished(env.elapsed(), env.elapsed() - began, failure);
    match written {
        Ok(SnapshotTaken::Written(_) | SnapshotTaken::Existed(_)) => {
            env.coverage.snapshots += 1;
            env.note(format_args!("snapshot at {} written", frozen.last_zxid()));
        }
        Err(error) => {
            env.coverage.snapshot_errors += 1;
            env.note(format_args!("snapshot at {}: {error}", frozen.last_zxid()));
        }
    }
    check_restorable(&mut world, pid);
}

/// Checks free space and purges old files.
pub(crate) fn maintain(world: &SharedWorld, pid: ProcessId) {
    let Some((store, retain, purges)) = ({
        let mut world = world.lock();
        world.alive(pid).filter(|alive| !alive.process.is_stopping).map(|Alive { process, env, .. }| {
            let purges = 0 < env.plan.purge_ms && env.rng.between(0, env.plan.purge_ms) < SPACE_CHECK_MS;
            (process.store.clone(), env.plan.retain, purges)
        })
    }) else {
        return;
    };
    let space = SpaceCheck::measure(&store);
    if let Ok(space) = &space {
        _ = store.renew_reserve(space);
    }
    let purged = purges.then(|| store.purge(retain, &|| false));
    let mut world = world.lock();
    if !world.is_current(pid) {
        return;
    }
    let Some(Alive { process, env, .. }) = world.alive(pid) else { return };
    match space {
        Ok(space) => {
            process.inbox.space = Some(space);
            process.space_check.log_change(&space);
            process.wake_replica(env, pid);
        }
        Err(SpaceError::Failed(error) | SpaceError::Gone(error)) => env.note(format_args!("space: {error}")),
    }
    match purged {
        Some(Ok(purged)) => {
            env.coverage.purges += u64::from(!purged.removed.is_empty());
            env.note(format_args!("purged {} files", purged.removed.len()));
        }
        Some(Err(error)) => env.note(format_args!("purge: {error}")),
        None => (),
    }
    let next = env.rng.between(SPACE_CHECK_MS / 2, SPACE_CHECK_MS * 2);
    env.schedule_in(next * 1000, Event::Job(Job::Maintain(pid)));
    if purges {
        check_restorable(&mut world, pid);
    }
}

/// Stops a process cleanly: writes all queued work without acknowledging it.
pub(crate) fn stop(world: &SharedWorld, pid: ProcessId) {
    {
        let mut locked = world.lock();
        let Some(Alive { process, env, .. }) = locked.alive(pid) else { return };
        if process.log.is_none() || process.replica_thread.is_writing_snapshot() || process.is_stopping {
            return env.schedule_in(1_000, Event::Job(Job::Stop(pid))); // production waits for them
        }
        process.is_stopping = true;
        env.note(format_args!("server {} stops", pid.server));
    }
    let Some(mut log) = take_log(world, pid) else { return };
    let finished = finish_log(world, pid, &mut log).and_then(|()| log.close());
    let mut world = world.lock();
    if world.is_current(pid) {
        world.env.note(format_args!("server {} stopped: {finished:?}", pid.server));
        world.end(pid, End::Stopped);
    }
}

/// Executes all queued work. The replica thread has ended, so that nothing is acknowledged.
fn finish_log(world: &SharedWorld, pid: ProcessId, log: &mut LogWriter) -> Result<(), StoreError> {
    while let Some(work) = next_work(world, pid) {
        do_work(world, pid, log, work)?;
    }
    Ok(())
}

/// Recovers a copy of the disk as a power cut would leave it now (P60).
fn check_restorable(world: &mut World, pid: ProcessId) {
    let World { env, servers, .. } = world;
    let server = &servers[pid.server];
    if server.is_full || server.was_damaged {
        return;
    }
    env.coverage.restores_checked += 1;
    let seed = env.rng.next_u64();
    let seen = (&env.reference_log, &server.expected);
    if let Err(finding) = restorable::check(&server.disk, pid.server, seen, &env.plan, seed) {
        finding.report(env);
    }
}

/// Whether all queues of a server are empty, and its sockets have accepted all output.
pub(crate) fn is_quiet(process: &Process, env: &Env) -> bool {
    process.status().outstanding() == 0
        && process.inbox.is_empty()
        && process.peers_thread.is_idle()
        && process.log_queue.is_empty()
        && process
            .io
            .iter()
            .all(|io| io.mailbox.is_empty() && io.connections.connections().all(|conn| conn.unsent() == 0))
        && env.failure.is_none()
}
