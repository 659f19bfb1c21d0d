//! The open connections, and which of them is closed when there are too many.
//!
//! A new connection is more likely to carry a request than one that has been idle for long. So if all places are taken,
//! the oldest connection that executes no command is closed: slow clients cannot keep health checks out.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::task::AbortHandle;

/// The connections of all listeners, by age.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    max: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Arc<Place>>,
}

/// The place of one connection.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Whether a command is being executed.
    is_busy: AtomicBool,
    /// Aborting it ends the connection.
    task: Mutex<Option<AbortHandle>>,
}

/// Frees the place when the connection ends.
#[derive(Debug)]
pub(crate) struct PlaceGuard {
    number: u64,
    connections: Arc<OpenConnections>,
    pub(crate) place: Arc<Place>,
}

impl OpenConnections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), table: Mutex::default() })
    }

    /// Takes a place; closes the oldest idle connection if all are taken. `None` if every connection is busy.
    pub(crate) fn take(self: &Arc<Self>) -> Option<PlaceGuard> {
        let mut table = self.table.lock();
        if self.max <= table.open.len() {
            let idle = table.open.iter().find(|(_, place)| !place.is_busy()).map(|(number, _)| *number)?;
            if let Some(place) = table.open.remove(&idle) {
                place.task.lock().iter().for_each(AbortHandle::abort);
            }
        }
        let (number, place) = (table.next, Arc::new(Place::default()));
        table.next += 1;
        table.open.insert(number, Arc::clone(&place));
        Some(PlaceGuard { number, connections: Arc::clone(self), place })
    }
}

impl Place {
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Relaxed);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Relaxed)
    }

    /// Sets the task of the connection, which is ended when another connection takes the place.
    pub(crate) fn set_task(&self, task: AbortHandle) {
        *self.task.lock() = Some(task);
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        self.connections.table.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_idle_connection_is_evicted() {
        let connections = OpenConnections::new(2);
        let (first, second) = (connections.take().unwrap(), connections.take().unwrap());
        first.place.set_busy(true);
        let third = connections.take().unwrap();
        let open = |connections: &OpenConnections| connections.table.lock().open.keys().copied().collect::<Vec<_>>();
        assert_eq!(open(&connections), [0, 2], "the second was idle");
        third.place.set_busy(true);
        assert!(connections.take().is_none(), "all are busy");
        drop(second);
        assert_eq!(open(&connections), [0, 2]);
        drop(first);
        assert!(connections.take().is_some());
    }
}
