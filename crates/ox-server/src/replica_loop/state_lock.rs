//! The read lock of the state, which the replica thread takes once for a batch of inputs.

use ox_tree::State;
use parking_lot::{RwLock, RwLockReadGuard};

/// Locked from the first input of a batch until its effects are executed: some of them replace the state.
pub(super) struct StateLock<'a> {
    state: &'a RwLock<State>,
    guard: Option<RwLockReadGuard<'a, State>>,
}

impl<'a> StateLock<'a> {
    /// The lock is taken with the first input.
    pub(super) fn new(state: &'a RwLock<State>) -> Self {
        Self { state, guard: None }
    }

    pub(super) fn get(&mut self) -> &State {
        self.guard.get_or_insert_with(|| self.state.read())
    }

    pub(super) fn release(&mut self) {
        self.guard = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_tree::TreeOptions;

    #[test]
    fn lock_is_held_from_first_input_until_effects() {
        let state = RwLock::new(State::new(TreeOptions::default()));
        let mut lock = StateLock::new(&state);
        assert!(!state.is_locked(), "before the first input");
        for _ in 0..2 {
            lock.get();
            assert!(state.is_locked() && state.try_write().is_none());
        }
        lock.release();
        assert!(!state.is_locked(), "effects may replace the state");
        lock.get();
        drop(lock);
        assert!(!state.is_locked());
    }
}
