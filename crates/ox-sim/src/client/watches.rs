//! The watches of a client, so that it can set them again on its next connection.

use ox_history::Op;
use ox_proto::{ErrorCode, Zxid};
use ox_testkit::Rng;
use std::collections::BTreeSet;

/// Paths by kind of watch, in the order of the lists of setWatches2.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    lists: [BTreeSet<String>; 5],
    /// The watches are set on the present connection.
    are_armed: bool,
}

const DATA: usize = 0;
const EXISTS: usize = 1;
const CHILD: usize = 2;
const PERSISTENT: usize = 3;
const RECURSIVE: usize = 4;

impl Tracked {
    /// Records the effect of a request that has its reply.
    pub(super) fn on_answer(&mut self, op: &Op, err: i32) {
        match op {
            Op::Exists { path, watch: true } if err == ErrorCode::NoNode.code() => self.add(EXISTS, path),
            Op::Exists { path, watch: true } | Op::GetData { path, watch: true } if err == 0 => self.add(DATA, path),
            Op::GetChildren { path, watch: true } | Op::GetChildren2 { path, watch: true } if err == 0 => {
                self.add(CHILD, path);
            }
            Op::AddWatch { path, mode } if err == 0 => {
                self.add(if *mode == 1 { RECURSIVE } else { PERSISTENT }, path);
            }
            Op::RemoveWatches { path, .. } if err == 0 => {
                self.lists.iter_mut().for_each(|list| _ = list.remove(path));
            }
            _ => (),
        }
    }

    fn add(&mut self, list: usize, path: &str) {
        self.lists[list].insert(path.to_owned());
    }

    /// Removes the one-shot watches that an event has triggered.
    pub(super) fn on_event(&mut self, kind: i32, path: &str) {
        let used: &[usize] = match kind {
            1 | 3 => &[DATA, EXISTS],
            2 => &[DATA, EXISTS, CHILD],
            _ => &[CHILD],
        };
        used.iter().for_each(|list| _ = self.lists[*list].remove(path));
    }

    pub(super) fn disconnected(&mut self) {
        self.are_armed = false;
    }

    /// A random watched path.
    pub(super) fn any(&self, rng: &mut Rng) -> Option<String> {
        let all: Vec<&String> = self.lists.iter().flatten().collect();
        if all.is_empty() { None } else { Some((*rng.pick(&all)).clone()) }
    }

    /// The setWatches2 requests that re-arm all watches, in one or several parts.
    pub(super) fn rearm(&mut self, relative: Zxid, rng: &mut Rng) -> Vec<Op> {
        if std::mem::replace(&mut self.are_armed, true) || self.lists.iter().all(BTreeSet::is_empty) {
            return Vec::new();
        }
        let has_lasting = !self.lists[PERSISTENT].is_empty() || !self.lists[RECURSIVE].is_empty();
        let count = if has_lasting || rng.chance(300) { 5 } else { 3 };
        let pieces = 1 + rng.index(2);
        let mut requests = vec![vec![Vec::new(); count]; pieces];
        for (list, paths) in self.lists.iter().enumerate().take(count) {
            for path in paths {
                requests[rng.index(pieces)][list].push(path.clone());
            }
        }
        requests.into_iter().map(|lists| Op::SetWatches { relative, lists }).collect()
    }
}
