//! The history that stays when the shell ends.

use reedline::{FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Lines that are kept.
const LINES_MAX: usize = 10_000;

/// Lines of earlier shells, without passwords.
pub(crate) struct Past(FileBackedHistory);

impl Past {
    /// Opens the file, which only its owner can read. Without one, the history ends with the shell.
    pub(crate) fn open() -> Option<Self> {
        let file = file()?;
        fs::create_dir_all(file.parent()?).ok()?;
        OpenOptions::new().create(true).append(true).mode(0o600).open(&file).ok()?;
        FileBackedHistory::with_file(LINES_MAX, file).ok().map(Self)
    }
}

/// `OXKEEPER_HISTORY`, or a file in the place for such things.
fn file() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = named("OXKEEPER_HISTORY") {
        return Some(file);
    }
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    Some(state.join("oxkeeper").join("history"))
}

/// Whether a line holds what nobody should find later.
fn is_secret(line: &str) -> bool {
    line.starts_with(' ') || line.trim_start().starts_with("addauth")
}

impl History for Past {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem> {
        if is_secret(&item.command_line) {
            return Ok(item);
        }
        let saved = self.0.save(item)?;
        let _ = self.0.sync(); // at once, should the shell be killed; the lines are here in any case
        Ok(saved)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.0.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.0.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.0.search(query)
    }

    fn update(&mut self, id: HistoryItemId, updater: &dyn Fn(HistoryItem) -> HistoryItem) -> Result<()> {
        self.0.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.0.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.0.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.0.session()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_kept() {
        assert!(is_secret("addauth digest bob:secret") && is_secret("  addauth digest x") && is_secret(" ls /"));
        assert!(!is_secret("ls /"));
    }
}
