//! Who waits for events of which node.
//!
//! Several local watchers share one watch of the server. Paths are those of the server, chroot included.

use crate::limits::REARM_BYTES_MAX;
use crate::path::parent;
use ox_proto::event::EventType;
use ox_proto::request::SetWatches;
use ox_proto::{OpCode, Zxid};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Tells local watchers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchId(pub(crate) u64);

/// The watches a server tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Left by exists and getData.
    Data,
    /// Left by getChildren.
    Child,
    /// Stays; the node itself and its list of children.
    Persistent,
    /// Stays; the node and everything below.
    Recursive,
}

impl Class {
    pub(crate) const ALL: [Self; 4] = [Self::Data, Self::Child, Self::Persistent, Self::Recursive];

    /// The number of removeWatches and checkWatches.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Child => 1,
            Self::Data => 2,
            Self::Persistent => 4,
            Self::Recursive => 5,
        }
    }

    pub(crate) fn stays(self) -> bool {
        matches!(self, Self::Persistent | Self::Recursive)
    }
}

#[derive(Debug)]
struct Entry<S> {
    id: WatchId,
    /// The node was missing when the watch was left.
    is_missing: bool,
    sink: S,
}

type Table<S> = BTreeMap<Box<str>, Vec<Entry<S>>>;

#[derive(Debug)]
pub(crate) struct Watches<S> {
    tables: [Table<S>; 4],
    /// Requests under way that will leave a watch.
    arming: BTreeMap<(Class, Box<str>), usize>,
}

/// A body of setWatches or setWatches2.
pub(crate) type Rearm = (OpCode, Vec<u8>);

impl<S: Clone> Watches<S> {
    pub(crate) fn new() -> Self {
        Self { tables: [const { BTreeMap::new() }; 4], arming: BTreeMap::new() }
    }

    fn table(&mut self, class: Class) -> &mut Table<S> {
        &mut self.tables[class as usize]
    }

    /// A request that leaves a watch is on its way.
    pub(crate) fn arm(&mut self, class: Class, path: &str) {
        *self.arming.entry((class, path.into())).or_default() += 1;
    }

    /// Such a request is answered, or lost.
    pub(crate) fn armed(&mut self, class: Class, path: &str) {
        let key = (class, path.into());
        if let Some(count) = self.arming.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.arming.remove(&key);
            }
        }
    }

    pub(crate) fn add(&mut self, class: Class, path: &str, id: WatchId, is_missing: bool, sink: S) {
        let entry = Entry { id, is_missing, sink };
        match self.table(class).get_mut(path) {
            Some(entries) => entries.push(entry),
            None => drop(self.table(class).insert(path.into(), vec![entry])),
        }
    }

    /// Takes one watcher away, if it is there. True when the watch of the server is of no use any more.
    pub(crate) fn remove(&mut self, class: Class, path: &str, id: WatchId) -> bool {
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

    /// Nobody uses the watch, or is about to.
    pub(crate) fn is_unused(&self, class: Class, path: &str) -> bool {
        !self.tables[class as usize].contains_key(path) && !self.arming.contains_key(&(class, path.into()))
    }

    /// Takes all watchers of a path away.
    pub(crate) fn take(&mut self, class: Class, path: &str) -> Vec<S> {
        self.table(class).remove(path).unwrap_or_default().into_iter().map(|entry| entry.sink).collect()
    }

    /// Takes everybody away.
    pub(crate) fn take_all(&mut self) -> Vec<S> {
        let tables = std::mem::replace(&mut self.tables, [const { BTreeMap::new() }; 4]);
        tables.into_iter().flatten().flat_map(|(_, entries)| entries).map(|entry| entry.sink).collect()
    }

    /// Those who get an event; one-shot watchers are taken away.
    pub(crate) fn fire(&mut self, kind: EventType, path: &str, mut tell: impl FnMut(Class, S)) {
        let (data, child) = match kind {
            EventType::NodeCreated | EventType::NodeDataChanged => (true, false),
            EventType::NodeDeleted => (true, true),
            EventType::NodeChildrenChanged => (false, true),
        };
        if data {
            self.take(Class::Data, path).into_iter().for_each(|sink| tell(Class::Data, sink));
        }
        if child {
            self.take(Class::Child, path).into_iter().for_each(|sink| tell(Class::Child, sink));
        }
        let mut stay = |class: Class, path: &str| {
            let entries = self.tables[class as usize].get(path);
            entries.into_iter().flatten().for_each(|entry| tell(class, entry.sink.clone()));
        };
        stay(Class::Persistent, path);
        // The server tells recursive watchers of children one by one, never of lists.
        if data && !self.tables[Class::Recursive as usize].is_empty() {
            let mut path = Some(path);
            while let Some(here) = path {
                stay(Class::Recursive, here);
                path = parent(here);
            }
        }
    }

    /// Those whose events got lost with the connection.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &S> {
        let tables = [Class::Persistent, Class::Recursive].map(|class| &self.tables[class as usize]);
        tables.into_iter().flat_map(BTreeMap::values).flatten().map(|entry| &entry.sink)
    }

    /// The requests that leave all watches again, each small enough for a frame.
    pub(crate) fn rearm(&self, seen: Zxid) -> Vec<Rearm> {
        let mut bodies = Vec::new();
        let mut chunk = Chunk { seen, lists: Default::default(), bytes: 0 };
        for class in Class::ALL {
            for (path, entries) in &self.tables[class as usize] {
                let is_missing = entries.iter().all(|entry| entry.is_missing);
                chunk.push(list_of(class, is_missing), path, &mut bodies);
            }
        }
        chunk.flush(&mut bodies);
        bodies
    }
}

/// The place of a class in setWatches2.
fn list_of(class: Class, is_missing: bool) -> usize {
    match class {
        Class::Data if is_missing => 1,
        Class::Data => 0,
        Class::Child => 2,
        Class::Persistent => 3,
        Class::Recursive => 4,
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
        let mut told = Vec::new();
        watches.fire(kind, path, |_, sink| told.push(sink));
        told
    }

    fn all_on(path: &str) -> Watches<&'static str> {
        let mut watches = Watches::new();
        for (class, name) in Class::ALL.into_iter().zip(["data", "child", "persistent", "recursive"]) {
            watches.add(class, path, WatchId(0), false, name);
        }
        watches
    }

    #[test]
    fn each_watcher_gets_what_is_its_own() {
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
    fn a_watch_is_unused_when_nobody_has_or_wants_it() {
        let mut watches = Watches::new();
        watches.add(Class::Data, "/a", WatchId(1), false, "one");
        watches.add(Class::Data, "/a", WatchId(2), false, "two");
        assert!(!watches.remove(Class::Data, "/a", WatchId(1)));
        assert!(!watches.remove(Class::Data, "/a", WatchId(1)), "gone already");
        watches.arm(Class::Data, "/a");
        assert!(!watches.remove(Class::Data, "/a", WatchId(2)), "another one is on its way");
        watches.armed(Class::Data, "/a");
        assert!(watches.is_unused(Class::Data, "/a"));
        watches.add(Class::Data, "/a", WatchId(3), false, "three");
        assert!(watches.remove(Class::Data, "/a", WatchId(3)));
    }

    #[test]
    fn rearming_fits_the_frame() {
        let mut watches = Watches::new();
        for number in 0..5000 {
            watches.add(Class::Child, &format!("/{number:0100}"), WatchId(number), false, ());
        }
        watches.add(Class::Data, "/missing", WatchId(7), true, ());
        let bodies = watches.rearm(Zxid(5));
        assert_eq!(bodies.len(), 5);
        assert!(bodies.iter().all(|(op, body)| *op == OpCode::SetWatches && body.len() < REARM_BYTES_MAX + 100));
        watches.add(Class::Recursive, "/", WatchId(8), false, ());
        let bodies = watches.rearm(Zxid(5));
        assert_eq!(bodies.iter().filter(|(op, _)| *op == OpCode::SetWatches2).count(), 1);
        assert_eq!(Watches::<()>::new().rearm(Zxid(5)), []);
    }
}
