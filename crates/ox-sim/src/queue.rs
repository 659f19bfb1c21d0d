//! What will happen next: events by time, and in the order they were planned where times are equal.

use ox_history::Time;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Queue<E> {
    events: BTreeMap<(Time, u64), E>,
    planned: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { events: BTreeMap::new(), planned: 0 }
    }

    pub(crate) fn plan(&mut self, at: Time, event: E) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        let ((at, _), event) = self.events.pop_first()?;
        Some((at, event))
    }
}
