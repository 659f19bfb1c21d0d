//! A way to a server that loses exactly what a test says: the answer to the next request of a kind, or everything that a client sends.

use crate::server_fixture::read_frame;
use parking_lot::{Condvar, Mutex};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Requests by their numbers in the protocol.
pub(crate) const DELETE: i32 = 2;
pub(crate) const SET: i32 = 5;
pub(crate) const MULTI: i32 = 14;

/// Its threads live as long as the process.
pub(crate) struct Proxy {
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
    /// What is to be lost, each once.
    lose: Vec<(i32, Part)>,
    /// Requests and answers that were lost.
    lost: usize,
    /// Nothing that clients send arrives.
    is_deaf: bool,
    /// Nobody can connect while this is so.
    is_shut: bool,
}

impl State {
    fn lose_one(&mut self) {
        self.lost += 1;
        self.is_shut = true;
    }
}

/// What of a request is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is not executed.
    Request,
    /// It is executed.
    Answer,
}

impl Proxy {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Arc::<Plan>::default();
        let accepting = Arc::clone(&plan);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                pass_on(&accepting, client, server).ok();
            }
        });
        Self { address, plan }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request of this kind, or its answer, is lost with the connection. Nobody can connect again before
    /// [`Proxy::open`].
    pub(crate) fn lose(&self, op: i32, part: Part) {
        self.plan.state.lock().lose.push((op, part));
    }

    /// Waits until so much is lost.
    pub(crate) async fn lost(&self, count: usize) {
        let plan = Arc::clone(&self.plan);
        let waiting = tokio::task::spawn_blocking(move || {
            plan.changed.wait_while(&mut plan.state.lock(), |state| state.lost < count);
        });
        waiting.await.unwrap();
    }

    /// Lets clients connect again.
    pub(crate) fn open(&self) {
        self.plan.state.lock().is_shut = false;
    }

    /// From now on servers hear nothing of the clients, while the clients hear the servers.
    pub(crate) fn be_deaf(&self) {
        self.plan.state.lock().is_deaf = true;
    }
}

/// Sets up a connection in both directions.
fn pass_on(plan: &Arc<Plan>, client: TcpStream, server: SocketAddr) -> io::Result<()> {
    if plan.state.lock().is_shut {
        return Ok(());
    }
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    let fatal = Arc::<Mutex<Option<i32>>>::default();
    let (asking, answering) = (Arc::clone(plan), Arc::clone(plan));
    let noted = Arc::clone(&fatal);
    std::thread::spawn(move || ask(&asking, &noted, from, to));
    std::thread::spawn(move || answer(&answering, &fatal, server, client));
    Ok(())
}

/// The requests of one connection. The xid of the one whose answer is to be lost is noted in `fatal`.
fn ask(plan: &Plan, fatal: &Mutex<Option<i32>>, mut from: TcpStream, mut to: TcpStream) {
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
        if !state.is_deaf && to.write_all(&frame).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Both);
    _ = from.shutdown(Shutdown::Both);
}

fn answer(plan: &Plan, fatal: &Mutex<Option<i32>>, mut from: TcpStream, mut to: TcpStream) {
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
