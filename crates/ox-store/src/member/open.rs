//! Opening the directories of a member.
//!
//! Everything is read and judged before anything is changed, except that an installation which was begun is finished
//! first:
//!
//! ```text
//! identity ──> quarantine note? ──> snapshots and logs ──> epochs ──> repair, sync, note epochs ──> Loaded
//!    │ other       │ yes                │ damaged ──────────┤ do not fit
//!    └ refused     └──────────────> Quarantined <───────────┘             nothing stored at all ──> Empty
//! ```

use super::epochs::{EpochError, EpochFiles, Found, Stored, Vouched};
use super::quarantine::Quarantine;
use super::{Epochs, Loaded, MemberLog, MemberOptions, OnDamage, OpenedMember, Standing, identity, install};
use crate::disk::Disk;
use crate::error::{Error, IoContext};
use crate::lineage::Lineage;
use crate::names::{Dirs, Listing};
use crate::recovery::repair::{move_aside, repair, retire, secure};
use crate::recovery::{Files, MemberRules, Recovered, Rules, recover};
use crate::snapshot::write::Terms;
use crate::store::{StartSnapshot, Store, StoreOptions, report, tidy};
use ox_proto::Zxid;
use ox_tree::{State, TreeOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

impl Store {
    /// Opens the directories of an ensemble member. Damage is a value ([`Standing::Quarantined`]) unless the options
    /// say otherwise; an error is trouble with the system, or another server's directory.
    pub fn open_member(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        member: &MemberOptions,
        tree_options: &TreeOptions,
        seed: u64,
    ) -> Result<OpenedMember, Error> {
        let store = Self::lock(disk, options, tree_options, Lineage::Unusable)?;
        let (disk, dirs) = (&store.0.disk, &store.0.dirs);
        identity::check(&**disk, dirs, member.server)?;
        let found = match Found::read(&**disk, &dirs.snapshots) {
            Err(error) if error.is_damage() => Found::UNREADABLE,
            found => found?,
        };
        let note = Quarantine::read(&**disk, &dirs.snapshots)?;
        let was_quarantined = note.is_some();
        let judged = match note {
            Some(quarantine) if member.on_damage != OnDamage::Accept => Judged::Quarantined(quarantine),
            note => match (judge(&store, options, member, tree_options, &found)?, note) {
                (Judged::Empty { .. }, Some(quarantine)) => Judged::Quarantined(quarantine),
                (judged, _) => judged,
            },
        };
        identity::claim(&**disk, dirs, member.server)?;
        let session_clock_ms = store.get_ready(options)?;
        store.0.epochs_reserve.create()?;
        let (epochs, are_stored) = match &judged {
            Judged::Good { epochs, .. } => {
                let stored = (Stored::Epoch(epochs.accepted), Stored::Epoch(epochs.current));
                (*epochs, (found.accepted, found.current) == stored)
            }
            Judged::Quarantined(_) => (Epochs { accepted: found.accepted.epoch().unwrap_or(0), current: 0 }, false),
            Judged::Empty { .. } => (Epochs::default(), false),
        };
        let log = MemberLog {
            log: store.log(options, Zxid::ZERO, seed)?,
            epochs: EpochFiles::new(
                Arc::clone(disk),
                dirs.snapshots.clone(),
                Arc::clone(&store.0.epochs_reserve),
                epochs,
                are_stored,
            ),
            store: store.clone(),
            options: options.clone(),
            member: member.clone(),
            tree_options: tree_options.clone(),
            histories: 0,
            has_history: false,
        };
        let mut opened = OpenedMember { store, log, standing: Standing::Empty, session_clock_ms };
        opened.standing = match judged {
            Judged::Quarantined(quarantine) => Standing::Quarantined(quarantine),
            Judged::Empty { initialize: false } => Standing::Empty,
            Judged::Empty { initialize: true } => Standing::Loaded(Box::new(opened.log.found()?)),
            Judged::Good { recovered, listing, .. } => {
                let loaded = opened.log.settle(*recovered, &listing)?;
                if was_quarantined {
                    opened.log.end_quarantine()?; // somebody vouches for it
                }
                Standing::Loaded(Box::new(loaded))
            }
        };
        Ok(opened)
    }
}

/// What was read.
enum Judged {
    Good { recovered: Box<Recovered>, listing: Listing, epochs: Epochs },
    Empty { initialize: bool },
    Quarantined(Quarantine),
}

/// Reads snapshots and logs and compares them with the epochs. Notes a quarantine.
fn judge(
    store: &Store,
    options: &StoreOptions,
    member: &MemberOptions,
    tree_options: &TreeOptions,
    found: &Found,
) -> Result<Judged, Error> {
    let shared = &*store.0;
    let initialize = has_initialize(&*shared.disk, options)?;
    let outcome = recover_and_compare(store, options, member, tree_options, (found, initialize));
    let error = match outcome {
        Err(error) if error.is_damage() && member.on_damage != OnDamage::Exit => error,
        outcome => return outcome,
    };
    let quarantine = Quarantine { reason: error.to_string(), since_ms: options.now_ms };
    quarantine.write(&*shared.disk, &shared.epochs_reserve, &shared.dirs.snapshots)?;
    Ok(Judged::Quarantined(quarantine))
}

fn recover_and_compare(
    store: &Store,
    options: &StoreOptions,
    member: &MemberOptions,
    tree_options: &TreeOptions,
    (found, initialize): (&Found, bool),
) -> Result<Judged, Error> {
    let (disk, dirs) = (&*store.0.disk, &store.0.dirs);
    install::resume(disk, dirs)?;
    let listing = store.listing()?;
    let vouched = Vouched { initialize, accept_doubt: member.on_damage == OnDamage::Accept, is_copy: false };
    match read_history((disk, dirs, &listing), &member.rules(options), tree_options, (found, vouched))? {
        Some((recovered, epochs)) => Ok(Judged::Good { recovered: Box::new(recovered), listing, epochs }),
        None => Ok(Judged::Empty { initialize }),
    }
}

/// The stored history with its epochs, `None` where nothing is stored. Changes nothing.
pub(crate) fn read_history(
    (disk, dirs, listing): (&dyn Disk, &Dirs, &Listing),
    rules: &Rules,
    tree_options: &TreeOptions,
    (found, vouched): (&Found, Vouched),
) -> Result<Option<(Recovered, Epochs)>, Error> {
    let files = Files::new(disk, dirs, listing)?;
    let recovered = recover(&files, rules, tree_options)?;
    if recovered.snapshot.is_none() && recovered.replay.last_log.is_none() {
        return if found.any_above_zero() { Err(Error::HistoryLost(dirs.snapshots.clone())) } else { Ok(None) };
    }
    // A log that was begun and lost tells of an epoch, too.
    let begun = files.marker.map_or(0, |marker| marker.log.epoch());
    if found.is_nothing() && recovered.replay.last.epoch() < begun && !vouched.initialize && !vouched.accept_doubt {
        let source = EpochError::BothMissing { history: begun };
        return Err(Error::Epochs { path: dirs.snapshots.clone(), source });
    }
    let is_copy = files.copied_from.is_some();
    let epochs = found.judge(recovered.replay.last.epoch(), Vouched { is_copy, ..vouched });
    let epochs = epochs.map_err(|source| Error::Epochs { path: dirs.snapshots.clone(), source })?;
    Ok(Some((recovered, epochs)))
}

fn has_initialize(disk: &dyn Disk, options: &StoreOptions) -> Result<bool, Error> {
    for path in options.initialize_markers() {
        if exists(disk, &path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn exists(disk: &dyn Disk, path: &Path) -> Result<bool, Error> {
    match disk.open(path, crate::disk::Open::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context("open", path),
    }
}

impl MemberOptions {
    pub(crate) fn rules(&self, options: &StoreOptions) -> Rules {
        let accept_doubt = self.on_damage == OnDamage::Accept;
        Rules { member: Some(MemberRules { accept_doubt, window: self.window, limit: None }), ..options.rules() }
    }
}

impl MemberLog {
    /// Begins an empty history, because all others are known to be empty too: a snapshot without transactions, and no
    /// promise yet.
    pub fn found(&mut self) -> Result<Loaded, Error> {
        self.job(|log| {
            let shared = &log.store.0;
            let files = shared.files.lock();
            log.write_first_snapshot()?;
            drop(files);
            let listing = log.store.listing()?;
            let files = Files::new(&*shared.disk, &shared.dirs, &listing)?;
            let recovered = recover(&files, &log.member.rules(&log.options), &log.tree_options)?;
            log.settle_files(recovered, &listing)
        })
    }

    /// Writes `snapshot.0`, a tree without transactions.
    fn write_first_snapshot(&self) -> Result<(), Error> {
        let mut state = State::new(self.tree_options.clone());
        if let Some((text, version)) = &self.member.config {
            state.set_config(text, *version, self.options.now_ms);
        }
        self.store.write_into(&state.freeze(), Terms::ANY)?;
        Ok(())
    }

    fn settle(&mut self, recovered: Recovered, listing: &Listing) -> Result<Loaded, Error> {
        self.job(|log| log.settle_files(recovered, listing))
    }

    /// Makes what was recovered durable, then the epochs; and removes what is left over.
    pub(super) fn settle_files(&mut self, mut recovered: Recovered, listing: &Listing) -> Result<Loaded, Error> {
        let shared = Arc::clone(&self.store.0);
        let files = Files::new(&*shared.disk, &shared.dirs, listing)?;
        retire(&files, &mut recovered)?;
        let dropped = repair(&files, &recovered, self.options.now_ms)?;
        secure(&files, &recovered)?;
        for log in recovered.unused_and_damaged() {
            move_aside(&*shared.disk, &log.path, self.options.now_ms)?;
        }
        let start_snapshot = match recovered.snapshot {
            Some(_) => StartSnapshot::NotNeeded,
            // Without one neither we nor Apache would start again. Of the tree that the replay began with: it has nothing
            // in it that may still have to be truncated.
            None => {
                self.write_first_snapshot()?;
                StartSnapshot::Written
            }
        };
        self.epochs.store()?;
        tidy(&files, &self.options)?;
        let last = recovered.replay.last;
        let reach = last.max(recovered.replay.reach);
        let base = recovered.snapshot.as_ref().map(|(file, _)| file.last);
        self.log.continue_after(last);
        self.begin_history(base.unwrap_or(Zxid::ZERO), last, reach);
        let window = std::mem::take(&mut recovered.replay.window).into_records();
        let (state, report) = report(&self.store, listing, recovered, (dropped, 0, start_snapshot));
        Ok(Loaded { state, reach, window, report })
    }
}
