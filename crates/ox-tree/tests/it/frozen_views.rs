//! A frozen view equals the state at its creation, however the state changes afterwards.

use crate::generators::{Step, check, setups, steps};
use crate::harness::{Harness, Setup};
use crate::image::Image;
use ox_proto::RawAcls;
use ox_proto::acl::put_acls;
use ox_proto::txn::Record;
use ox_tree::{FrozenNode, FrozenView, Loader, SortedWalk, State};

pub(crate) fn load(frozen: &FrozenView, setup: &Setup) -> State {
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

/// A view, the image of the state at its creation, and the number of transactions until then.
struct Kept {
    frozen: FrozenView,
    image: Image,
    digest: i64,
    history: usize,
}

#[test]
fn frozen_view_equals_the_state_at_its_creation() {
    check(400, &(setups(), steps(120), 1..20_usize), |(setup, steps, every)| {
        let mut harness = Harness::new(Setup { depth: 0, ..setup.clone() });
        let mut kept = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            if at % every == 0 {
                let frozen = harness.state.freeze();
                let (image, digest) = (Image::of(&harness.state), harness.state.digest());
                kept.push(Kept { frozen, image, digest, history: harness.history.len() });
            }
            harness.step(step);
        }
        for kept in &kept {
            let seen = Image::of_frozen(&kept.frozen);
            assert_eq!(Image { ephemerals: kept.image.ephemerals.clone(), ..seen }, kept.image);
            assert_eq!(kept.frozen.digest(), kept.digest);
            check_loaded(&harness, kept, &setup);
        }
    });
}

/// Loading the view restores the state, and replaying the later transactions yields the present state.
fn check_loaded(harness: &Harness, kept: &Kept, setup: &Setup) {
    let mut loaded = load(&kept.frozen, setup);
    assert_eq!(Image::of(&loaded).without_usage(), kept.image.clone().without_usage());
    assert_eq!(loaded.digest(), kept.digest);
    for bytes in &harness.history[kept.history..] {
        let outcome = loaded.replay(&Record::decode(bytes).unwrap());
        assert!(!outcome.conflict && !outcome.digest_differs);
    }
    assert_eq!(Image::of(&loaded).without_usage(), Image::of(&harness.state).without_usage());
    assert_eq!(loaded.digest(), harness.state.digest());
    assert_eq!(loaded.acl_count(), harness.state.acl_count());
}

/// A write copies the nodes that it changes; a view keeps the old ones.
#[test]
fn k68_k78_views_outlive_their_nodes() {
    let mut harness = Harness::new(crate::harness::plain());
    for at in 0..200 {
        harness.step(&Step::Write(0, crate::request::create(&format!("/n{at}"), 0)));
    }
    let (frozen, image) = (harness.state.freeze(), Image::of(&harness.state));
    for at in 0..200 {
        harness.step(&Step::Write(0, crate::request::set_data(&format!("/n{at}"), "other")));
        harness.step(&Step::Write(0, crate::request::delete(&format!("/n{at}"))));
        harness.step(&Step::Write(0, crate::request::create(&format!("/again{at}"), 0)));
    }
    assert_eq!(Image::of_frozen(&frozen), image);
    drop(harness);
    assert_eq!(Image::of_frozen(&frozen), image);
}

/// The sorted walk visits the same nodes: each after its parent, siblings sorted by name.
#[test]
fn sorted_walk_visits_every_node_in_order() {
    check(100, &(setups(), steps(80)), |(setup, steps)| {
        let mut harness = Harness::new(Setup { depth: 0, ..setup.clone() });
        steps.iter().for_each(|step| harness.step(step));
        let frozen = harness.state.freeze();
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
