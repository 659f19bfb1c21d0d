//! A proxy that corrupts one reply and forwards everything else.

use ox_testkit::{Filters, Proxy, frame_filter};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the proxy corrupts a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Increments the version in a stat.
    Version,
    /// Changes a byte of data.
    Data,
    /// Changes the zxid of a reply header.
    Zxid,
    /// Changes the error code.
    Error,
    /// Drops the first event.
    LoseEvent,
    /// Sends an event twice.
    RepeatEvent,
    /// Sends an event after the reply.
    LateEvent,
    /// Appends a byte to a reply.
    Trailing,
    /// Removes a child from a list.
    LoseNode,
    /// Closes the connection before a reply.
    CloseEarly,
    /// Changes the session timeout.
    Timeout,
}

/// Starts a proxy that corrupts the first reply to which the fault applies.
pub(crate) fn start(target: SocketAddr, fault: Fault) -> Proxy {
    let injected = Arc::new(AtomicBool::new(false));
    Proxy::with_filters(target, move |_| {
        let (injected, mut held) = (Arc::clone(&injected), None);
        let replies = frame_filter(move |payload| {
            let mut frames = vec![payload];
            if applies_to(fault, &frames[0]) && !injected.swap(true, Ordering::Relaxed) {
                if fault == Fault::LateEvent {
                    held = frames.pop();
                } else if !change(fault, &mut frames) {
                    return None;
                }
            } else {
                frames.extend(held.take());
            }
            Some(frames)
        });
        Filters { requests: None, replies: Some(replies) }
    })
}

const HEADER: usize = 16;
const STAT: usize = 68;
/// Offset of the version in a stat.
const VERSION: usize = 35;

fn applies_to(fault: Fault, frame: &[u8]) -> bool {
    let is_event = frame.starts_with(&[0xff; 4]);
    // A connect response: protocol version, then the timeout, which is 20000 for session A only.
    let is_handshake = frame.len() == 37 && frame.starts_with(&[0, 0, 0, 0, 0, 0, 0x4e, 0x20]);
    let is_stat = frame.len() == HEADER + STAT;
    // Data of one byte: header, length, byte, stat.
    let is_data = frame.len() == HEADER + 5 + STAT && frame[HEADER..].starts_with(&[0, 0, 0, 1]);
    match fault {
        Fault::None => false,
        Fault::Version | Fault::Zxid | Fault::CloseEarly => is_stat && !is_event,
        Fault::Data => is_data && frame[HEADER + 4] == b'1',
        Fault::Error => frame.len() == HEADER && frame.ends_with(&(-101_i32).to_be_bytes()),
        Fault::LoseEvent | Fault::RepeatEvent | Fault::LateEvent => is_event,
        Fault::Trailing => is_stat,
        Fault::LoseNode => frame.len() == HEADER + 4 + 5 + 5 + 13 + STAT,
        Fault::Timeout => is_handshake,
    }
}

/// Corrupts the frame; false closes the connection.
fn change(fault: Fault, frames: &mut Vec<Vec<u8>>) -> bool {
    let frame = &mut frames[0];
    match fault {
        Fault::None | Fault::LateEvent => (),
        Fault::Version => frame[HEADER + VERSION] += 1,
        Fault::Data => frame[HEADER + 4] = b'!',
        Fault::Zxid => frame[11] += 1,
        Fault::Error => frame[15] -= 1,
        Fault::LoseEvent => frames.clear(),
        Fault::RepeatEvent => frames.push(frames[0].clone()),
        Fault::Trailing => frame.push(0),
        Fault::LoseNode => {
            frame[HEADER + 3] -= 1;
            frame.drain(HEADER + 4..HEADER + 9);
        }
        Fault::CloseEarly => return false,
        Fault::Timeout => frame[7] -= 1,
    }
    true
}
