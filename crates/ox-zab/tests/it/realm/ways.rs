//! Ways between servers on which everything is lost, in one direction.

use super::Realm;
use ox_zab::ServerId;

impl Realm {
    /// Cuts or opens the way from one server to another. Election connections survive it. Connections to a leader that
    /// were open stay broken in that direction, and new ones cannot be made meanwhile.
    pub(crate) fn set_way(&mut self, from: i64, to: i64, is_open: bool) {
        let (from, to) = (ServerId(from), ServerId(to));
        if is_open {
            self.cut_ways.remove(&(from, to));
            return;
        }
        self.cut_ways.insert((from, to));
        for wire in self.wires.values_mut() {
            if [from, to].iter().all(|id| wire.ends.iter().any(|end| end.0 == *id)) {
                wire.cut_ways.push(to);
            }
        }
    }
}
