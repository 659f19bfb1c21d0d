//! A server of threads and blocking sockets around the fixed replies of [`Echo`].

use ox_bench::echo::{Echo, Next};
use ox_bench::job::{Job, Server};
use ox_bench::load::Timing;
use ox_bench::notify::WatchMode;
use ox_bench::session::Target;
use ox_bench::tree_layout::Shape;
use ox_proto::event::{EventType, put_event};
use ox_proto::frame::split_frame;
use ox_proto::{OpCode, Zxid};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How the server deviates from the echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Not at all.
    Good,
    /// A setData is told to all other connections.
    Notifies,
    /// Closes instead of answering the first request after the handshake.
    Closes,
    /// Answers getData with an error, with this code.
    Refuses(i32),
    /// Answers getData with data that this tool has not written.
    IsForeign,
    /// Answers getData with a wrong xid.
    Confuses,
    /// Answers the first bytes with text.
    SpeaksHttp,
}

/// Starts a server; it lives as long as the test process.
pub(crate) fn start(manner: Manner) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let everybody = Arc::new(Mutex::new(Vec::new()));
        for stream in listener.incoming().map_while(Result::ok) {
            everybody.lock().unwrap().push(stream.try_clone().unwrap());
            let everybody = Arc::clone(&everybody);
            thread::spawn(move || serve(stream, manner, &everybody));
        }
    });
    server(address)
}

/// A server at `address`.
pub(crate) fn server(address: SocketAddr) -> Server {
    Server { target: Target { address, session_timeout_ms: 10_000 }, pid: Some(std::process::id()) }
}

/// A short job.
pub(crate) fn job(workload: &str, depth: usize) -> Job {
    Job {
        workload: workload.parse().unwrap(),
        shape: Shape { root: "/it".into(), parents: 2, keys: 20, data_bytes: 10 },
        multi_size: 3,
        connections: 4,
        depth,
        threads: 2,
        rate: None,
        watch_mode: WatchMode::Once,
        timing: Timing { warm_up: Duration::from_millis(20), duration: Duration::from_millis(100) },
    }
}

fn serve(mut stream: TcpStream, manner: Manner, everybody: &Mutex<Vec<TcpStream>>) {
    let (mut echo, mut held, mut out, mut chunk) = (Echo::default(), Vec::new(), Vec::new(), [0; 4096]);
    let mut connected = false;
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        held.extend_from_slice(&chunk[..count]);
        while let Ok(Some((payload, rest))) = split_frame(&held, 1_000_000) {
            let (op, frame) = (connected.then(|| op(payload)), held.len() - rest.len());
            out.clear();
            let (_, next) = echo.answer(&held[..frame], &mut out).unwrap();
            held.drain(..frame);
            let is_get = op == Some(OpCode::GetData.code());
            match manner {
                Manner::SpeaksHttp => out = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
                Manner::Closes if connected => return stream.shutdown(std::net::Shutdown::Both).unwrap(),
                Manner::Refuses(code) if is_get => out[16..20].copy_from_slice(&code.to_be_bytes()),
                Manner::IsForeign if is_get => out[24..29].copy_from_slice(b"hello"),
                Manner::Confuses if is_get => out[4..8].copy_from_slice(&77_i32.to_be_bytes()),
                Manner::Notifies if op == Some(OpCode::SetData.code()) => notify(&stream, everybody),
                Manner::Good
                | Manner::Notifies
                | Manner::Closes
                | Manner::Refuses(_)
                | Manner::IsForeign
                | Manner::Confuses => (),
            }
            connected = true;
            if stream.write_all(&out).is_err() || next == Next::Close {
                // The copy in the list keeps the socket open otherwise.
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}

fn op(payload: &[u8]) -> i32 {
    i32::from_be_bytes(payload[4..8].try_into().unwrap())
}

fn notify(writer: &TcpStream, everybody: &Mutex<Vec<TcpStream>>) {
    let mut event = Vec::new();
    put_event(&mut event, Zxid(1), EventType::NodeDataChanged, "/it");
    let writer = writer.peer_addr().unwrap();
    for stream in everybody.lock().unwrap().iter_mut() {
        if stream.peer_addr().is_ok_and(|peer| peer != writer) {
            let _ = stream.write_all(&event);
        }
    }
}
