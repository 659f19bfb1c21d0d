//! A stream that fails if neither side makes progress for too long: the peer sends nothing, or does not read.

use crate::open_connections::Place;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

pub(crate) struct TimedStream<S> {
    stream: S,
    /// A command may take longer than the peer may be silent.
    place: Arc<Place>,
    timeout: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl<S> TimedStream<S> {
    pub(crate) fn new(stream: S, timeout: Duration, place: Arc<Place>) -> Self {
        Self { stream, place, timeout, deadline: Box::pin(sleep(timeout)) }
    }

    /// Restarts the time after progress, and fails when it has passed.
    fn check<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.deadline.as_mut().reset(Instant::now() + self.timeout);
            return poll;
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) if self.place.is_busy() => {
                self.deadline.as_mut().reset(Instant::now() + self.timeout);
                self.check(cx, Poll::Pending)
            }
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.check(cx, poll)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.check(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check(cx, poll)
    }
}
