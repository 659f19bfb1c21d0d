//! The task that moves bytes and time between the session and the world.

use crate::client::Shared;
use crate::core::Lost;
use crate::limits::{KEPT_BYTES_MAX, READ_BYTES, SEARCH_PAUSE_MS, TURNS_MAX};
use crate::transport::Transport;
use bytes::BytesMut;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep};

/// Connects again and again until the session is over.
pub(crate) async fn run(shared: Arc<Shared>) {
    while let Some(attempt) = shared.next_attempt() {
        if !attempt.pause.is_zero() && shared.unless_over(sleep(attempt.pause)).await.is_none() {
            continue;
        }
        match shared.unless_over(Transport::dial(&attempt.server, attempt.limit)).await {
            Some(Ok(transport)) => {
                let ended = Connection::open(&shared, transport).serve(&shared).await;
                tracing::debug!(server = %attempt.server, %ended, "connection ended");
            }
            Some(Err(error)) => tracing::debug!(server = %attempt.server, %error, "no connection"),
            None => (),
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("{0}")]
    GivenUp(#[from] Lost),
    #[error("{0}")]
    Broken(#[from] io::Error),
}

struct Connection {
    transport: Transport,
    input: BytesMut,
    output: Vec<u8>,
    /// How much of the output is written.
    written: usize,
    alarm: Pin<Box<Sleep>>,
    search: Option<Search>,
}

impl Connection {
    fn open(shared: &Shared, transport: Transport) -> Self {
        shared.change(|session, now_ms, _| session.on_open(now_ms));
        let (input, output) = (BytesMut::with_capacity(READ_BYTES), Vec::new());
        Self { transport, input, output, written: 0, alarm: Box::pin(sleep(Duration::ZERO)), search: None }
    }

    async fn serve(mut self, shared: &Arc<Shared>) -> End {
        let end = match poll_fn(|cx| self.poll(shared, cx)).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        shared.change(|session, now_ms, effects| session.on_lost(now_ms, effects));
        end
    }

    fn poll(&mut self, shared: &Arc<Shared>, cx: &mut Context<'_>) -> Poll<Result<std::convert::Infallible, End>> {
        for _ in 0..TURNS_MAX {
            let has_read = self.read(cx)?;
            let is_written = self.written == self.output.len();
            if is_written {
                self.output.clear();
                self.written = 0;
                if KEPT_BYTES_MAX < self.output.capacity() {
                    self.output = Vec::new();
                }
            }
            let turn = shared.turn(&mut self.input, is_written.then_some(&mut self.output), cx.waker())?;
            if turn.is_read_only && self.search.is_none() {
                self.search = Some(Search::start(shared));
            }
            self.write(cx)?;
            if !has_read && self.sleep_until(turn.deadline, cx) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref(); // others have their turn
        Poll::Pending
    }

    /// Reads once. False when there is nothing.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        self.input.reserve(READ_BYTES / 4);
        match pin!(self.transport.read_buf(&mut self.input)).poll(cx)? {
            Poll::Ready(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Poll::Ready(_) => Ok(true),
            Poll::Pending => Ok(false),
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        while self.written < self.output.len() {
            match Pin::new(&mut self.transport).poll_write(cx, &self.output[self.written..])? {
                Poll::Ready(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Poll::Ready(count) => self.written += count,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Makes sure that the task is woken at the deadline. False when that is now.
    fn sleep_until(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = deadline else { return true };
        // Deadlines mostly move away: an alarm that comes too early costs less than one that is always set anew.
        if deadline < self.alarm.deadline() || self.alarm.is_elapsed() {
            self.alarm.as_mut().reset(deadline);
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            if deadline <= Instant::now() {
                return false;
            }
            self.alarm.as_mut().reset(deadline);
        }
        true
    }
}

impl Shared {
    /// Waits for something, but not longer than the session lasts.
    async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut alarm = pin!(sleep(Duration::ZERO));
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(Some(done));
                }
                let deadline = match self.away_turn(cx.waker()) {
                    Ok(deadline) => deadline,
                    Err(_) => return Poll::Ready(None),
                };
                let Some(deadline) = deadline else { return Poll::Pending };
                if alarm.deadline() != deadline {
                    alarm.as_mut().reset(deadline);
                }
                ready!(alarm.as_mut().poll(cx));
            }
        })
        .await
    }
}

/// Looks for a server that takes writes; ends with the connection that does not.
struct Search(JoinHandle<()>);

impl Search {
    fn start(shared: &Arc<Shared>) -> Self {
        Self(tokio::spawn(search(Arc::downgrade(shared))))
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn search(shared: Weak<Shared>) {
    let mut pause_ms = *SEARCH_PAUSE_MS.start();
    loop {
        sleep(Duration::from_millis(pause_ms)).await;
        pause_ms = (pause_ms * 2).min(*SEARCH_PAUSE_MS.end());
        let Some((servers, limit)) = shared.upgrade().map(|shared| shared.other_servers()) else { return };
        for server in servers {
            if Transport::takes_writes(&server, limit).await.unwrap_or(false) {
                if let Some(shared) = shared.upgrade() {
                    shared.change(|session, _, _| session.move_to(&server));
                }
                return;
            }
        }
    }
}
