//! A threaded server on blocking sockets with the fixed replies of [`Echo`].

use ox_bench::echo::{Echo, Next};
use ox_bench::job::{Job, MeasuredServer};
use ox_bench::load::RunTiming;
use ox_bench::notify::WatcherKind;
use ox_bench::session::BenchTarget;
use ox_bench::stop_flag::StopFlag;
use ox_bench::tree_layout::TreeLayout;
use ox_proto::event::{EventType, put_event};
use ox_proto::frame::split_frame;
use ox_proto::{OpCode, Zxid};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How the server deviates from the echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Good,
    /// Sends a notification to all other connections after a setData.
    Notifies,
    /// Closes the connection instead of replying to the first request after the handshake.
    Closes,
    /// Replies to getData with this error code.
    Refuses(i32),
    /// Replies to getData with data that this tool has not written.
    IsForeign,
    /// Replies to getData with a wrong xid.
    Confuses,
    /// Replies to the first bytes with an alert of TLS, and closes the connection.
    SpeaksTls,
    /// Replies to the first bytes with text.
    SpeaksHttp,
}

/// Starts a server, which lives as long as the test process.
pub(crate) fn start(behaviour: Behaviour) -> MeasuredServer {
    start_with(behaviour, Arc::new(|| ()))
}

/// Starts a good server that sets the flag at the getData with this number.
pub(crate) fn start_interrupting(stop: &StopFlag, number: u64) -> MeasuredServer {
    let (stop, count) = (stop.clone(), AtomicU64::new(0));
    start_with(
        Behaviour::Good,
        Arc::new(move || {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == number {
                stop.set();
            }
        }),
    )
}

fn start_with(behaviour: Behaviour, on_get: Arc<dyn Fn() + Send + Sync>) -> MeasuredServer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let connections = Arc::new(Mutex::new(Vec::new()));
        for stream in listener.incoming().map_while(Result::ok) {
            connections.lock().unwrap().push(stream.try_clone().unwrap());
            let (connections, on_get) = (Arc::clone(&connections), Arc::clone(&on_get));
            thread::spawn(move || serve(stream, behaviour, &connections, &*on_get));
        }
    });
    server(address)
}

pub(crate) fn server(address: SocketAddr) -> MeasuredServer {
    MeasuredServer {
        target: BenchTarget { address, session_timeout_ms: 10_000, security: None },
        pid: Some(std::process::id()),
    }
}

pub(crate) fn job(workload: &str, depth: usize) -> Job {
    Job {
        workload: workload.parse().unwrap(),
        layout: TreeLayout { root: "/it".into(), parents: 2, keys: 20, data_bytes: 10 },
        multi_size: 3,
        connections: 4,
        depth,
        threads: 2,
        rate: None,
        watch_mode: WatcherKind::Once,
        timing: RunTiming { warm_up: Duration::from_millis(20), duration: Duration::from_millis(100) },
    }
}

fn serve(mut stream: TcpStream, behaviour: Behaviour, connections: &Mutex<Vec<TcpStream>>, on_get: &dyn Fn()) {
    let (mut echo, mut held, mut out, mut chunk) = (Echo::default(), Vec::new(), Vec::new(), [0; 4096]);
    let mut connected = false;
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        held.extend_from_slice(&chunk[..count]);
        while let Ok(Some((payload, rest))) = split_frame(&held, 1_000_000) {
            let (op, frame) = (connected.then(|| op(payload)), held.len() - rest.len());
            out.clear();
            let (_, next) = echo.reply(&held[..frame], &mut out).unwrap();
            held.drain(..frame);
            let is_get = op == Some(OpCode::GetData.code());
            if is_get {
                on_get();
            }
            match behaviour {
                Behaviour::SpeaksTls => {
                    let _ = stream.write_all(&[0x15, 0x03, 0x03, 0, 2, 2, 70]);
                    return stream.shutdown(std::net::Shutdown::Both).unwrap();
                }
                Behaviour::SpeaksHttp => out = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
                Behaviour::Closes if connected => return stream.shutdown(std::net::Shutdown::Both).unwrap(),
                Behaviour::Refuses(code) if is_get => out[16..20].copy_from_slice(&code.to_be_bytes()),
                Behaviour::IsForeign if is_get => out[24..29].copy_from_slice(b"hello"),
                Behaviour::Confuses if is_get => out[4..8].copy_from_slice(&77_i32.to_be_bytes()),
                Behaviour::Notifies if op == Some(OpCode::SetData.code()) => notify(&stream, connections),
                Behaviour::Good
                | Behaviour::Notifies
                | Behaviour::Closes
                | Behaviour::Refuses(_)
                | Behaviour::IsForeign
                | Behaviour::Confuses => (),
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

fn notify(writer: &TcpStream, connections: &Mutex<Vec<TcpStream>>) {
    let mut event = Vec::new();
    put_event(&mut event, Zxid(1), EventType::NodeDataChanged, "/it");
    let writer = writer.peer_addr().unwrap();
    for stream in connections.lock().unwrap().iter_mut() {
        if stream.peer_addr().is_ok_and(|peer| peer != writer) {
            let _ = stream.write_all(&event);
        }
    }
}
