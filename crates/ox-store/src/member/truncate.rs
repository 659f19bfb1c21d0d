//! Truncating the log: removing transactions that a new leader does not have, for good (TRUNC).
//!
//! Everything is read first. Recovery runs with a limit, as if the files ended there; if that fails, nothing is
//! changed. Then, each step durable before the next:
//!
//! 1. lower the marker, because the bytes before its position will not all remain;
//! 2. remove snapshots that contain anything above the limit;
//! 3. remove logs that lie completely above it, newest first;
//! 4. truncate the log that contains it after the last remaining record;
//! 5. recover from the remaining files, which must end where the first recovery did.
//!
//! A crash leaves a history without gaps that ends somewhere between the two: older snapshots lead to the same records,
//! because replay has passed the zxid of every removed snapshot. The server joins again and is truncated again.

use super::{Loaded, MemberLog};
use crate::disk::{Disk, OpenMode};
use crate::error::{Damage, IoContext, StoreError};
use crate::log_reader::LOG_HEADER_BYTES;
use crate::marker::{Marker, write_durably};
use crate::names::{LogFile, SnapshotFile};
use crate::recovery::repair::sync_file;
use crate::recovery::replay::AboveLimit;
use crate::recovery::{Files, MemberRules, Recovered, Rules, recover};
use crate::snapshot::read::{SnapshotSink, StoredNode, read_snapshot};
use crate::snapshot::write::Structure;
use crate::store::Shared;
use crate::valid_range::ValidRange;
use ox_proto::{RawAcls, SessionId, Zxid};
use std::sync::Arc;

/// The result of a truncation.
pub enum Truncated {
    /// The history ends at the requested zxid.
    Done(Box<Loaded>),
    /// The requested zxid is not part of the history, which now ends before it. The member joins again with that.
    Short(Box<Loaded>),
    /// Nothing was changed, for this reason. The member joins again and needs a snapshot.
    NotPossible(String),
}

impl MemberLog {
    /// Removes all transactions above `to`. All appended records must be synced. After an error the files are in an
    /// intermediate state: the process must end, and the next start recovers.
    pub fn truncate(&mut self, to: Zxid) -> Result<Truncated, StoreError> {
        self.job(|log| {
            log.log.finish()?;
            let shared = Arc::clone(&log.store.0);
            let _files = shared.files.lock();
            let is_member = matches!(*shared.valid_range.lock(), ValidRange::Member(_));
            if !is_member || log.last() < to {
                return Ok(Truncated::NotPossible(format!("the history ends at {}", log.last())));
            }
            match log.plan(&shared, to) {
                Ok(plan) => log.execute(&shared, &plan, to),
                Err(error) if error.is_damage() => Ok(Truncated::NotPossible(error.to_string())),
                Err(error) => Err(error),
            }
        })
    }

    /// Determines what must be removed, and that the rest is a complete history.
    fn plan(&self, shared: &Shared, to: Zxid) -> Result<Plan, StoreError> {
        let listing = self.store.listing()?;
        let disk = &*shared.disk;
        let files = Files::new(disk, &shared.dirs, &listing)?;
        let rules = self.member.rules(&self.options);
        let member = rules.member.map(|member| MemberRules { limit: Some(to), recent_max: 0, ..member });
        let Recovered { replay, snapshot, .. } = recover(&files, &Rules { member, ..rules }, &self.tree_options)?;
        if let Some(torn) = replay.torn {
            let damage = Damage::BadFrame { intact_after: 0 };
            return Err(StoreError::Corrupt { path: torn.log.path, offset: torn.offset, after: torn.after, damage });
        }
        // The remaining files will be the whole history.
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

    fn execute(&mut self, shared: &Shared, plan: &Plan, to: Zxid) -> Result<Truncated, StoreError> {
        *shared.valid_range.lock() = ValidRange::Unusable;
        plan.remove(shared)?;
        let listing = self.store.listing()?;
        let disk = &*shared.disk;
        let files = Files::new(disk, &shared.dirs, &listing)?;
        let recovered = recover(&files, &self.member.rules(&self.options), &self.tree_options)?;
        if recovered.replay.last != plan.last {
            return Err(StoreError::TruncateFailed { wanted: plan.last, found: recovered.replay.last });
        }
        let mut loaded = self.make_files_durable(recovered, &listing)?;
        // The start of an epoch has no record. A member whose current epoch it is has everything before it.
        let is_start = to.counter() == 0 && to.epoch() <= self.epochs().current;
        if plan.last < to && is_start {
            self.adopt_epoch_start(&mut loaded, to);
        }
        let is_done = loaded.state.last_zxid() == to;
        let loaded = Box::new(loaded);
        Ok(if is_done { Truncated::Done(loaded) } else { Truncated::Short(loaded) })
    }

    fn adopt_epoch_start(&mut self, loaded: &mut Loaded, start: Zxid) {
        loaded.state.set_last_zxid(start);
        loaded.reach = loaded.reach.max(start);
        self.log.continue_after(start);
        if let ValidRange::Member(history) = &mut *self.store.0.valid_range.lock() {
            history.synced = start;
        }
    }
}

/// The files to be removed.
struct Plan {
    /// The last remaining record.
    last: Zxid,
    snapshots: Vec<SnapshotFile>,
    logs: Vec<LogFile>,
    cut: Option<AboveLimit>,
}

impl Plan {
    fn remove(&self, shared: &Shared) -> Result<(), StoreError> {
        let (disk, dirs) = (&*shared.disk, &shared.dirs);
        let marker = match &self.cut {
            Some(AboveLimit { log, offset, identity, .. }) => {
                Marker { log: log.first, position: *offset, identity: *identity, last: self.last, ..Marker::default() }
            }
            None => Marker { last: self.last, ..Marker::default() },
        };
        write_durably(disk, &dirs.logs, &marker)?;
        for snapshot in &self.snapshots {
            disk.remove(&snapshot.path).context("remove", &snapshot.path)?;
        }
        disk.sync_dir(&dirs.snapshots).context("fsync directory", &dirs.snapshots)?;
        for log in self.logs.iter().rev() {
            disk.remove(&log.path).context("remove", &log.path)?;
            disk.sync_dir(&dirs.logs).context("fsync directory", &dirs.logs)?;
        }
        if let Some(AboveLimit { log, offset, .. }) = &self.cut {
            let file = disk.open(&log.path, OpenMode::Write).context("open", &log.path)?;
            file.set_len(*offset).context("truncate", &log.path)?;
            file.sync_all().context("fsync", &log.path)?;
        }
        Ok(())
    }
}

/// The last transaction that a snapshot contains, wholly or in part; `None` if it cannot be read.
fn reach(disk: &dyn Disk, file: &SnapshotFile) -> Option<Zxid> {
    let mut newest = Newest { structure: Structure::default(), zxid: Zxid::ZERO };
    let trailer = read_snapshot(disk, file, &mut newest).ok()?.trailer;
    let recorded = trailer.last_zxid.or(trailer.digest.map(|(zxid, _)| zxid));
    Some(recorded.unwrap_or(newest.zxid).max(file.last))
}

/// Finds the highest zxid of any node.
struct Newest {
    structure: Structure,
    zxid: Zxid,
}

impl SnapshotSink for Newest {
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
