//! A directory, as a start would see it, without changing anything in it.

use crate::disk::Disk;
use crate::error::{Error, Rejected};
use crate::member::epochs::{Found, Vouched};
use crate::member::open::read_history;
use crate::member::{MemberOptions, Quarantine, install};
use crate::names::{self, Dirs, Listing};
use crate::recovery::{Files, recover};
use crate::store::StoreOptions;
use ox_proto::Zxid;
use ox_tree::{State, TreeOptions};
use std::path::PathBuf;

/// What a start would find.
pub struct History {
    /// The state it would serve.
    pub state: State,
    /// The snapshot it would use.
    pub snapshot: Option<PathBuf>,
    /// Newer snapshots that it could not use.
    pub rejected: Vec<Rejected>,
    /// Transactions it would replay.
    pub replayed: u64,
    /// Last zxid.
    pub last: Zxid,
    /// What it would cut: the log, from where, and the last zxid that is lost with it.
    pub cut: Option<(PathBuf, u64, Option<Zxid>)>,
    /// Digests that were compared, and those that did not fit.
    pub digests: (u64, u64),
    /// Oddities.
    pub warnings: Vec<String>,
}

/// A directory and what a start would say to it.
pub struct Outlook {
    /// What is there.
    pub listing: Listing,
    /// It is an ensemble member's: damage makes it wait for a leader instead of ending it.
    pub is_member: bool,
    /// The note that an earlier start has left about damage.
    pub quarantine: Option<String>,
    /// What a start finds, or why it refuses.
    pub history: Result<History, Error>,
}

/// Does everything that a start does before it changes something.
pub fn foresee(disk: &dyn Disk, dirs: &Dirs) -> Result<Outlook, Error> {
    let listing = names::list(disk, dirs)?;
    let epochs = Found::read(disk, &dirs.snapshots)?;
    let is_member = !epochs.is_nothing();
    let quarantine = Quarantine::read(disk, &dirs.snapshots)?.filter(|_| is_member).map(|note| note.reason);
    let history = read((disk, dirs, &listing), is_member.then_some(&epochs));
    Ok(Outlook { listing, is_member, quarantine, history })
}

/// What a standalone server would find, also where a member would not use it.
pub fn read_as_standalone(disk: &dyn Disk, dirs: &Dirs) -> Result<History, Error> {
    read((disk, dirs, &names::list(disk, dirs)?), None)
}

fn read(files: (&dyn Disk, &Dirs, &Listing), epochs: Option<&Found>) -> Result<History, Error> {
    let (disk, dirs, listing) = files;
    if let Some(path) = listing.misplaced.first() {
        return Err(Error::Misplaced(path.clone()));
    }
    let (options, tree_options) = (StoreOptions::new(""), TreeOptions::default());
    let recovered = match epochs {
        Some(found) => {
            let rules = MemberOptions { window: 0, ..MemberOptions::new(0) }.rules(&options);
            let read = read_history(files, &rules, &tree_options, (found, Vouched::default()))?;
            read.ok_or_else(|| Error::HistoryLost(dirs.snapshots.clone()))?.0
        }
        None => recover(&Files::new(disk, dirs, listing)?, &options.rules(), &tree_options)?,
    };
    let replay = recovered.replay;
    let mut warnings = replay.warnings;
    if install::is_begun(disk, dirs)? {
        warnings.push("a leader's snapshot was being installed: a start finishes that first".into());
    }
    let covered = replay.damaged_but_covered.iter();
    warnings.extend(covered.map(|log| format!("{} is damaged where a snapshot covers it", log.path.display())));
    let ahead = recovered.ahead.iter();
    warnings.extend(ahead.map(|file| format!("{} contains more than the logs", file.path.display())));
    let strange = listing.strange.iter();
    warnings.extend(strange.map(|path| format!("{} is not used; Apache may take it for a log", path.display())));
    Ok(History {
        last: recovered.state.last_zxid(),
        state: recovered.state,
        snapshot: recovered.snapshot.map(|(file, _)| file.path),
        rejected: recovered.rejected,
        replayed: replay.records,
        cut: replay.torn.map(|torn| (torn.log.path, torn.offset, torn.last_dropped)),
        digests: (replay.digests.compared, replay.digests.mismatches),
        warnings,
    })
}
