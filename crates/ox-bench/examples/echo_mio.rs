//! The echo server on mio loops: each thread polls and owns its connections.
//!
//! Usage: `echo_mio [PORT] [THREADS]`, by default 2181 and 1.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use ox_bench::echo::{Echo, Next};
use std::io::{self, ErrorKind, Read, Write};

/// As in `echo_tokio`, so that both make the same system calls.
const READ_BYTES: usize = 64 * 1024;
const LISTENER: Token = Token(usize::MAX);

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().map_or(2181, |text| text.parse().expect("PORT is a number"));
    let threads: usize = args.next().map_or(1, |text| text.parse().expect("THREADS is a number"));
    let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let loops: Vec<_> = (0..threads)
        .map(|_| listener.try_clone().map(|listener| std::thread::spawn(move || run(listener))))
        .collect::<io::Result<_>>()?;
    loops.into_iter().try_for_each(|thread| thread.join().expect("a loop does not panic"))
}

struct LoadConnection {
    stream: TcpStream,
    echo: Echo,
    /// The start of an incomplete frame.
    held: Vec<u8>,
    /// Bytes that the socket did not accept yet.
    unsent: Vec<u8>,
}

fn run(listener: std::net::TcpListener) -> io::Result<()> {
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(1024);
    let mut connections: Vec<Option<LoadConnection>> = Vec::new();
    let (mut input, mut out) = (vec![0; READ_BYTES], Vec::new());
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result?,
        }
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut connections)?;
                continue;
            }
            let slot = &mut connections[event.token().0];
            let Some(connection) = slot else { continue };
            if !matches!(serve(connection, &mut input, &mut out), Ok(Next::Serve)) {
                *slot = None;
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: &Poll, connections: &mut Vec<Option<LoadConnection>>) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        let slot = connections.iter().position(Option::is_none).unwrap_or(connections.len());
        poll.registry().register(&mut stream, Token(slot), Interest::READABLE | Interest::WRITABLE)?;
        let connection = LoadConnection { stream, echo: Echo::default(), held: Vec::new(), unsent: Vec::new() };
        if slot == connections.len() {
            connections.push(Some(connection));
        } else {
            connections[slot] = Some(connection);
        }
    }
}

/// One read and one write for everything that has arrived; reads again if the buffer was filled.
fn serve(connection: &mut LoadConnection, input: &mut [u8], out: &mut Vec<u8>) -> io::Result<Next> {
    let LoadConnection { stream, echo, held, unsent } = connection;
    loop {
        if !unsent.is_empty() && !flush(stream, unsent)? {
            return Ok(Next::Serve); // the rest of the input waits for the client to read
        }
        let start = held.len();
        input[..start].copy_from_slice(held);
        let count = match stream.read(&mut input[start..]) {
            Ok(0) => return Ok(Next::Close),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::Serve),
            Err(error) => return Err(error),
        };
        let filled = start + count;
        out.clear();
        let (used, next) = echo.reply(&input[..filled], out).map_err(io::Error::other)?;
        held.clear();
        held.extend_from_slice(&input[used..filled]);
        let sent = if out.is_empty() { 0 } else { write_some(stream, out)? };
        unsent.extend_from_slice(&out[sent..]);
        if next == Next::Close || filled < input.len() {
            return Ok(next);
        }
    }
}

fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

fn flush(stream: &mut TcpStream, unsent: &mut Vec<u8>) -> io::Result<bool> {
    let sent = write_some(stream, unsent)?;
    unsent.drain(..sent);
    Ok(unsent.is_empty())
}
