//! A data directory is copied file by file while its server runs, and the copy is used.
//!
//! A member continues with the copy instead of its own files. The copy lacks what the member has acknowledged since,
//! so the member must not vote with it; if it does, the checkers notice. A standalone server keeps its files: the copy
//! is opened separately and must contain at least what clients could see when copying began.

use super::damage;
use crate::event::{End, Event, ProcessId};
use crate::faults::Fault;
use crate::jobs::{store_options, tree_options};
use crate::outcome::FailureKind;
use crate::world::World;
use ox_proto::Zxid;
use ox_store::Store;
use ox_store::disk::SimDisk;
use ox_store::marker::{MARKER_NAME, Marker};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A copy that is being made.
pub(crate) struct Copying {
    server: usize,
    boot: u64,
    /// What clients could see when copying began.
    shown: Zxid,
    todo: Vec<PathBuf>,
    taken: Vec<(PathBuf, Vec<u8>)>,
    /// The run that follows the clean stop after which the marker was taken.
    next_boot: Option<u64>,
}

/// The record of session ids is not copied: with a wrong clock nothing else would keep the ids distinct.
fn is_copied(path: &Path) -> bool {
    path.parent().is_some_and(|dir| dir.ends_with("version-2")) && !path.ends_with("oxk.sessions")
}

fn is_log_or_snapshot(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["log.", "snapshot."].iter().any(|prefix| name.starts_with(prefix))
}

fn files(disk: &SimDisk) -> Vec<PathBuf> {
    disk.files().into_iter().filter(|path| is_copied(path)).collect()
}

/// The server whose directory is copied. In an ensemble, the one that may lose its files.
fn source(world: &World) -> Option<usize> {
    if world.env.plan.is_ensemble() { damage::struck(world) } else { Some(0) }
}

pub(super) fn begin(world: &mut World) {
    let Some(number) = source(world).filter(|_| world.copying.is_none()) else { return };
    let (env, server) = (&mut world.env, &world.servers[number]);
    let mut todo = files(&server.disk);
    let is_marker = |path: &&PathBuf| path.ends_with(MARKER_NAME);
    let marker = todo.iter().find(is_marker).and_then(|path| server.disk.content(path));
    if marker.and_then(|bytes| Marker::decode(&bytes)).is_none() {
        return; // its very first start
    }
    for at in 1..todo.len() {
        todo.swap(at, env.rng.index(at + 1));
    }
    env.note(format_args!("copying {} files of {number}", todo.len()));
    let (boot, shown) = (server.boot, env.reference_log.shown);
    world.copying = Some(Copying { server: number, boot, shown, todo, taken: Vec::new(), next_boot: None });
    go_on_later(world);
}

fn go_on_later(world: &mut World) {
    let pause_us = world.env.rng.skewed(100_000);
    world.env.schedule_in(pause_us, Event::Fault(Fault::ContinueCopy));
}

pub(super) fn go_on(world: &mut World) {
    let Some(copying) = &mut world.copying else { return };
    let (env, server) = (&mut world.env, &world.servers[copying.server]);
    for _ in 0..env.rng.between(1, 4) {
        let Some(path) = copying.todo.pop() else { break };
        let Some(bytes) = server.disk.content(&path) else {
            // `cp`, `rsync` and `tar` report a file that vanished, so that the operator copies again. Temporary files may go.
            if is_log_or_snapshot(&path) {
                world.copying = None;
                return;
            }
            continue;
        };
        if path.ends_with(MARKER_NAME) && Marker::decode(&bytes).is_some_and(|marker| marker.closed.is_some()) {
            copying.next_boot = Some(server.boot);
        }
        copying.taken.push((path, bytes));
    }
    let waits = !copying.todo.is_empty() || server.is_starting; // nothing is replaced while a start reads it
    if waits && !env.is_healed {
        return go_on_later(world);
    }
    let Some(copying) = world.copying.take().filter(|copying| copying.todo.is_empty()) else { return };
    if world.env.plan.is_ensemble() {
        replace(world, &copying);
    } else {
        open_beside(world, &copying);
    }
}

/// Called when all files of the server are lost. A copy would mix files of two histories, without the marker that
/// identifies a copy.
pub(super) fn end_copy(world: &mut World, server: usize) {
    world.copying.take_if(|copying| copying.server == server);
}

/// Ends the member and replaces its files by the copy.
fn replace(world: &mut World, copying: &Copying) {
    let number = copying.server;
    // A copy that is complete after a clean stop looks like a moved directory, also if its server has run since.
    let server = &world.servers[number];
    let is_outdated = copying.next_boot.is_some_and(|next| server.process.is_some() || next < server.boot);
    if world.env.is_healed || is_outdated || source(world) != Some(number) {
        return;
    }
    let end = *world.env.rng.pick(&[End::Killed, End::PowerCut]);
    let pid = ProcessId { server: number, boot: world.servers[number].boot };
    world.end(pid, end);
    world.env.coverage.copies += 1;
    world.env.note(format_args!("the files of {number} are replaced by a copy"));
    let server = &mut world.servers[number];
    server.was_damaged = true;
    put(&server.disk, &copying.taken);
}

fn put(disk: &SimDisk, taken: &[(PathBuf, Vec<u8>)]) {
    files(disk).iter().for_each(|path| disk.lose(path));
    taken.iter().for_each(|(path, bytes)| disk.install(path, bytes));
}

/// Opens a copy of a standalone server. It starts, or reports that it must be made again.
fn open_beside(world: &mut World, copying: &Copying) {
    let (env, server) = (&mut world.env, &world.servers[copying.server]);
    if server.boot != copying.boot {
        return; // a power cut may have undone what was copied
    }
    let disk = server.disk.fork();
    disk.clear_faults();
    disk.restart_process();
    disk.set_capacity(1 << 40);
    put(&disk, &copying.taken);
    env.coverage.copies += 1;
    match Store::open(Arc::new(disk), &store_options(&env.plan, 0), &tree_options(&env.plan), 0) {
        Ok(opened) => {
            let (last, digest) = (opened.state.last_zxid(), opened.state.digest());
            if let Err(finding) = env.reference_log.judge_copy((copying.shown, server.expected.last), last, digest) {
                finding.report(env);
            }
        }
        Err(error) if error.remedy() == Some("copy the directory again") => env.coverage.copies_refused += 1,
        Err(error) => env.fail(FailureKind::NotRestorable, format!("a copy does not start: {error}")),
    }
}
