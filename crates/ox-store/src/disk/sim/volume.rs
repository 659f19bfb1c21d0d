//! The contents of a simulated disk, and which of them are durable.
//!
//! ```text
//! inode: now       what reads see: the page cache
//!        durable   what a power cut leaves if nothing else survives
//!        versions  of each sector in between
//! directory: durable entries + pending changes = entries that lookups see
//! ```

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

pub(super) const SECTOR: usize = 512;
/// The number of versions kept of a sector that is rewritten repeatedly.
const VERSIONS_MAX: usize = 4;
pub(super) const ROOT: u64 = 0;

/// Which unsynced pieces survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepUnsynced {
    Nothing,
    Everything,
    /// One piece, counted from 0.
    Only(usize),
    /// All pieces but one, counted from 0.
    AllBut(usize),
    /// A random choice by this seed.
    Random(u64),
}

#[derive(Clone)]
pub(super) struct Volume {
    next_id: u64,
    pub(super) files: BTreeMap<u64, Inode>,
    pub(super) dirs: BTreeMap<u64, Directory>,
}

#[derive(Clone, Default)]
pub(super) struct Inode {
    pub(super) now: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) versions: BTreeMap<usize, Vec<[u8; SECTOR]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File(u64),
    Dir(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Add(String, Entry),
    Remove(String),
    Rename(String, String, Entry),
}

#[derive(Clone, Default)]
pub(super) struct Directory {
    durable: BTreeMap<String, Entry>,
    pending: Vec<Change>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    Sector(u64, usize),
    Length(u64),
    Change(u64, usize),
}

impl Default for Volume {
    fn default() -> Self {
        Self { next_id: ROOT + 1, files: BTreeMap::new(), dirs: BTreeMap::from([(ROOT, Directory::default())]) }
    }
}

impl Volume {
    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub(super) fn lookup(&self, path: &Path) -> io::Result<Entry> {
        let mut at = Entry::Dir(ROOT);
        for name in names(path)? {
            let Entry::Dir(id) = at else { return Err(ErrorKind::NotADirectory.into()) };
            at = self.dirs[&id].now().get(&name).copied().ok_or(ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    pub(super) fn dir(&self, path: &Path) -> io::Result<u64> {
        match self.lookup(path)? {
            Entry::Dir(id) => Ok(id),
            Entry::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn parent(&self, path: &Path) -> io::Result<(u64, String)> {
        let dir = self.dir(path.parent().ok_or(ErrorKind::InvalidInput)?)?;
        Ok((dir, file_name(path)?))
    }

    pub(super) fn change(&mut self, dir: u64, change: Change) {
        self.dirs.get_mut(&dir).expect("looked up").pending.push(change);
    }

    pub(super) fn make_dirs(&mut self, path: &Path) -> io::Result<u64> {
        let mut at = ROOT;
        for name in names(path)? {
            at = match self.dirs[&at].now().get(&name) {
                Some(Entry::Dir(id)) => *id,
                Some(Entry::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => {
                    let id = self.fresh_id();
                    self.dirs.insert(id, Directory::default());
                    self.change(at, Change::Add(name, Entry::Dir(id)));
                    id
                }
            };
        }
        Ok(at)
    }

    /// The bytes of all files that have a name.
    pub(super) fn used(&self) -> u64 {
        let entries = self.dirs.values().flat_map(|dir| dir.now().into_values());
        let files = entries.filter_map(|entry| if let Entry::File(id) = entry { self.files.get(&id) } else { None });
        files.map(|inode| inode.now.len() as u64).sum()
    }

    /// As `used`, plus the removed files, which a power cut may restore; cheaper to compute.
    pub(super) fn used_at_most(&self) -> u64 {
        self.files.values().map(|inode| inode.now.len() as u64).sum()
    }

    pub(super) fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for (id, inode) in &self.files {
            pieces.extend(inode.versions.keys().map(|sector| Piece::Sector(*id, *sector)));
            if inode.now.len() != inode.durable.len() {
                pieces.push(Piece::Length(*id));
            }
        }
        for (id, dir) in &self.dirs {
            pieces.extend((0..dir.pending.len()).map(|index| Piece::Change(*id, index)));
        }
        pieces
    }

    pub(super) fn lose(&mut self, keep: KeepUnsynced) {
        let mut random = Random::new(if let KeepUnsynced::Random(seed) = keep { seed } else { 0 });
        let mut kept: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
        let mut sectors: BTreeMap<u64, Vec<(usize, [u8; SECTOR])>> = BTreeMap::new();
        let mut lengths: BTreeSet<u64> = BTreeSet::new();
        for (index, piece) in self.pieces().into_iter().enumerate() {
            let keeps = match keep {
                KeepUnsynced::Nothing => false,
                KeepUnsynced::Everything => true,
                KeepUnsynced::Only(one) => index == one,
                KeepUnsynced::AllBut(one) => index != one,
                KeepUnsynced::Random(_) => random.below(2) == 0,
            };
            if !keeps {
                continue;
            }
            match piece {
                Piece::Sector(id, sector) => {
                    let versions = &self.files[&id].versions[&sector];
                    let newest = versions.len() - 1;
                    let pick = if let KeepUnsynced::Random(_) = keep {
                        random.below(versions.len() as u64)
                    } else {
                        newest as u64
                    };
                    let pick = usize::try_from(pick).unwrap_or(newest);
                    sectors.entry(id).or_default().push((sector, versions[pick]));
                }
                Piece::Length(id) => _ = lengths.insert(id),
                Piece::Change(id, index) => kept.entry(id).or_default().push(self.dirs[&id].pending[index].clone()),
            }
        }
        for (id, inode) in &mut self.files {
            inode.settle(sectors.get(id).map_or(&[], Vec::as_slice), lengths.contains(id));
        }
        for (id, dir) in &mut self.dirs {
            dir.pending = kept.remove(id).unwrap_or_default();
            dir.sync();
        }
    }
}

impl Directory {
    pub(super) fn now(&self) -> BTreeMap<String, Entry> {
        let mut entries = self.durable.clone();
        for change in &self.pending {
            change.apply(&mut entries);
        }
        entries
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.now();
        self.pending.clear();
    }
}

impl Change {
    fn apply(&self, entries: &mut BTreeMap<String, Entry>) {
        match self {
            Self::Add(name, entry) => _ = entries.insert(name.clone(), *entry),
            Self::Remove(name) => _ = entries.remove(name),
            Self::Rename(from, to, entry) => {
                entries.remove(from);
                entries.insert(to.clone(), *entry);
            }
        }
    }
}

impl Inode {
    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        self.touch(offset, end);
    }

    pub(super) fn set_len(&mut self, length: usize) {
        let before = self.now.len();
        self.now.resize(length, 0);
        if length < before {
            self.touch(length, before);
        }
    }

    /// Records the present contents of the sectors in `[begin, end)` as a version that may survive.
    fn touch(&mut self, begin: usize, end: usize) {
        for sector in begin / SECTOR..end.div_ceil(SECTOR) {
            let mut content = [0; SECTOR];
            let start = (sector * SECTOR).min(self.now.len());
            let stop = (start + SECTOR).min(self.now.len());
            content[..stop - start].copy_from_slice(&self.now[start..stop]);
            let versions = self.versions.entry(sector).or_default();
            if versions.len() == VERSIONS_MAX {
                versions.remove(0);
            }
            versions.push(content);
        }
    }

    /// Writes the sectors that the kernel considers dirty.
    pub(super) fn sync(&mut self) {
        self.durable.resize(self.now.len(), 0);
        for sector in self.versions.keys() {
            let start = (sector * SECTOR).min(self.now.len());
            let stop = (start + SECTOR).min(self.now.len());
            self.durable[start..stop].copy_from_slice(&self.now[start..stop]);
        }
        self.versions.clear();
    }

    /// Applies a power cut: the given sectors survive, and the new length if `keep_length`.
    fn settle(&mut self, sectors: &[(usize, [u8; SECTOR])], keep_length: bool) {
        let length = if keep_length { self.now.len() } else { self.durable.len() };
        let mut content = std::mem::take(&mut self.durable);
        content.resize(length, 0);
        for (sector, bytes) in sectors {
            let start = (sector * SECTOR).min(length);
            let stop = (start + SECTOR).min(length);
            content[start..stop].copy_from_slice(&bytes[..stop - start]);
        }
        self.now.clone_from(&content);
        self.durable = content;
        self.versions.clear();
    }
}

pub(super) fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => (),
            Component::Normal(name) => names.push(name.to_str().ok_or(ErrorKind::InvalidInput)?.to_owned()),
            Component::Prefix(_) | Component::ParentDir => return Err(ErrorKind::InvalidInput.into()),
        }
    }
    Ok(names)
}

pub(super) fn file_name(path: &Path) -> io::Result<String> {
    names(path)?.pop().ok_or_else(|| ErrorKind::InvalidInput.into())
}
