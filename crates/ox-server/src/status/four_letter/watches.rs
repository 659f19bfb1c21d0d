//! The commands `wchs`, `wchc` and `wchp`: data watches only, as in Apache.
//!
//! The lock of the watch table is held for one batch at a time; the text is created from copies.

use super::{Listing, ListingStatus};
use crate::limits::LISTING_BATCH_MAX;
use crate::shared::Shared;
use crate::status::server_mode::ServerMode;
use ox_proto::SessionId;
use ox_tree::watch::WatcherId;
use std::collections::HashSet;
use std::fmt::Write as _;

pub(super) fn wchs(_: ServerMode) -> Listing {
    let (mut from, mut conns, mut paths, mut watches) = (0, HashSet::new(), 0, 0);
    Box::new(move |shared, text| {
        let next = shared.state.read().watches().lock().scan_data_watches(from, LISTING_BATCH_MAX, |_, watchers| {
            paths += 1;
            watches += watchers.len();
            conns.extend(watchers);
        });
        if let Some(next) = next {
            from = next;
            return ListingStatus::More;
        }
        write!(text, "{} connections watching {paths} paths\nTotal watches:{watches}\n", conns.len())
            .expect("a string takes every write");
        ListingStatus::Last
    })
}

pub(super) fn wchp(_: ServerMode) -> Listing {
    let mut from = 0;
    Box::new(move |shared, text| {
        let mut found: Vec<(String, Vec<WatcherId>)> = Vec::new();
        let next = shared.state.read().watches().lock().scan_data_watches(from, LISTING_BATCH_MAX, |path, watchers| {
            found.push((path.to_owned(), watchers.collect()));
        });
        for (path, watchers) in found {
            writeln!(text, "{path}").expect("a string takes every write");
            for session in watchers.into_iter().filter_map(|watcher| session_of(shared, watcher)) {
                writeln!(text, "\t{session}").expect("a string takes every write");
            }
        }
        match next {
            Some(next) => {
                from = next;
                ListingStatus::More
            }
            None => end(text),
        }
    })
}

pub(super) fn wchc(_: ServerMode) -> Listing {
    let mut watcher: Option<WatcherId> = None;
    // Remaining entries of the current connection, and whether its session id is printed.
    let (mut entries, mut named): (Vec<u32>, bool) = (Vec::new(), false);
    Box::new(move |shared, text| {
        if entries.is_empty() {
            let Some((next, found)) = shared.state.read().watches().lock().next_watcher(watcher) else {
                return end(text);
            };
            (watcher, entries, named) = (Some(next), found, false);
            entries.sort_unstable_by(|a, b| b.cmp(a));
            entries.dedup();
        }
        let current = watcher.expect("entries belong to a connection");
        let batch = entries.split_off(entries.len().saturating_sub(LISTING_BATCH_MAX));
        let paths: Vec<String> = {
            let state = shared.state.read();
            let watches = state.watches().lock();
            batch.iter().rev().filter_map(|entry| watches.data_path(*entry, current)).map(str::to_owned).collect()
        };
        let Some(session) = session_of(shared, current).filter(|_| !paths.is_empty()) else {
            return ListingStatus::More;
        };
        if !named {
            named = true;
            writeln!(text, "{session}").expect("a string takes every write");
        }
        for path in paths {
            writeln!(text, "\t{path}").expect("a string takes every write");
        }
        ListingStatus::More
    })
}

/// Every listing ends with an empty line.
fn end(text: &mut String) -> ListingStatus {
    text.push('\n');
    ListingStatus::Last
}

/// The session of a watcher whose connection is still open.
pub(crate) fn session_of(shared: &Shared, watcher: WatcherId) -> Option<SessionId> {
    Some(shared.connections.find(watcher.into())?.session())
}
