//! Local watchers by path, and the watches on the server that they share.
//!
//! Several local watchers of one path share one watch on the server. Paths include the chroot.

use crate::limits::REARM_BYTES_MAX;
use crate::path::parent;
use ox_proto::event::EventType;
use ox_proto::request::SetWatches;
use ox_proto::{OpCode, Zxid};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Identifies a local watcher within the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchId(pub(crate) u64);

/// The kinds of watches that a server keeps separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchClass {
    /// One-shot, left by exists and getData.
    Data,
    /// One-shot, left by getChildren.
    Child,
    /// Persistent: the node itself and its list of children.
    Persistent,
    /// Persistent: the node and all its descendants.
    Recursive,
}

impl WatchClass {
    pub(crate) const ALL: [Self; 4] = [Self::Data, Self::Child, Self::Persistent, Self::Recursive];

    /// `WatcherType` in removeWatches and checkWatches.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Child => 1,
            Self::Data => 2,
            Self::Persistent => 4,
            Self::Recursive => 5,
        }
    }

    pub(crate) fn is_persistent(self) -> bool {
        matches!(self, Self::Persistent | Self::Recursive)
    }
}

#[derive(Debug)]
struct Entry<S> {
    id: WatchId,
    /// The node did not exist when the watch was set.
    is_missing: bool,
    sink: S,
}

type Table<S> = BTreeMap<Box<str>, Vec<Entry<S>>>;

#[derive(Debug)]
pub(crate) struct Watches<S> {
    tables: [Table<S>; 4],
    /// Counts of requests in flight that will leave a watch.
    arming: BTreeMap<(WatchClass, Box<str>), usize>,
}

/// Opcode and body of a setWatches or setWatches2 request.
pub(crate) type Rearm = (OpCode, Vec<u8>);

impl<S: Clone> Watches<S> {
    pub(crate) fn new() -> Self {
        Self { tables: [const { BTreeMap::new() }; 4], arming: BTreeMap::new() }
    }

    fn table(&mut self, class: WatchClass) -> &mut Table<S> {
        &mut self.tables[class as usize]
    }

    /// Notes a request in flight that will leave a watch.
    pub(crate) fn begin_arming(&mut self, class: WatchClass, path: &str) {
        *self.arming.entry((class, path.into())).or_default() += 1;
    }

    /// Notes that a request counted by `begin_arming` has completed or failed.
    pub(crate) fn end_arming(&mut self, class: WatchClass, path: &str) {
        let key = (class, path.into());
        if let Some(count) = self.arming.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.arming.remove(&key);
            }
        }
    }

    pub(crate) fn add(&mut self, class: WatchClass, path: &str, id: WatchId, is_missing: bool, sink: S) {
        let entry = Entry { id, is_missing, sink };
        match self.table(class).get_mut(path) {
            Some(entries) => entries.push(entry),
            None => drop(self.table(class).insert(path.into(), vec![entry])),
        }
    }

    /// Removes a watcher if it exists. Returns true when the watch on the server is no longer used.
    pub(crate) fn remove(&mut self, class: WatchClass, path: &str, id: WatchId) -> bool {
        let Some(entries) = self.table(class).get_mut(path) else { return false };
        let before = entries.len();
        entries.retain(|entry| entry.id != id);
        if entries.len() == before {
            return false;
        }
        if entries.is_empty() {
            self.table(class).remove(path);
        }
        self.is_unused(class, path)
    }

    /// Whether no watcher uses the watch and no request in flight will.
    pub(crate) fn is_unused(&self, class: WatchClass, path: &str) -> bool {
        !self.tables[class as usize].contains_key(path) && !self.arming.contains_key(&(class, path.into()))
    }

    /// Removes and returns all watchers of a path.
    pub(crate) fn take(&mut self, class: WatchClass, path: &str) -> Vec<S> {
        self.table(class).remove(path).unwrap_or_default().into_iter().map(|entry| entry.sink).collect()
    }

    /// Removes and returns all watchers.
    pub(crate) fn take_all(&mut self) -> Vec<S> {
        let tables = std::mem::replace(&mut self.tables, [const { BTreeMap::new() }; 4]);
        tables.into_iter().flatten().flat_map(|(_, entries)| entries).map(|entry| entry.sink).collect()
    }

    /// Delivers an event to its watchers and removes one-shot watchers.
    pub(crate) fn fire(&mut self, kind: EventType, path: &str, mut deliver: impl FnMut(WatchClass, S)) {
        let (data, child) = match kind {
            EventType::NodeCreated | EventType::NodeDataChanged => (true, false),
            EventType::NodeDeleted => (true, true),
            EventType::NodeChildrenChanged => (false, true),
        };
        if data {
            self.take(WatchClass::Data, path).into_iter().for_each(|sink| deliver(WatchClass::Data, sink));
        }
        if child {
            self.take(WatchClass::Child, path).into_iter().for_each(|sink| deliver(WatchClass::Child, sink));
        }
        let mut stay = |class: WatchClass, path: &str| {
            let entries = self.tables[class as usize].get(path);
            entries.into_iter().flatten().for_each(|entry| deliver(class, entry.sink.clone()));
        };
        stay(WatchClass::Persistent, path);
        // Servers send recursive watchers the events of each child, not NodeChildrenChanged.
        if data && !self.tables[WatchClass::Recursive as usize].is_empty() {
            let mut path = Some(path);
            while let Some(here) = path {
                stay(WatchClass::Recursive, here);
                path = parent(here);
            }
        }
    }

    /// The persistent watchers, which miss events during a disconnect.
    pub(crate) fn persistent(&self) -> impl Iterator<Item = &S> {
        let tables = [WatchClass::Persistent, WatchClass::Recursive].map(|class| &self.tables[class as usize]);
        tables.into_iter().flat_map(BTreeMap::values).flatten().map(|entry| &entry.sink)
    }

    /// The requests that re-arm all watches; each fits into a frame.
    pub(crate) fn rearm(&self, seen: Zxid) -> Vec<Rearm> {
        let mut bodies = Vec::new();
        let mut chunk = Chunk { seen, lists: Default::default(), bytes: 0 };
        for class in WatchClass::ALL {
            for (path, entries) in &self.tables[class as usize] {
                let is_missing = entries.iter().all(|entry| entry.is_missing);
                chunk.push(list_of(class, is_missing), path, &mut bodies);
            }
        }
        chunk.flush(&mut bodies);
        bodies
    }
}

/// The position of a class in the lists of setWatches2.
fn list_of(class: WatchClass, is_missing: bool) -> usize {
    match class {
        WatchClass::Data if is_missing => 1,
        WatchClass::Data => 0,
        WatchClass::Child => 2,
        WatchClass::Persistent => 3,
        WatchClass::Recursive => 4,
    }
}

struct Chunk<'a> {
    seen: Zxid,
    lists: [Vec<Cow<'a, str>>; 5],
    bytes: usize,
}

impl<'a> Chunk<'a> {
    fn push(&mut self, list: usize, path: &'a str, bodies: &mut Vec<Rearm>) {
        if REARM_BYTES_MAX < self.bytes + path.len() {
            self.flush(bodies);
        }
        self.bytes += path.len() + 4;
        self.lists[list].push(Cow::Borrowed(path));
    }

    fn flush(&mut self, bodies: &mut Vec<Rearm>) {
        if self.bytes == 0 {
            return;
        }
        self.bytes = 0;
        let request = SetWatches { relative_zxid: self.seen, lists: std::mem::take(&mut self.lists) };
        let stays = request.lists[3..].iter().any(|list| !list.is_empty());
        let (op, lists) = if stays { (OpCode::SetWatches2, 5) } else { (OpCode::SetWatches, 3) };
        let mut body = Vec::new();
        request.put(lists, &mut body);
        bodies.push((op, body));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fired(watches: &mut Watches<&'static str>, kind: EventType, path: &str) -> Vec<&'static str> {
        let mut delivered = Vec::new();
        watches.fire(kind, path, |_, sink| delivered.push(sink));
        delivered
    }

    fn all_on(path: &str) -> Watches<&'static str> {
        let mut watches = Watches::new();
        for (class, name) in WatchClass::ALL.into_iter().zip(["data", "child", "persistent", "recursive"]) {
            watches.add(class, path, WatchId(0), false, name);
        }
        watches
    }

    #[test]
    fn event_reaches_watchers_of_its_class_only() {
        use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
        let mut watches = all_on("/p");
        assert_eq!(fired(&mut watches, NodeDataChanged, "/p"), ["data", "persistent", "recursive"]);
        assert_eq!(fired(&mut watches, NodeCreated, "/p/c"), ["recursive"]);
        assert_eq!(fired(&mut watches, NodeChildrenChanged, "/p"), ["child", "persistent"]);
        assert_eq!(fired(&mut watches, NodeDataChanged, "/p/c/d"), ["recursive"]);
        assert_eq!(fired(&mut watches, NodeDeleted, "/p"), ["persistent", "recursive"]);
        assert_eq!(fired(&mut watches, NodeDataChanged, "/"), [] as [&str; 0]);
        let mut watches = all_on("/");
        assert_eq!(fired(&mut watches, NodeCreated, "/a/b"), ["recursive"]);
        assert_eq!(fired(&mut all_on("/p"), NodeDeleted, "/p"), ["data", "child", "persistent", "recursive"]);
    }

    #[test]
    fn watch_without_watchers_and_requests_is_unused() {
        let mut watches = Watches::new();
        watches.add(WatchClass::Data, "/a", WatchId(1), false, "one");
        watches.add(WatchClass::Data, "/a", WatchId(2), false, "two");
        assert!(!watches.remove(WatchClass::Data, "/a", WatchId(1)));
        assert!(!watches.remove(WatchClass::Data, "/a", WatchId(1)), "already removed");
        watches.begin_arming(WatchClass::Data, "/a");
        assert!(!watches.remove(WatchClass::Data, "/a", WatchId(2)), "another watch request is in flight");
        watches.end_arming(WatchClass::Data, "/a");
        assert!(watches.is_unused(WatchClass::Data, "/a"));
        watches.add(WatchClass::Data, "/a", WatchId(3), false, "three");
        assert!(watches.remove(WatchClass::Data, "/a", WatchId(3)));
    }

    #[test]
    fn rearm_requests_stay_below_the_frame_limit() {
        let mut watches = Watches::new();
        for number in 0..5000 {
            watches.add(WatchClass::Child, &format!("/{number:0100}"), WatchId(number), false, ());
        }
        watches.add(WatchClass::Data, "/missing", WatchId(7), true, ());
        let bodies = watches.rearm(Zxid(5));
        assert_eq!(bodies.len(), 5);
        assert!(bodies.iter().all(|(op, body)| *op == OpCode::SetWatches && body.len() < REARM_BYTES_MAX + 100));
        watches.add(WatchClass::Recursive, "/", WatchId(8), false, ());
        let bodies = watches.rearm(Zxid(5));
        assert_eq!(bodies.iter().filter(|(op, _)| *op == OpCode::SetWatches2).count(), 1);
        assert_eq!(Watches::<()>::new().rearm(Zxid(5)), []);
    }
}
