//! What a server holds for all its clients, counted as in `ox-server`.

use ox_replica::{Admission, AdmissionLimits, Load, MemoryBudget};

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerLoad {
    pub(crate) limits: AdmissionLimits,
    /// Submitted to the replica thread, which has not taken it yet.
    queued: Load,
    /// Taken by the replica and not applied yet.
    held: Load,
}

impl ServerLoad {
    pub(crate) fn new(requests_max: usize, throttle_max: Option<usize>, budget_bytes: usize) -> Self {
        let budget = MemoryBudget::new(budget_bytes);
        let limits = AdmissionLimits { budget, requests_max, throttle_max };
        Self { limits, queued: Load::default(), held: Load::default() }
    }

    /// The admission, given `more` requests that are not counted yet.
    pub(crate) fn admission(&self, more: Load) -> Admission {
        let mut in_flight = self.queued;
        in_flight += self.held;
        in_flight += more;
        self.limits.admission(in_flight, 0)
    }

    pub(crate) fn queue(&mut self, load: Load) {
        self.queued += load;
    }

    pub(crate) fn took(&mut self, taken: Load, held: Load) {
        self.queued -= taken;
        self.held = held;
    }

    pub(crate) fn hold(&mut self, held: Load) {
        self.held = held;
    }
}
