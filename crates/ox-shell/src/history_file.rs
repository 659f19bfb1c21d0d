//! The persistent history of the line editor.

use reedline::{FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Upper bound of lines in the file.
const LINES_MAX: usize = 10_000;

/// Lines of earlier shells, without passwords.
pub(crate) struct HistoryFile(FileBackedHistory);

impl HistoryFile {
    /// Opens the file, which only its owner can read. Without a file, the history ends with the shell.
    pub(crate) fn open() -> Option<Self> {
        let file = file()?;
        fs::create_dir_all(file.parent()?).ok()?;
        OpenOptions::new().create(true).append(true).mode(0o600).open(&file).ok()?;
        FileBackedHistory::with_file(LINES_MAX, file).ok().map(Self)
    }
}

/// `OXKEEPER_HISTORY`, or a file in the user's state directory.
fn file() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = named("OXKEEPER_HISTORY") {
        return Some(file);
    }
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    Some(state.join("oxkeeper").join("history"))
}

/// Whether a line contains credentials or starts with a blank.
fn is_secret(line: &str) -> bool {
    line.starts_with(' ') || line.trim_start().starts_with("addauth")
}

impl History for HistoryFile {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem> {
        if is_secret(&item.command_line) {
            return Ok(item);
        }
        let saved = self.0.save(item)?;
        let _ = self.0.sync(); // immediately, in case the shell is killed; errors are ignored
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
    fn lines_with_passwords_are_not_saved() {
        assert!(is_secret("addauth digest bob:secret") && is_secret("  addauth digest x") && is_secret(" ls /"));
        assert!(!is_secret("ls /"));
    }
}
