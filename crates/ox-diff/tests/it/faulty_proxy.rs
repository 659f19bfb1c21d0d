//! A proxy that passes everything on, except that it lies once.

use ox_proto::frame::split_frame;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What the proxy does to one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    None,
    /// A version in a stat.
    Version,
    /// A byte of data.
    Data,
    /// The zxid of a reply's header.
    Zxid,
    /// Another error code.
    Error,
    /// An event does not arrive.
    LoseEvent,
    /// An event arrives twice.
    RepeatEvent,
    /// An event arrives behind the reply.
    LateEvent,
    /// A byte too many.
    Trailing,
    /// A child is missing.
    LoseNode,
    /// The connection ends before a reply.
    CloseEarly,
    /// Another session timeout.
    Timeout,
}

pub(crate) struct Proxy {
    address: String,
}

impl Proxy {
    pub(crate) fn start(target: &str, lie: Lie) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (target, told) = (target.to_owned(), Arc::new(AtomicBool::new(false)));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(&target).unwrap();
                let (mut up_from, mut up_to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut up_from, &mut up_to);
                    let _ = up_to.shutdown(Shutdown::Write);
                });
                let told = Arc::clone(&told);
                thread::spawn(move || pass(server, client, lie, &told));
            }
        });
        Self { address }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

/// Passes frames from the server to the client; the first one that fits the lie is changed.
fn pass(mut server: TcpStream, mut client: TcpStream, lie: Lie, told: &AtomicBool) {
    let (mut inbox, mut chunk, mut held) = (Vec::new(), [0; 4096], None);
    loop {
        while let Ok(Some((payload, rest))) = split_frame(&inbox, 1 << 20) {
            let mut frames = vec![payload.to_vec()];
            inbox = rest.to_vec();
            if fits(lie, &frames[0]) && !told.swap(true, Ordering::Relaxed) {
                if lie == Lie::LateEvent {
                    held = frames.pop();
                } else if !change(lie, &mut frames) {
                    let _ = client.shutdown(Shutdown::Both);
                    return;
                }
            } else {
                frames.extend(held.take());
            }
            for frame in frames {
                let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
                if client.write_all(&[&length[..], &frame].concat()).is_err() {
                    return;
                }
            }
        }
        match server.read(&mut chunk) {
            Ok(count) if count != 0 => inbox.extend_from_slice(&chunk[..count]),
            _ => {
                let _ = client.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}

const HEADER: usize = 16;
const STAT: usize = 68;
/// Where the version stands in a stat.
const VERSION: usize = 35;

fn fits(lie: Lie, frame: &[u8]) -> bool {
    let is_event = frame.starts_with(&[0xff; 4]);
    // A connect response: protocol version, then the timeout, 20000 for session A alone.
    let is_handshake = frame.len() == 37 && frame.starts_with(&[0, 0, 0, 0, 0, 0, 0x4e, 0x20]);
    let is_stat = frame.len() == HEADER + STAT;
    // Data of one byte: header, length, byte, stat.
    let is_data = frame.len() == HEADER + 5 + STAT && frame[HEADER..].starts_with(&[0, 0, 0, 1]);
    match lie {
        Lie::None => false,
        Lie::Version | Lie::Zxid | Lie::CloseEarly => is_stat && !is_event,
        Lie::Data => is_data && frame[HEADER + 4] == b'1',
        Lie::Error => frame.len() == HEADER && frame.ends_with(&(-101_i32).to_be_bytes()),
        Lie::LoseEvent | Lie::RepeatEvent | Lie::LateEvent => is_event,
        Lie::Trailing => is_stat,
        Lie::LoseNode => frame.len() == HEADER + 4 + 5 + 5 + 13 + STAT,
        Lie::Timeout => is_handshake,
    }
}

/// Changes the frame; false ends the connection.
fn change(lie: Lie, frames: &mut Vec<Vec<u8>>) -> bool {
    let frame = &mut frames[0];
    match lie {
        Lie::None | Lie::LateEvent => (),
        Lie::Version => frame[HEADER + VERSION] += 1,
        Lie::Data => frame[HEADER + 4] = b'!',
        Lie::Zxid => frame[11] += 1,
        Lie::Error => frame[15] -= 1,
        Lie::LoseEvent => frames.clear(),
        Lie::RepeatEvent => frames.push(frames[0].clone()),
        Lie::Trailing => frame.push(0),
        Lie::LoseNode => {
            frame[HEADER + 3] -= 1;
            frame.drain(HEADER + 4..HEADER + 9);
        }
        Lie::CloseEarly => return false,
        Lie::Timeout => frame[7] -= 1,
    }
    true
}
