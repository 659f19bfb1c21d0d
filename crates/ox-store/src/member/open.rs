//! Opening the directories of a member.
//!
//! Everything is read and classified before anything is changed, except that a started installation is completed first:
//!
//! ```text
//! identity ──> quarantine note? ──> snapshots and logs ──> epochs ──> repair, sync, note epochs ──> Loaded
//!    │ other       │ yes                │ damaged ──────────┤ inconsistent
//!    └ refused     └──────────────> Quarantined <───────────┘             nothing stored at all ──> Empty
//! ```

use super::epochs::{EpochError, EpochFiles, FoundEpochs, StoredEpoch, TrustHints};
use super::quarantine::Quarantine;
use super::{Loaded, MemberLog, MemberOptions, OnDamage, OpenOutcome, OpenedMember, StoredEpochs, identity, install};
use crate::disk::Disk;
use crate::error::{IoContext, StoreError};
use crate::names::{DirListing, Dirs};
use crate::recovery::repair::{move_aside, repair, retire, sync_history};
use crate::recovery::{Files, MemberRules, Recovered, Rules, recover};
use crate::snapshot::write::WriteLimits;
use crate::store::{StartSnapshot, Store, StoreOptions, report, tidy};
use crate::valid_range::ValidRange;
use ox_proto::Zxid;
use ox_tree::{State, TreeOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

impl Store {
    /// Opens the directories of an ensemble member. Damage results in [`OpenOutcome::Quarantined`], unless the options
    /// ask for an error; errors are failures of the system, or another server's directory.
    pub fn open_member(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        member: &MemberOptions,
        tree_options: &TreeOptions,
        seed: u64,
    ) -> Result<OpenedMember, StoreError> {
        let store = Self::lock(disk, options, tree_options, ValidRange::Unusable)?;
        let (disk, dirs) = (&store.0.disk, &store.0.dirs);
        identity::check(&**disk, dirs, member.server)?;
        let found = match FoundEpochs::read(&**disk, &dirs.snapshots) {
            Err(error) if error.is_damage() => FoundEpochs::UNREADABLE,
            found => found?,
        };
        let note = Quarantine::read(&**disk, &dirs.snapshots)?;
        let was_quarantined = note.is_some();
        let classified = match note {
            Some(quarantine) if member.on_damage != OnDamage::Accept => Classified::Quarantined(quarantine),
            note => match (classify(&store, options, member, tree_options, &found)?, note) {
                (Classified::Empty { .. }, Some(quarantine)) => Classified::Quarantined(quarantine),
                (classified, _) => classified,
            },
        };
        identity::claim(&**disk, dirs, member.server)?;
        let session_clock_ms = store.prepare_to_serve(options)?;
        store.0.epochs_reserve.create()?;
        let (epochs, are_stored) = match &classified {
            Classified::Good { epochs, .. } => {
                let stored = (StoredEpoch::Epoch(epochs.accepted), StoredEpoch::Epoch(epochs.current));
                (*epochs, (found.accepted, found.current) == stored)
            }
            Classified::Quarantined(_) => {
                (StoredEpochs { accepted: found.accepted.epoch().unwrap_or(0), current: 0 }, false)
            }
            Classified::Empty { .. } => (StoredEpochs::default(), false),
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
        let mut opened = OpenedMember { store, log, outcome: OpenOutcome::Empty, session_clock_ms };
        opened.outcome = match classified {
            Classified::Quarantined(quarantine) => OpenOutcome::Quarantined(quarantine),
            Classified::Empty { initialize: false } => OpenOutcome::Empty,
            Classified::Empty { initialize: true } => OpenOutcome::Loaded(Box::new(opened.log.initialize()?)),
            Classified::Good { recovered, listing, .. } => {
                let loaded = opened.log.make_durable(*recovered, &listing)?;
                if was_quarantined {
                    opened.log.end_quarantine()?; // the operator has accepted it
                }
                OpenOutcome::Loaded(Box::new(loaded))
            }
        };
        Ok(opened)
    }
}

/// The result of reading the files.
enum Classified {
    Good { recovered: Box<Recovered>, listing: DirListing, epochs: StoredEpochs },
    Empty { initialize: bool },
    Quarantined(Quarantine),
}

/// Reads snapshots and logs, compares them with the epochs, and records a quarantine.
fn classify(
    store: &Store,
    options: &StoreOptions,
    member: &MemberOptions,
    tree_options: &TreeOptions,
    found: &FoundEpochs,
) -> Result<Classified, StoreError> {
    let shared = &*store.0;
    let initialize = has_initialize(&*shared.disk, options)?;
    let outcome = recover_and_compare(store, options, member, tree_options, (found, initialize));
    let error = match outcome {
        Err(error) if error.is_damage() && member.on_damage != OnDamage::Exit => error,
        outcome => return outcome,
    };
    let quarantine = Quarantine { reason: error.to_string(), since_ms: options.now_ms };
    quarantine.write(&*shared.disk, &shared.epochs_reserve, &shared.dirs.snapshots)?;
    Ok(Classified::Quarantined(quarantine))
}

fn recover_and_compare(
    store: &Store,
    options: &StoreOptions,
    member: &MemberOptions,
    tree_options: &TreeOptions,
    (found, initialize): (&FoundEpochs, bool),
) -> Result<Classified, StoreError> {
    let (disk, dirs) = (&*store.0.disk, &store.0.dirs);
    install::resume(disk, dirs)?;
    let listing = store.listing()?;
    let trust = TrustHints { initialize, accept_doubt: member.on_damage == OnDamage::Accept, is_copy: false };
    match read_history((disk, dirs, &listing), &member.rules(options), tree_options, (found, trust))? {
        Some((recovered, epochs)) => Ok(Classified::Good { recovered: Box::new(recovered), listing, epochs }),
        None => Ok(Classified::Empty { initialize }),
    }
}

/// The stored history with its epochs; `None` if nothing is stored. Changes nothing.
pub(crate) fn read_history(
    (disk, dirs, listing): (&dyn Disk, &Dirs, &DirListing),
    rules: &Rules,
    tree_options: &TreeOptions,
    (found, trust): (&FoundEpochs, TrustHints),
) -> Result<Option<(Recovered, StoredEpochs)>, StoreError> {
    let files = Files::new(disk, dirs, listing)?;
    let recovered = recover(&files, rules, tree_options)?;
    if recovered.snapshot.is_none() && recovered.replay.last_log.is_none() {
        return if found.any_above_zero() { Err(StoreError::HistoryLost(dirs.snapshots.clone())) } else { Ok(None) };
    }
    // The name of a log that was created and lost contains an epoch, too.
    let begun = files.marker.map_or(0, |marker| marker.log.epoch());
    if found.are_missing() && recovered.replay.last.epoch() < begun && !trust.initialize && !trust.accept_doubt {
        let source = EpochError::BothMissing { history: begun };
        return Err(StoreError::Epochs { path: dirs.snapshots.clone(), source });
    }
    let is_copy = files.copied_from.is_some();
    let epochs = found.resolve(recovered.replay.last.epoch(), TrustHints { is_copy, ..trust });
    let epochs = epochs.map_err(|source| StoreError::Epochs { path: dirs.snapshots.clone(), source })?;
    Ok(Some((recovered, epochs)))
}

fn has_initialize(disk: &dyn Disk, options: &StoreOptions) -> Result<bool, StoreError> {
    for path in options.initialize_markers() {
        if exists(disk, &path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn exists(disk: &dyn Disk, path: &Path) -> Result<bool, StoreError> {
    match disk.open(path, crate::disk::OpenMode::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context("open", path),
    }
}

impl MemberOptions {
    pub(crate) fn rules(&self, options: &StoreOptions) -> Rules {
        let accept_doubt = self.on_damage == OnDamage::Accept;
        Rules {
            member: Some(MemberRules { accept_doubt, recent_max: self.recent_max, limit: None }),
            ..options.rules()
        }
    }
}

impl MemberLog {
    /// Starts an empty history, after all other members are known to be empty too: a snapshot without transactions, and
    /// epochs 0.
    pub fn initialize(&mut self) -> Result<Loaded, StoreError> {
        self.job(|log| {
            let shared = &log.store.0;
            let files = shared.files.lock();
            log.write_first_snapshot()?;
            drop(files);
            let listing = log.store.listing()?;
            let files = Files::new(&*shared.disk, &shared.dirs, &listing)?;
            let recovered = recover(&files, &log.member.rules(&log.options), &log.tree_options)?;
            log.make_files_durable(recovered, &listing)
        })
    }

    /// Writes `snapshot.0`, a tree without transactions.
    fn write_first_snapshot(&self) -> Result<(), StoreError> {
        let mut state = State::new(self.tree_options.clone());
        if let Some((text, version)) = &self.member.config {
            state.set_config(text, *version, self.options.now_ms);
        }
        self.store.write_into(&state.freeze(), WriteLimits::ANY)?;
        Ok(())
    }

    fn make_durable(&mut self, recovered: Recovered, listing: &DirListing) -> Result<Loaded, StoreError> {
        self.job(|log| log.make_files_durable(recovered, listing))
    }

    /// Makes the recovered history durable, then the epochs, and removes temporary files.
    pub(super) fn make_files_durable(
        &mut self,
        mut recovered: Recovered,
        listing: &DirListing,
    ) -> Result<Loaded, StoreError> {
        let shared = Arc::clone(&self.store.0);
        let files = Files::new(&*shared.disk, &shared.dirs, listing)?;
        retire(&files, &mut recovered)?;
        let dropped = repair(&files, &recovered, self.options.now_ms)?;
        sync_history(&files, &recovered)?;
        for log in recovered.unused_and_damaged() {
            move_aside(&*shared.disk, &log.path, self.options.now_ms)?;
        }
        let start_snapshot = match recovered.snapshot {
            Some(_) => StartSnapshot::NotNeeded,
            // Neither we nor Apache could start again without a snapshot. It contains the tree from which the replay
            // began, which has no transactions that may still have to be truncated.
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
        let recent_txns = std::mem::take(&mut recovered.replay.recent_txns).into_records();
        let (state, report) = report(&self.store, listing, recovered, (dropped, 0, start_snapshot));
        Ok(Loaded { state, reach, recent_txns, report })
    }
}
