//! Snapshot streams to learners: from Apache and from us, in pieces of any size, intact or damaged.

use crate::expected::{nodes_of, testdata};
use crate::lifecycle::{state_of, txns};
use crate::sim_stores::{golden, open, startable_sets};
use ox_proto::Zxid;
use ox_store::snapshot::SnapshotError;
use ox_store::snapshot::stream::{ReceivedSnapshot, SnapshotReceiver, SnapshotSender};
use ox_tree::{State, TreeOptions};

fn send(state: &State) -> Vec<u8> {
    SnapshotSender::new(state.freeze()).flatten().collect()
}

/// Receives `bytes` in pieces; returns the length of the stream.
fn receive(bytes: &[u8], piece: usize, last: Zxid) -> Result<(ReceivedSnapshot, usize), SnapshotError> {
    let mut receiver = SnapshotReceiver::new(TreeOptions::default());
    for (index, bytes) in bytes.chunks(piece).enumerate() {
        if let Some(used) = receiver.feed(bytes)? {
            return receiver.finish(last).map(|received| (received, index * piece + used));
        }
    }
    receiver.finish(last).map(|received| (received, usize::MAX))
}

#[test]
fn sent_state_is_received() {
    let mut states: Vec<State> = [0, 1, 9].map(|count| state_of(&txns(2, 1..=count, 0))).into();
    for entry in startable_sets() {
        if let Ok(opened) = open(&golden(&entry.set).0) {
            states.push(opened.state);
        }
    }
    for state in states {
        let last = state.last_zxid();
        let mut bytes = send(&state);
        let length = bytes.len();
        bytes.extend_from_slice(b"\0\0\0\x0a, and packets follow");
        let pieces = if length < 20_000 { vec![1, 2, 7, 13, 1_000, 4_096, 1 << 20] } else { vec![977, 1 << 20] };
        for piece in pieces {
            let (received, used) = receive(&bytes, piece, last).unwrap();
            assert_eq!(used, length, "pieces of {piece}");
            assert_eq!(received.state.last_zxid(), last);
            assert_eq!(received.state.digest(), state.digest());
            assert!(received.state.sessions().eq(state.sessions()));
            assert_eq!(nodes_of(&received.state), nodes_of(&state));
            assert_eq!(received.unresolved, [""; 0]);
        }
    }
}

#[test]
fn stream_of_apache_is_received() {
    for (name, nodes, root_pzxid) in
        [("380-100000000.bin", 4, 0), ("393-reconfig-100000000.bin", 4, 0), ("393-200000001.bin", 7, 0x1_0000_0004)]
    {
        let bytes = std::fs::read(testdata().join("streams").join(name)).unwrap();
        for piece in [1, 100, bytes.len()] {
            let (received, used) = receive(&bytes, piece, Zxid(1)).unwrap();
            assert_eq!(used, bytes.len() - 40, "{name}: a packet follows");
            assert_eq!(bytes[used..][..4], [0, 0, 0, 10], "{name}: NEWLEADER");
            assert_eq!(nodes_of(&received.state).len(), nodes, "{name}");
            assert_eq!(received.state.stat("/").unwrap().pzxid.0, root_pzxid, "{name}");
            // The same length again implies the same items.
            assert_eq!(send(&received.state).len(), used, "{name}");
        }
    }
}

#[test]
fn truncated_stream_is_rejected() {
    let bytes = send(&state_of(&txns(2, 1..=5, 0)));
    for length in 0..bytes.len() {
        assert!(receive(&bytes[..length], 64, Zxid(5)).is_err(), "{length} bytes");
    }
}

#[test]
fn wrong_signature_is_noticed_immediately() {
    let bytes = send(&state_of(&txns(2, 1..=5, 0)));
    for at in bytes.len() - 14..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let mut receiver = SnapshotReceiver::new(TreeOptions::default());
        let error = receiver.feed(&damaged[..=at]).unwrap_err();
        assert!(matches!(error, SnapshotError::BadSignature), "byte {at}: {error}");
    }
}

/// There is no checksum, so some damage remains undetected; but none causes a panic or a shorter stream.
#[test]
fn damage_never_panics() {
    let state = state_of(&txns(2, 1..=12, 0));
    let bytes = send(&state);
    let mut noticed = 0;
    for at in 0..bytes.len() {
        for bit in [0, 6, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            match receive(&damaged, 500, Zxid(12)) {
                Err(_) => noticed += 1,
                Ok((received, used)) => {
                    assert_eq!(used, bytes.len());
                    assert!(received.state.node_count() <= state.node_count());
                }
            }
        }
    }
    assert!(100 < noticed);
}
