//! A panic is a failure of its seed. Where panics unwind, the other seeds continue; otherwise the program ends.

use crate::{Overrides, replay};
use ox_sim::{Failure, FailureKind, running_seed};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The panic messages of seeds, from any of their threads.
static MESSAGES: Mutex<BTreeMap<u64, String>> = Mutex::new(BTreeMap::new());

/// Makes every panic report its seed.
pub(crate) fn hook(overrides: Overrides) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map_or_else(String::new, |at| format!(" at {at}"));
        let message = info.payload_as_str().unwrap_or("a panic without a message");
        let seed = running_seed();
        MESSAGES.lock().insert(seed, format!("{message}{place}"));
        if cfg!(panic = "abort") {
            before(info);
            println!("seed {seed} failed: {}\n{}", FailureKind::Panic.text(), replay(seed, overrides));
            std::process::exit(i32::from(FailureKind::Panic as u8));
        }
    }));
}

/// Runs `work` for a seed and turns a panic into a failure.
pub(crate) fn caught<T>(seed: u64, work: impl FnOnce() -> T) -> Result<T, Failure> {
    let outcome = catch_unwind(AssertUnwindSafe(work));
    outcome.map_err(|_| Failure {
        kind: FailureKind::Panic,
        at_us: 0,
        detail: MESSAGES.lock().remove(&seed).unwrap_or_default(),
    })
}
