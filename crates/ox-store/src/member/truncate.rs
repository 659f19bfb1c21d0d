//! Cutting a history: what a new leader does not have must go, and must never come back (TRUNC).
//!
//! Everything is read first. Recovery is run with a limit, as if the files ended there; what it builds on has to be left
//! over, so if that does not work nothing is touched. Then, each step durable before the next:
//!
//! 1. the marker is lowered, because what it vouches for is about to go;
//! 2. snapshots that contain anything above the limit are removed;
//! 3. logs that lie wholly above it are removed, newest first;
//! 4. the log that contains it is cut behind its last record that stays;
//! 5. what is left is recovered again, and must end where the first reading said.
//!
//! A crash on the way leaves a history without holes that ends somewhere between the two: older snapshots lead to the
//! same records, because every snapshot that goes was met as a record on the way. The server joins again and is cut again.

use super::{Loaded, MemberLog};
use crate::disk::{Disk, Open};
use crate::error::{Damage, Error, IoContext};
use crate::lineage::Lineage;
use crate::log_reader::LOG_HEADER_BYTES;
use crate::marker::{Marker, write_durably};
use crate::names::{LogFile, SnapshotFile};
use crate::recovery::repair::sync_file;
use crate::recovery::replay::Beyond;
use crate::recovery::{Files, MemberRules, Recovered, Rules, recover};
use crate::snapshot::read::{Sink, StoredNode, read_snapshot};
use crate::snapshot::write::Structure;
use crate::store::Shared;
use ox_proto::{RawAcls, SessionId, Zxid};
use std::sync::Arc;

/// What became of a truncation.
pub enum Truncated {
    /// The history ends at the zxid that was asked for.
    Done(Box<Loaded>),
    /// That zxid was not part of it, and it ends before: join again and claim what there is.
    Short(Box<Loaded>),
    /// Nothing was touched, for this reason: join again and ask for a snapshot.
    NotPossible(String),
}

impl MemberLog {
    /// Removes everything above `to`. Nothing appended may be waiting for its sync any more. An error means that the
    /// files are in between: the process has to end, and the next start finds out.
    pub fn truncate(&mut self, to: Zxid) -> Result<Truncated, Error> {
        self.job(|log| {
            log.log.finish()?;
            let shared = Arc::clone(&log.store.0);
            let _files = shared.files.lock();
            let is_member = matches!(*shared.lineage.lock(), Lineage::Member(_));
            if !is_member || log.last() < to {
                return Ok(Truncated::NotPossible(format!("the history ends at {}", log.last())));
            }
            match log.plan(&shared, to) {
                Ok(plan) => log.carry_out(&shared, &plan, to),
                Err(error) if error.is_damage() => Ok(Truncated::NotPossible(error.to_string())),
                Err(error) => Err(error),
            }
        })
    }

    /// Finds out what has to go, and that enough is left.
    fn plan(&self, shared: &Shared, to: Zxid) -> Result<Plan, Error> {
        let listing = self.store.listing()?;
        let disk = &*shared.disk;
        let files = Files::new(disk, &shared.dirs, &listing)?;
        let rules = self.member.rules(&self.options);
        let member = rules.member.map(|member| MemberRules { limit: Some(to), window: 0, ..member });
        let Recovered { replay, snapshot, .. } = recover(&files, &Rules { member, ..rules }, &self.tree_options)?;
        if let Some(torn) = replay.torn {
            let damage = Damage::BadFrame { intact_after: 0 };
            return Err(Error::Corrupt { path: torn.log.path, offset: torn.offset, after: torn.after, damage });
        }
        // What stays is all there will be.
        for path in replay.used.iter().chain(snapshot.iter().map(|(file, _)| &file.path)) {
            sync_file(disk, path)?;
        }
        let base = snapshot.map(|(file, _)| file);
        let goes =
            |file: &SnapshotFile| base.as_ref() != Some(file) && reach(disk, file).is_none_or(|reach| to < reach);
        let snapshots = listing.snapshots.iter().filter(|file| goes(file)).cloned().collect();
        let first = replay.beyond.as_ref().and_then(|beyond| listing.logs.iter().position(|log| *log == beyond.log));
        let mut logs = first.map_or(Vec::new(), |first| listing.logs[first..].to_vec());
        let cut = replay.beyond.filter(|beyond| LOG_HEADER_BYTES < beyond.offset);
        if cut.is_some() {
            logs.remove(0);
        }
        Ok(Plan { last: replay.last, snapshots, logs, cut })
    }

    fn carry_out(&mut self, shared: &Shared, plan: &Plan, to: Zxid) -> Result<Truncated, Error> {
        *shared.lineage.lock() = Lineage::Unusable;
        plan.remove(shared)?;
        let listing = self.store.listing()?;
        let disk = &*shared.disk;
        let files = Files::new(disk, &shared.dirs, &listing)?;
        let recovered = recover(&files, &self.member.rules(&self.options), &self.tree_options)?;
        if recovered.replay.last != plan.last {
            return Err(Error::TruncateFailed { wanted: plan.last, found: recovered.replay.last });
        }
        let mut loaded = self.settle_files(recovered, &listing)?;
        // The start of an epoch has no record: whoever took over that epoch has all that came before it.
        let is_start = to.counter() == 0 && to.epoch() <= self.epochs().current;
        if plan.last < to && is_start {
            self.claim(&mut loaded, to);
        }
        let is_done = loaded.state.last_zxid() == to;
        let loaded = Box::new(loaded);
        Ok(if is_done { Truncated::Done(loaded) } else { Truncated::Short(loaded) })
    }

    fn claim(&mut self, loaded: &mut Loaded, start: Zxid) {
        loaded.state.set_last_zxid(start);
        loaded.reach = loaded.reach.max(start);
        self.log.continue_after(start);
        if let Lineage::Member(history) = &mut *self.store.0.lineage.lock() {
            history.synced = start;
        }
    }
}

/// What has to go.
struct Plan {
    /// The last record that stays.
    last: Zxid,
    snapshots: Vec<SnapshotFile>,
    /// Oldest first.
    logs: Vec<LogFile>,
    cut: Option<Beyond>,
}

impl Plan {
    fn remove(&self, shared: &Shared) -> Result<(), Error> {
        let (disk, dirs) = (&*shared.disk, &shared.dirs);
        let marker = match &self.cut {
            Some(Beyond { log, offset, identity, .. }) => {
                Marker { log: log.first, position: *offset, identity: *identity, last: self.last, ..Marker::default() }
            }
            None => Marker { last: self.last, ..Marker::default() },
        };
        write_durably(disk, &dirs.logs, &marker)?;
        for snapshot in &self.snapshots {
            disk.remove(&snapshot.path).context("remove", &snapshot.path)?;
        }
        disk.sync_dir(&dirs.snapshots).context("sync directory", &dirs.snapshots)?;
        for log in self.logs.iter().rev() {
            disk.remove(&log.path).context("remove", &log.path)?;
            disk.sync_dir(&dirs.logs).context("sync directory", &dirs.logs)?;
        }
        if let Some(Beyond { log, offset, .. }) = &self.cut {
            let file = disk.open(&log.path, Open::Write).context("open", &log.path)?;
            file.set_len(*offset).context("cut", &log.path)?;
            file.sync_all().context("sync", &log.path)?;
        }
        Ok(())
    }
}

/// The last transaction that a snapshot contains, wholly or in part; none if it cannot be read, so that nobody knows.
fn reach(disk: &dyn Disk, file: &SnapshotFile) -> Option<Zxid> {
    let mut newest = Newest { structure: Structure::default(), zxid: Zxid::ZERO };
    let trailer = read_snapshot(disk, file, &mut newest).ok()?.trailer;
    let told = trailer.last_zxid.or(trailer.digest.map(|(zxid, _)| zxid));
    Some(told.unwrap_or(newest.zxid).max(file.last))
}

/// Finds the newest zxid of any node.
struct Newest {
    structure: Structure,
    zxid: Zxid,
}

impl Sink for Newest {
    fn session(&mut self, id: SessionId, timeout_ms: i32) -> Result<(), String> {
        self.structure.session(id, timeout_ms)
    }

    fn acl(&mut self, id: i64, acls: RawAcls<'_>) -> Result<(), String> {
        self.structure.acl(id, acls)
    }

    fn node(&mut self, node: &StoredNode<'_>) -> Result<(), String> {
        if node.path != "/zookeeper/config" {
            let stat = &node.stat;
            self.zxid = self.zxid.max(stat.czxid).max(stat.mzxid).max(stat.pzxid);
        }
        self.structure.node(node)
    }
}
