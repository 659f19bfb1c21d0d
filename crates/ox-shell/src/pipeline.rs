//! Pipelined requests with replies in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;

/// A request in flight.
type Request<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Requests of one client that are executed in the order of `push`, because each is sent before `push` returns; results
/// are returned in that order.
pub(crate) struct Pipeline<T> {
    waiting: VecDeque<Waiting<T>>,
    in_flight_max: usize,
}

enum Waiting<T> {
    Sent(Request<T>),
    Done(T),
}

impl<T> Pipeline<T> {
    pub(crate) fn new(in_flight_max: usize) -> Self {
        Self { waiting: VecDeque::new(), in_flight_max }
    }

    /// Sends a request. At the limit, waits for the oldest request first and returns its result.
    pub(crate) async fn push(&mut self, request: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let mut request: Request<T> = Box::pin(request);
        // The client sends a request when its future is first polled.
        let sent = std::future::poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await;
        self.waiting.push_back(match sent {
            Poll::Ready(done) => Waiting::Done(done),
            Poll::Pending => Waiting::Sent(request),
        });
        if self.waiting.len() <= self.in_flight_max {
            return None;
        }
        self.next().await
    }

    /// The result of the oldest request; `None` if none is pending.
    pub(crate) async fn next(&mut self) -> Option<T> {
        match self.waiting.front_mut()? {
            // It stays in the queue until it completes, in case this future is dropped.
            Waiting::Sent(request) => {
                let done = request.as_mut().await;
                self.waiting.pop_front();
                Some(done)
            }
            Waiting::Done(_) => match self.waiting.pop_front() {
                Some(Waiting::Done(done)) => Some(done),
                _ => None,
            },
        }
    }
}
