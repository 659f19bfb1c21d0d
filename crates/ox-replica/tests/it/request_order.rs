//! The order of a connection's requests under random interleavings.

use crate::harness::Harness;
use ox_proto::{OpCode, Reader};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Replies that a client expects, in order: xid, and the data of a read.
type Expected = Vec<(i32, Option<Vec<u8>>)>;

fn send_something(
    world: &mut Harness,
    random: &mut Pcg64Mcg,
    side: usize,
    value: &mut Vec<u8>,
    expected: &mut Expected,
) {
    let xid = i32::try_from(expected.len()).unwrap() + 1;
    let path = format!("/n{side}");
    match random.next_u32() % 8 {
        0..=2 => {
            *value = random.next_u32().to_be_bytes().to_vec();
            world.set(side, xid, &path, value);
            expected.push((xid, None));
        }
        3..=5 => {
            world.get(side, xid, &path, false);
            expected.push((xid, Some(value.clone())));
        }
        6 => {
            world.bare(side, xid, OpCode::WhoAmI);
            expected.push((xid, None));
        }
        _ => {
            world.create(side, xid, &path, 0); // exists already
            expected.push((xid, None));
        }
    }
}

#[test]
fn k138_k139_random_interleavings_keep_request_order() {
    for seed in 0..150 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut world = Harness::new();
        let sides: Vec<usize> = (0..3).map(|_| world.client().0).collect();
        for &side in &sides {
            world.create(side, 0, &format!("/n{side}"), 0);
        }
        world.settle();
        sides.iter().for_each(|&side| assert_eq!(world.replies(side).len(), 1));
        let mut values = vec![Vec::new(); sides.len()];
        let mut expected: Vec<Expected> = vec![Vec::new(); sides.len()];
        for _ in 0..600 {
            let side = random.next_u32() as usize % sides.len();
            match random.next_u32() % 8 {
                0..=2 => send_something(&mut world, &mut random, side, &mut values[side], &mut expected[side]),
                3 | 4 => world.serve(side),
                5 => world.step(),
                6 => world.sync(),
                _ => world.apply(),
            }
        }
        world.settle();
        for &side in &sides {
            assert!(world.sides[side].input.is_empty(), "seed {seed}: idle, and requests are left");
            let heard = world.replies(side);
            assert_eq!(heard.len(), expected[side].len(), "seed {seed}: every request has one answer");
            for ((xid, _, err, body), (expected_xid, data)) in heard.iter().zip(&expected[side]) {
                assert_eq!(xid, expected_xid, "seed {seed}");
                if let Some(data) = data {
                    assert_eq!(*err, 0);
                    assert_eq!(data_of(body), data, "seed {seed}");
                }
            }
            assert!(heard.windows(2).all(|pair| pair[0].1 <= pair[1].1), "seed {seed}: zxids never go back");
        }
    }
}

/// A read is executed immediately only if it cannot overtake a write, however far that is.
#[test]
fn k143_read_does_not_overtake_write() {
    let ways: [&[fn(&mut Harness)]; 4] =
        [&[], &[Harness::step], &[Harness::step, Harness::sync], &[Harness::step, Harness::sync, Harness::apply]];
    for (at, way) in ways.into_iter().enumerate() {
        let mut world = Harness::new();
        let ((writer, _), (other, _)) = (world.client(), world.client());
        world.create(writer, 1, "/a", 0);
        world.settle();
        world.get(other, 1, "/a", true);
        world.settle();
        world.replies(writer);
        world.replies(other);

        world.set(writer, 2, "/a", b"new");
        world.serve(writer);
        way.iter().for_each(|go| go(&mut world));
        world.get(writer, 3, "/a", false);
        world.serve(writer);
        world.settle();
        let heard = world.replies(writer);
        assert_eq!(heard.iter().map(|reply| reply.0).collect::<Vec<_>>(), [2, 3], "way {at}");
        assert_eq!(data_of(&heard[1].3), b"new", "way {at}: its own write is there");

        // The write is acknowledged: a read sees it now, and its event was delivered before.
        world.get(other, 2, "/a", false);
        world.serve(other);
        let heard = world.replies(other);
        assert_eq!(heard.iter().map(|reply| reply.0).collect::<Vec<_>>(), [-1, 2], "way {at}");
        assert_eq!(data_of(&heard[1].3), b"new", "way {at}");
    }
}

fn data_of(body: &[u8]) -> &[u8] {
    Reader::new(body).get::<Option<&[u8]>>().unwrap().unwrap()
}

#[test]
fn replies_wait_for_fsync() {
    let mut world = Harness::new();
    let (side, _) = world.client();
    world.create(side, 1, "/a", 0);
    world.get(side, 2, "/a", false);
    world.serve(side);
    world.step();
    world.apply();
    world.serve(side);
    assert_eq!(world.replies(side), [], "nothing is durable");
    world.sync();
    world.apply();
    world.serve(side);
    assert_eq!(world.replies(side).len(), 2);
}

#[test]
fn k142_requests_of_closed_connection_have_no_effect() {
    let mut world = Harness::new();
    let (old, session) = world.client();
    world.create(old, 1, "/before", 0);
    world.serve(old);
    // Another connection takes the session while requests of the old one are in flight.
    let new = world.connect(session, 10_000);
    world.serve(new);
    world.create(old, 2, "/after", 0);
    world.serve(old);
    world.settle();
    assert_eq!(world.hello(new).session, session);
    assert!(world.sides[old].is_closed);
    assert!(world.state.stat("/before").is_some() && world.state.stat("/after").is_none());
}
