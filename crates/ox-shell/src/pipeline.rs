//! Requests in order, several on their way.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;

/// A request and what it becomes.
type Request<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Requests of one client that are executed in the order in which they were pushed, because each is sent before `push` returns,
/// and whose answers come in that order.
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

    /// Sends a request. When as many are on their way as may be, this waits for the oldest and gives what it became.
    pub(crate) async fn push(&mut self, request: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let mut request: Request<T> = Box::pin(request);
        // A client sends when it is asked for the first time.
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

    /// What the oldest request became; `None` when there is none.
    pub(crate) async fn next(&mut self) -> Option<T> {
        match self.waiting.front_mut()? {
            // It stays where it is until it is done, should this future be dropped.
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
