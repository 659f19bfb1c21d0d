//! A proxy that drops what a test selects: the next request of an opcode, its reply, or everything that clients send.

use crate::server_fixture::read_frame;
use parking_lot::{Condvar, Mutex};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Opcodes of the requests that tests drop.
pub(crate) const DELETE: i32 = 2;
pub(crate) const SET: i32 = 5;
pub(crate) const MULTI: i32 = 14;

/// The proxy; its threads live as long as the process.
pub(crate) struct LossyProxy {
    address: SocketAddr,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Opcodes to drop, each once.
    lose: Vec<(i32, Part)>,
    /// Number of requests and replies dropped so far.
    lost: usize,
    /// Discards everything that clients send.
    discards_requests: bool,
    /// Rejects all new client connections.
    rejects_connections: bool,
}

impl State {
    fn lose_one(&mut self) {
        self.lost += 1;
        self.rejects_connections = true;
    }
}

/// Which half of an exchange is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The request is dropped, so the server does not execute it.
    Request,
    /// The reply is dropped after the server has executed the request.
    Reply,
}

impl LossyProxy {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Arc::<Plan>::default();
        let accepting = Arc::clone(&plan);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                forward(&accepting, client, server).ok();
            }
        });
        Self { address, plan }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops the next request with opcode `op`, or its reply, together with the connection. New connections are
    /// rejected until [`LossyProxy::open`].
    pub(crate) fn drop_next(&self, op: i32, part: Part) {
        self.plan.state.lock().lose.push((op, part));
    }

    /// Waits until `count` messages are dropped.
    pub(crate) async fn lost(&self, count: usize) {
        let plan = Arc::clone(&self.plan);
        let waiting = tokio::task::spawn_blocking(move || {
            plan.changed.wait_while(&mut plan.state.lock(), |state| state.lost < count);
        });
        waiting.await.unwrap();
    }

    /// Accepts new connections again.
    pub(crate) fn open(&self) {
        self.plan.state.lock().rejects_connections = false;
    }

    /// From now on discards what clients send, while clients still receive what servers send.
    pub(crate) fn discard_requests(&self) {
        self.plan.state.lock().discards_requests = true;
    }
}

/// Connects a client to the server, one thread per direction.
fn forward(plan: &Arc<Plan>, client: TcpStream, server: SocketAddr) -> io::Result<()> {
    if plan.state.lock().rejects_connections {
        return Ok(());
    }
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    let fatal = Arc::<Mutex<Option<i32>>>::default();
    let (asking, answering) = (Arc::clone(plan), Arc::clone(plan));
    let noted = Arc::clone(&fatal);
    std::thread::spawn(move || forward_requests(&asking, &noted, from, to));
    std::thread::spawn(move || forward_replies(&answering, &fatal, server, client));
    Ok(())
}

/// Forwards requests; notes in `fatal` the xid of the request whose reply is to be dropped.
fn forward_requests(plan: &Plan, fatal: &Mutex<Option<i32>>, mut from: TcpStream, mut to: TcpStream) {
    let mut is_greeting = true;
    while let Ok(frame) = read_frame(&mut from) {
        let number = |at: usize| frame.get(at..at + 4).map(|bytes| i32::from_be_bytes(bytes.try_into().unwrap()));
        let mut state = plan.state.lock();
        if let (false, Some(xid), Some(op)) = (is_greeting, number(4), number(8))
            && let Some(at) = state.lose.iter().position(|(wanted, _)| *wanted == op)
        {
            if state.lose.remove(at).1 == Part::Request {
                state.lose_one();
                plan.changed.notify_all();
                break;
            }
            *fatal.lock() = Some(xid);
        }
        is_greeting = false;
        if !state.discards_requests && to.write_all(&frame).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Both);
    _ = from.shutdown(Shutdown::Both);
}

fn forward_replies(plan: &Plan, fatal: &Mutex<Option<i32>>, mut from: TcpStream, mut to: TcpStream) {
    let mut is_greeting = true;
    while let Ok(frame) = read_frame(&mut from) {
        let xid = frame.get(4..8).map(|bytes| i32::from_be_bytes(bytes.try_into().unwrap()));
        if !is_greeting && xid.is_some() && xid == *fatal.lock() {
            plan.state.lock().lose_one();
            plan.changed.notify_all();
            break;
        }
        is_greeting = false;
        if to.write_all(&frame).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Both);
    _ = from.shutdown(Shutdown::Both);
}
