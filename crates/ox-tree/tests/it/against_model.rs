//! Random requests with writes in flight: the tree must behave like the model.

use crate::generators::{check, setups, steps};
use crate::harness::Harness;

#[test]
fn tree_matches_the_model() {
    check(1000, &(setups(), steps(120)), |(setup, steps)| {
        let mut harness = Harness::new(setup);
        for (at, step) in steps.iter().enumerate() {
            harness.step(step);
            if at % 16 == 0 {
                harness.compare_all();
            }
        }
        harness.drain();
        harness.compare_all();
    });
}
