//! Hellos and notifications of the election port.

use crate::capture::{Message, Port, shown_config, streams};
use ox_proto::ensemble::Address;
use ox_proto::quorum::{Hello, HelloVersion, Notification, hello, notification};

#[test]
fn every_election_message_round_trips() {
    let (mut hellos, mut notifications, mut others) = (0, 0, 0);
    for stream in streams(Port::Election) {
        for message in &stream.messages {
            if message.text.starts_with("InitialMessage") {
                check_hello(message);
                hellos += 1;
            } else if message.text.starts_with("Notification") {
                check_notification(message);
                notifications += 1;
            } else {
                assert!(message.text.starts_with("QuorumAuthPacket"), "{}", message.place);
                others += 1;
            }
        }
    }
    assert_eq!((hellos, notifications, others), (41, 113, 4));
}

fn check_hello(message: &Message) {
    let Message { place, text, bytes, .. } = message;
    let (read, used) = hello::next(bytes).unwrap().unwrap();
    let mut written = Vec::new();
    read.put(&mut written).unwrap();
    assert_eq!((used, &written), (bytes.len(), bytes), "{place}");
    let Hello { version, server, addresses } = read;
    let version = match version {
        HelloVersion::Bare => 0,
        HelloVersion::V1 => -65536,
        HelloVersion::V2 => -65535,
    };
    let list = addresses.iter().map(Address::to_string).collect::<Vec<_>>().join("|");
    assert_eq!(*text, format!("InitialMessage protocolVersion={version} sid={server} addr='{list}'"), "{place}");
}

fn check_notification(message: &Message) {
    let Message { place, text, bytes, .. } = message;
    let (payload, rest) = notification::split(bytes).unwrap().unwrap();
    let received = notification::decode(payload).unwrap();
    let config = received.config.unwrap();
    let mut written = Vec::new();
    received.notification.put(&config, &mut written);
    assert_eq!((rest.len(), &written), (0, bytes), "{place}");
    let Notification { state, leader, zxid, round, peer_epoch } = received.notification;
    let shown = format!(
        "Notification({} bytes) state={} leader={leader} zxid={zxid} electionEpoch={round:#x} \
         peerEpoch={peer_epoch:#x} version={} {}",
        payload.len(),
        format!("{state:?}").to_uppercase(),
        received.version,
        shown_config(&config),
    );
    assert_eq!(*text, shown, "{place}");
}

/// A connection starts with a hello, followed by frames, however the bytes arrive.
#[test]
fn stream_in_pieces_yields_the_same_messages() {
    for stream in streams(Port::Election) {
        let messages: Vec<_> = stream.directed("C>S").collect();
        let plain = messages.iter().all(|message| !message.text.starts_with("QuorumAuthPacket"));
        let from_start = messages.first().is_some_and(|message| message.text.starts_with("InitialMessage"));
        if !plain || !from_start {
            continue;
        }
        let bytes = messages.iter().map(|message| &message.bytes[..]).collect::<Vec<_>>().concat();
        let (mut start, mut seen) = (0, 0);
        for end in 0..=bytes.len() {
            let arrived = &bytes[start..end];
            let length = if seen == 0 {
                hello::next(arrived).unwrap().map(|(_, length)| length)
            } else {
                notification::split(arrived).unwrap().map(|(payload, _)| 4 + payload.len())
            };
            if let Some(length) = length {
                assert_eq!(arrived, &messages[seen].bytes[..length]);
                (start, seen) = (end, seen + 1);
            }
        }
        assert_eq!(seen, messages.len());
    }
}
