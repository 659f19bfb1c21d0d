//! The echo server on tokio current-thread runtimes: one task per connection.
//!
//! Usage: `echo_tokio [PORT] [THREADS]`, by default 2181 and 1.

use ox_bench::echo::{Echo, Next};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// As in `echo_mio`, so that both make the same system calls.
const READ_BYTES: usize = 64 * 1024;

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

fn run(listener: std::net::TcpListener) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(serve(stream));
        }
    })
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut echo = Echo::default();
    let (mut input, mut held, mut out) = (vec![0; READ_BYTES], 0, Vec::new());
    loop {
        let count = stream.read(&mut input[held..]).await?;
        if count == 0 {
            return Ok(());
        }
        held += count;
        let (used, next) = echo.reply(&input[..held], &mut out).map_err(io::Error::other)?;
        input.copy_within(used..held, 0);
        held -= used;
        if !out.is_empty() {
            stream.write_all(&out).await?;
            out.clear();
        }
        if next == Next::Close {
            return Ok(());
        }
    }
}
