//! Damages files of a member: changes, truncates or deletes them.
//!
//! The victim is always the same member, and only if a quorum remains without it: committed transactions then exist
//! elsewhere, so none may be lost, and the member must recover them (P57, P58, P61).
//!
//! Damage that no server could detect is excluded: the digits of epoch files, which have no checksum in Apache's
//! format; the small files that identify the directory and the operation in progress; and the newest records together
//! with the synced position, which a power cut may revert. The synced position is therefore durable when damage
//! occurs, and the newest log is excluded if that position is old. The end of a log cannot always be missed either if
//! the next log begins an epoch and does not name its predecessor: such logs only get bit errors.

use super::copies::end_copy;
use crate::event::{End, ProcessId};
use crate::world::World;
use ox_proto::Zxid;
use ox_store::disk::SimDisk;
use ox_store::marker::{MARKER_NAME, Marker};
use ox_store::names::log_name;
use std::path::{Path, PathBuf};

/// The member whose files may be damaged, if any.
fn victim(world: &World) -> Option<usize> {
    let plan = &world.env.plan;
    let (first, count) = if 3 <= plan.voters { (0, plan.servers()) } else { (plan.voters, plan.observers) };
    (0 < count).then(|| first + plan.victim % count)
}

/// The member whose files may be lost now.
pub(super) fn struck(world: &World) -> Option<usize> {
    let number = victim(world).filter(|_| world.env.plan.is_ensemble())?;
    if world.servers[number].is_starting {
        return None; // losing a file while it is read is a different fault
    }
    // Two empty members would be taken for a new ensemble.
    let mut others = (0..world.env.plan.voters).filter(|other| *other != number);
    others.all(|other| 0 < world.servers[other].expected.epochs.current).then_some(number)
}

pub(super) fn strike(world: &mut World) {
    let Some(number) = struck(world) else { return };
    // A directory without accepted epoch and without a record of an epoch looks like a new one of Apache.
    let expected = &world.servers[number].expected;
    let has_epochs = 0 < expected.epochs.current && 0 < expected.synced.epoch();
    let is_struck = |path: &PathBuf| is_struck(path) && (has_epochs || !is_epoch(path));
    let mut files: Vec<PathBuf> = world.servers[number].disk.files().into_iter().filter(is_struck).collect();
    let all = files.clone();
    let is_vouched_for = world.servers[number].expected.synced <= marked(&world.servers[number].disk);
    let kind = world.env.rng.below(10);
    let disk = &world.servers[number].disk;
    files.retain(|path| match successor(path, &all) {
        Some(next) => next.counter() != 1 || 7 <= kind || says_what_it_follows(disk, path, next),
        None => is_vouched_for || !name(path).starts_with("log."),
    });
    if files.is_empty() {
        return;
    }
    let env = &mut world.env;
    let server = &mut world.servers[number];
    server.was_damaged = true;
    env.coverage.damages += 1;
    // With all other files the record of session ids is lost: only the clock keeps the ids distinct.
    let has_clock = !env.plan.resets_clock && env.plan.clock_ms == 0;
    if kind < 2 && has_clock {
        env.note(format_args!("all files of {number} are lost"));
        server.disk.files().iter().for_each(|path| server.disk.lose(path));
        // A process that continues with deleted files would leave new files that look complete.
        let pid = ProcessId { server: number, boot: server.boot };
        end_copy(world, number);
        return world.end(pid, End::Killed);
    }
    for path in server.disk.files().iter().filter(|path| name(path) == MARKER_NAME) {
        server.disk.settle(path);
    }
    let path = env.rng.pick(&files).clone();
    let is_epoch = is_epoch(&path);
    let (at, bit) = (env.rng.next_u64(), env.rng.below(8));
    env.note(format_args!("damage of {number}, kind {kind}: {}", path.display()));
    let place = |length: usize| usize::try_from(at % length.max(1) as u64).unwrap_or(0);
    // The newest log must still be the newest when it is read again.
    let ends = name(&path).starts_with("log.") && successor(&path, &all).is_none();
    match kind {
        0..=3 => server.disk.lose(&path),
        4 => server.disk.damage(&path, |bytes| bytes.truncate(if is_epoch { 0 } else { place(bytes.len()) })),
        5 | 6 if !is_epoch => server.disk.damage(&path, |bytes| {
            let from = place(bytes.len());
            let to = (from + 512).min(bytes.len());
            bytes[from..to].fill(0);
        }),
        _ if is_epoch => server.disk.damage(&path, |bytes| bytes.fill(b'x')),
        _ => server.disk.damage(&path, |bytes| {
            let at = place(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }),
    }
    if ends {
        let pid = ProcessId { server: number, boot: server.boot };
        world.end(pid, End::Killed);
    }
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn is_struck(path: &Path) -> bool {
    let name = name(path);
    !name.starts_with("oxk.")
        && ["log.", "snapshot.", "acceptedEpoch", "currentEpoch"].iter().any(|kind| name.starts_with(kind))
}

/// Whether a file contains an epoch, under its final or temporary name.
fn is_epoch(path: &Path) -> bool {
    ["acceptedEpoch", "currentEpoch"].iter().any(|kind| name(path).starts_with(kind))
}

/// The last zxid of the synced position.
fn marked(disk: &SimDisk) -> Zxid {
    let files = disk.files();
    let marker = files.iter().find(|path| name(path) == MARKER_NAME).and_then(|path| disk.content(path));
    marker.and_then(|bytes| Marker::decode(&bytes)).map_or(Zxid::ZERO, |marker| marker.last)
}

/// Whether the log `next` in the same directory names its preceding record.
fn says_what_it_follows(disk: &SimDisk, beside: &Path, next: Zxid) -> bool {
    let bytes = disk.content(&beside.with_file_name(log_name(next)));
    let predecessor = bytes.and_then(|bytes| bytes.get(8..).and_then(|rest| rest.first_chunk().copied()));
    predecessor.is_some_and(|word| Zxid(i64::from_be_bytes(word)).counter() != 0)
}

/// The first zxid of the next log.
fn successor(path: &Path, files: &[PathBuf]) -> Option<Zxid> {
    let first = |path: &Path| i64::from_str_radix(name(path).strip_prefix("log.")?, 16).ok().map(Zxid);
    let own = first(path)?;
    files.iter().filter_map(|path| first(path)).filter(|other| own < *other).min()
}
