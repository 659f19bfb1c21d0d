//! The event queue, ordered by time and, at equal times, by insertion.

use ox_history::Time;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Queue<E> {
    events: BTreeMap<(Time, u64), E>,
    scheduled: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { events: BTreeMap::new(), scheduled: 0 }
    }

    pub(crate) fn schedule(&mut self, at: Time, event: E) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        let ((at, _), event) = self.events.pop_first()?;
        Some((at, event))
    }
}
