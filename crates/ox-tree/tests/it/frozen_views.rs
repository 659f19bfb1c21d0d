//! A frozen view is the state at that moment, whatever happens to the state.

use crate::generators::{Step, check, setups, steps};
use crate::image::Image;
use crate::harness::{Setup, World};
use ox_proto::RawAcls;
use ox_proto::acl::put_acls;
use ox_proto::txn::Record;
use ox_tree::{Frozen, FrozenNode, Loader, SortedWalk, State};

pub(crate) fn load(frozen: &Frozen, setup: &Setup) -> State {
    let mut loader = Loader::new(setup.options());
    for (session, timeout_ms) in frozen.sessions() {
        loader.session(*session, *timeout_ms);
    }
    for (id, list) in frozen.acls() {
        let mut bytes = Vec::new();
        put_acls(&mut bytes, list);
        loader.acl(id, RawAcls::from_encoded(&bytes).unwrap()).unwrap();
    }
    frozen.for_each_node(|node| loader.node(node.path, node.data, node.acl, node.stat)).unwrap();
    assert_eq!(loader.take_unresolved(), [""; 0]);
    loader.finish(frozen.last_zxid()).unwrap()
}

/// A view, what the state was when it was taken, and the transactions so far.
struct Kept {
    frozen: Frozen,
    image: Image,
    digest: i64,
    history: usize,
}

#[test]
fn a_frozen_view_is_the_state_at_that_moment() {
    check(400, &(setups(), steps(120), 1..20_usize), |(setup, steps, every)| {
        let mut world = World::new(Setup { depth: 0, ..setup.clone() });
        let mut kept = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            if at % every == 0 {
                let frozen = world.state.freeze();
                let (image, digest) = (Image::of(&world.state), world.state.digest());
                kept.push(Kept { frozen, image, digest, history: world.history.len() });
            }
            world.step(step);
        }
        for kept in &kept {
            let seen = Image::of_frozen(&kept.frozen);
            assert_eq!(Image { ephemerals: kept.image.ephemerals.clone(), ..seen }, kept.image);
            assert_eq!(kept.frozen.digest(), kept.digest);
            check_loaded(&world, kept, &setup);
        }
    });
}

/// Loading the view gives the state back, and the log goes on from there.
fn check_loaded(world: &World, kept: &Kept, setup: &Setup) {
    let mut loaded = load(&kept.frozen, setup);
    assert_eq!(Image::of(&loaded).without_usage(), kept.image.clone().without_usage());
    assert_eq!(loaded.digest(), kept.digest);
    for bytes in &world.history[kept.history..] {
        let outcome = loaded.replay(&Record::decode(bytes).unwrap());
        assert!(!outcome.conflict && !outcome.digest_differs);
    }
    assert_eq!(Image::of(&loaded).without_usage(), Image::of(&world.state).without_usage());
    assert_eq!(loaded.digest(), world.state.digest());
    assert_eq!(loaded.acl_count(), world.state.acl_count());
}

/// Writers copy what they change, not what a view holds.
#[test]
fn k68_k78_views_outlive_the_nodes_they_show() {
    let mut world = World::new(crate::harness::plain());
    for at in 0..200 {
        world.step(&Step::Write(0, crate::request::create(&format!("/n{at}"), 0)));
    }
    let (frozen, image) = (world.state.freeze(), Image::of(&world.state));
    for at in 0..200 {
        world.step(&Step::Write(0, crate::request::set_data(&format!("/n{at}"), "other")));
        world.step(&Step::Write(0, crate::request::delete(&format!("/n{at}"))));
        world.step(&Step::Write(0, crate::request::create(&format!("/again{at}"), 0)));
    }
    assert_eq!(Image::of_frozen(&frozen), image);
    drop(world);
    assert_eq!(Image::of_frozen(&frozen), image);
}

/// The sorted walk meets the same nodes: each behind its parent, siblings by name.
#[test]
fn a_sorted_walk_meets_every_node_in_order() {
    check(100, &(setups(), steps(80)), |(setup, steps)| {
        let mut world = World::new(Setup { depth: 0, ..setup.clone() });
        steps.iter().for_each(|step| world.step(step));
        let frozen = world.state.freeze();
        let mut expected = Vec::new();
        let keep = |node: FrozenNode<'_>| -> Result<(), ()> {
            expected.push(node.path.to_owned());
            Ok(())
        };
        frozen.for_each_node(keep).unwrap();
        expected.sort_by(|a, b| a.split('/').cmp(b.split('/')));
        let (mut walk, mut seen) = (SortedWalk::default(), Vec::new());
        while let Some(node) = walk.step(&frozen) {
            seen.push(node.path.to_owned());
        }
        assert_eq!(seen, expected);
    });
}
