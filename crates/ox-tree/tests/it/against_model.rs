//! Whatever is sent, however much is on its way: the tree does what the model does.

use crate::generators::{check, setups, steps};
use crate::harness::World;

#[test]
fn the_tree_does_what_the_model_does() {
    check(1000, &(setups(), steps(120)), |(setup, steps)| {
        let mut world = World::new(setup);
        for (at, step) in steps.iter().enumerate() {
            world.step(step);
            if at % 16 == 0 {
                world.compare_all();
            }
        }
        world.drain();
        world.compare_all();
    });
}
