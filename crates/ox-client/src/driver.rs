//! The driver: the task that moves bytes and time between the session core and the socket.

use crate::client::Shared;
use crate::connect_failure::ConnectCause;
use crate::core::{Disconnect, SaslExchange};
use crate::limits::{ITERATIONS_MAX, READ_BYTES, RETAINED_BYTES_MAX, SEARCH_PAUSE_MS};
use crate::sasl::SaslSource;
use crate::server_list::ServerAddress;
use crate::transport::{TLS_ALERT, Transport};
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

/// Ends the session when the driver ends: after its runtime has shut down, no request would ever be completed.
pub(crate) struct Driver(pub(crate) Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.change(|session, _, effects| session.abandon(effects));
    }
}

/// Connects, and reconnects, until the session has ended.
pub(crate) async fn run(driver: Driver, mut sasl: Option<SaslSource>) {
    let shared = &driver.0;
    while let Some(attempt) = shared.next_attempt() {
        if !attempt.pause.is_zero() && shared.unless_ended(sleep(attempt.pause)).await.is_none() {
            continue;
        }
        let connect = async {
            let exchange = match &mut sasl {
                Some(sasl) => Some(sasl.exchange(&attempt.server, attempt.limit).await?),
                None => None,
            };
            Ok((shared.dialer.dial(&attempt.server, attempt.limit).await?, exchange))
        };
        match shared.unless_ended(connect).await {
            Some(Ok((transport, exchange))) => {
                let reason = Connection::open(shared, transport, exchange).serve(shared, &attempt.server).await;
                tracing::debug!(server = %attempt.server, %reason, "connection closed");
            }
            Some(Err(cause)) => {
                tracing::debug!(server = %attempt.server, %cause, "cannot connect");
                shared.record_failure(&attempt.server, cause);
            }
            None => (),
        }
    }
}

/// Why a connection was closed.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("{0}")]
    Disconnect(#[from] Disconnect),
    #[error("{0}")]
    Io(#[from] io::Error),
}

struct Connection {
    transport: Transport,
    input: BytesMut,
    output: Vec<u8>,
    /// Bytes of `output` that are already written.
    written: usize,
    timer: Pin<Box<Sleep>>,
    find_read_write_server: Option<ReadWriteSearch>,
}

impl Connection {
    fn open(shared: &Shared, transport: Transport, sasl: Option<SaslExchange>) -> Self {
        shared.change(|session, now_ms, _| session.on_open(now_ms, sasl));
        let (input, output) = (BytesMut::with_capacity(READ_BYTES), Vec::new());
        Self {
            transport,
            input,
            output,
            written: 0,
            timer: Box::pin(sleep(Duration::ZERO)),
            find_read_write_server: None,
        }
    }

    /// Returns why the connection was closed. If it was closed without a session, the cause of that is recorded.
    async fn serve(mut self, shared: &Arc<Shared>, server: &ServerAddress) -> End {
        let end = match poll_fn(|cx| self.poll(shared, cx)).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        let of_tls = match &end {
            End::Io(error) => self.transport.tls_cause(error),
            End::Disconnect(_) => None,
        };
        let cause = match &end {
            _ if of_tls.is_some() => of_tls.unwrap_or(ConnectCause::NotServing),
            _ if self.input.starts_with(&TLS_ALERT) => ConnectCause::ServerSpeaksTls,
            End::Disconnect(Disconnect::Handshake) => ConnectCause::NoReply,
            End::Disconnect(Disconnect::MalformedPacket) => ConnectCause::NotZooKeeper,
            End::Disconnect(_) | End::Io(_) => ConnectCause::NotServing,
        };
        let had_session = shared.change(|session, _, _| session.is_open() || session.has_ended());
        if !had_session {
            // Before the state changes: a reader of the failures then sees the handshake or its end, never neither.
            shared.record_failure(server, cause);
        }
        shared.change(|session, now_ms, effects| session.on_lost(now_ms, effects));
        end
    }

    fn poll(&mut self, shared: &Arc<Shared>, cx: &mut Context<'_>) -> Poll<Result<std::convert::Infallible, End>> {
        for _ in 0..ITERATIONS_MAX {
            let has_read = self.read(cx)?;
            let is_written = self.written == self.output.len();
            if is_written {
                self.output.clear();
                self.written = 0;
                if RETAINED_BYTES_MAX < self.output.capacity() {
                    self.output = Vec::new();
                }
            }
            let iteration = shared.iterate(&mut self.input, is_written.then_some(&mut self.output), cx.waker())?;
            if iteration.is_read_only && self.find_read_write_server.is_none() {
                self.find_read_write_server = Some(ReadWriteSearch::start(shared));
            }
            self.write(cx)?;
            if !has_read && self.sleep_until(iteration.deadline, cx) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref(); // yield to other tasks
        Poll::Pending
    }

    /// Reads once. Returns false if no bytes are available.
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
        // Encrypted bytes may wait in the transport; a plain one has nothing to flush.
        match Pin::new(&mut self.transport).poll_flush(cx)? {
            Poll::Ready(()) | Poll::Pending => Ok(()),
        }
    }

    /// Arms the timer for the deadline. Returns false if the deadline has passed.
    fn sleep_until(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = deadline else { return true };
        // Deadlines usually move later: an early wake-up costs less than resetting the timer on every iteration.
        if deadline < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(deadline);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if deadline <= Instant::now() {
                return false;
            }
            self.timer.as_mut().reset(deadline);
        }
        true
    }
}

impl Shared {
    /// Waits for `work`, but no longer than the session lasts.
    async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut timer = pin!(sleep(Duration::ZERO));
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(Some(done));
                }
                let deadline = match self.iterate_disconnected(cx.waker()) {
                    Ok(deadline) => deadline,
                    Err(_) => return Poll::Ready(None),
                };
                let Some(deadline) = deadline else { return Poll::Pending };
                if timer.deadline() != deadline {
                    timer.as_mut().reset(deadline);
                }
                ready!(timer.as_mut().poll(cx));
            }
        })
        .await
    }
}

/// A background find_read_write_server for a read-write server; aborted with the read-only connection it belongs to.
struct ReadWriteSearch(JoinHandle<()>);

impl ReadWriteSearch {
    fn start(shared: &Arc<Shared>) -> Self {
        Self(tokio::spawn(find_read_write_server(Arc::downgrade(shared))))
    }
}

impl Drop for ReadWriteSearch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn find_read_write_server(shared: Weak<Shared>) {
    let mut pause_ms = *SEARCH_PAUSE_MS.start();
    loop {
        sleep(Duration::from_millis(pause_ms)).await;
        pause_ms = (pause_ms * 2).min(*SEARCH_PAUSE_MS.end());
        let Some((servers, limit)) = shared.upgrade().map(|shared| shared.other_servers()) else { return };
        for server in servers {
            if is_read_write(&shared, &server, limit).await {
                if let Some(shared) = shared.upgrade() {
                    shared.change(|session, _, _| session.switch_to(&server));
                }
                return;
            }
        }
    }
}

/// Whether a server is read-write. The search does not keep the session alive while it waits.
async fn is_read_write(shared: &Weak<Shared>, server: &ServerAddress, limit: Duration) -> bool {
    let Some(dialer) = shared.upgrade().map(|shared| Arc::clone(&shared.dialer)) else { return false };
    dialer.four_letter(server, "isro", limit).await.is_ok_and(|reply| reply.starts_with("rw"))
}
