//! Reports about data watches.

use super::{ServerHandle, Visit};
use crate::limits::LISTING_BATCH_MAX;
use crate::status::four_letter::session_of;
use ox_tree::watch::WatcherId;
use std::collections::HashSet;

impl ServerHandle {
    /// Numbers of connections with watches, of watched paths, and of watches.
    pub fn watch_summary(&self) -> (usize, usize, usize) {
        let (mut conns, mut paths, mut watches) = (HashSet::new(), 0, 0);
        let mut from = Some(0);
        while let Some(start) = from {
            let state = self.shared().state.read();
            from = state.watches().lock().scan_data_watches(start, LISTING_BATCH_MAX, |_, watchers| {
                paths += 1;
                watches += watchers.len();
                conns.extend(watchers);
            });
        }
        (conns.len(), paths, watches)
    }

    /// Calls `visit` with each watched path and the sessions that watch it.
    pub fn watches_by_path(&self, visit: &mut dyn FnMut(&str, &[i64]) -> Visit) {
        let mut from = Some(0);
        while let Some(start) = from {
            let mut found: Vec<(String, Vec<WatcherId>)> = Vec::new();
            {
                let state = self.shared().state.read();
                from = state.watches().lock().scan_data_watches(start, LISTING_BATCH_MAX, |path, watchers| {
                    found.push((path.to_owned(), watchers.collect()));
                });
            }
            for (path, watchers) in found {
                let sessions = watchers.into_iter().filter_map(|watcher| session_of(self.shared(), watcher));
                let sessions: Vec<i64> = sessions.map(|session| session.0).collect();
                if !sessions.is_empty() && visit(&path, &sessions) == Visit::Stop {
                    return;
                }
            }
        }
    }

    /// Calls `visit` with each session and a path that it watches; the paths of a session follow each other.
    pub fn watches_by_session(&self, visit: &mut dyn FnMut(i64, &str) -> Visit) {
        let mut watcher: Option<WatcherId> = None;
        loop {
            let next = self.shared().state.read().watches().lock().next_watcher(watcher);
            let Some((current, mut entries)) = next else { return };
            watcher = Some(current);
            entries.sort_unstable();
            entries.dedup();
            let Some(session) = session_of(self.shared(), current) else { continue };
            for batch in entries.chunks(LISTING_BATCH_MAX) {
                let paths: Vec<String> = {
                    let state = self.shared().state.read();
                    let watches = state.watches().lock();
                    batch.iter().filter_map(|entry| watches.data_path(*entry, current)).map(str::to_owned).collect()
                };
                if paths.iter().any(|path| visit(session.0, path) == Visit::Stop) {
                    return;
                }
            }
        }
    }
}
