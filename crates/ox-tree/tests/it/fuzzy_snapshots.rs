//! Replay over fuzzy snapshots, which Apache writes while it applies transactions (P18).
//!
//! The serializer copies the sessions first, then the ACL table, then each node in pre-order, while transactions and
//! parts of transactions are applied. Replaying the log from the zxid before the first of them must repair everything.
//! The exception is a closeSession without a list of paths: a parent's pzxid may stay too low, because the deleted
//! nodes are neither in the snapshot nor in the log. Our own snapshots are not fuzzy and need no list.

use crate::generators::{Step, check, setups, steps};
use crate::harness::{Harness, Setup};
use crate::image::{Image, ImageLoader};
use ox_history::Op;
use ox_proto::Zxid;
use ox_proto::txn::{Record, Txn};
use ox_tree::State;
use proptest::prelude::*;

/// The state between two changes, and the zxid up to which transactions are applied completely.
struct Moment {
    image: Image,
    complete: Zxid,
}

/// All states that a concurrent serializer may see.
fn moments(setup: &Setup, history: &[Vec<u8>]) -> Vec<Moment> {
    let mut state = State::new(setup.options());
    let mut moments = vec![Moment { image: Image::of(&state), complete: Zxid::ZERO }];
    for bytes in history {
        let record = Record::decode(bytes).unwrap();
        let parts = match &record.txn {
            Txn::Multi(elements) if elements.iter().all(|element| !matches!(element, Txn::Error { .. })) => {
                elements.clone()
            }
            Txn::CloseSession { .. } => {
                let paths = state.ephemerals_of(record.header.session);
                paths.map(|path| Txn::Delete { path: path.into() }).collect()
            }
            _ => Vec::new(),
        };
        for part in parts {
            let header = ox_proto::txn::TxnHeader { kind: part.kind().code(), ..record.header };
            state.replay(&Record { header, txn: part, digest: None });
            moments.push(Moment { image: Image::of(&state), complete: Zxid(record.header.zxid.0 - 1) });
        }
        // The elements of this multi are applied already.
        if !matches!(record.txn, Txn::Multi(_)) {
            state.replay(&record);
        }
        moments.push(Moment { image: Image::of(&state), complete: record.header.zxid });
    }
    moments
}

/// A serializer that starts at some moment and advances by some moments between any two copies.
struct Serializer<'a> {
    moments: &'a [Moment],
    at: usize,
    pace: &'a [usize],
    copied: usize,
}

impl Serializer<'_> {
    fn image(&mut self) -> &Image {
        let pause = self.pace.get(self.copied % self.pace.len().max(1)).copied().unwrap_or(0);
        self.copied += 1;
        self.at = (self.at + pause).min(self.moments.len() - 1);
        &self.moments[self.at].image
    }

    fn write(mut self, setup: &Setup) -> State {
        let zxid = self.moments[self.at].complete;
        let mut loader = ImageLoader::new(setup.options(), &self.image().sessions.clone());
        loader.lists(self.image().nodes.values());
        let mut open = vec![String::new()];
        while let Some(path) = open.pop() {
            let image = self.image();
            let Some(node) = image.nodes.get(&path) else { continue };
            let is_child = |other: &&String| other.rsplit_once('/').is_some_and(|(parent, _)| parent == path);
            open.extend(image.nodes.keys().filter(is_child).cloned());
            loader.node(&path, node);
        }
        loader.finish(zxid).0
    }
}

/// Compares everything that is visible from outside.
fn compare(replayed: &State, straight: &State, with_usage: bool) {
    let (seen, expected) = (Image::of(replayed), Image::of(straight));
    if with_usage {
        assert_eq!(seen, expected);
    } else {
        assert_eq!(seen.without_usage(), expected.without_usage());
    }
    assert_eq!(replayed.digest(), straight.digest());
    assert_eq!(replayed.acl_count(), straight.acl_count());
    let expired = |state: &State| {
        let mut paths = state.expired_nodes(i64::MAX / 2, 1);
        paths.sort();
        paths
    };
    assert_eq!(expired(replayed), expired(straight), "containers and TTL nodes");
    assert_eq!(replayed.node_count(), straight.node_count());
    if with_usage {
        assert_eq!(replayed.data_bytes(), straight.data_bytes());
    }
}

/// Replays the log over the snapshot, then makes every quota update its usage.
fn check_replay(setup: &Setup, steps: &[Step], start: usize, pace: &[usize], with_usage: bool) {
    let setup = &Setup { depth: 0, close_session_txn: true, ..setup.clone() };
    let mut harness = Harness::new(setup.clone());
    steps.iter().for_each(|step| harness.step(step));
    let moments = moments(setup, &harness.history);
    let at = start % moments.len();
    let serializer = Serializer { moments: &moments, at, pace, copied: 0 };
    let mut replayed = serializer.write(setup);
    let label = replayed.last_zxid();
    for bytes in &harness.history {
        let record = Record::decode(bytes).unwrap();
        if label < record.header.zxid {
            replayed.replay(&record);
        }
    }
    compare(&replayed, &harness.state, with_usage);
}

fn paces() -> BoxedStrategy<Vec<usize>> {
    prop::collection::vec(prop_oneof![3 => Just(0_usize), 3 => Just(1), 1 => 2..10_usize], 0..12).boxed()
}

#[test]
fn replay_over_fuzzy_snapshot_equals_direct_application() {
    check(700, &(setups(), steps(80), 0..1000_usize, paces()), |(setup, steps, start, pace)| {
        check_replay(&setup, &steps, start, &pace, false);
    });
}

/// Requests do not touch the quota nodes themselves, so the usage must be unchanged.
#[test]
fn k72_quota_usage_survives_fuzzy_snapshots() {
    fn is_inside(op: &Op) -> bool {
        if let Op::Multi(elements) = op {
            return elements.iter().any(is_inside);
        }
        let path = op.clone().path_mut().cloned().unwrap_or_default();
        path.starts_with("/zookeeper") || path.starts_with('@') || path.contains("zookeeper_")
    }
    check(300, &(setups(), steps(120), 0..1000_usize, paces()), |(setup, mut steps, start, pace)| {
        steps.retain(|step| match step {
            Step::Write(_, op) => !is_inside(op),
            Step::DeleteContainer(path) => !path.starts_with('@'),
            _ => true,
        });
        check_replay(&Setup { has_quota: true, ..setup }, &steps, start, &pace, true);
    });
}
