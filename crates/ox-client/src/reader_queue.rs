//! Queues from the driver to one reader each. The callers define what happens at the length limit.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

/// A queue with one reader and an end.
#[derive(Debug)]
pub(crate) struct ReaderQueue<T>(Mutex<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    queue: VecDeque<T>,
    waker: Option<Waker>,
    ended: bool,
}

impl<T> ReaderQueue<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner { queue: VecDeque::new(), waker: None, ended: false }))
    }

    /// Changes the queue and wakes the reader. Ignored after the end.
    pub(crate) fn update(&self, change: impl FnOnce(&mut VecDeque<T>)) {
        let mut inner = self.0.lock();
        if inner.ended {
            return;
        }
        change(&mut inner.queue);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the queue: the reader drains it and then reads `None`.
    pub(crate) fn end(&self) {
        let mut inner = self.0.lock();
        inner.ended = true;
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the next item; `None` at the end.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut inner = self.0.lock();
        match inner.queue.pop_front() {
            Some(item) => Poll::Ready(Some(item)),
            None if inner.ended => Poll::Ready(None),
            None => {
                inner.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
